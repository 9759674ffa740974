#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static ckpt_status open_bytes(ckpt_tensors **tensors, const bytes *content, ckpt_error *error) {
  scratch_write(scratch("t.safetensors"), content->data, content->n);
  return ckpt_tensors_open(tensors, scratch("t.safetensors"), NULL, error);
}

static void expect_refused(const char *header, size_t n_data, const char *code, const char *word) {
  bytes file = safetensors_bytes(header, n_data);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_bytes(&tensors, &file, &error), &error, code, word);
  assert_null(tensors);
  bytes_free(&file);
}

static ckpt_tensors *expect_read(const char *header, size_t n_data) {
  bytes file = safetensors_bytes(header, n_data);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_ok(open_bytes(&tensors, &file, &error), &error);
  bytes_free(&file);
  return tensors;
}

static void reads_every_dtype(void **state) {
  (void)state;
  static const struct {
    const char *name;
    ckpt_dtype dtype;
    unsigned width;
  } types[] = {{"BOOL", CKPT_BOOL, 1}, {"U8", CKPT_U8, 1},   {"I8", CKPT_I8, 1},     {"U16", CKPT_U16, 2},
               {"I16", CKPT_I16, 2},   {"F16", CKPT_F16, 2}, {"BF16", CKPT_BF16, 2}, {"U32", CKPT_U32, 4},
               {"I32", CKPT_I32, 4},   {"F32", CKPT_F32, 4}, {"U64", CKPT_U64, 8},   {"I64", CKPT_I64, 8},
               {"F64", CKPT_F64, 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char header[256];
    unsigned n = 6 * types[i].width;
    snprintf(header, sizeof header, "{\"a/w\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%u]}}",
             types[i].name, n);
    ckpt_tensors *tensors = expect_read(header, n);
    assert_int_equal(ckpt_tensors_count(tensors), 1);
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, 0);
    assert_string_equal(tensor->name, "a/w");
    assert_int_equal(tensor->dtype, types[i].dtype);
    assert_int_equal(ckpt_dtype_n_bytes(tensor->dtype), types[i].width);
    assert_true(tensor->rank == 2 && tensor->dims[0] == 2 && tensor->dims[1] == 3);
    assert_int_equal(tensor->n_elements, 6);
    assert_int_equal(tensor->n_bytes, n);
    assert_int_equal(tensor->offset, 8 + strlen(header));
    unsigned char value[48];
    ckpt_error error;
    expect_ok(ckpt_tensors_read(value, tensors, tensor, 0, 6, &error), &error);
    uint64_t first = 0;
    for (unsigned b = types[i].width; b-- > 0;) first = first << 8 | b; /* little-endian in the file */
    if (types[i].width == 2) assert_int_equal(*(uint16_t *)(void *)value, first);
    if (types[i].width == 4) assert_int_equal(*(uint32_t *)(void *)value, first);
    if (types[i].width == 8) assert_int_equal(*(uint64_t *)(void *)value, first);
    ckpt_tensors_close(tensors);
  }
}

static void reads_scalars_empty_ones_and_metadata(void **state) {
  (void)state;
  ckpt_tensors *tensors = expect_read(
      "{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"e\":{\"dtype\":\"I64\",\"shape\":[3,0,9],\"data_offsets\":[4,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[4,5]}}   ",
      5);
  assert_int_equal(ckpt_tensors_count(tensors), 3); /* in byte order of the names */
  assert_string_equal(ckpt_tensors_at(tensors, 0)->name, "b");
  assert_string_equal(ckpt_tensors_at(tensors, 1)->name, "e");
  assert_int_equal(ckpt_tensors_at(tensors, 1)->n_elements, 0);
  assert_int_equal(ckpt_tensors_at(tensors, 2)->rank, 0);
  assert_int_equal(ckpt_tensors_at(tensors, 2)->n_elements, 1);
  ckpt_tensors_close(tensors);
  ckpt_tensors_close(expect_read("{}", 0));
}

static void impossible_lengths(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  static const uint64_t lengths[] = {0, 1, 100000001, UINT64_C(1) << 63, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    bytes file = {0};
    put_le(&file, lengths[i], 8);
    put(&file, "{}", 2);
    expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-120", "header length");
    assert_int_equal(error.offset, 0);
    bytes_free(&file);
  }
  bytes file = {0};
  put_le(&file, 3, 8);
  put(&file, "{}", 2);
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-104", "header of 3 bytes");
  bytes_free(&file);
}

static void malformed_headers(void **state) {
  (void)state;
  expect_refused("[]", 0, "E-DATA-120", "JSON object");
  expect_refused("{\"a\":", 0, "E-DATA-120", "expected JSON");
  expect_refused("{} x", 0, "E-DATA-120", "expected JSON");
  expect_refused("{\"\xff\":1}", 0, "E-DATA-120", "decode byte 0xff");
  expect_refused("{\"a\\u0000b\":1}", 0, "E-DATA-120", "\\u0000");
  expect_refused(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
      2, "E-DATA-120", "duplicate");
  expect_refused("{\"__metadata__\":{\"a\":1}}", 0, "E-DATA-120", "__metadata__");
  expect_refused("{\"__metadata__\":[]}", 0, "E-DATA-120", "__metadata__");
}

