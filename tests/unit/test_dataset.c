/* Datasets of every kind through a host in memory: their records, their order, and what is wrong with them. */
#include <string.h>

#include "../../libsexp/run/dataset.h"
#include "../common/cmocka_all.h"
#include "../common/memory_host.h"

typedef struct fixture {
  memory_host files;
  sexp_host host;
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_dataset *dataset;
} fixture;

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  f->host = memory_host_callbacks(&f->files);
  f->memory = sx_memory_default();
  sx_arena_init(&f->arena, &f->memory);
  sx_diags_init(&f->diags, &f->arena);
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  fixture *f = *state;
  if (f->dataset) sx_dataset_close(f->dataset);
  int n_open = f->files.n_open;
  sx_arena_free(&f->arena);
  test_free(f);
  return n_open;
}

static bool open_data(fixture *f, const sx_data *data) {
  if (f->dataset) sx_dataset_close(f->dataset);
  sx_diags_init(&f->diags, &f->arena);
  f->dataset = sx_dataset_new(data, &f->host, &f->arena);
  return sx_dataset_open(f->dataset, 1, &f->diags);
}

static void assert_refused(fixture *f, const sx_data *data, const char *code, const char *words) {
  assert_false(open_data(f, data));
  assert_int_equal(f->diags.n_errors, 1);
  assert_string_equal(sx_diag_code(&f->diags.list.items[0]), code);
  if (!strstr(f->diags.list.items[0].message, words)) fail_msg("%s", f->diags.list.items[0].message);
}

static sx_data data_of(sx_source_kind kind, const char *path) {
  return (sx_data){.name = "d", .kind = kind, .path = path, .record_lo = -1, .record_hi = -1};
}

static void read_ok(fixture *f, int64_t record, uint32_t field, void *out) {
  sx_read_problem why = {0};
  assert_true(sx_dataset_read(f->dataset, record, field, out, &why));
}

/* ---- arrays ---- */

static void test_arrays(void **state) {
  fixture *f = *state;
  static const float x[6] = {1, 2, 3, 4, 5, 6};
  static const int64_t y[3] = {-7, 8, INT32_MAX};
  static const double z[3] = {0.1, 1e300, -0.0};
  int64_t dims[2] = {3, 2};
  memory_host_add_tensor(&f->files, "a", "x", SEXP_F32, 2, dims, x);
  memory_host_add_tensor(&f->files, "a", "y", SEXP_I64, 1, dims, y);
  memory_host_add_tensor(&f->files, "a", "z", SEXP_F64, 1, dims, z);
  sx_data data = data_of(SX_SOURCE_ARRAYS, "a");
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 3);
  assert_int_equal(f->dataset->n_fields, 3);
  assert_int_equal(f->dataset->fields[0].rank, 1);
  assert_int_equal(f->dataset->fields[1].dtype, SX_I32);
  float pair[2], z_read;
  int32_t y_read;
  read_ok(f, 2, 0, pair);
  assert_true(pair[0] == 5 && pair[1] == 6);
  read_ok(f, 0, 1, &y_read);
  assert_int_equal(y_read, -7);
  read_ok(f, 2, 1, &y_read);
  assert_int_equal(y_read, INT32_MAX);
  read_ok(f, 0, 2, &z_read);
  assert_true(z_read == 0.1f);
  read_ok(f, 1, 2, &z_read);
  assert_true(z_read > 3e38f);
}

