#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static const float w[] = {1, -2, 0.5f, 3, 4, 5};
static const uint8_t u[] = {1, 2, 3};

static ckpt_array array_of(const char *path, ckpt_dtype dtype, int rank, int64_t d0, int64_t d1, const void *data) {
  return (ckpt_array){.path = path, .dtype = dtype, .rank = rank, .dims = {d0, d1}, .data = data};
}

static void put_part(bytes *to, const void *part, size_t n) {
  put_le(to, n, 8);
  put(to, part, n);
}

static void put_tensor(bytes *to, const char *kind, const char *path, const char *dtype, int rank, const uint64_t *dims,
                       const void *data, size_t n_data) {
  put_part(to, kind, strlen(kind));
  put_part(to, path, strlen(path));
  put_part(to, dtype, strlen(dtype));
  put_le(to, 8 * (uint64_t)rank, 8);
  for (int i = 0; i < rank; i++) put_le(to, dims[i], 8);
  put_part(to, data, n_data);
}

/* What docs/checkpoints.md says is hashed, spelled out. */
static void definition(void **state) {
  (void)state;
  bytes expected = {0};
  char found[CKPT_SHA256_TEXT], text[CKPT_SHA256_TEXT];
  ckpt_error error;
  uint64_t shape[] = {2, 3}, three[] = {3};
  unsigned char raw[24]; /* little-endian, whatever the host */
  for (size_t i = 0; i < 6; i++) {
    uint32_t bits;
    memcpy(&bits, &w[i], 4);
    for (size_t b = 0; b < 4; b++) raw[4 * i + b] = (unsigned char)(bits >> (8 * b));
  }
  put_part(&expected, "sexpgpu tensors 1", 17);
  put_tensor(&expected, "parameter", "a/w", "f32", 2, shape, raw, sizeof raw);
  put_tensor(&expected, "parameter", "b", "u8", 1, three, u, 3);
  put_tensor(&expected, "state", "a/w/m", "f32", 0, NULL, raw, 4);
  expect_ok(ckpt_sha256_bytes(text, expected.data, expected.n, &error), &error);
  ckpt_array parameters[] = {array_of("b", CKPT_U8, 1, 3, 0, u), array_of("a/w", CKPT_F32, 2, 2, 3, w)};
  ckpt_array states[] = {array_of("a/w/m", CKPT_F32, 0, 0, 0, w)};
  expect_ok(ckpt_digest_arrays(found, parameters, 2, states, 1, &error), &error);
  assert_string_equal(found, text);
  bytes_free(&expected);
}

static void digest_of_nothing(void **state) {
  (void)state;
  char found[CKPT_SHA256_TEXT], text[CKPT_SHA256_TEXT];
  ckpt_error error;
  bytes expected = {0};
  put_part(&expected, "sexpgpu tensors 1", 17);
  expect_ok(ckpt_sha256_bytes(text, expected.data, expected.n, &error), &error);
  expect_ok(ckpt_digest_arrays(found, NULL, 0, NULL, 0, &error), &error);
  assert_string_equal(found, text);
  bytes_free(&expected);
}

static void streamed_equals_whole(void **state) {
  (void)state;
  char whole[CKPT_SHA256_TEXT], streamed[CKPT_SHA256_TEXT];
  ckpt_digest *digest = NULL;
  ckpt_error error;
  ckpt_array array = array_of("a/w", CKPT_F32, 2, 2, 3, w);
  expect_ok(ckpt_digest_arrays(whole, &array, 1, NULL, 0, &error), &error);
  expect_ok(ckpt_digest_new(&digest, &error), &error);
  for (int round = 0; round < 2; round++) { /* finish starts anew */
    expect_ok(ckpt_digest_begin(digest, CKPT_PARAMETER, &array, &error), &error);
    expect_ok(ckpt_digest_bytes(digest, w, 8, &error), &error);
    expect_ok(ckpt_digest_bytes(digest, w, 0, &error), &error);
    expect_ok(ckpt_digest_bytes(digest, w + 2, 16, &error), &error);
    expect_ok(ckpt_digest_finish(streamed, digest, &error), &error);
    assert_string_equal(streamed, whole);
  }
  ckpt_digest_free(digest);
  ckpt_digest_free(NULL);
}

