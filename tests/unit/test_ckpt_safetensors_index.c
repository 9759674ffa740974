#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static void write_shard(const char *name, const char *tensor, size_t n) {
  char header[256];
  snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", tensor, n, n);
  bytes file = safetensors_bytes(header, n);
  scratch_write(scratch("%s", name), file.data, file.n);
  bytes_free(&file);
}

static ckpt_status open_index(ckpt_tensors **tensors, const char *text, ckpt_error *error) {
  scratch_write(scratch("m.safetensors.index.json"), text, strlen(text));
  return ckpt_tensors_open(tensors, scratch("m.safetensors.index.json"), NULL, error);
}

static void expect_refused(const char *text, const char *code, const char *word) {
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_index(&tensors, text, &error), &error, code, word);
  assert_null(tensors);
}

static int write_shards(void **state) {
  (void)state;
  write_shard("one.safetensors", "b", 3);
  write_shard("two.safetensors", "a", 5);
  return 0;
}

static void reads_shards(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  const char *text =
      "{\"metadata\":{\"total_size\":8},\"weight_map\":{\"b\":\"one.safetensors\",\"a\":\"two.safetensors\"}}";
  expect_ok(open_index(&tensors, text, &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 2);
  assert_string_equal(ckpt_tensors_at(tensors, 0)->name, "a");
  assert_int_equal(ckpt_tensors_at(tensors, 0)->n_bytes, 5);
  assert_int_equal(ckpt_tensors_n_files(tensors), 2);
  assert_string_equal(ckpt_file_path(ckpt_tensors_file(tensors, 0)), scratch("one.safetensors"));
  assert_ptr_equal(ckpt_tensors_at(tensors, 0)->file, ckpt_tensors_file(tensors, 1));
  ckpt_tensors_close(tensors);
}

static void malformed(void **state) {
  (void)state;
  expect_refused("", "E-DATA-123", "JSON");
  expect_refused("[]", "E-DATA-123", "weight_map");
  expect_refused("{\"weight_map\":[]}", "E-DATA-123", "weight_map");
  expect_refused("{\"weight_map\":{\"a\":1}}", "E-DATA-123", "tensor a");
  expect_refused("{\"weight_map\":{\"a\":\"../two.safetensors\"}}", "E-DATA-123", "beside the index");
  expect_refused("{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "E-DATA-123", "beside the index");
  expect_refused("{\"weight_map\":{\"a\":\"two.npy\"}}", "E-DATA-123", "beside the index");
  expect_refused("{\"weight_map\":{\"a\":\"two.safetensors\",\"a\":\"two.safetensors\"}}", "E-DATA-123", "duplicate");
  expect_refused("{\"weight_map\":{\"a\":\"three.safetensors\"}}", "E-DATA-101", "three.safetensors");
}

static void disagreeing(void **state) {
  (void)state;
  expect_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"two.safetensors\"}}", "E-DATA-124", "tensor 'a'");
  expect_refused("{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"one.safetensors\",\"c\":\"one.safetensors\"}}",
                 "E-DATA-124", "expected tensor 'c' in 'one.safetensors'");
  expect_refused("{\"weight_map\":{\"c\":\"two.safetensors\"}}", "E-DATA-124", "tensor 'a' is in 'two.safetensors'");
  write_shard("again.safetensors", "a", 5);
  expect_refused("{\"weight_map\":{\"a\":\"two.safetensors\",\"b\":\"again.safetensors\"}}", "E-DATA-152",
                 "stands twice");
}

static void no_tensors(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  const ckpt_tensor *found;
  expect_ok(open_index(&tensors, "{\"weight_map\":{}}", &error), &error);
  assert_int_equal(ckpt_tensors_count(tensors), 0);
  expect_error(ckpt_tensors_find(&found, tensors, "a", &error), &error, "E-LOAD-101", "no tensors at all");
  ckpt_tensors_close(tensors);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(reads_shards, write_shards),
      cmocka_unit_test_setup(malformed, write_shards),
      cmocka_unit_test_setup(disagreeing, write_shards),
      cmocka_unit_test_setup(no_tensors, write_shards),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
