/* Opens any bytes as csv; the first byte chooses fields and header. What opens is read, printed as csv again,
 * and reads back to the same values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/base/text.h"
#include "../../libsexp/run/dataset.h"
#include "../common/memory_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds) {
  if (!holds) abort();
}

typedef struct table {
  memory_host files;
  sexp_host host;
  sx_source_field fields[2];
  sx_data data;
  sx_dataset *dataset;
} table;

static bool open_table(table *t, const void *bytes, size_t n, sx_arena *arena) {
  sx_diags diags;
  sx_diags_init(&diags, arena);
  memory_host_add(&t->files, "c", bytes, n);
  t->host = memory_host_callbacks(&t->files);
  t->data = (sx_data){.name = "d",
                      .kind = SX_SOURCE_CSV,
                      .path = "c",
                      .fields = t->fields,
                      .n_fields = 2,
                      .csv_header = t->data.csv_header,
                      .record_lo = -1,
                      .record_hi = -1};
  t->dataset = sx_dataset_new(&t->data, &t->host, arena);
  bool opened = sx_dataset_open(t->dataset, 1, &diags);
  expect(opened == (diags.n_errors == 0));
  return opened;
}

static void read_row(const table *t, int64_t row, uint32_t values[3]) {
  sx_read_problem why;
  expect(sx_dataset_read(t->dataset, row, 0, values, &why));
  expect(sx_dataset_read(t->dataset, row, 1, &values[2], &why));
}

static void print_row(sx_text *text, const uint32_t values[3]) {
  float x[2];
  memcpy(x, values, sizeof x);
  sx_text_add_f32(text, x[0]);
  sx_text_add(text, ",");
  sx_text_add_f32(text, x[1]);
  sx_text_addf(text, ",%d\n", (int)values[2]);
}

static bool same(const uint32_t a[3], const uint32_t b[3]) {
  for (int i = 0; i < 3; i++) {
    bool nans = i < 2 && (a[i] & 0x7fffffff) > 0x7f800000 && (b[i] & 0x7fffffff) > 0x7f800000;
    if (a[i] != b[i] && !nans) return false;
  }
  return true;
}

static void expect_round_trip(const table *first, sx_arena *arena) {
  table second = {
      .fields = {{.name = "x", .dtype = SX_F32, .n_columns = 2}, {.name = "y", .dtype = SX_I32, .first_column = 2}}};
  sx_text text;
  uint32_t values[3], again[3];
  sx_text_init(&text, arena);
  for (int64_t r = 0; r < first->dataset->n; r++) {
    read_row(first, r, values);
    print_row(&text, values);
  }
  expect(open_table(&second, sx_text_get(&text), text.n, arena));
  expect(second.dataset->n == first->dataset->n);
  for (int64_t r = 0; r < first->dataset->n; r++) {
    read_row(first, r, values);
    read_row(&second, r, again);
    expect(same(values, again));
  }
  sx_dataset_close(second.dataset);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size) return 0;
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  table t = {.fields = {{.name = "x", .dtype = SX_F32, .first_column = data[0] & 1, .n_columns = 2},
                        {.name = "y", .dtype = SX_I32, .first_column = data[0] >> 1 & 3}},
             .data = {.csv_header = data[0] >> 7}};
  if (open_table(&t, data + 1, size - 1, &arena)) expect_round_trip(&t, &arena);
  sx_dataset_close(t.dataset);
  sx_arena_free(&arena);
  expect(t.files.n_open == 0);
  return 0;
}