static void nans_count_as_one(void **state) {
  (void)state;
  const uint32_t one[] = {0x7fc00000}, other[] = {0xffbfffff}, infinity[] = {0x7f800000};
  char a[CKPT_SHA256_TEXT], b[CKPT_SHA256_TEXT], c[CKPT_SHA256_TEXT];
  ckpt_array array = array_of("w", CKPT_F32, 1, 1, 0, one);
  expect_ok(ckpt_digest_arrays(a, &array, 1, NULL, 0, NULL), NULL);
  array.data = other;
  expect_ok(ckpt_digest_arrays(b, &array, 1, NULL, 0, NULL), NULL);
  array.data = infinity;
  expect_ok(ckpt_digest_arrays(c, &array, 1, NULL, 0, NULL), NULL);
  assert_string_equal(a, b);
  assert_string_not_equal(a, c);
}

/* Everything that a tensor is counts: path, dtype, shape, kind. */
static void each_part_counts(void **state) {
  (void)state;
  static const uint8_t zeros[8];
  char found[6][CKPT_SHA256_TEXT];
  ckpt_array array = array_of("w", CKPT_F32, 1, 2, 0, zeros);
  expect_ok(ckpt_digest_arrays(found[0], &array, 1, NULL, 0, NULL), NULL);
  expect_ok(ckpt_digest_arrays(found[1], NULL, 0, &array, 1, NULL), NULL);
  array.path = "v";
  expect_ok(ckpt_digest_arrays(found[2], &array, 1, NULL, 0, NULL), NULL);
  array = array_of("w", CKPT_I32, 1, 2, 0, zeros);
  expect_ok(ckpt_digest_arrays(found[3], &array, 1, NULL, 0, NULL), NULL);
  array = array_of("w", CKPT_F32, 2, 2, 1, zeros);
  expect_ok(ckpt_digest_arrays(found[4], &array, 1, NULL, 0, NULL), NULL);
  array = array_of("w", CKPT_F32, 2, 1, 2, zeros);
  expect_ok(ckpt_digest_arrays(found[5], &array, 1, NULL, 0, NULL), NULL);
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(found[i], found[j]);
}

static void order_is_held(void **state) {
  (void)state;
  ckpt_digest *digest = NULL;
  ckpt_error error;
  char text[CKPT_SHA256_TEXT];
  ckpt_array a = array_of("a", CKPT_U8, 1, 3, 0, u), b = array_of("b", CKPT_U8, 1, 3, 0, u);
  expect_ok(ckpt_digest_new(&digest, &error), &error);
  expect_ok(ckpt_digest_tensor(digest, CKPT_PARAMETER, &b, &error), &error);
  expect_error(ckpt_digest_tensor(digest, CKPT_PARAMETER, &a, &error), &error, "E-CKPT-006", "'a' comes after 'b'");
  expect_error(ckpt_digest_tensor(digest, CKPT_PARAMETER, &b, &error), &error, "E-CKPT-006", "'b' comes after 'b'");
  expect_ok(ckpt_digest_tensor(digest, CKPT_STATE, &a, &error), &error);
  expect_error(ckpt_digest_tensor(digest, CKPT_PARAMETER, &b, &error), &error, "E-CKPT-006", "comes after");
  expect_ok(ckpt_digest_begin(digest, CKPT_STATE, &b, &error), &error);
  expect_error(ckpt_digest_bytes(digest, u, 4, &error), &error, "E-CKPT-005", "at most 3 bytes");
  expect_error(ckpt_digest_finish(text, digest, &error), &error, "E-CKPT-005", "lacks 3 bytes");
  ckpt_digest_free(digest);
}

static void large_arrays_and_odd_addresses(void **state) {
  (void)state;
  size_t n = 700001;
  char *room = malloc(4 * n + 1), a[CKPT_SHA256_TEXT], b[CKPT_SHA256_TEXT];
  float *plain = malloc(4 * n);
  for (size_t i = 0; i < n; i++) plain[i] = (float)i * 0.25f;
  plain[n - 1] = NAN; /* in the last piece */
  memcpy(room + 1, plain, 4 * n);
  ckpt_array array = array_of("w", CKPT_F32, 1, (int64_t)n, 0, plain);
  expect_ok(ckpt_digest_arrays(a, &array, 1, NULL, 0, NULL), NULL);
  array.data = room + 1;
  expect_ok(ckpt_digest_arrays(b, &array, 1, NULL, 0, NULL), NULL);
  assert_string_equal(a, b);
  free(room);
  free(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(definition),
      cmocka_unit_test(digest_of_nothing),
      cmocka_unit_test(streamed_equals_whole),
      cmocka_unit_test(nans_count_as_one),
      cmocka_unit_test(each_part_counts),
      cmocka_unit_test(order_is_held),
      cmocka_unit_test(large_arrays_and_odd_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
