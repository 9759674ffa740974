#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

/* An .npy of version 1.0 with this dictionary, n bytes 0 1 2 … after it. */
static bytes npy_bytes(const char *dictionary, size_t n_data) {
  bytes file = {0};
  put(&file, "\x93NUMPY\x01\x00", 8);
  put_le(&file, strlen(dictionary), 2);
  put(&file, dictionary, strlen(dictionary));
  for (size_t i = 0; i < n_data; i++) put_le(&file, i, 1);
  return file;
}

static ckpt_status open_bytes(ckpt_tensors **tensors, const bytes *content, ckpt_error *error) {
  scratch_write(scratch("images.npy"), content->data, content->n);
  return ckpt_tensors_open(tensors, scratch("images.npy"), NULL, error);
}

static void expect_refused(const char *dictionary, size_t n_data, const char *code, const char *word) {
  bytes file = npy_bytes(dictionary, n_data);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_error(open_bytes(&tensors, &file, &error), &error, code, word);
  assert_true(error.offset >= 0);
  bytes_free(&file);
}

static ckpt_tensors *expect_read(const char *dictionary, size_t n_data) {
  bytes file = npy_bytes(dictionary, n_data);
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  expect_ok(open_bytes(&tensors, &file, &error), &error);
  bytes_free(&file);
  return tensors;
}

static void reads_and_names(void **state) {
  (void)state;
  ckpt_tensors *tensors = expect_read("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n", 12);
  const ckpt_tensor *tensor = ckpt_tensors_at(tensors, 0);
  assert_string_equal(tensor->name, "images");
  assert_int_equal(tensor->dtype, CKPT_U16);
  assert_true(tensor->rank == 2 && tensor->dims[0] == 2 && tensor->dims[1] == 3 && tensor->offset > 0);
  uint16_t value[6];
  ckpt_error error;
  expect_ok(ckpt_tensors_read(value, tensors, tensor, 0, 6, &error), &error);
  assert_int_equal(value[5], 0x0b0a);
  ckpt_tensors_close(tensors);
}

static void reads_other_spellings(void **state) {
  (void)state;
  ckpt_tensors_close(expect_read("{\"shape\":(),\"fortran_order\":True,\"descr\":\"|b1\"}", 1));
  ckpt_tensors_close(expect_read("{'descr':'<f8','fortran_order':False,'shape':(3L,)}   \n", 24));
  ckpt_tensors_close(expect_read("{'descr':'>i1','fortran_order':False,'shape':(0,)}", 0));
}

static bool host_is_little(void) { return *(const unsigned char *)&(const uint16_t){1} == 1; }

static void swaps_big_endian(void **state) {
  (void)state;
  ckpt_tensors *tensors = expect_read("{'descr': '>i4', 'fortran_order': False, 'shape': (2,)}", 8);
  const ckpt_tensor *tensor = ckpt_tensors_at(tensors, 0);
  int32_t value[2];
  ckpt_error error;
  assert_true((tensor->data == NULL) == host_is_little());
  expect_ok(ckpt_tensors_read(value, tensors, tensor, 0, 2, &error), &error);
  assert_int_equal(value[0], 0x00010203);
  assert_int_equal(value[1], 0x04050607);
  expect_ok(ckpt_tensors_read(value, tensors, tensor, 1, 1, &error), &error);
  assert_int_equal(value[0], 0x04050607);
  expect_error(ckpt_tensors_read(value, tensors, tensor, 1, 2, &error), &error, "E-DATA-104", "has 2 elements");
  ckpt_tensors_close(tensors);
}

static void transposes_fortran_order(void **state) {
  (void)state;
  ckpt_tensors *tensors = expect_read("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", 6);
  const ckpt_tensor *tensor = ckpt_tensors_at(tensors, 0);
  assert_int_equal(tensor->offset, -1);
  assert_memory_equal(tensor->data, "\0\2\4\1\3\5", 6);
  ckpt_tensors_close(tensors);
  tensors = expect_read("{'descr': '>u2', 'fortran_order': True, 'shape': (2, 1, 2)}", 8);
  const uint16_t *value = ckpt_tensors_at(tensors, 0)->data;
  assert_true(value[0] == 0x0001 && value[1] == 0x0405 && value[2] == 0x0203 && value[3] == 0x0607);
  ckpt_tensors_close(tensors);
}

