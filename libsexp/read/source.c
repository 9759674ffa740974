/* Source texts and the way from a byte offset to line and column. */
#include <string.h>

#include "../base/bug.h"
#include "datum.h"

enum { SOURCE_BYTES_MAX = 64 << 20 };

static const char byte_order_mark[] = "\xef\xbb\xbf";

void sx_sources_init(sx_sources *sources, sx_arena *arena) { *sources = (sx_sources){.arena = arena}; }

static uint32_t count_lines(const char *bytes, uint32_t n_bytes) {
  uint32_t n = 1;
  for (uint32_t i = 0; i < n_bytes; i++) n += bytes[i] == '\n';
  return n;
}

uint32_t sx_sources_add(sx_sources *sources, const char *path, const char *bytes, size_t n_bytes, bool prelude) {
  SX_ASSERT(n_bytes <= SOURCE_BYTES_MAX);
  sx_source source = {.n_bytes = (uint32_t)n_bytes, .prelude = prelude};
  source.path = sx_arena_copy_text(sources->arena, path, strlen(path));
  source.bytes = sx_arena_copy_text(sources->arena, bytes, n_bytes);
  source.n_lines = count_lines(source.bytes, source.n_bytes);
  source.line_starts = SX_NEW_N(sources->arena, uint32_t, source.n_lines);
  for (uint32_t i = 0, line = 1; i < source.n_bytes; i++)
    if (source.bytes[i] == '\n') source.line_starts[line++] = i + 1;
  SX_PUSH(sources->arena, sources->files, source);
  return (uint32_t)sources->files.n;
}

const sx_source *sx_sources_get(const sx_sources *sources, uint32_t file) {
  SX_ASSERT(file >= 1 && file <= sources->files.n);
  return &sources->files.items[file - 1];
}

/* Index of the last line that starts at or before the offset. */
static uint32_t line_index(const sx_source *source, uint32_t offset) {
  uint32_t low = 0, high = source->n_lines;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (source->line_starts[middle] <= offset)
      low = middle;
    else
      high = middle;
  }
  return low;
}

void sx_source_place(const sx_source *source, uint32_t offset, uint32_t *line, uint32_t *column) {
  if (offset > source->n_bytes) offset = source->n_bytes;
  uint32_t index = line_index(source, offset), start = source->line_starts[index];
  if (index == 0 && offset >= 3 && memcmp(source->bytes, byte_order_mark, 3) == 0) start = 3;
  *line = index + 1;
  *column = 1;
  for (uint32_t i = start; i < offset; i++) *column += ((unsigned char)source->bytes[i] & 0xc0) != 0x80;
}
