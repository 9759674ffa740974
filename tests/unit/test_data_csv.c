/* Comma-separated text: quoting, headers, numbers, and the place of every mistake. */
#include <stdio.h>
#include <stdlib.h>
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
  sx_source_field fields[2];
  sx_data data;
} fixture;

static int set_up(void **state) {
  fixture *f = test_calloc(1, sizeof *f);
  f->host = memory_host_callbacks(&f->files);
  f->memory = sx_memory_default();
  sx_arena_init(&f->arena, &f->memory);
  f->fields[0] = (sx_source_field){.name = "x", .dtype = SX_F32, .first_column = 0, .n_columns = 2};
  f->fields[1] = (sx_source_field){.name = "y", .dtype = SX_I32, .first_column = 2, .n_columns = 0};
  f->data = (sx_data){.name = "d",
                      .kind = SX_SOURCE_CSV,
                      .path = "c",
                      .fields = f->fields,
                      .n_fields = 2,
                      .record_lo = -1,
                      .record_hi = -1};
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

static bool open_bytes(fixture *f, const char *text, size_t n) {
  if (f->dataset) sx_dataset_close(f->dataset);
  f->files.n_files = 0;
  memory_host_add(&f->files, "c", text, n);
  sx_diags_init(&f->diags, &f->arena);
  f->dataset = sx_dataset_new(&f->data, &f->host, &f->arena);
  return sx_dataset_open(f->dataset, 1, &f->diags);
}

static bool open_text(fixture *f, const char *text) { return open_bytes(f, text, strlen(text)); }

static void assert_row(fixture *f, int64_t record, float a, float b, int32_t y) {
  float x[2];
  int32_t label;
  sx_read_problem why;
  assert_true(sx_dataset_read(f->dataset, record, 0, x, &why));
  assert_true(sx_dataset_read(f->dataset, record, 1, &label, &why));
  assert_true(x[0] == a && x[1] == b);
  assert_int_equal(label, y);
}

static void assert_refused(fixture *f, const char *text, const char *code, const char *words) {
  assert_false(open_text(f, text));
  assert_int_equal(f->diags.n_errors, 1);
  assert_string_equal(sx_diag_code(&f->diags.list.items[0]), code);
  if (!strstr(f->diags.list.items[0].message, words)) fail_msg("%s", f->diags.list.items[0].message);
}

static void test_rows(void **state) {
  fixture *f = *state;
  assert_true(open_text(f, "1,2,3\n-0.5,1e-3,-2147483648\n"));
  assert_int_equal(f->dataset->n, 2);
  assert_int_equal(f->dataset->fields[0].rank, 1);
  assert_int_equal(f->dataset->fields[1].rank, 0);
  assert_row(f, 0, 1, 2, 3);
  assert_row(f, 1, -0.5f, 0.001f, INT32_MIN);
}

static void test_line_ends_and_quotes(void **state) {
  fixture *f = *state;
  assert_true(open_text(f, "\xef\xbb\xbf\"1\",\" 2 \",3\r\n\r\n4, 5,\"6\"\r\n\n7,8,9"));
  assert_int_equal(f->dataset->n, 3);
  assert_row(f, 0, 1, 2, 3);
  assert_row(f, 1, 4, 5, 6);
  assert_row(f, 2, 7, 8, 9);
}

/* A column that no field names may hold any text. */
static void test_quoted_text_elsewhere(void **state) {
  fixture *f = *state;
  f->fields[1].first_column = 3;
  assert_true(open_text(f, "1,2,\"a \"\"b\"\", and\na second line\",3\n4,5,,6\n"));
  assert_int_equal(f->dataset->n, 2);
  assert_row(f, 1, 4, 5, 6);
}

static void test_headers(void **state) {
  fixture *f = *state;
  f->data.csv_header = true;
  assert_true(open_text(f, "a,b,c\n1,2,3\n"));
  assert_int_equal(f->dataset->n, 1);
  f->data.csv_header = false;
  assert_refused(f, "a,b,c\n1,2,3\n", "E-DATA-082", "line 1, column 1: \"a\" is no f32 of field x");
  assert_true(open_text(f, "x,other,y\n1,2,3\n"));
  assert_int_equal(f->dataset->n, 1);
  assert_row(f, 0, 1, 2, 3);
}

static void test_numbers(void **state) {
  fixture *f = *state;
  static const struct {
    const char *text;
    float value;
  } good[] = {{".1234567890123456", 0.1234567890123456f},
              {"16777217", 16777216.0f},
              {"+.5e0", 0.5f},
              {"3.4028235e38", 3.4028235e38f},
              {"1e-45", 1e-45f},
              {"7.e1", 70.0f},
              {"0.1000000000000000055511151231257827", 0.1f}};
  static const char *const bad[] = {"", "0x10", "1e", ".", "infinity", "1 2", "--1", "1.5f", "e5"};
  f->data.n_fields = 1;
  f->fields[0].n_columns = 0;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    float value;
    sx_read_problem why;
    assert_true(open_text(f, good[i].text));
    assert_true(sx_dataset_read(f->dataset, 0, 0, &value, &why));
    assert_true(value == good[i].value);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(open_text(f, bad[i]));
  f->fields[0].dtype = SX_I32;
  assert_refused(f, "1.5", "E-DATA-082", "is no i32");
  assert_refused(f, "2147483648", "E-DATA-082", "2147483648");
  assert_refused(f, "99999999999999999999", "E-DATA-082", "i32");
}

static void test_refused(void **state) {
  fixture *f = *state;
  assert_refused(f, "", "E-DATA-052", "no record");
  assert_refused(f, "\n\n", "E-DATA-052", "no record");
  assert_refused(f, "1,2\n", "E-DATA-081", "field y takes 1 columns from column 2");
  assert_refused(f, "1,2,3\n1,2\n", "E-DATA-081", "line 2 has 2 columns, the first has 3");
  assert_refused(f, "1,2,3\n1,2,3,4\n", "E-DATA-081", "line 2 has 4 columns");
  assert_refused(f, "1,2,3\n1,\"2,3\n", "E-DATA-080", "line 2, column 2: the file ends within quotes");
  assert_refused(f, "1,\"2\"x,3\n", "E-DATA-080", "line 1, column 2: text follows");
  assert_refused(f, "1,2\"2,3\n", "E-DATA-080", "line 1, column 2: a quote within");
  assert_refused(f, "1,2,3\n4,five,6\n", "E-DATA-082", "line 2, column 2: \"five\"");
  f->fields[1].first_column = INT64_MAX;
  assert_refused(f, "1,2,3\n", "E-DATA-081", "field y");
}

static void test_truncated_at_every_byte(void **state) {
  fixture *f = *state;
  static const char text[] = "x,a,y\r\n1,\"2\",3\r\n4.5,\"6e1\",-7\r\n";
  f->fields[0].n_columns = 2;
  for (size_t n = 0; n < sizeof text; n++) {
    if (!open_bytes(f, text, n)) {
      assert_true(f->diags.n_errors == 1);
      continue;
    }
    if (f->dataset->n >= 1) assert_row(f, 0, 1, 2, 3);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Digits with a point anywhere, signs, exponents, and decimals next to the middle between two floats: what strtof
 * gives. */
static size_t decimal(char *text, uint64_t *random, int kind) {
  *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint32_t bits = (uint32_t)(*random >> 32);
  const char *sign = bits & 1 ? "-" : bits & 2 ? "+" : "";
  uint64_t digits = *random >> (20 + bits % 40);
  int places = (int)(bits >> 8) % 17;
  float x, y;
  if (kind == 0) return (size_t)sprintf(text, "%s%llu", sign, (unsigned long long)digits);
  if (kind == 1) return (size_t)sprintf(text, "%s%.*f", sign, places, (double)digits / 1048576.0);
  if (kind == 2) return (size_t)sprintf(text, "%s%.*g", sign, 1 + places, (double)digits * 1e-9);
  bits = bits % 0x800000 + 0x3f000000; /* 0.5 to 1 */
  memcpy(&x, &bits, 4);
  bits++;
  memcpy(&y, &bits, 4);
  char whole[32];
  sprintf(whole, "%.*f", kind == 3 ? 15 : 17, ((double)x + (double)y) / 2);
  return (size_t)sprintf(text, "%s", whole + 1);
}

static void test_every_decimal_is_the_nearest_float(void **state) {
  fixture *f = *state;
  enum { ROWS = 20000 };
  static char text[ROWS * 80], cells[2 * ROWS][32];
  uint64_t random = 7;
  size_t n = 0;
  for (int i = 0; i < 2 * ROWS; i++) {
    decimal(cells[i], &random, i % 5);
    n += (size_t)sprintf(text + n, "%s%s", cells[i], i % 2 ? ",0\n" : ",");
  }
  assert_true(open_bytes(f, text, n));
  for (int64_t r = 0; r < ROWS; r++) {
    float x[2], expected[2] = {strtof(cells[2 * r], NULL), strtof(cells[2 * r + 1], NULL)};
    sx_read_problem why;
    assert_true(sx_dataset_read(f->dataset, r, 0, x, &why));
    if (memcmp(x, expected, sizeof x))
      fail_msg("%s %s: %a %a", cells[2 * r], cells[2 * r + 1], (double)x[0], (double)x[1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_rows),
      TEST(test_line_ends_and_quotes),
      TEST(test_quoted_text_elsewhere),
      TEST(test_headers),
      TEST(test_numbers),
      TEST(test_refused),
      TEST(test_truncated_at_every_byte),
      TEST(test_every_decimal_is_the_nearest_float),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
