#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static ckpt_array array_of(const char *path, ckpt_dtype dtype, int64_t n, const void *data) {
  return (ckpt_array){.path = path, .dtype = dtype, .rank = 1, .dims = {n}, .data = data};
}

static const float floats[] = {1, 2, 3};
static const uint8_t small[] = {7, 8, 9, 10, 11};

static void bytes_are_fixed(void **state) {
  (void)state;
  ckpt_error error;
  ckpt_array arrays[] = {array_of("z", CKPT_F32, 3, floats), array_of("a", CKPT_U8, 5, small)};
  size_t n = 0, n_again = 0;
  expect_ok(ckpt_safetensors_write(scratch("a.safetensors"), arrays, 2, 0, &error), &error);
  char *file = scratch_read(scratch("a.safetensors"), &n);
  static const char header[] =
      "{\"a\": {\"dtype\": \"U8\", \"shape\": [5], \"data_offsets\": [12, 17]}, "
      "\"z\": {\"dtype\": \"F32\", \"shape\": [3], \"data_offsets\": [0, 12]}}";
  size_t length = (size_t)(unsigned char)file[0];
  assert_int_equal(length % 8, 0);
  assert_int_equal(n, 8 + length + 17);
  assert_memory_equal(file + 8, header, sizeof header - 1);
  for (size_t i = 8 + sizeof header - 1; i < 8 + length; i++) assert_int_equal(file[i], ' ');
  assert_memory_equal(file + 8 + length, "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\7\x8\x9\xa\xb", 17);
  ckpt_array turned[] = {arrays[1], arrays[0]};
  expect_ok(ckpt_safetensors_write(scratch("b.safetensors"), turned, 2, 0, &error), &error);
  char *again = scratch_read(scratch("b.safetensors"), &n_again);
  assert_int_equal(n, n_again);
  assert_memory_equal(file, again, n);
  free(file);
  free(again);
}

static void reads_back_every_dtype(void **state) {
  (void)state;
  unsigned char data[CKPT_N_DTYPES][24];
  char names[CKPT_N_DTYPES][16];
  ckpt_array arrays[CKPT_N_DTYPES];
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  for (int i = 0; i < CKPT_N_DTYPES; i++) {
    for (size_t b = 0; b < sizeof data[0]; b++)
      data[i][b] = i == CKPT_BOOL ? b & 1 : (unsigned char)(b + 3 * (size_t)i);
    snprintf(names[i], sizeof names[0], "t/%02d", i);
    arrays[i] = array_of(names[i], (ckpt_dtype)i, 3, data[i]);
  }
  expect_ok(ckpt_safetensors_write(scratch("c.safetensors"), arrays, CKPT_N_DTYPES, 0, &error), &error);
  expect_ok(ckpt_tensors_open(&tensors, scratch("c.safetensors"), NULL, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), CKPT_N_DTYPES);
  for (size_t i = 0; i < CKPT_N_DTYPES; i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i);
    unsigned char value[24];
    assert_string_equal(tensor->name, names[i]);
    assert_int_equal(tensor->dtype, i);
    assert_int_equal((uintptr_t)tensor->data % ckpt_dtype_n_bytes(tensor->dtype), 0); /* aligned in the mapping */
    expect_ok(ckpt_tensors_read(value, tensors, tensor, 0, 3, &error), &error);
    assert_memory_equal(value, data[i], 3 * ckpt_dtype_n_bytes(tensor->dtype));
  }
  ckpt_tensors_close(tensors);
}