static void test_arrays_values_out_of_range(void **state) {
  fixture *f = *state;
  static const int64_t y[2] = {1, INT64_C(3000000000)};
  static const uint64_t u[2] = {1, UINT64_MAX};
  static const unsigned char b[2] = {1, 2};
  int64_t dims[1] = {2};
  memory_host_add_tensor(&f->files, "a", "b", SEXP_BOOL, 1, dims, b);
  memory_host_add_tensor(&f->files, "a", "u", SEXP_U64, 1, dims, u);
  memory_host_add_tensor(&f->files, "a", "y", SEXP_I64, 1, dims, y);
  sx_data data = data_of(SX_SOURCE_ARRAYS, "a");
  assert_true(open_data(f, &data));
  static const char *const words[] = {"is 2: a bool", "18446744073709551615", "3000000000"};
  for (uint32_t field = 0; field < 3; field++) {
    int32_t value;
    sx_read_problem why = {0};
    read_ok(f, 0, field, &value);
    assert_false(sx_dataset_read(f->dataset, 1, field, &value, &why));
    assert_int_equal(why.code, SX_E_DATA_VALUE);
    assert_non_null(strstr(why.failure.message, words[field]));
    assert_non_null(strstr(why.failure.message, "record 1"));
  }
}

static void test_arrays_refused(void **state) {
  fixture *f = *state;
  static const float x[6] = {0};
  int64_t three[1] = {3}, two[1] = {2}, none[1] = {0};
  memory_host_add_tensor(&f->files, "counts", "x", SEXP_F32, 1, three, x);
  memory_host_add_tensor(&f->files, "counts", "y", SEXP_F32, 1, two, x);
  memory_host_add_tensor(&f->files, "scalar", "x", SEXP_F32, 0, NULL, x);
  memory_host_add_tensor(&f->files, "empty", "x", SEXP_F32, 1, none, x);
  sx_data data = data_of(SX_SOURCE_ARRAYS, "counts");
  assert_refused(f, &data, "E-DATA-051", "x has 3 records, y has 2");
  data.path = "scalar";
  assert_refused(f, &data, "E-DATA-054", "scalar");
  data.path = "empty";
  assert_refused(f, &data, "E-DATA-052", "no record");
  data.path = "missing";
  assert_refused(f, &data, "E-DATA-101", "missing: no such file");
  f->files.says_nothing = true;
  assert_refused(f, &data, "E-DATA-050", "the file cannot be read");
}

/* ---- windows ---- */

static sx_data windows(const char *path, int n_bytes, int64_t length, int64_t stride) {
  sx_data data = data_of(SX_SOURCE_WINDOWS, path);
  data.window_dtype = n_bytes == 1 ? SX_U8 : SX_I32;
  data.window_bytes = n_bytes;
  data.window_length = length;
  data.window_stride = stride;
  data.window_field = "tokens";
  return data;
}

static void test_windows(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t", "abcdefghij");
  sx_data data = windows("t", 1, 4, 3);
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 3); /* abcd defg ghij */
  char window[4];
  read_ok(f, 2, 0, window);
  assert_memory_equal(window, "ghij", 4);
  data = windows("t", 2, 2, 2);
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 2); /* the fifth pair fills no window */
  int32_t words[2];
  read_ok(f, 1, 0, words);
  assert_int_equal(words[0], 'e' | 'f' << 8);
}

/* Every length gives the windows that are full, or an error; the last is read to its end. */
static void test_windows_truncated(void **state) {
  fixture *f = *state;
  static const char text[] = "0123456789abcdef";
  for (size_t n = 0; n <= 16; n++)
    for (int size = 1; size <= 4; size *= 2) {
      f->files.n_files = 0;
      memory_host_add(&f->files, "t", text, n);
      sx_data data = windows("t", size, 2, 1);
      if (n % (size_t)size || n / (size_t)size < 2) {
        assert_refused(f, &data, "E-DATA-070", "t: ");
        continue;
      }
      assert_true(open_data(f, &data));
      assert_int_equal(f->dataset->n, (int64_t)n / size - 1);
      int32_t window[2];
      read_ok(f, f->dataset->n - 1, 0, window);
    }
}

static void test_windows_with_a_huge_stride(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t", "abcd");
  sx_data data = windows("t", 1, 2, INT64_MAX);
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 1);
}

/* ---- idx ---- */

static sx_data idx_of(sx_source_field *fields, uint32_t n) {
  sx_data data = data_of(SX_SOURCE_IDX, NULL);
  data.fields = fields;
  data.n_fields = n;
  return data;
}

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
static const unsigned char labels[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0xff, 0xfe, 1, 0};

