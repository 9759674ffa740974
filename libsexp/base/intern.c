#include "intern.h"

#include <string.h>

#include "hash.h"

void sx_intern_init(sx_intern *table, sx_arena *arena) {
  *table = (sx_intern){arena, SX_NEW_N(arena, const char *, 256), 0, 256};
}

static const char **find(const sx_intern *table, const char *bytes, size_t n_bytes) {
  size_t i = (size_t)sx_hash_bytes(bytes, n_bytes) & (table->room - 1);
  while (table->slots[i]) {
    const char *slot = table->slots[i];
    if (strncmp(slot, bytes, n_bytes) == 0 && slot[n_bytes] == 0) break;
    i = (i + 1) & (table->room - 1);
  }
  return &table->slots[i];
}

static void grow(sx_intern *table) {
  sx_intern larger = {table->arena, SX_NEW_N(table->arena, const char *, table->room * 2), table->n, table->room * 2};
  for (size_t i = 0; i < table->room; i++)
    if (table->slots[i]) *find(&larger, table->slots[i], strlen(table->slots[i])) = table->slots[i];
  *table = larger;
}

const char *sx_intern_bytes(sx_intern *table, const char *bytes, size_t n_bytes) {
  const char **slot = find(table, bytes, n_bytes);
  if (*slot) return *slot;
  if (table->n * 2 >= table->room) {
    grow(table);
    slot = find(table, bytes, n_bytes);
  }
  *slot = sx_arena_copy_text(table->arena, bytes, n_bytes);
  table->n++;
  return *slot;
}

const char *sx_intern_text(sx_intern *table, const char *text) { return sx_intern_bytes(table, text, strlen(text)); }
