#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* One gzip member, with a file name in its header. */
static void put_member(bytes *to, const void *content, size_t n) {
  unsigned char out[4096];
  z_stream stream = {0};
  gz_header header = {.name = (Bytef *)(uintptr_t) "name"};
  assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  deflateSetHeader(&stream, &header);
  stream.next_in = (Bytef *)(uintptr_t)content;
  stream.avail_in = (uInt)n;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    stream.next_out = out;
    stream.avail_out = sizeof out;
    result = deflate(&stream, Z_FINISH);
    put(to, out, sizeof out - stream.avail_out);
  }
  deflateEnd(&stream);
}

static ckpt_status open_gz(ckpt_file **file, const bytes *content, uint64_t limit, ckpt_error *error) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  if (limit) options.inflate_limit_n_bytes = limit;
  scratch_write(scratch("f.gz"), content->data, content->n);
  return ckpt_file_open(file, scratch("f.gz"), &options, error);
}

static void inflates_members(void **state) {
  (void)state;
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, "hello, ", 7);
  put_member(&gz, "", 0);
  put_member(&gz, "world", 5);
  expect_ok(open_gz(&file, &gz, 0, &error), &error);
  assert_int_equal(ckpt_file_size(file), 12);
  assert_memory_equal(ckpt_file_bytes(file), "hello, world", 12);
  assert_int_equal(ckpt_file_identity(file).n_bytes, gz.n);
  char text[8] = "";
  expect_ok(ckpt_file_read(text, file, 7, 5, &error), &error);
  assert_string_equal(text, "world");
  expect_error(ckpt_file_read(text, file, 8, 5, &error), &error, "E-DATA-104", "f.gz");
  ckpt_file_close(file);
  ckpt_read_options stored = CKPT_READ_OPTIONS;
  stored.stored = true;
  expect_ok(ckpt_file_open(&file, scratch("f.gz"), &stored, &error), &error);
  assert_int_equal(ckpt_file_size(file), gz.n);
  ckpt_file_close(file);
  bytes_free(&gz);
}

static void inflates_much(void **state) {
  (void)state;
  size_t n = 5000000;
  unsigned char *content = malloc(n);
  for (size_t i = 0; i < n; i++) content[i] = (unsigned char)(i * i >> 7);
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, content, n);
  expect_ok(open_gz(&file, &gz, n, &error), &error);
  assert_int_equal(ckpt_file_size(file), n);
  assert_memory_equal(ckpt_file_bytes(file), content, n);
  ckpt_file_close(file);
  expect_error(open_gz(&file, &gz, n - 1, &error), &error, "E-DATA-113", "at most 4999999 bytes");
  expect_error(open_gz(&file, &gz, 1, &error), &error, "E-DATA-113", "at most 1 bytes");
  free(content);
  bytes_free(&gz);
}

static void truncated_at_every_byte(void **state) {
  (void)state;
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, "some content, some content", 26);
  size_t n = gz.n;
  for (gz.n = 0; gz.n < n; gz.n++) {
    expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-111", "end of the file");
    assert_int_equal(error.offset, gz.n);
  }
  bytes_free(&gz);
}

static void damage_is_found(void **state) {
  (void)state;
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, "some content, some content", 26);
  gz.data[gz.n - 6] ^= 1; /* of the CRC */
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-114", "incorrect data check");
  gz.data[gz.n - 6] ^= 1;
  gz.data[gz.n - 1] ^= 1; /* of the length */
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-114", "incorrect length check");
  gz.data[gz.n - 1] ^= 1;
  gz.data[0] = 'x';
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-110", "header");
  gz.data[0] = 0x1f;
  gz.data[15] = 0x07; /* a block of the reserved type */
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-110", "invalid block type");
  bytes_free(&gz);
}

static void trailing_bytes_are_found(void **state) {
  (void)state;
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, "abc", 3);
  int64_t end = (int64_t)gz.n;
  put(&gz, "\x1f", 1);
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-112", "found 1 bytes");
  assert_int_equal(error.offset, end);
  put(&gz, "zz", 2);
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-112", "found 3 bytes");
  bytes_free(&gz);
}

/* A file whose last bytes claim 4 GB: they are a guess, and no more is taken than deflate can give. */
static void claimed_size_is_a_guess(void **state) {
  (void)state;
  bytes gz = {0};
  ckpt_file *file = NULL;
  ckpt_error error;
  put_member(&gz, "abc", 3);
  memset(gz.data + gz.n - 4, 0xff, 4);
  expect_error(open_gz(&file, &gz, 0, &error), &error, "E-DATA-114", "length");
  bytes_free(&gz);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(inflates_members),         cmocka_unit_test(inflates_much),
      cmocka_unit_test(truncated_at_every_byte),  cmocka_unit_test(damage_is_found),
      cmocka_unit_test(trailing_bytes_are_found), cmocka_unit_test(claimed_size_is_a_guess),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
