/* Differences of tensors: counts, places, ulps and values, against other ways to compute them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* Opens a safetensors file of one tensor "t" with these bytes, not made canonical. */
static ckpt_tensors *open_raw(const char *name, ckpt_dtype dtype, const void *elements, size_t n) {
  char header[200];
  size_t n_bytes = n * ckpt_dtype_n_bytes(dtype);
  static const char *const names[CKPT_N_DTYPES] = {"BOOL", "U8",  "I8",  "U16", "I16", "F16", "BF16",
                                                   "U32",  "I32", "F32", "U64", "I64", "F64"};
  snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", names[dtype],
           n, n_bytes);
  bytes file = safetensors_bytes(header, 0);
  put(&file, elements, n_bytes);
  scratch_write(scratch("%s.safetensors", name), file.data, file.n);
  bytes_free(&file);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_ok(ckpt_tensors_open(&tensors, scratch("%s.safetensors", name), NULL, &error), &error);
  return tensors;
}

static ckpt_difference compare(ckpt_dtype dtype, const void *left, const void *right, size_t n) {
  ckpt_tensors *a = open_raw("a", dtype, left, n), *b = open_raw("b", dtype, right, n);
  ckpt_difference found;
  ckpt_error error;
  expect_ok(ckpt_tensors_compare(&found, a, ckpt_tensors_at(a, 0), b, ckpt_tensors_at(b, 0), &error), &error);
  ckpt_tensors_close(a);
  ckpt_tensors_close(b);
  return found;
}

typedef struct pair {
  ckpt_dtype dtype;
  uint64_t left, right; /* bits */
  int differs, nan;
  uint64_t ulps;
  double value;
} pair;

static const pair pairs[] = {
    {CKPT_F32, 0x3f800000, 0x3f800001, 1, 0, 1, 0x1p-23},
    {CKPT_F32, 0x3f800000, 0x3f7fffff, 1, 0, 1, 0x1p-24},
    {CKPT_F32, 0x00000000, 0x80000000, 1, 0, 0, 0},
    {CKPT_F32, 0x00000001, 0x80000001, 1, 0, 2, 0x1p-148},
    {CKPT_F32, 0x00000000, 0x80000003, 1, 0, 3, 0x3p-149},
    {CKPT_F32, 0x80000000, 0x00000001, 1, 0, 1, 0x1p-149},
    {CKPT_F32, 0x3f800000, 0xbf800000, 1, 0, 2 * UINT64_C(0x3f800000), 2},
    {CKPT_F32, 0x7f7fffff, 0x7f800000, 1, 0, 1, HUGE_VAL},
    {CKPT_F32, 0x7f800000, 0xff800000, 1, 0, 2 * UINT64_C(0x7f800000), HUGE_VAL},
    {CKPT_F32, 0x7fc00000, 0xffc00001, 0, 0, 0, 0},
    {CKPT_F32, 0x7f800001, 0x7f800000, 1, 1, 0, 0},
    {CKPT_F32, 0x3f800000, 0x7fc00000, 1, 1, 0, 0},
    {CKPT_F64, UINT64_C(0x3ff0000000000000), UINT64_C(0x3ff0000000000002), 1, 0, 2, 0x1p-51},
    {CKPT_F64, UINT64_C(0x8000000000000001), UINT64_C(1), 1, 0, 2, 0},
    {CKPT_F64, UINT64_C(0x7ff0000000000000), UINT64_C(0xfff0000000000000), 1, 0, UINT64_C(0xffe0000000000000),
     HUGE_VAL},
    {CKPT_F64, UINT64_C(0x7ff8000000000000), UINT64_C(0xfff8000000000001), 0, 0, 0, 0},
    {CKPT_BF16, 0x3f80, 0x3f81, 1, 0, 1, 0x1p-7},
    {CKPT_BF16, 0x8000, 0x0001, 1, 0, 1, 0x1p-133},
    {CKPT_BF16, 0x7fc0, 0x7f81, 0, 0, 0, 0},
    {CKPT_F16, 0x3c00, 0x3c01, 1, 0, 1, 0x1p-10},
    {CKPT_F16, 0x0001, 0x8001, 1, 0, 2, 0x1p-23},
    {CKPT_F16, 0x7bff, 0x7c00, 1, 0, 1, HUGE_VAL},
    {CKPT_F16, 0x7bff, 0x0000, 1, 0, 0x7bff, 65504},
    {CKPT_BOOL, 0, 3, 1, 0, 0, 1},
    {CKPT_BOOL, 2, 1, 0, 0, 0, 0},
    {CKPT_U8, 0, 255, 1, 0, 0, 255},
    {CKPT_I8, 0x80, 0x7f, 1, 0, 0, 255},
    {CKPT_U16, 1, 65535, 1, 0, 0, 65534},
    {CKPT_I16, 0xffff, 1, 1, 0, 0, 2},
    {CKPT_U32, 0, UINT32_MAX, 1, 0, 0, 4294967295.0},
    {CKPT_I32, 0x80000000, 0x7fffffff, 1, 0, 0, 4294967295.0},
    {CKPT_U64, 0, UINT64_MAX, 1, 0, 0, 0x1p64},
    {CKPT_I64, UINT64_C(0x8000000000000000), UINT64_C(0x7fffffffffffffff), 1, 0, 0, 0x1p64},
    {CKPT_I64, UINT64_MAX, 1, 1, 0, 0, 2},
};

