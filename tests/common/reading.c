#include "reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

reading *reading_of(const char *bytes, size_t n_bytes) {
  reading *made = calloc(1, sizeof *made);
  if (!made) abort();
  made->memory = sx_memory_default();
  sx_arena_init(&made->arena, &made->memory);
  sx_intern_init(&made->names, &made->arena);
  sx_sources_init(&made->sources, &made->arena);
  sx_diags_init(&made->diags, &made->arena);
  uint32_t file = sx_sources_add(&made->sources, "t.sexp", bytes, n_bytes, false);
  made->datums = sx_read(&made->sources, file, &made->names, &made->arena, &made->diags);
  return made;
}

reading *reading_of_text(const char *text) { return reading_of(text, strlen(text)); }

void reading_free(reading *made) {
  sx_arena_free(&made->arena);
  free(made);
}

const char *reading_print(reading *made) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  for (uint32_t i = 0; i < made->datums.n; i++) {
    if (i) sx_text_add(&text, "\n");
    sx_datum_print(&text, made->datums.items[i]);
  }
  return sx_text_get(&text);
}

const char *reading_errors(reading *made) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  for (size_t i = 0; i < made->diags.list.n; i++) sx_diag_print(&text, &made->diags.list.items[i], &made->sources);
  return sx_text_get(&text);
}

static bool items_equal(const sx_datum *a, const sx_datum *b) {
  if (a->n != b->n) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!datum_equal(a->items[i], b->items[i])) return false;
  return true;
}

bool datum_equal(const sx_datum *a, const sx_datum *b) {
  if (a->kind != b->kind) return false;
  switch (a->kind) {
    case SX_DATUM_INTEGER:
      return a->integer == b->integer;
    case SX_DATUM_REAL:
      return (isnan(a->real) && isnan(b->real)) || (a->real == b->real && !signbit(a->real) == !signbit(b->real));
    case SX_DATUM_BOOLEAN:
      return a->boolean == b->boolean;
    case SX_DATUM_STRING:
      return a->n == b->n && memcmp(a->text, b->text, a->n) == 0;
    case SX_DATUM_SYMBOL:
    case SX_DATUM_KEYWORD:
      return strcmp(a->text, b->text) == 0;
    case SX_DATUM_LIST:
    case SX_DATUM_VECTOR:
    case SX_DATUM_QUOTE:
      return items_equal(a, b);
  }
  return false;
}
