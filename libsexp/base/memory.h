/* Memory of the library: arenas by lifetime over an allocator that the caller may replace.
 *
 * An arena hands out zeroed, 16-aligned memory that lives until the arena is freed. An allocation
 * that fails does not return: it jumps to the escape point that the entry point of the library set,
 * which frees every arena of the call and reports one error (E-RUN-001). So no caller checks for
 * NULL, and nothing but arena memory may be owned by code that allocates from an arena.
 *
 * Source: Hanson, "Fast allocation and deallocation of memory based on object lifetimes", 1990. */
#ifndef SX_BASE_MEMORY_H
#define SX_BASE_MEMORY_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* Where memory comes from. allocate returns NULL on failure; escape, when set, is jumped to then. */
typedef struct sx_memory {
  void *(*allocate)(void *context, size_t n_bytes);
  void (*release)(void *context, void *pointer);
  void *context;
  jmp_buf *escape;
  size_t chunk_bytes; /* of an arena's chunks; 0: growing ones. Small ones make each allocation fail in tests */
} sx_memory;

typedef struct sx_arena_chunk sx_arena_chunk;

typedef struct sx_arena {
  sx_memory *memory;
  sx_arena_chunk *chunks;
  size_t next_bytes; /* size of the next chunk */
} sx_arena;

/* malloc and free. */
sx_memory sx_memory_default(void);

void sx_arena_init(sx_arena *arena, sx_memory *memory);
void sx_arena_free(sx_arena *arena);

/* Zeroed memory for n items of item_bytes; the product is checked. Never NULL. */
void *sx_arena_take(sx_arena *arena, size_t n, size_t item_bytes);

/* The same, its contents undefined: for memory that is written before it is read. */
void *sx_arena_take_raw(sx_arena *arena, size_t n, size_t item_bytes);

/* A copy with a terminating NUL. */
char *sx_arena_copy_text(sx_arena *arena, const char *bytes, size_t n_bytes);

/* Jumps to the escape point as a failed allocation does. */
_Noreturn void sx_memory_fail(sx_memory *memory);

#define SX_NEW(arena, type) ((type *)sx_arena_take((arena), 1, sizeof(type)))
#define SX_NEW_N(arena, type, n) ((type *)sx_arena_take((arena), (size_t)(n), sizeof(type)))

/* Growable array in an arena: SX_VEC(int) v = {0}; SX_PUSH(arena, v, 3); v.items[0]; v.n. */
#define SX_VEC(type) \
  struct {           \
    type *items;     \
    size_t n, room;  \
  }
#define SX_PUSH(arena, vec, item)                                                                 \
  do {                                                                                            \
    if ((vec).n == (vec).room)                                                                    \
      (vec).items = sx_vec_grow((arena), (vec).items, (vec).n, &(vec).room, sizeof *(vec).items); \
    (vec).items[(vec).n++] = (item);                                                              \
  } while (0)
void *sx_vec_grow(sx_arena *arena, void *items, size_t n, size_t *room, size_t item_bytes);

#endif
