#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* A manifest of version 1; each ' stands for ". */
static ckpt_status open_text(ckpt_manifest **manifest, const char *members, ckpt_error *error) {
  char text[4096];
  int n = snprintf(text, sizeof text, "{'record': 'data-manifest', 'version': 1, %s}", members);
  for (int i = 0; i < n; i++)
    if (text[i] == '\'') text[i] = '"';
  scratch_write(scratch("m.json"), text, (size_t)n);
  return ckpt_manifest_open(manifest, scratch("m.json"), NULL, error);
}

#define HASH "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define SHARD "{'path': 'abc.bin', 'size': 3, 'sha256': '" HASH "'}"

static void expect_refused(const char *members, const char *word) {
  ckpt_manifest *manifest = NULL;
  ckpt_error error;
  expect_error(open_text(&manifest, members, &error), &error, "E-DATA-160", word);
  assert_null(manifest);
}

static void reads_each_kind(void **state) {
  (void)state;
  ckpt_manifest *manifest = NULL;
  ckpt_error error;
  expect_ok(open_text(&manifest,
                      "'kind': 'arrays', 'more': 1, 'shards': [" SHARD
                      ", {'path': '/d/x.npz', 'size': 0, 'sha256': '" HASH "'}]",
                      &error),
            &error);
  assert_string_equal(manifest->kind, "arrays");
  assert_true(manifest->n_shards == 2 && manifest->n_shard_files == 1 && manifest->n_fields == 0 && !manifest->dtype);
  assert_string_equal(manifest->files[0].path, scratch("abc.bin"));
  assert_int_equal(manifest->files[0].size, 3);
  assert_string_equal(manifest->files[0].sha256, HASH);
  assert_string_equal(manifest->files[1].path, "/d/x.npz");
  assert_string_equal(manifest->path, scratch("m.json"));
  ckpt_manifest_free(manifest);
  expect_ok(
      open_text(&manifest,
                "'kind': 'windows', 'dtype': 'u16', 'field': 'tokens', 'length': 8, 'stride': 4, 'shards': [" SHARD "]",
                &error),
      &error);
  assert_string_equal(manifest->dtype, "u16");
  assert_string_equal(manifest->field, "tokens");
  assert_true(manifest->length == 8 && manifest->stride == 4);
  ckpt_manifest_free(manifest);
  expect_ok(open_text(&manifest, "'kind': 'csv', 'fields': ['x', 'y'], 'shards': [" SHARD "]", &error), &error);
  assert_true(manifest->n_fields == 2 && manifest->n_shard_files == 1);
  assert_string_equal(manifest->fields[1], "y");
  ckpt_manifest_free(manifest);
  expect_ok(
      open_text(&manifest, "'kind': 'idx', 'fields': ['image', 'label'], 'shards': [{'files': [" SHARD ", " SHARD "]}]",
                &error),
      &error);
  assert_true(manifest->n_fields == 2 && manifest->n_shard_files == 2 && manifest->n_shards == 1);
  ckpt_manifest_free(manifest);
  ckpt_manifest_free(NULL);
}

