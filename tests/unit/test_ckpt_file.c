#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static void opens_maps_and_reads(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  char text[8] = "";
  scratch_write(scratch("a"), "hello, world", 12);
  expect_ok(ckpt_file_open(&file, scratch("a"), NULL, &error), &error);
  assert_int_equal(ckpt_file_size(file), 12);
  assert_memory_equal(ckpt_file_bytes(file), "hello, world", 12);
  assert_string_equal(ckpt_file_path(file), scratch("a"));
  assert_int_equal(ckpt_file_identity(file).n_bytes, 12);
  assert_true(ckpt_file_identity(file).inode != 0);
  expect_ok(ckpt_file_read(text, file, 7, 5, &error), &error);
  assert_string_equal(text, "world");
  expect_ok(ckpt_file_read(text, file, 12, 0, &error), &error);
  expect_ok(ckpt_file_check(file, &error), &error);
  ckpt_status status = ckpt_file_read(text, file, 8, 5, &error);
  expect_error(status, &error, "E-DATA-104", "expected 5 bytes from byte 8");
  assert_int_equal(error.offset, 12);
  expect_error(ckpt_file_read(text, file, UINT64_MAX, 5, &error), &error, "E-DATA-104", "18446744073709551615");
  ckpt_file_close(file);
  ckpt_file_close(NULL);
}

static void empty_file(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  scratch_write(scratch("empty"), "", 0);
  expect_ok(ckpt_file_open(&file, scratch("empty"), NULL, &error), &error);
  assert_int_equal(ckpt_file_size(file), 0);
  assert_null(ckpt_file_bytes(file));
  char text[CKPT_SHA256_TEXT];
  expect_ok(ckpt_file_version(text, file, &error), &error);
  assert_string_equal(text, "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  ckpt_file_close(file);
}

static void what_is_no_file_is_refused(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  expect_error(ckpt_file_open(&file, scratch("."), NULL, &error), &error, "E-DATA-101", "found a directory");
  assert_int_equal(mkfifo(scratch("pipe"), 0600), 0);
  expect_error(ckpt_file_open(&file, scratch("pipe"), NULL, &error), &error, "E-DATA-101", "pipe");
  expect_error(ckpt_file_open(&file, "/dev/zero", NULL, &error), &error, "E-DATA-101", "device");
  scratch_write(scratch("secret"), "x", 1);
  chmod(scratch("secret"), 0);
  if (geteuid() != 0)
    expect_error(ckpt_file_open(&file, scratch("secret"), NULL, &error), &error, "E-DATA-101", "Permission denied");
}

static void changes_are_noticed(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  char text[CKPT_SHA256_TEXT];
  scratch_write(scratch("c"), "0123456789", 10);
  expect_ok(ckpt_file_open(&file, scratch("c"), NULL, &error), &error);
  assert_int_equal(truncate(scratch("c"), 4), 0);
  ckpt_status status = ckpt_file_check(file, &error);
  expect_error(status, &error, "E-DATA-103", "it had 10 bytes, and has 4");
  assert_int_equal(status, CKPT_IO);
  status = ckpt_file_read(text, file, 0, 10, &error);
  expect_error(status, &error, "E-DATA-104", "expected 10 bytes");
  assert_int_equal(error.offset, 4);
  ckpt_file_close(file);
  scratch_write(scratch("c"), "0123456789", 10);
  expect_ok(ckpt_file_open(&file, scratch("c"), NULL, &error), &error);
  struct timespec times[2] = {{1000, 0}, {1000, 5}};
  utimensat(AT_FDCWD, scratch("c"), times, 0);
  expect_error(ckpt_file_check(file, &error), &error, "E-DATA-103", "1000.000000005");
  expect_error(ckpt_file_version(text, file, &error), &error, "E-DATA-103", "modified");
  ckpt_file_close(file);
}

static void bytes_in_memory(void **state) {
  (void)state;
  ckpt_file *file = NULL;
  ckpt_error error;
  char text[CKPT_SHA256_TEXT];
  expect_ok(ckpt_file_from_bytes(&file, "memory", "abc", 3, NULL, &error), &error);
  assert_memory_equal(ckpt_file_bytes(file), "abc", 3);
  expect_ok(ckpt_file_read(text, file, 1, 2, &error), &error);
  assert_memory_equal(text, "bc", 2);
  expect_error(ckpt_file_read(text, file, 1, 3, &error), &error, "E-DATA-104", "memory");
  expect_ok(ckpt_file_check(file, &error), &error);
  expect_ok(ckpt_file_version(text, file, &error), &error);
  assert_string_equal(text, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  assert_int_equal(ckpt_file_identity(file).inode, 0);
  ckpt_file_close(file);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opens_maps_and_reads),
      cmocka_unit_test(empty_file),
      cmocka_unit_test(what_is_no_file_is_refused),
      cmocka_unit_test(changes_are_noticed),
      cmocka_unit_test(bytes_in_memory),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
