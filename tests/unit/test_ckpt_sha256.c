#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* FIPS 180-2, appendix B. */
static void known_answers(void **state) {
  (void)state;
  char text[CKPT_SHA256_TEXT];
  ckpt_error error;
  expect_ok(ckpt_sha256_bytes(text, "abc", 3, &error), &error);
  assert_string_equal(text, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  expect_ok(ckpt_sha256_bytes(text, NULL, 0, &error), &error);
  assert_string_equal(text, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* A file larger than what is read at a time; a .gz is hashed as it is stored. */
static void files_as_stored(void **state) {
  (void)state;
  size_t n = 3000000;
  char *zeros = calloc(n, 1), text[CKPT_SHA256_TEXT], expected[CKPT_SHA256_TEXT];
  ckpt_error error;
  scratch_write(scratch("z.gz"), zeros, n);
  expect_ok(ckpt_sha256_file(text, scratch("z.gz"), &error), &error);
  expect_ok(ckpt_sha256_bytes(expected, zeros, n, &error), &error);
  assert_string_equal(text, expected);
  expect_error(ckpt_sha256_file(text, scratch("none"), &error), &error, "E-DATA-101", "none");
  free(zeros);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(known_answers), cmocka_unit_test(files_as_stored)};
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