static void malformed_tensors(void **state) {
  (void)state;
  expect_refused("{\"a\":1}", 0, "E-DATA-121", "an object");
  expect_refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "E-DATA-121", "\"dtype\"");
  expect_refused("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "E-DATA-121", "\"dtype\"");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "E-DATA-121", "\"shape\"");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "E-DATA-121", "integers");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "E-DATA-121", "data_offsets");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "E-DATA-121", "data_offsets");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1e0]}}", 1, "E-DATA-121", "data_offsets");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "E-DATA-121", "data_offsets");
  expect_refused("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "E-DATA-151", "F8_E4M3");
  expect_refused("{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "E-DATA-151", "f32");
  expect_refused("{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "E-DATA-152", "found ''");
}

static void errors_name_their_byte(void **state) {
  (void)state;
  const char *header =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}, \"b\":{\"dtype\":\"U8\",\"shape\":[-1]}}";
  bytes file = safetensors_bytes(header, 1);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-150", "tensor 'b': dimension 0 is -1");
  assert_int_equal(error.offset, 8 + strstr(header, "\"shape\":[-1]") - header);
  bytes_free(&file);
  file = safetensors_bytes("{\"a\": nul}", 0);
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-120", "expected JSON");
  assert_in_range(error.offset, 8 + 6, 8 + 10);
  bytes_free(&file);
}

static void impossible_shapes(void **state) {
  (void)state;
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "E-DATA-150",
                 "found 9");
  expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
                 "E-DATA-150", "2^63 - 1");
  expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807],\"data_offsets\":[0,0]}}", 0, "E-DATA-150",
                 "2^63");
  expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}", 0, "E-DATA-120",
                 "");
  expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
                 "E-DATA-150", "2^63 - 1");
}

static void impossible_offsets(void **state) {
  (void)state;
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, "E-DATA-122", "begin <= end");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", 1, "E-DATA-122", "begin <= end");
  expect_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "E-DATA-122",
                 "expected 8 bytes");
  expect_refused(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
      6, "E-DATA-122", "overlap");
  expect_refused(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
      4, "E-DATA-122", "overlap");
  expect_refused(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
      9, "E-DATA-122", "hole");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[1,5]}}", 5, "E-DATA-122", "hole");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 7, "E-DATA-122",
                 "found 3 more bytes");
  expect_refused("{}", 1, "E-DATA-122", "found 1 more bytes");
  expect_refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,9223372036854775807]}}",
                 3, "E-DATA-104", "expected 9223372036854775807 bytes");
}

static void truncated_at_every_byte(void **state) {
  (void)state;
  bytes file = safetensors_bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
  size_t n = file.n;
  for (file.n = 0; file.n < n; file.n++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-104", "expected");
    assert_int_equal(error.offset, file.n);
  }
  bytes_free(&file);
}

/* Elements at odd addresses, since a header need not be padded. */
static void reads_unaligned(void **state) {
  (void)state;
  for (int pad = 0; pad < 8; pad++) {
    char header[256];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}%*s", pad, "");
    ckpt_tensors *tensors = expect_read(header, 16);
    uint64_t value = 0;
    ckpt_error error;
    expect_ok(ckpt_tensors_read(&value, tensors, ckpt_tensors_at(tensors, 0), 1, 1, &error), &error);
    assert_true(value == UINT64_C(0x0f0e0d0c0b0a0908));
    ckpt_tensors_close(tensors);
  }
}

static void header_of_many_tensors(void **state) {
  (void)state;
  enum { N = 20000 };
  bytes header = {0};
  for (int i = 0; i < N; i++) {
    char entry[128];
    int n = snprintf(entry, sizeof entry, "%s\"t%05d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                     i ? "," : "{", (i * 7919) % N, i, i + 1);
    put(&header, entry, (size_t)n);
  }
  put(&header, "}", 2);
  ckpt_tensors *tensors = expect_read((char *)header.data, N);
  assert_int_equal(ckpt_tensors_count(tensors), N);
  const ckpt_tensor *found = NULL;
  ckpt_error error;
  expect_ok(ckpt_tensors_find(&found, tensors, "t07919", &error), &error);
  assert_int_equal(*(const unsigned char *)found->data, 1);
  ckpt_tensors_close(tensors);
  bytes_free(&header);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_dtype),       cmocka_unit_test(reads_scalars_empty_ones_and_metadata),
      cmocka_unit_test(impossible_lengths),      cmocka_unit_test(malformed_headers),
      cmocka_unit_test(malformed_tensors),       cmocka_unit_test(errors_name_their_byte),
      cmocka_unit_test(impossible_shapes),       cmocka_unit_test(impossible_offsets),
      cmocka_unit_test(truncated_at_every_byte), cmocka_unit_test(reads_unaligned),
      cmocka_unit_test(header_of_many_tensors),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
