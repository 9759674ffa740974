/* Memory that goes all at once, and text that grows. Both remember that an allocation failed, so that a caller checks
 * once, after many calls. */
#ifndef CH_MEMORY_H
#define CH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ch_chunk ch_chunk;
typedef struct ch_arena {
  ch_chunk *chunks;
  size_t n_left; /* of the first */
  bool failed;
} ch_arena;

/* n items, zeroed; NULL where that fails or overflows, and `failed` is set. */
void *ch_arena_take(ch_arena *arena, size_t n, size_t item_bytes);
/* A copy that ends in NUL; of NULL it is NULL. */
char *ch_arena_text(ch_arena *arena, const char *text);
char *ch_arena_text_n(ch_arena *arena, const char *text, size_t n_bytes);
void ch_arena_free(ch_arena *arena);

typedef struct ch_text {
  char *bytes; /* ended by NUL; NULL while empty */
  size_t n, room;
  bool failed;
} ch_text;

void ch_text_put(ch_text *text, const char *bytes, size_t n_bytes);
void ch_text_add(ch_text *text, const char *bytes);
void ch_text_format(ch_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text, owned; NULL where memory failed. The builder is empty then. */
char *ch_text_take(ch_text *text);
void ch_text_free(ch_text *text);

/* The items with room for at least one more, or NULL and the old ones untouched. */
void *ch_grow(void *items, size_t n, size_t *room, size_t item_bytes);

#endif