static void nans_are_canonical(void **state) {
  (void)state;
  const uint32_t f32[] = {0xffc00001, 0x7f800001, 0x7f800000, 0xff800000, 0x80000000};
  const uint16_t bf16[] = {0xff81, 0x7f80}, f16[] = {0xfc01, 0x7fff, 0x7c00};
  const uint64_t f64[] = {UINT64_C(0xfff0000000000001), UINT64_C(0x7ff0000000000000)};
  const uint8_t bools[] = {0, 1, 255};
  ckpt_array arrays[] = {array_of("a", CKPT_F32, 5, f32), array_of("b", CKPT_BF16, 2, bf16),
                         array_of("c", CKPT_F16, 3, f16), array_of("d", CKPT_F64, 2, f64),
                         array_of("e", CKPT_BOOL, 3, bools)};
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  uint32_t a[5];
  uint16_t b[2], c[3];
  uint64_t d[2];
  uint8_t e[3];
  void *found[] = {a, b, c, d, e};
  expect_ok(ckpt_safetensors_write(scratch("n.safetensors"), arrays, 5, 0, &error), &error);
  expect_ok(ckpt_tensors_open(&tensors, scratch("n.safetensors"), NULL, &error), &error);
  for (size_t i = 0; i < 5; i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, i);
    expect_ok(ckpt_tensors_read(found[i], tensors, tensor, 0, tensor->n_elements, &error), &error);
  }
  assert_true(a[0] == 0x7fc00000 && a[1] == 0x7fc00000 && a[2] == f32[2] && a[3] == f32[3] && a[4] == f32[4]);
  assert_true(b[0] == 0x7fc0 && b[1] == 0x7f80);
  assert_true(c[0] == 0x7e00 && c[1] == 0x7e00 && c[2] == 0x7c00);
  assert_true(d[0] == UINT64_C(0x7ff8000000000000) && d[1] == f64[1]);
  assert_true(e[0] == 0 && e[1] == 1 && e[2] == 1);
  ckpt_tensors_close(tensors);
}

static ckpt_status count_up(void *out, void *context, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  (void)error;
  *(uint64_t *)context += n_bytes;
  for (size_t i = 0; i < n_bytes; i++) ((unsigned char *)out)[i] = (unsigned char)((offset + i) * 31 >> 3);
  return CKPT_OK;
}

static ckpt_status refuse_to_fill(void *out, void *context, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  (void)out, (void)context, (void)offset, (void)n_bytes;
  *error = (ckpt_error){.status = CKPT_IO, .code = "E-X", .message = "from the callback"};
  return CKPT_IO;
}

static void elements_from_a_callback(void **state) {
  (void)state;
  uint64_t total = 0;
  ckpt_array array = array_of("w", CKPT_U8, 3000000, NULL);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  array.fill = count_up;
  array.context = &total;
  expect_ok(ckpt_safetensors_write(scratch("f.safetensors"), &array, 1, 0, &error), &error);
  assert_int_equal(total, 3000000);
  expect_ok(ckpt_tensors_open(&tensors, scratch("f.safetensors"), NULL, &error), &error);
  const unsigned char *data = ckpt_tensors_at(tensors, 0)->data;
  for (size_t i = 0; i < 3000000; i += 999) assert_int_equal(data[i], (unsigned char)(i * 31 >> 3));
  ckpt_tensors_close(tensors);
  array.fill = refuse_to_fill;
  unlink(scratch("f.safetensors"));
  expect_error(ckpt_safetensors_write(scratch("f.safetensors"), &array, 1, 0, &error), &error, "E-X", "callback");
  assert_false(scratch_has(scratch("f.safetensors")));
}

