/* Arenas: a list of chunks, each twice as large as the one before up to a limit. */
#define _DEFAULT_SOURCE /* madvise */
#include "memory.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "bug.h"

#if defined(__SANITIZE_ADDRESS__)
#define SX_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SX_ASAN 1
#endif
#endif
#ifdef SX_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) __asan_poison_memory_region((p), (n))
#define UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define GAP 16 /* poisoned bytes between two allocations */
#else
#define POISON(p, n) ((void)0)
#define UNPOISON(p, n) ((void)0)
#define GAP 0
#endif

enum { ALIGNMENT = 16, FIRST_CHUNK = 1 << 14, LARGEST_CHUNK = 1 << 22 };
enum { HUGE_PAGE = 1 << 21, FEWEST_HUGE_BYTES = 1 << 23 };

struct sx_arena_chunk {
  sx_arena_chunk *next;
  size_t used, room; /* bytes after the header */
};

static const size_t header_bytes = (sizeof(sx_arena_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

/* What is large, a step's block or a parameter, is used whole and over again: in huge pages it is touched for the
 * first time in a fraction of the time, and its addresses are translated from a few entries. */
static void *default_allocate(void *context, size_t n_bytes) {
  (void)context;
#if defined(MADV_HUGEPAGE)
  void *pages = NULL;
  if (n_bytes >= FEWEST_HUGE_BYTES && !posix_memalign(&pages, HUGE_PAGE, n_bytes)) {
    madvise(pages, n_bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    return pages;
  }
#endif
  return malloc(n_bytes);
}

static void default_release(void *context, void *pointer) {
  (void)context;
  free(pointer);
}

sx_memory sx_memory_default(void) { return (sx_memory){.allocate = default_allocate, .release = default_release}; }

_Noreturn void sx_memory_fail(sx_memory *memory) {
  if (!memory->escape) SX_BUG("out of memory where no escape point is set");
  longjmp(*memory->escape, 1);
}

void sx_arena_init(sx_arena *arena, sx_memory *memory) {
  *arena = (sx_arena){memory, NULL, memory->chunk_bytes ? memory->chunk_bytes : FIRST_CHUNK};
}

void sx_arena_free(sx_arena *arena) {
  sx_arena_chunk *chunk = arena->chunks;
  while (chunk) {
    sx_arena_chunk *next = chunk->next;
    UNPOISON((char *)chunk + header_bytes, chunk->room);
    arena->memory->release(arena->memory->context, chunk);
    chunk = next;
  }
  arena->chunks = NULL;
}

static sx_arena_chunk *new_chunk(sx_arena *arena, size_t need) {
  size_t room = need > arena->next_bytes ? need : arena->next_bytes;
  if (room > SIZE_MAX - header_bytes) sx_memory_fail(arena->memory);
  sx_arena_chunk *chunk = arena->memory->allocate(arena->memory->context, header_bytes + room);
  if (!chunk) sx_memory_fail(arena->memory);
  *chunk = (sx_arena_chunk){arena->chunks, 0, room};
  POISON((char *)chunk + header_bytes, room);
  arena->chunks = chunk;
  if (arena->next_bytes < LARGEST_CHUNK && !arena->memory->chunk_bytes) arena->next_bytes *= 2;
  return chunk;
}

void *sx_arena_take_raw(sx_arena *arena, size_t n, size_t item_bytes) {
  if (item_bytes && n > (SIZE_MAX - 4096) / item_bytes) sx_memory_fail(arena->memory);
  size_t bytes = n * item_bytes;
  size_t need = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GAP;
  sx_arena_chunk *chunk = arena->chunks;
  if (!chunk || chunk->room - chunk->used < need) chunk = new_chunk(arena, need);
  char *start = (char *)chunk + header_bytes + chunk->used;
  chunk->used += need;
  UNPOISON(start, bytes);
  return start;
}

void *sx_arena_take(sx_arena *arena, size_t n, size_t item_bytes) {
  void *start = sx_arena_take_raw(arena, n, item_bytes);
  return n && item_bytes ? memset(start, 0, n * item_bytes) : start;
}

char *sx_arena_copy_text(sx_arena *arena, const char *bytes, size_t n_bytes) {
  char *copy = sx_arena_take_raw(arena, n_bytes + 1, 1);
  if (n_bytes) memcpy(copy, bytes, n_bytes);
  copy[n_bytes] = 0;
  return copy;
}

void *sx_vec_grow(sx_arena *arena, void *items, size_t n, size_t *room, size_t item_bytes) {
  size_t larger = *room ? *room * 2 : 8;
  void *grown = sx_arena_take_raw(arena, larger, item_bytes);
  if (n) memcpy(grown, items, n * item_bytes);
  *room = larger;
  return grown;
}
