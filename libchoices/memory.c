#include "memory.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 65536 - 64, ALIGNMENT = alignof(max_align_t) };

struct ch_chunk {
  ch_chunk *next;
  size_t n_bytes;
  max_align_t bytes[];
};

static void *refuse(ch_arena *arena) {
  arena->failed = true;
  return NULL;
}

void *ch_arena_take(ch_arena *arena, size_t n, size_t item_bytes) {
  if (item_bytes && n > (SIZE_MAX / 2) / item_bytes) return refuse(arena);
  size_t n_bytes = (n * item_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (n_bytes == 0) n_bytes = ALIGNMENT;
  if (n_bytes > arena->n_left) {
    size_t larger = n_bytes > CHUNK_BYTES ? n_bytes : CHUNK_BYTES;
    ch_chunk *chunk = malloc(sizeof *chunk + larger);
    if (!chunk) return refuse(arena);
    *chunk = (ch_chunk){arena->chunks, larger};
    arena->chunks = chunk;
    arena->n_left = larger;
  }
  char *start = (char *)arena->chunks->bytes + (arena->chunks->n_bytes - arena->n_left);
  arena->n_left -= n_bytes;
  return memset(start, 0, n_bytes);
}

char *ch_arena_text_n(ch_arena *arena, const char *text, size_t n_bytes) {
  char *copy = n_bytes < SIZE_MAX ? ch_arena_take(arena, n_bytes + 1, 1) : refuse(arena);
  if (copy && n_bytes) memcpy(copy, text, n_bytes);
  return copy;
}

char *ch_arena_text(ch_arena *arena, const char *text) {
  return text ? ch_arena_text_n(arena, text, strlen(text)) : NULL;
}

void ch_arena_free(ch_arena *arena) {
  for (ch_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  *arena = (ch_arena){0};
}

/* Room for n_bytes more and a NUL. */
static bool make_room(ch_text *text, size_t n_bytes) {
  if (text->failed) return false;
  if (text->bytes && text->room - text->n > n_bytes) return true;
  size_t room = text->room ? text->room : 128;
  while (room - text->n <= n_bytes && room < SIZE_MAX / 2) room *= 2;
  char *grown = room - text->n > n_bytes ? realloc(text->bytes, room) : NULL;
  if (!grown) {
    text->failed = true;
    return false;
  }
  text->bytes = grown;
  text->room = room;
  return true;
}

void ch_text_put(ch_text *text, const char *bytes, size_t n_bytes) {
  if (!make_room(text, n_bytes)) return;
  if (n_bytes) memcpy(text->bytes + text->n, bytes, n_bytes);
  text->n += n_bytes;
  text->bytes[text->n] = 0;
}

void ch_text_add(ch_text *text, const char *bytes) { ch_text_put(text, bytes, strlen(bytes)); }

void ch_text_format(ch_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (n < 0) text->failed = true;
  if (n < 0 || !make_room(text, (size_t)n)) return;
  va_start(arguments, format);
  vsnprintf(text->bytes + text->n, (size_t)n + 1, format, arguments);
  va_end(arguments);
  text->n += (size_t)n;
}

char *ch_text_take(ch_text *text) {
  ch_text_put(text, "", 0);
  char *taken = text->failed ? NULL : text->bytes;
  if (!taken) free(text->bytes);
  *text = (ch_text){0};
  return taken;
}

void ch_text_free(ch_text *text) {
  free(text->bytes);
  *text = (ch_text){0};
}

void *ch_grow(void *items, size_t n, size_t *room, size_t item_bytes) {
  if (n < *room) return items;
  size_t larger = *room ? *room * 2 : 8;
  if (larger > SIZE_MAX / 2 / item_bytes) return NULL;
  void *grown = realloc(items, larger * item_bytes);
  if (grown) *room = larger;
  return grown;
}