static void single_elements(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    const pair *p = &pairs[i];
    unsigned char left[8], right[8];
    for (int b = 0; b < 8; b++)
      left[b] = (unsigned char)(p->left >> 8 * b), right[b] = (unsigned char)(p->right >> 8 * b);
    for (int swapped = 0; swapped < 2; swapped++) {
      ckpt_difference found = compare(p->dtype, swapped ? right : left, swapped ? left : right, 1);
      if (found.n_differing != (uint64_t)p->differs || found.n_nan != (uint64_t)p->nan || found.max_ulps != p->ulps ||
          (p->value != 0 && found.max_value != p->value))
        fail_msg("pair %zu: %llu differ, %llu NaN, %llu ulp, %a", i, (unsigned long long)found.n_differing,
                 (unsigned long long)found.n_nan, (unsigned long long)found.max_ulps, found.max_value);
    }
  }
}

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  if (exponent == 31) magnitude = HUGE_VAL;
  return bits >> 15 ? -magnitude : magnitude;
}

static int by_value(const void *left, const void *right) {
  double a = half(*(const uint16_t *)left), b = half(*(const uint16_t *)right);
  return a < b ? -1 : a > b;
}

/* The distance of two halves is the difference of their places among all halves in order, both zeros in one place. */
static void ulps_are_places_in_order(void **state) {
  (void)state;
  static uint16_t ordered[65536];
  static uint64_t place[65536];
  size_t n = 0;
  for (uint32_t bits = 0; bits < 65536; bits++)
    if ((bits & 0x7fff) <= 0x7c00) ordered[n++] = (uint16_t)bits;
  qsort(ordered, n, sizeof *ordered, by_value);
  for (size_t i = 1; i < n; i++) place[ordered[i]] = place[ordered[i - 1]] + (half(ordered[i]) != half(ordered[i - 1]));
  for (uint32_t a = 0; a < 65536; a += 137)
    for (uint32_t b = 5; b < 65536; b += 8009) {
      if ((a & 0x7fff) > 0x7c00 || (b & 0x7fff) > 0x7c00 || a == b) continue;
      uint16_t left = (uint16_t)a, right = (uint16_t)b;
      ckpt_difference found = compare(CKPT_F16, &left, &right, 1);
      assert_int_equal(found.max_ulps, place[a] > place[b] ? place[a] - place[b] : place[b] - place[a]);
      assert_true(found.max_value == fabs(half(left) - half(right)));
    }
}

