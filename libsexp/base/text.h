/* Text builder in an arena. */
#ifndef SX_BASE_TEXT_H
#define SX_BASE_TEXT_H

#include <stdarg.h>

#include "memory.h"

typedef struct sx_text {
  sx_arena *arena;
  char *bytes; /* always NUL-terminated once anything was added */
  size_t n, room;
} sx_text;

void sx_text_init(sx_text *text, sx_arena *arena);
void sx_text_add(sx_text *text, const char *string);
void sx_text_add_bytes(sx_text *text, const char *bytes, size_t n_bytes);
void sx_text_addf(sx_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sx_text_vaddf(sx_text *text, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
/* "" when nothing was added. */
const char *sx_text_get(const sx_text *text);

/* Formatted text in the arena. */
const char *sx_format(sx_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A shape as it is written everywhere: [B T C], [] for a scalar. */
void sx_text_add_shape(sx_text *text, const int64_t *dims, int rank);
/* The shortest decimal that reads back to the same f64 (or f32); inf, -inf, nan. */
void sx_text_add_f64(sx_text *text, double value);
void sx_text_add_f32(sx_text *text, float value);

#endif
