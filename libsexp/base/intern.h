/* Interned texts: equal texts have one address, so they compare by pointer. */
#ifndef SX_BASE_INTERN_H
#define SX_BASE_INTERN_H

#include "memory.h"

typedef struct sx_intern {
  sx_arena *arena;
  const char **slots; /* open addressing, a power of two */
  size_t n, room;
} sx_intern;

void sx_intern_init(sx_intern *table, sx_arena *arena);
/* The one copy of the text; owned by the arena. */
const char *sx_intern_bytes(sx_intern *table, const char *bytes, size_t n_bytes);
const char *sx_intern_text(sx_intern *table, const char *text);

#endif
