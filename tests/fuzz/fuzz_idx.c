/* Opens any bytes as idx files of one and of two fields, and reads every record of what opens. The first byte
 * cuts the rest in two. */
#include <stdlib.h>

#include "../../libsexp/run/dataset.h"
#include "../common/memory_host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_RECORDS = 4096, MOST_BYTES = 1 << 20 };

static void expect(bool holds) {
  if (!holds) abort();
}

static void read_all(const sx_dataset *dataset, sx_arena *arena) {
  int64_t n = dataset->n < MOST_RECORDS ? dataset->n : MOST_RECORDS;
  for (uint32_t f = 0; f < dataset->n_fields; f++) {
    if (dataset->n_bytes[f] > MOST_BYTES) continue;
    void *out = sx_arena_take(arena, (size_t)dataset->n_bytes[f], 1);
    for (int64_t r = 0; r < n; r++) {
      sx_read_problem why;
      expect(sx_dataset_read(dataset, sx_dataset_record(dataset, r), f, out, &why));
    }
  }
}

static void try_fields(memory_host *files, uint32_t n_fields) {
  sexp_host host = memory_host_callbacks(files);
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_diags diags;
  sx_source_field fields[2] = {{.name = "a", .path = "0"}, {.name = "b", .path = "1"}};
  sx_data data = {.name = "d",
                  .kind = SX_SOURCE_IDX,
                  .fields = fields,
                  .n_fields = n_fields,
                  .record_lo = -1,
                  .record_hi = -1,
                  .shuffled = true};
  sx_arena_init(&arena, &memory);
  sx_diags_init(&diags, &arena);
  sx_dataset *dataset = sx_dataset_new(&data, &host, &arena);
  bool opened = sx_dataset_open(dataset, 1, &diags);
  expect(opened == (diags.n_errors == 0));
  if (opened) read_all(dataset, &arena);
  sx_dataset_close(dataset);
  sx_arena_free(&arena);
  expect(files->n_open == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  memory_host files = {0};
  if (!size) return 0;
  size_t first = data[0] < size ? data[0] : size - 1;
  memory_host_add(&files, "0", data + 1, first);
  memory_host_add(&files, "1", data + 1 + first, size - 1 - first);
  try_fields(&files, 1);
  try_fields(&files, 2);
  return 0;
}
