/* Parses any bytes as the key of a convolution, as an engine, and as the facts of a device. A key or an engine that
 * parses prints as the same bytes; facts keep the text that they were read from. */
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cuda/convolution.h"
#include "../../libsexp/cuda/device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool holds) {
  if (!holds) abort();
}

static void check_key(const char *bytes, sx_arena *arena) {
  sx_convolution convolution;
  if (sx_convolution_parse(&convolution, bytes, arena)) return;
  sx_text text;
  sx_text_init(&text, arena);
  sx_convolution_print(&text, &convolution);
  expect(!strcmp(sx_text_get(&text), bytes));
  expect(!sx_convolution_check(&convolution));
  expect(sx_convolution_out_height(&convolution) > 0 && sx_convolution_out_width(&convolution) > 0);
}

static void check_engine(const char *bytes, sx_arena *arena) {
  sx_engine engine;
  if (sx_engine_parse(&engine, bytes, arena)) return;
  sx_text text;
  sx_text_init(&text, arena);
  sx_engine_print(&text, &engine);
  expect(!strcmp(sx_text_get(&text), bytes));
}

static void check_facts(const char *bytes, size_t size, sx_arena *arena) {
  sx_diags diags;
  sx_diags_init(&diags, arena);
  sx_device device;
  bool read = sx_device_parse(&device, bytes, size, arena, &diags);
  expect(read == (diags.n_errors == 0));
  if (read) expect(device.name && device.json_n_bytes == size && !memcmp(device.json, bytes, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  const char *bytes = sx_arena_copy_text(&arena, (const char *)data, size);
  check_key(bytes, &arena);
  check_engine(bytes, &arena);
  check_facts(bytes, size, &arena);
  sx_arena_free(&arena);
  return 0;
}
