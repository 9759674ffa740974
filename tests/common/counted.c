#include "counted.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 }; /* of blocks; each is preceded by its size */

static void *take_counted(void *context, size_t n_bytes) {
  counted *c = context;
  if (++c->n_calls == c->fails_at) return NULL;
  size_t *block = malloc(n_bytes + ALIGNMENT);
  if (!block) return NULL;
  *block = n_bytes;
  c->now += n_bytes;
  if (c->now > c->most) c->most = c->now;
  return (char *)block + ALIGNMENT;
}

static void release_counted(void *context, void *pointer) {
  if (!pointer) return;
  size_t *block = (size_t *)(void *)((char *)pointer - ALIGNMENT);
  ((counted *)context)->now -= *block;
  free(block);
}

sexp_allocator counted_allocator(counted *c) { return (sexp_allocator){take_counted, release_counted, c, 256}; }