static void shards_and_index(void **state) {
  (void)state;
  scratch_empty();
  float data[4][100];
  char paths[4][16];
  ckpt_array arrays[4];
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 100; k++) data[i][k] = (float)(100 * i + k);
    snprintf(paths[i], sizeof paths[0], "p%d", i);
    arrays[i] = array_of(paths[i], CKPT_F32, 100, data[i]);
  }
  expect_ok(ckpt_safetensors_write(scratch("m.safetensors"), arrays, 4, 900, &error), &error);
  assert_false(scratch_has(scratch("m.safetensors")));
  assert_true(scratch_has(scratch("m-00001-of-00002.safetensors")));
  assert_true(scratch_has(scratch("m-00002-of-00002.safetensors")));
  char *index = scratch_read(scratch("m.safetensors.index.json"), NULL);
  assert_string_equal(index,
                      "{\n  \"metadata\": {\n    \"total_size\": 1600\n  },\n  \"weight_map\": {\n"
                      "    \"p0\": \"m-00001-of-00002.safetensors\",\n    \"p1\": \"m-00001-of-00002.safetensors\",\n"
                      "    \"p2\": \"m-00002-of-00002.safetensors\",\n    \"p3\": \"m-00002-of-00002.safetensors\"\n"
                      "  }\n}\n");
  free(index);
  expect_ok(ckpt_tensors_open(&tensors, scratch("m.safetensors.index.json"), NULL, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 4);
  float last[100];
  expect_ok(ckpt_tensors_read(last, tensors, ckpt_tensors_at(tensors, 3), 0, 100, &error), &error);
  assert_memory_equal(last, data[3], sizeof last);
  ckpt_tensors_close(tensors);
  expect_ok(ckpt_safetensors_write(scratch("s.safetensors"), arrays, 4, 1, &error), &error); /* one each */
  assert_true(scratch_has(scratch("s-00004-of-00004.safetensors")));
  expect_ok(ckpt_safetensors_write(scratch("w.safetensors"), arrays, 4, 1600, &error), &error);
  assert_true(scratch_has(scratch("w.safetensors")));
  assert_int_equal(scratch_count(scratch(".")), 3 + 5 + 1); /* and nothing temporary */
}

static void nothing_to_write(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  ckpt_array scalar = {.path = "s", .dtype = CKPT_I64, .data = &(int64_t){-5}},
             empty = array_of("e", CKPT_F32, 0, NULL);
  expect_ok(ckpt_safetensors_write(scratch("0.safetensors"), NULL, 0, 0, &error), &error);
  expect_ok(ckpt_tensors_open(&tensors, scratch("0.safetensors"), NULL, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 0);
  ckpt_tensors_close(tensors);
  ckpt_array both[] = {scalar, empty};
  expect_ok(ckpt_safetensors_write(scratch("1.safetensors"), both, 2, 0, &error), &error);
  expect_ok(ckpt_tensors_open(&tensors, scratch("1.safetensors"), NULL, &error), &error);
  int64_t value = 0;
  expect_ok(ckpt_tensors_read(&value, tensors, ckpt_tensors_at(tensors, 1), 0, 1, &error), &error);
  assert_int_equal(value, -5);
  ckpt_tensors_close(tensors);
}

static void refused_arrays(void **state) {
  (void)state;
  ckpt_error error;
  ckpt_array two[] = {array_of("a", CKPT_U8, 5, small), array_of("a", CKPT_U8, 5, small)};
  const char *path = scratch("x.safetensors");
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-006", "two tensors have the path 'a'");
  two[0].path = "";
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "path");
  two[0].path = "\xff";
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "UTF-8");
  two[0].path = "__metadata__";
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "__metadata__");
  two[0].path = "b";
  two[0].rank = 9;
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "impossible dtype or shape");
  two[0].rank = 1;
  two[0].dims[0] = -1;
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "impossible dtype or shape");
  two[0] = array_of("b", CKPT_U8, 5, NULL);
  expect_error(ckpt_safetensors_write(path, two, 2, 0, &error), &error, "E-CKPT-005", "no elements");
  assert_false(scratch_has(path));
  expect_error(ckpt_safetensors_write(scratch("x.bin"), two, 2, 0, &error), &error, "E-CKPT-005", ".safetensors");
  expect_error(ckpt_safetensors_write(scratch("no/x.safetensors"), two, 2, 0, &error), &error, "E-CKPT-004",
               "No such file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_fixed),    cmocka_unit_test(reads_back_every_dtype),
      cmocka_unit_test(nans_are_canonical), cmocka_unit_test(elements_from_a_callback),
      cmocka_unit_test(shards_and_index),   cmocka_unit_test(nothing_to_write),
      cmocka_unit_test(refused_arrays),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