static void malformed(void **state) {
  (void)state;
  ckpt_manifest *manifest = NULL;
  ckpt_error error;
  scratch_write(scratch("m.json"), "[", 1);
  expect_error(ckpt_manifest_open(&manifest, scratch("m.json"), NULL, &error), &error, "E-DATA-160", "JSON");
  scratch_write(scratch("m.json"), "[]", 2);
  expect_error(ckpt_manifest_open(&manifest, scratch("m.json"), NULL, &error), &error, "E-DATA-160", "an object");
  scratch_write(scratch("m.json"), "{}", 2);
  expect_error(ckpt_manifest_open(&manifest, scratch("m.json"), NULL, &error), &error, "E-DATA-160", "record");
  scratch_write(scratch("m.json"), "{\"record\": \"x\"}", 15);
  expect_error(ckpt_manifest_open(&manifest, scratch("m.json"), NULL, &error), &error, "E-DATA-160",
               "\"data-manifest\"");
  scratch_write(scratch("m.json"), "{\"record\": \"data-manifest\", \"version\": 2}", 41);
  expect_error(ckpt_manifest_open(&manifest, scratch("m.json"), NULL, &error), &error, "E-DATA-161",
               "expected version 1, found 2");
  assert_int_equal(error.offset, 28);
  expect_error(ckpt_manifest_open(&manifest, scratch("none.json"), NULL, &error), &error, "E-DATA-101", "none.json");
  expect_refused("'kind': 'video', 'shards': []", "\"arrays\", \"windows\"");
  expect_refused("'kind': 'arrays'", "shards to be an array");
  expect_refused("'kind': 'arrays', 'shards': []", "at least one");
  expect_refused("'kind': 'arrays', 'shards': [1]", "array of objects");
  expect_refused("'kind': 'arrays', 'shards': [{'size': 3, 'sha256': '" HASH "'}]", "shards[0].path");
  expect_refused("'kind': 'arrays', 'shards': [" SHARD ", {'path': 'a', 'size': -1, 'sha256': '" HASH "'}]",
                 "shards[1].size");
  expect_refused("'kind': 'arrays', 'shards': [{'path': 'a', 'size': 1, 'sha256': 'sha256:zz'}]", "64 lowercase");
  expect_refused("'kind': 'arrays', 'shards': [{'path': '', 'size': 1, 'sha256': '" HASH "'}]", "a path");
  expect_refused("'kind': 'windows', 'shards': [" SHARD "]", "dtype");
  expect_refused("'kind': 'windows', 'dtype': 'f32', 'shards': [" SHARD "]", "\"u8\"");
  expect_refused("'kind': 'windows', 'dtype': 'u8', 'field': 't', 'length': 0, 'stride': 1, 'shards': [" SHARD "]",
                 "length");
  expect_refused("'kind': 'windows', 'dtype': 'u8', 'field': 't', 'length': 1, 'stride': 0, 'shards': [" SHARD "]",
                 "stride");
  expect_refused("'kind': 'csv', 'shards': [" SHARD "]", "fields");
  expect_refused("'kind': 'csv', 'fields': [], 'shards': [" SHARD "]", "at least one");
  expect_refused("'kind': 'csv', 'fields': [1], 'shards': [" SHARD "]", "names");
  expect_refused("'kind': 'idx', 'fields': ['a', 'b'], 'shards': [{'files': [" SHARD "]}]", "a file for each");
  expect_refused("'kind': 'idx', 'fields': ['a'], 'shards': [" SHARD "]", "a file for each");
}

static void checks_shards(void **state) {
  (void)state;
  ckpt_manifest *manifest = NULL;
  ckpt_error error;
  expect_ok(open_text(&manifest, "'kind': 'arrays', 'shards': [" SHARD "]", &error), &error);
  expect_error(ckpt_manifest_check(manifest, false, NULL, &error), &error, "E-DATA-101", "abc.bin");
  scratch_write(scratch("abc.bin"), "abc", 3);
  expect_ok(ckpt_manifest_check(manifest, true, NULL, &error), &error);
  scratch_write(scratch("abc.bin"), "abd", 3);
  expect_ok(ckpt_manifest_check(manifest, false, NULL, &error), &error);
  expect_error(ckpt_manifest_check(manifest, true, NULL, &error), &error, "E-DATA-163",
               "expected " HASH ", found sha256:");
  scratch_write(scratch("abc.bin"), "ab", 2);
  expect_error(ckpt_manifest_check(manifest, false, NULL, &error), &error, "E-DATA-162", "expected 3 bytes, found 2");
  ckpt_manifest_free(manifest);
  expect_ok(open_text(&manifest, "'kind': 'arrays', 'shards': [{'path': 's3://b/k', 'size': 1, 'sha256': '" HASH "'}]",
                      &error),
            &error);
  expect_error(ckpt_manifest_check(manifest, false, NULL, &error), &error, "E-S3-001", "s3://b/k");
  ckpt_manifest_free(manifest);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_each_kind), cmocka_unit_test(malformed),
                                     cmocka_unit_test(checks_shards)};
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