static void malformed(void **state) {
  (void)state;
  expect_refused("", 0, "E-DATA-130", "'{'");
  expect_refused("{}", 0, "E-DATA-130", "each once");
  expect_refused("{'descr': '<f4', 'shape': (1,)}", 4, "E-DATA-130", "each once");
  expect_refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, "E-DATA-130",
                 "each once");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", 4, "E-DATA-130", "each once");
  expect_refused("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", 4, "E-DATA-130", "True or False");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': 1}", 4, "E-DATA-130", "tuple");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4, "E-DATA-130", "dimension");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1", 4, "E-DATA-130", "','");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", 4, "E-DATA-130", "2^63");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4, "E-DATA-130", "after the dictionary");
  expect_refused("{'descr' '<f4'}", 4, "E-DATA-130", "':'");
  expect_refused("{descr: '<f4'}", 4, "E-DATA-130", "quoted");
  expect_refused("{'descr", 4, "E-DATA-130", "quoted text of less than 64");
  expect_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 4, "E-DATA-150",
                 "2^63");
  expect_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", 1, "E-DATA-150", "found 9");
  expect_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", 4, "E-DATA-131", "expected 3 bytes");
}

static void magic_and_version(void **state) {
  (void)state;
  ckpt_tensors *tensors = NULL;
  ckpt_error error;
  bytes file = npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", 1);
  file.data[0] = 'x';
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-130", "magic");
  assert_int_equal(error.offset, 0);
  file.data[0] = 0x93;
  file.data[6] = 4;
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-130", "version");
  assert_int_equal(error.offset, 6);
  bytes_free(&file);
  put(&file, "\x93NUMPY\x02\x00", 8); /* a length of 32 bits */
  put_le(&file, UINT32_MAX, 4);
  expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-130", "at most");
  bytes_free(&file);
}

static void unread_types(void **state) {
  (void)state;
  static const char *const types[] = {"<c8", "|O", "<U3", "|S4", "<M8[s]", "<f16", "=f4", "|f4", "", "<", "<V2", "f4"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char dictionary[128];
    snprintf(dictionary, sizeof dictionary, "{'descr': '%s', 'fortran_order': False, 'shape': (1,)}", types[i]);
    expect_refused(dictionary, 4, "E-DATA-151", types[i]);
  }
  expect_refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, "E-DATA-151", "fields");
}

static void truncated_at_every_byte(void **state) {
  (void)state;
  bytes file = npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8);
  size_t n = file.n;
  for (file.n = 0; file.n < n; file.n++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    expect_error(open_bytes(&tensors, &file, &error), &error, "E-DATA-104", "expected");
  }
  bytes_free(&file);
}

/* Elements as they stand in a little-endian file. */
static void to_little(char *elements, const ckpt_tensor *tensor) {
  size_t width = ckpt_dtype_n_bytes(tensor->dtype);
  for (size_t i = 0; !host_is_little() && i < tensor->n_bytes; i++) {
    size_t within = i % width, other = i - within + width - 1 - within;
    if (within >= width / 2) continue;
    char kept = elements[i];
    elements[i] = elements[other];
    elements[other] = kept;
  }
}

/* NumPy writes, we read: every type, both orders, both byte orders, compared by NumPy's own raw bytes. */
static void reads_what_numpy_writes(void **state) {
  (void)state;
  static const char program[] =
      "r = np.random.RandomState(1)\n"
      "k = 0\n"
      "for t in '?bBhHiIlLefd':\n"
      "  for shape in ((), (0,), (5,), (3, 4), (2, 3, 4), (1, 2, 1, 3)):\n"
      "    for e in '<>':\n"
      "      for order in 'CF':\n"
      "        a = (r.standard_normal(shape) * 100).astype(np.dtype(t).newbyteorder(e))\n"
      "        np.save('n%d.npy' % k, np.asarray(a, order=order))\n"
      "        a.astype(np.dtype(t).newbyteorder('<')).tofile('n%d.raw' % k)\n"
      "        k += 1\n"
      "open('count', 'w').write(str(k))\n";
  if (!scratch_numpy(program)) skip();
  char *count = scratch_read(scratch("count"), NULL);
  int n_files = atoi(count);
  assert_int_equal(n_files, 12 * 6 * 4);
  for (int i = 0; i < n_files; i++) {
    ckpt_tensors *tensors = NULL;
    ckpt_error error;
    size_t n = 0;
    expect_ok(ckpt_tensors_open(&tensors, scratch("n%d.npy", i), NULL, &error), &error);
    char *raw = scratch_read(scratch("n%d.raw", i), &n);
    const ckpt_tensor *tensor = ckpt_tensors_at(tensors, 0);
    assert_int_equal(tensor->n_bytes, n);
    char *found = malloc(n + 1);
    expect_ok(ckpt_tensors_read(found, tensors, tensor, 0, tensor->n_elements, &error), &error);
    to_little(found, tensor);
    if (n) assert_memory_equal(found, raw, n);
    free(found);
    free(raw);
    ckpt_tensors_close(tensors);
  }
  free(count);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_and_names),
      cmocka_unit_test(reads_other_spellings),
      cmocka_unit_test(swaps_big_endian),
      cmocka_unit_test(transposes_fortran_order),
      cmocka_unit_test(malformed),
      cmocka_unit_test(magic_and_version),
      cmocka_unit_test(unread_types),
      cmocka_unit_test(truncated_at_every_byte),
      cmocka_unit_test(reads_what_numpy_writes),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
