/* Codes, messages, and the example at the head of ckpt.h. */
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

#define main example_main
#include <stdio.h>

#include "../../libckpt/ckpt.h"

int example_main(int argc, char **argv);
int main(int argc, char **argv) {
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  if (argc != 2) return 2;
  if (ckpt_tensors_open(&tensors, argv[1], NULL, &error) != CKPT_OK) {
    fprintf(stderr, "%s: %s\n", error.code, error.message);
    return error.status == CKPT_IO ? 4 : 2;
  }
  for (size_t i = 0; i < ckpt_tensors_count(tensors); i++)
    printf("%s %s\n", ckpt_dtype_name(ckpt_tensors_at(tensors, i)->dtype), ckpt_tensors_at(tensors, i)->name);
  ckpt_tensors_close(tensors);
  return 0;
}
#undef main

static void example_runs(void **state) {
  (void)state;
  bytes file = safetensors_bytes("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
  scratch_write(scratch("m.safetensors"), file.data, file.n);
  char *arguments[] = {NULL, NULL, NULL}, path[512];
  assert_int_equal(example_main(1, arguments), 2);
  snprintf(path, sizeof path, "%s", scratch("m.safetensors"));
  arguments[1] = path;
  assert_int_equal(example_main(2, arguments), 0);
  snprintf(path, sizeof path, "%s", scratch("missing.safetensors"));
  assert_int_equal(example_main(2, arguments), 4);
  bytes_free(&file);
}

/* The text in the header is the text above. */
static void example_is_the_one_in_the_header(void **state) {
  (void)state;
  char *header = scratch_read("libckpt/ckpt.h", NULL), *test = scratch_read("tests/unit/test_ckpt_error.c", NULL);
  if (!header || !test) skip(); /* run from another directory */
  const char *line = strstr(header, " *     int main(");
  size_t n_lines = 0;
  assert_non_null(line);
  for (; strncmp(line, " *     ", 7) == 0; n_lines++) {
    const char *end = strchr(line, '\n');
    char *text = strndup(line + 7, (size_t)(end - line - 7));
    if (!strstr(test, text)) fail_msg("the test lacks: %s", text);
    free(text);
    line = end + 1;
  }
  assert_in_range(n_lines, 10, 15);
  free(header);
  free(test);
}

static void codes_are_well_formed(void **state) {
  (void)state;
  size_t n = 0;
  const ckpt_code *codes = ckpt_codes(&n);
  assert_true(n > 30);
  for (size_t i = 0; i < n; i++) {
    assert_true(strncmp(codes[i].code, "E-", 2) == 0 && strlen(codes[i].code) < sizeof((ckpt_error *)0)->code);
    assert_true(*codes[i].title && *codes[i].page && codes[i].hint);
    if (strncmp(codes[i].code, "E-DATA-", 7) == 0 || strncmp(codes[i].code, "E-LOAD-", 7) == 0)
      assert_in_range(atoi(codes[i].code + 7), 101, 199);
    for (size_t j = 0; j < i; j++) assert_string_not_equal(codes[i].code, codes[j].code);
  }
}

static void message_has_path_offset_and_system_words(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  ckpt_status status = ckpt_file_open(&file, scratch("missing"), NULL, &error);
  expect_error(status, &error, "E-DATA-101", "No such file or directory");
  assert_int_equal(status, CKPT_IO);
  assert_null(file);
  assert_non_null(strstr(error.message, "/missing: a file cannot be opened"));
  assert_string_equal(error.path, scratch("missing"));
  assert_int_equal(error.offset, -1);
  assert_int_equal(ckpt_file_open(&file, scratch("missing"), NULL, NULL), CKPT_IO); /* error not wanted */
}

static void message_is_one_line_of_utf8(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  bytes header = {0};
  put(&header, "{\"a\\nb\x7f", 7);
  for (int i = 0; i < 400; i++) put(&header, "\xe2\x82\xac", 3); /* 400 euro signs: the message cuts the name */
  const char *rest = "\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,8]}}";
  put(&header, rest, strlen(rest) + 1);
  bytes file = safetensors_bytes((char *)header.data, 8);
  scratch_write(scratch("long.safetensors"), file.data, file.n);
  ckpt_status status = ckpt_tensors_open(&tensors, scratch("long.safetensors"), NULL, &error);
  assert_int_equal(status, CKPT_INVALID);
  assert_null(strchr(error.message, '\n'));
  assert_null(strchr(error.message, 0x7f));
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE); /* the writer replaces what is not UTF-8 */
  ckpt_json_string(json, error.message);
  assert_null(strstr(ckpt_json_text(json, NULL), "\xef\xbf\xbd"));
  assert_non_null(strstr(error.message, "\xe2\x82\xac"));
  ckpt_json_free(json);
  bytes_free(&header);
  bytes_free(&file);
}

static void s3_names_are_refused_by_name(void **state) {
  (void)state;
  ckpt_error error;
  ckpt_file *file;
  ckpt_tensors *tensors;
  ckpt_location *location;
  ckpt_checkpoint *checkpoint;
  ckpt_manifest *manifest;
  const char *name = "s3://bucket/run/step-1";
  expect_error(ckpt_file_open(&file, name, NULL, &error), &error, "E-S3-001", "s3://bucket/run/step-1");
  expect_error(ckpt_tensors_open(&tensors, name, NULL, &error), &error, "E-S3-001", "local");
  expect_error(ckpt_location_open(&location, name, true, NULL, &error), &error, "E-S3-001", "local");
  expect_error(ckpt_checkpoint_open_path(&checkpoint, name, NULL, &error), &error, "E-S3-001", "local");
  expect_error(ckpt_manifest_open(&manifest, name, NULL, &error), &error, "E-S3-001", "local");
  expect_error(ckpt_safetensors_write(name, NULL, 0, 0, &error), &error, "E-S3-001", "local");
  assert_int_equal(error.status, CKPT_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(example_runs),
      cmocka_unit_test(example_is_the_one_in_the_header),
      cmocka_unit_test(codes_are_well_formed),
      cmocka_unit_test(message_has_path_offset_and_system_words),
      cmocka_unit_test(message_is_one_line_of_utf8),
      cmocka_unit_test(s3_names_are_refused_by_name),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