static void test_idx(void **state) {
  fixture *f = *state;
  memory_host_add(&f->files, "i", images, sizeof images);
  memory_host_add(&f->files, "l", labels, sizeof labels);
  sx_source_field fields[2] = {{.name = "image", .path = "i"}, {.name = "label", .path = "l"}};
  sx_data data = idx_of(fields, 2);
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 2);
  assert_int_equal(f->dataset->fields[0].rank, 2);
  assert_int_equal(f->dataset->fields[0].dims[1], 3);
  assert_int_equal(f->dataset->fields[1].dtype, SX_I32);
  unsigned char image[3];
  int32_t label;
  read_ok(f, 1, 0, image);
  assert_memory_equal(image, "\4\5\6", 3);
  read_ok(f, 0, 1, &label);
  assert_int_equal(label, -2);
  read_ok(f, 1, 1, &label);
  assert_int_equal(label, 256);
}

static void test_idx_elements(void **state) {
  fixture *f = *state;
  static const unsigned char floats[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
  static const unsigned char doubles[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0};
  static const unsigned char ints[] = {0, 0, 0x0c, 1, 0, 0, 0, 1, 0x80, 0, 0, 1};
  static const unsigned char bytes[] = {0, 0, 9, 1, 0, 0, 0, 1, 0x80};
  memory_host_add(&f->files, "f", floats, sizeof floats);
  memory_host_add(&f->files, "d", doubles, sizeof doubles);
  memory_host_add(&f->files, "i", ints, sizeof ints);
  memory_host_add(&f->files, "b", bytes, sizeof bytes);
  sx_source_field fields[4] = {
      {.name = "f", .path = "f"}, {.name = "d", .path = "d"}, {.name = "i", .path = "i"}, {.name = "b", .path = "b"}};
  sx_data data = idx_of(fields, 4);
  assert_true(open_data(f, &data));
  float real;
  int32_t integer;
  read_ok(f, 0, 0, &real);
  assert_true(real == 1.5f);
  read_ok(f, 0, 1, &real);
  assert_true(real == 1.5f);
  read_ok(f, 0, 2, &integer);
  assert_int_equal(integer, INT32_MIN + 1);
  read_ok(f, 0, 3, &integer);
  assert_int_equal(integer, -128);
}

static void test_idx_truncated_at_every_byte(void **state) {
  fixture *f = *state;
  sx_source_field field = {.name = "image", .path = "i"};
  sx_data data = idx_of(&field, 1);
  for (size_t n = 0; n < sizeof images; n++) {
    f->files.n_files = 0;
    memory_host_add(&f->files, "i", images, n);
    assert_refused(f, &data, n < 4 ? "E-DATA-060" : "E-DATA-063", "i: ");
  }
}

static void test_idx_refused(void **state) {
  fixture *f = *state;
  sx_source_field fields[2] = {{.name = "image", .path = "i"}, {.name = "label", .path = "l"}};
  sx_data data = idx_of(fields, 1);
  static const struct {
    unsigned char bytes[44];
    size_t n;
    const char *code, *words;
  } cases[] = {
      {{1, 0, 8, 1, 0, 0, 0, 0}, 8, "E-DATA-060", "bytes 0 and 1 are 0x01 0x00"},
      {{0, 0, 7, 1, 0, 0, 0, 0}, 8, "E-DATA-061", "byte 2 is 0x07"},
      {{0, 0, 8, 0}, 4, "E-DATA-062", "byte 3 is 0"},
      {{0, 0, 8, 10}, 44, "E-DATA-062", "byte 3 is 10"},
      {{0, 0, 8, 2, 255, 255, 255, 255, 255, 255, 255, 255}, 12, "E-DATA-062", "dimension 0 at byte 4"},
      {{0, 0, 8, 1, 0, 0, 0, 1, 5, 6}, 10, "E-DATA-063", "2 bytes follow the header, which ends at byte 8"},
      {{0, 0, 8, 1, 0, 0, 0, 0}, 8, "E-DATA-052", "no record"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    f->files.n_files = 0;
    memory_host_add(&f->files, "i", cases[i].bytes, cases[i].n);
    assert_refused(f, &data, cases[i].code, cases[i].words);
  }
  static const unsigned char three[] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3};
  f->files.n_files = 0;
  memory_host_add(&f->files, "i", images, sizeof images);
  memory_host_add(&f->files, "l", three, sizeof three);
  data.n_fields = 2;
  assert_refused(f, &data, "E-DATA-051", "i has 2 records, l has 3");
}

/* ---- order ---- */

static void test_ranges(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t", "0123456789");
  sx_data data = windows("t", 1, 1, 1);
  data.records_are_fractions = true;
  data.fraction_lo = 0.25;
  data.fraction_hi = 0.99;
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->begin, 2);
  assert_int_equal(f->dataset->n, 7);
  assert_int_equal(sx_dataset_record(f->dataset, 0), 2);
  assert_int_equal(sx_dataset_record(f->dataset, 6), 8);
  assert_int_equal(sx_dataset_record(f->dataset, 7), 2);
  data.records_are_fractions = false;
  data.record_lo = 9;
  data.record_hi = 10;
  assert_true(open_data(f, &data));
  assert_int_equal(sx_dataset_record(f->dataset, 1000), 9);
  data.record_hi = 11;
  assert_refused(f, &data, "E-DATA-053", "records 9 to 11 of data d, which has 10");
  data.record_hi = 9;
  assert_refused(f, &data, "E-DATA-053", "records 9 to 9");
}

