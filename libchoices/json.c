#include "json.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "utf8.h"

static bool too_deep(const json_t *value, int levels) {
  size_t index;
  const char *key;
  json_t *item;
  if (levels < 0) return true;
  if (json_is_array(value)) {
    json_array_foreach(value, index, item) if (too_deep(item, levels - 1)) return true;
  } else if (json_is_object(value)) {
    json_object_foreach((json_t *)(uintptr_t)value, key, item) if (too_deep(item, levels - 1)) return true;
  }
  return false;
}

static size_t count_lines(const char *bytes, size_t n) {
  size_t lines = 1;
  for (size_t i = 0; i < n; i++) lines += bytes[i] == '\n';
  return lines;
}

choices_status ch_json_next(json_t **out, const char *name, const char *bytes, size_t n_bytes, size_t *at,
                            choices_error *error) {
  json_error_t refused;
  const char *start = bytes + *at;
  *out = json_loadb(start, n_bytes - *at, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &refused);
  if (!*out && (!refused.text[0] || json_error_code(&refused) == json_error_out_of_memory)) return ch_no_memory(error);
  if (!*out) {
    size_t line = count_lines(bytes, *at) + (refused.line > 1 ? (size_t)refused.line - 1 : 0);
    return ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "line %zu: expected JSON; %s", line, refused.text);
  }
  if (too_deep(*out, CH_JSON_DEPTH)) {
    json_decref(*out);
    *out = NULL;
    return ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "line %zu: found more than %d levels", count_lines(bytes, *at),
                   CH_JSON_DEPTH);
  }
  *at += (size_t)refused.position;
  while (*at < n_bytes && bytes[*at] && strchr(" \t\r\n", bytes[*at])) ++*at;
  return CHOICES_OK;
}

static void put_escaped(ch_text *to, unsigned char byte) {
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  for (size_t i = 0; i < sizeof letters - 1; i += 2)
    if ((unsigned char)letters[i] == byte) {
      ch_text_format(to, "\\%c", letters[i + 1]);
      return;
    }
  ch_text_format(to, "\\u%04x", byte);
}

void ch_json_put_string(ch_text *to, const char *text) {
  size_t n = strlen(text), plain = 0;
  ch_text_put(to, "\"", 1);
  for (size_t i = 0; i < n;) {
    unsigned char byte = (unsigned char)text[i];
    size_t length = ch_utf8_length((const unsigned char *)text + i, n - i);
    if (length > 0 && byte >= 0x20 && byte != '"' && byte != '\\') {
      plain += length;
      i += length;
      continue;
    }
    ch_text_put(to, text + i - plain, plain);
    plain = 0;
    i++;
    if (length == 0)
      ch_text_add(to, "\xef\xbf\xbd");
    else
      put_escaped(to, byte);
  }
  ch_text_put(to, text + n - plain, plain);
  ch_text_put(to, "\"", 1);
}

/* printf writes the locale's point, of one or more bytes: it becomes '.'. */
static void plain_point(char *text) {
  size_t n = 0;
  for (const char *from = text; *from;) {
    if (strchr("+-0123456789e", *from)) {
      text[n++] = *from++;
      continue;
    }
    text[n++] = '.';
    while (*from && !strchr("+-0123456789e", *from)) from++;
  }
  text[n] = 0;
}

/* The shortest of %.1g, %.2g … that reads back; a whole number that a double holds exactly is printed as one. */
void ch_json_put_real(ch_text *to, double value) {
  char text[40];
  if (!isfinite(value)) {
    ch_text_add(to, "null");
    return;
  }
  if (fabs(value) <= 9007199254740992.0 && value == (double)(int64_t)value) {
    ch_text_format(to, "%lld", (long long)value);
    return;
  }
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  plain_point(text);
  ch_text_add(to, text);
}

void ch_json_put_name(ch_text *to, const char *name) {
  if (to->n && to->bytes[to->n - 1] != '{') ch_text_add(to, ", ");
  ch_json_put_string(to, name);
  ch_text_add(to, ": ");
}

static int by_bytes(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void put_object(ch_text *to, const json_t *value) {
  size_t n = json_object_size(value), i = 0;
  const char **keys = n ? malloc(n * sizeof *keys) : NULL, *key;
  json_t *item;
  if (n && !keys) {
    to->failed = true;
    return;
  }
  json_object_foreach((json_t *)(uintptr_t)value, key, item) keys[i++] = key;
  if (n) qsort(keys, n, sizeof *keys, by_bytes);
  ch_text_add(to, "{");
  for (i = 0; i < n; i++) {
    ch_json_put_name(to, keys[i]);
    ch_json_put(to, json_object_get(value, keys[i]));
  }
  ch_text_add(to, "}");
  free(keys);
}

static void put_array(ch_text *to, const json_t *value) {
  size_t index;
  json_t *item;
  ch_text_add(to, "[");
  json_array_foreach(value, index, item) {
    if (index) ch_text_add(to, ", ");
    ch_json_put(to, item);
  }
  ch_text_add(to, "]");
}

void ch_json_put(ch_text *to, const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT:
      put_object(to, value);
      break;
    case JSON_ARRAY:
      put_array(to, value);
      break;
    case JSON_STRING:
      ch_json_put_string(to, json_string_value(value));
      break;
    case JSON_INTEGER:
      ch_text_format(to, "%lld", (long long)json_integer_value(value));
      break;
    case JSON_REAL:
      ch_json_put_real(to, json_real_value(value));
      break;
    case JSON_TRUE:
      ch_text_add(to, "true");
      break;
    case JSON_FALSE:
      ch_text_add(to, "false");
      break;
    case JSON_NULL:
      ch_text_add(to, "null");
      break;
  }
}

char *ch_json_text(ch_arena *arena, const json_t *value) {
  ch_text text = {0};
  ch_json_put(&text, value);
  if (text.failed) arena->failed = true;
  char *copy = text.failed ? NULL : ch_arena_text_n(arena, text.bytes, text.n);
  ch_text_free(&text);
  return copy;
}
