#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sx_text_init(sx_text *text, sx_arena *arena) { *text = (sx_text){arena, NULL, 0, 0}; }

static void reserve(sx_text *text, size_t more) {
  if (text->room > text->n && text->room - text->n > more) return;
  size_t room = (text->n + more + 1) * 2;
  char *bytes = sx_arena_take_raw(text->arena, room, 1);
  if (text->n) memcpy(bytes, text->bytes, text->n);
  bytes[text->n] = 0;
  text->bytes = bytes;
  text->room = room;
}

void sx_text_add_bytes(sx_text *text, const char *bytes, size_t n_bytes) {
  reserve(text, n_bytes);
  if (n_bytes) memcpy(text->bytes + text->n, bytes, n_bytes);
  text->n += n_bytes;
  text->bytes[text->n] = 0;
}

void sx_text_add(sx_text *text, const char *string) { sx_text_add_bytes(text, string, strlen(string)); }

void sx_text_vaddf(sx_text *text, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int n = vsnprintf(NULL, 0, format, arguments);
  reserve(text, n > 0 ? (size_t)n : 0);
  if (n > 0) text->n += (size_t)vsnprintf(text->bytes + text->n, text->room - text->n, format, again);
  va_end(again);
}

void sx_text_addf(sx_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_text_vaddf(text, format, arguments);
  va_end(arguments);
}

const char *sx_text_get(const sx_text *text) { return text->n ? text->bytes : ""; }

const char *sx_format(sx_arena *arena, const char *format, ...) {
  sx_text text;
  sx_text_init(&text, arena);
  va_list arguments;
  va_start(arguments, format);
  sx_text_vaddf(&text, format, arguments);
  va_end(arguments);
  return sx_text_get(&text);
}

void sx_text_add_shape(sx_text *text, const int64_t *dims, int rank) {
  sx_text_add(text, "[");
  for (int i = 0; i < rank; i++) sx_text_addf(text, i ? " %" PRId64 : "%" PRId64, dims[i]);
  sx_text_add(text, "]");
}

static void add_special(sx_text *text, double value) {
  sx_text_add(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* Whole numbers below the limit are written out, 100 and not 1e+02. */
static bool add_whole(sx_text *text, double value, double limit) {
  bool whole = fabs(value) < limit && floor(value) == value;
  if (whole) sx_text_addf(text, "%.0f", value);
  return whole;
}

void sx_text_add_f64(sx_text *text, double value) {
  char digits[40];
  if (!isfinite(value)) {
    add_special(text, value);
    return;
  }
  if (add_whole(text, value, 1e15)) return;
  for (int precision = 1; precision <= 17; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, value);
    if (strtod(digits, NULL) == value) break;
  }
  sx_text_add(text, digits);
}

void sx_text_add_f32(sx_text *text, float value) {
  char digits[40];
  if (!isfinite(value)) {
    add_special(text, (double)value);
    return;
  }
  if (add_whole(text, (double)value, 1e7)) return;
  for (int precision = 1; precision <= 9; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    if (strtof(digits, NULL) == value) break;
  }
  sx_text_add(text, digits);
}