static void test_shuffled_epochs_are_permutations(void **state) {
  fixture *f = *state;
  static unsigned char text[1000];
  for (int64_t n = 1; n <= 1000; n = n * 3 + 1) {
    f->files.n_files = 0;
    memory_host_add(&f->files, "t", text, (size_t)n);
    sx_data data = windows("t", 1, 1, 1);
    data.shuffled = true;
    assert_true(open_data(f, &data));
    bool same_as_first = n > 4;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
      bool seen[1000] = {false};
      for (int64_t i = 0; i < n; i++) {
        int64_t record = sx_dataset_record(f->dataset, epoch * n + i);
        assert_in_range((uint64_t)record, 0, (uint64_t)n - 1);
        assert_false(seen[record]);
        seen[record] = true;
        if (epoch && record != sx_dataset_record(f->dataset, i)) same_as_first = false;
      }
    }
    assert_false(same_as_first);
  }
}

static void test_seed_and_name_give_the_order(void **state) {
  fixture *f = *state;
  static unsigned char text[100];
  memory_host_add(&f->files, "t", text, sizeof text);
  sx_data data = windows("t", 1, 1, 1);
  data.shuffled = true;
  uint64_t keys[4];
  assert_true(open_data(f, &data));
  keys[0] = f->dataset->key;
  data.has_seed = true;
  data.seed = 1; /* the run's: the same order */
  assert_true(open_data(f, &data));
  assert_true(keys[0] == f->dataset->key);
  data.seed = 2;
  assert_true(open_data(f, &data));
  assert_true(keys[0] != f->dataset->key);
  data.seed = 1;
  data.name = "e";
  assert_true(open_data(f, &data));
  assert_true(keys[0] != f->dataset->key);
}

/* ---- manifests ---- */

static void test_manifest(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t0", "abcde");
  memory_host_add_text(&f->files, "t1", "vwxyz!");
  const char *paths[] = {"t0", "t1"};
  sexp_manifest manifest = {.kind = "windows",
                            .dtype = "u8",
                            .field = "tokens",
                            .length = 2,
                            .stride = 2,
                            .n_shards = 2,
                            .n_shard_files = 1,
                            .paths = paths};
  memory_host_add_manifest(&f->files, "m", &manifest);
  sx_data data = data_of(SX_SOURCE_MANIFEST, "m");
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 5); /* ab cd | vw xy z! */
  static const char *const records[] = {"ab", "cd", "vw", "xy", "z!"};
  for (int64_t i = 0; i < 5; i++) {
    char window[2];
    read_ok(f, i, 0, window);
    assert_memory_equal(window, records[i], 2);
  }
}