/* Every kind of pair of floats among its like, whole and one at a time: the same answers. */
static void many_elements_are_compared_as_single_ones(void **state) {
  (void)state;
  enum { N = 5003 };
  static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x7f7fffff,
                                     0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000,
                                     0x3f800000, 0x3f800001, 0xbf800000, 0x00800000};
  enum { N_SPECIAL = sizeof special / sizeof *special };
  static uint32_t left[N], right[N];
  ckpt_difference sum = {0};
  for (uint32_t i = 0; i < N; i++) {
    left[i] = i % 3 ? special[i % N_SPECIAL] : i * 2654435761u;
    right[i] = i % 5 ? special[i / N_SPECIAL % N_SPECIAL] : i * 2246822519u + 7;
    ckpt_difference one = compare(CKPT_F32, &left[i], &right[i], 1);
    if (one.n_differing && !sum.n_differing) sum.first = i;
    sum.n_differing += one.n_differing;
    sum.n_nan += one.n_nan;
    if (one.max_ulps > sum.max_ulps) sum.max_ulps = one.max_ulps;
    if (one.max_value > sum.max_value && one.max_value < HUGE_VAL) sum.max_value = one.max_value;
    if (one.max_value == HUGE_VAL) left[i] = right[i] = 0, sum.n_differing--, sum.n_nan -= one.n_nan;
  }
  sum.max_ulps = 0;
  for (uint32_t i = 0; i < N; i++) {
    uint64_t ulps = compare(CKPT_F32, &left[i], &right[i], 1).max_ulps;
    if (ulps > sum.max_ulps) sum.max_ulps = ulps;
  }
  ckpt_difference found = compare(CKPT_F32, left, right, N);
  assert_int_equal(found.n_differing, sum.n_differing);
  assert_int_equal(found.n_nan, sum.n_nan);
  assert_int_equal(found.max_ulps, sum.max_ulps);
  assert_true(found.max_value == sum.max_value);
  assert_int_equal(found.first, sum.first);
}

/* Blocks: differences at the borders of what is read and compared at a time. */
static void places_in_a_large_tensor(void **state) {
  (void)state;
  enum { N = 800001 };
  static const size_t places[] = {0, 1, 1023, 1024, 262143, 262144, 524288, 799999, N - 1};
  uint32_t *left = calloc(N, sizeof *left), *right = calloc(N, sizeof *right);
  assert_non_null(left);
  assert_non_null(right);
  assert_int_equal(compare(CKPT_F32, left, right, N).n_differing, 0);
  for (size_t i = sizeof places / sizeof *places; i-- > 0;) {
    right[places[i]] = (uint32_t)i + 1;
    ckpt_difference found = compare(CKPT_F32, left, right, N);
    assert_int_equal(found.n_differing, sizeof places / sizeof *places - i);
    assert_int_equal(found.first, places[i]);
    assert_int_equal(found.max_ulps, sizeof places / sizeof *places);
  }
  free(left);
  free(right);
}

static void refusals(void **state) {
  (void)state;
  const float four[4] = {0};
  ckpt_tensors *a = open_raw("a", CKPT_F32, four, 4), *b = open_raw("b", CKPT_F32, four, 3);
  ckpt_tensors *c = open_raw("c", CKPT_I32, four, 4), *d = open_raw("d", CKPT_F32, four, 4);
  ckpt_difference found;
  ckpt_error error;
  expect_error(ckpt_tensors_compare(&found, a, ckpt_tensors_at(a, 0), b, ckpt_tensors_at(b, 0), &error), &error,
               "E-CKPT-005", "one dtype and shape");
  expect_error(ckpt_tensors_compare(&found, a, ckpt_tensors_at(a, 0), c, ckpt_tensors_at(c, 0), &error), &error,
               "E-CKPT-005", "one dtype and shape");
  assert_int_equal(truncate(scratch("d.safetensors"), 70), 0);
  expect_error(ckpt_tensors_compare(&found, a, ckpt_tensors_at(a, 0), d, ckpt_tensors_at(d, 0), &error), &error,
               "E-DATA-104", "d.safetensors");
  ckpt_tensors_close(a);
  ckpt_tensors_close(b);
  ckpt_tensors_close(c);
  ckpt_tensors_close(d);
  const float none = 0;
  assert_int_equal(compare(CKPT_F32, &none, &none, 0).n_differing, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(single_elements),
      cmocka_unit_test(ulps_are_places_in_order),
      cmocka_unit_test(many_elements_are_compared_as_single_ones),
      cmocka_unit_test(places_in_a_large_tensor),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
