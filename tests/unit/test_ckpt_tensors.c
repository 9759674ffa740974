#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static bytes two_tensors(void) {
  return safetensors_bytes(
      "{\"layer/w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"layer/b\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[4,8]}}",
      8);
}

static void dtypes_have_names(void **state) {
  (void)state;
  for (int i = 0; i < CKPT_N_DTYPES; i++) {
    ckpt_dtype found;
    assert_true(ckpt_dtype_find(&found, ckpt_dtype_name((ckpt_dtype)i)));
    assert_int_equal(found, i);
  }
  ckpt_dtype found;
  assert_true(ckpt_dtype_find(&found, "BF16") && found == CKPT_BF16);
  assert_false(ckpt_dtype_find(&found, "float"));
  assert_false(ckpt_dtype_find(&found, ""));
}

static void unknown_formats(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_file *file = NULL;
  ckpt_error error;
  scratch_write(scratch("a.txt"), "x", 1);
  expect_error(ckpt_tensors_open(&tensors, scratch("a.txt"), NULL, &error), &error, "E-DATA-153", "found 'a.txt'");
  expect_error(ckpt_tensors_open(&tensors, scratch("safetensors"), NULL, &error), &error, "E-DATA-153", "safetensors");
  expect_ok(ckpt_file_open(&file, scratch("a.txt"), NULL, &error), &error);
  expect_error(ckpt_tensors_from_file(&tensors, file, NULL, &error), &error, "E-DATA-153", "a.txt");
  ckpt_file_close(file);
  expect_error(ckpt_tensors_open(&tensors, scratch("none.npz"), NULL, &error), &error, "E-DATA-101", "none.npz");
}

static void reads_through_gzip(void **state) {
  (void)state;
  bytes file = two_tensors();
  gzFile gz = gzopen(scratch("t.safetensors.gz"), "wb");
  assert_int_equal(gzwrite(gz, file.data, (unsigned)file.n), file.n);
  gzclose(gz);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  ckpt_read_options options = CKPT_READ_OPTIONS;
  options.stored = true; /* means nothing for tensors */
  expect_ok(ckpt_tensors_open(&tensors, scratch("t.safetensors.gz"), &options, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 2);
  uint16_t value[2];
  expect_ok(ckpt_tensors_read(value, tensors, ckpt_tensors_at(tensors, 0), 0, 2, &error), &error);
  assert_true(value[0] == 0x0504 && value[1] == 0x0706);
  ckpt_tensors_close(tensors);
  options.inflate_limit_n_bytes = 10;
  expect_error(ckpt_tensors_open(&tensors, scratch("t.safetensors.gz"), &options, &error), &error, "E-DATA-113",
               "10 bytes");
  bytes_free(&file);
}

static void finds_by_name(void **state) {
  (void)state;
  bytes content = two_tensors();
  ckpt_file *file = NULL;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  const ckpt_tensor *found = NULL;
  expect_ok(ckpt_file_from_bytes(&file, "m.safetensors", content.data, content.n, NULL, &error), &error);
  expect_ok(ckpt_tensors_from_file(&tensors, file, NULL, &error), &error);
  expect_ok(ckpt_tensors_find(&found, tensors, "layer/w", &error), &error);
  assert_ptr_equal(found, ckpt_tensors_at(tensors, 1));
  ckpt_status status = ckpt_tensors_find(&found, tensors, "layr/w", &error);
  expect_error(status, &error, "E-LOAD-101", "expected 'layr/w', found 2 others; the nearest is 'layer/w'");
  assert_null(found);
  assert_string_equal(error.path, "m.safetensors");
  assert_int_equal(ckpt_tensors_n_files(tensors), 1);
  assert_ptr_equal(ckpt_tensors_file(tensors, 0), file);
  ckpt_tensors_close(tensors);
  ckpt_tensors_close(NULL);
  ckpt_file_close(file);
  bytes_free(&content);
}

static void names_are_utf8(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  static const char npy[] = "\x93NUMPY\x01\x00\x36\x00{'descr': '|u1', 'fortran_order': False, 'shape': ()}\n\x07";
  scratch_write(scratch("a\xff.npy"), npy, sizeof npy - 1);
  expect_error(ckpt_tensors_open(&tensors, scratch("a\xff.npy"), NULL, &error), &error, "E-DATA-152", "UTF-8");
  scratch_write(scratch(".npy"), npy, sizeof npy - 1);
  expect_error(ckpt_tensors_open(&tensors, scratch(".npy"), NULL, &error), &error, "E-DATA-152", "name");
}

/* A file cut off after it was opened: reading says so where a touch of the mapping would end the program. */
static void truncated_after_open(void **state) {
  (void)state;
  bytes content = two_tensors();
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  unsigned char value[4];
  scratch_write(scratch("cut.safetensors"), content.data, content.n);
  expect_ok(ckpt_tensors_open(&tensors, scratch("cut.safetensors"), NULL, &error), &error);
  scratch_write(scratch("cut.safetensors"), content.data, content.n - 6);
  ckpt_status status = ckpt_tensors_read(value, tensors, ckpt_tensors_at(tensors, 1), 0, 4, &error);
  expect_error(status, &error, "E-DATA-104", "expected 4 bytes");
  expect_error(ckpt_file_check(ckpt_tensors_file(tensors, 0), &error), &error, "E-DATA-103", "bytes");
  ckpt_tensors_close(tensors);
  bytes_free(&content);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dtypes_have_names), cmocka_unit_test(unknown_formats), cmocka_unit_test(reads_through_gzip),
      cmocka_unit_test(finds_by_name),     cmocka_unit_test(names_are_utf8),  cmocka_unit_test(truncated_after_open),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