static void test_manifest_of_idx_and_csv(void **state) {
  fixture *f = *state;
  memory_host_add(&f->files, "i", images, sizeof images);
  memory_host_add(&f->files, "l", labels, sizeof labels);
  memory_host_add_text(&f->files, "c", "x,y\n1,2\n");
  const char *paths[] = {"i", "l", "i", "l"}, *fields[] = {"image", "label"}, *names[] = {"x", "y"};
  sexp_manifest manifest = {
      .kind = "idx", .n_fields = 2, .fields = fields, .n_shards = 2, .n_shard_files = 2, .paths = paths};
  memory_host_add_manifest(&f->files, "m", &manifest);
  sx_data data = data_of(SX_SOURCE_MANIFEST, "m");
  assert_true(open_data(f, &data));
  assert_int_equal(f->dataset->n, 4);
  int32_t label;
  read_ok(f, 3, 1, &label);
  assert_int_equal(label, 256);
  const char *csv[] = {"c"};
  manifest =
      (sexp_manifest){.kind = "csv", .n_fields = 2, .fields = names, .n_shards = 1, .n_shard_files = 1, .paths = csv};
  assert_true(open_data(f, &data));
  float y;
  read_ok(f, 0, 1, &y);
  assert_true(y == 2);
}

static void test_manifest_refused(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t", "abc");
  int64_t dims[2] = {2, 1};
  static const float x[2] = {0};
  memory_host_add_tensor(&f->files, "a0", "x", SEXP_F32, 1, dims, x);
  memory_host_add_tensor(&f->files, "a1", "x", SEXP_F32, 2, dims, x);
  const char *paths[] = {"t"}, *arrays[] = {"a0", "a1"};
  sexp_manifest manifest = {.kind = "tables", .n_shards = 1, .n_shard_files = 1, .paths = paths};
  memory_host_add_manifest(&f->files, "m", &manifest);
  sx_data data = data_of(SX_SOURCE_MANIFEST, "m");
  assert_refused(f, &data, "E-DATA-090", "kind");
  manifest.kind = "windows";
  assert_refused(f, &data, "E-DATA-090", "windows");
  manifest.kind = "csv";
  assert_refused(f, &data, "E-DATA-090", "no fields");
  manifest.n_shards = 0;
  assert_refused(f, &data, "E-DATA-090", "files");
  manifest = (sexp_manifest){.kind = "arrays", .n_shards = 2, .n_shard_files = 1, .paths = arrays};
  assert_refused(f, &data, "E-DATA-091", "a1");
}

static void test_changed_file(void **state) {
  fixture *f = *state;
  memory_host_add_text(&f->files, "t", "abcdef");
  sx_data data = windows("t", 1, 2, 2);
  assert_true(open_data(f, &data));
  sx_read_problem why = {0};
  assert_true(sx_dataset_check(f->dataset, &why));
  f->files.changed = "t";
  assert_false(sx_dataset_check(f->dataset, &why));
  sx_report_read_problem(&f->diags, data.span, &why);
  assert_string_equal(sx_diag_code(&f->diags.list.items[0]), "E-DATA-103");
  assert_true(f->diags.list.items[0].storage);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_arrays),
      TEST(test_arrays_values_out_of_range),
      TEST(test_arrays_refused),
      TEST(test_windows),
      TEST(test_windows_truncated),
      TEST(test_windows_with_a_huge_stride),
      TEST(test_idx),
      TEST(test_idx_elements),
      TEST(test_idx_truncated_at_every_byte),
      TEST(test_idx_refused),
      TEST(test_ranges),
      TEST(test_shuffled_epochs_are_permutations),
      TEST(test_seed_and_name_give_the_order),
      TEST(test_manifest),
      TEST(test_manifest_of_idx_and_csv),
      TEST(test_manifest_refused),
      TEST(test_changed_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
