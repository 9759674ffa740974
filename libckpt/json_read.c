#include "json_read.h"

#include <stdlib.h>
#include <string.h>

ckpt_status ck_json_parse(json_t **out, const ck_json_text *text, ckpt_error *error) {
  json_error_t refused;
  *out = json_loadb(text->text, text->n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &refused);
  if (*out) return CKPT_OK;
  if (json_error_code(&refused) == json_error_out_of_memory) return ck_no_memory(error, 0);
  int64_t at = (int64_t)text->base + (refused.position > 0 ? refused.position : 0);
  return ck_fail(error, text->code, text->path, at, 0, "expected JSON; %s", refused.text);
}

typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_space(cursor *scan) {
  while (scan->at < scan->end && strchr(" \t\r\n", *scan->at) && *scan->at) scan->at++;
}

/* Past a string; whether its bytes are those of `key`. A key written with escapes is not found. */
static bool pass_string(cursor *scan, const char *key) {
  const char *start = ++scan->at;
  while (scan->at < scan->end && *scan->at != '"') scan->at += *scan->at == '\\' ? 2 : 1;
  if (scan->at >= scan->end) {
    scan->at = scan->end;
    return false;
  }
  size_t n = (size_t)(scan->at++ - start);
  return key && strlen(key) == n && memcmp(start, key, n) == 0;
}

/* Past a value of any kind. */
static void pass_value(cursor *scan) {
  size_t depth = 0;
  while (scan->at < scan->end) {
    char byte = *scan->at;
    if (byte == '"') {
      pass_string(scan, NULL);
      continue;
    }
    if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) return;
    depth += byte == '{' || byte == '[';
    depth -= byte == '}' || byte == ']';
    scan->at++;
  }
}

/* To the value of member `key` of the object at the cursor; gives the place of the key, or NULL. */
static const char *find_member(cursor *scan, const char *key) {
  skip_space(scan);
  if (scan->at >= scan->end || *scan->at != '{') return NULL;
  scan->at++;
  for (skip_space(scan); scan->at < scan->end && *scan->at == '"'; skip_space(scan)) {
    const char *start = scan->at;
    bool found = pass_string(scan, key);
    skip_space(scan);
    if (scan->at < scan->end) scan->at++; /* the colon */
    if (found) return start;
    pass_value(scan);
    if (scan->at < scan->end) scan->at++; /* the comma */
  }
  return NULL;
}

int64_t ck_json_offset(const ck_json_text *text, const char *key, const char *inner) {
  cursor scan = {text->text, text->text + text->n_bytes};
  const char *found = find_member(&scan, key);
  if (found && inner) found = find_member(&scan, inner);
  return found ? (int64_t)text->base + (found - text->text) : -1;
}

int ck_json_depth(const json_t *value) {
  int deepest = -1;
  size_t index;
  const char *key;
  json_t *item;
  if (json_is_array(value)) {
    json_array_foreach(value, index, item) {
      int depth = ck_json_depth(item);
      if (depth > deepest) deepest = depth;
    }
    return 1 + (deepest < 0 ? 0 : deepest);
  }
  if (!json_is_object(value)) return 0;
  json_object_foreach((json_t *)(uintptr_t)value, key, item) {
    int depth = ck_json_depth(item);
    if (depth > deepest) deepest = depth;
  }
  return 1 + (deepest < 0 ? 0 : deepest);
}

/* A real stays one: 1.0 is not written as the integer 1. */
static void emit_real(ckpt_json *json, double value) {
  char text[CKPT_REAL_TEXT + 2];
  size_t n = ckpt_real64_text(text, value);
  if (!strpbrk(text, ".e")) memcpy(text + n, ".0", 3);
  ckpt_json_raw(json, text);
}

static void emit_object(ckpt_json *json, const json_t *value) {
  const char *key;
  json_t *item;
  ckpt_json_begin_object(json);
  json_object_foreach((json_t *)(uintptr_t)value, key, item) {
    ckpt_json_key(json, key);
    ck_json_emit(json, item);
  }
  ckpt_json_end_object(json);
}

static void emit_array(ckpt_json *json, const json_t *value) {
  size_t index;
  json_t *item;
  ckpt_json_begin_array(json);
  json_array_foreach(value, index, item) ck_json_emit(json, item);
  ckpt_json_end_array(json);
}

void ck_json_emit(ckpt_json *json, const json_t *value) {
  switch (json_typeof(value)) {
    case JSON_OBJECT:
      emit_object(json, value);
      break;
    case JSON_ARRAY:
      emit_array(json, value);
      break;
    case JSON_STRING:
      ckpt_json_string_n(json, json_string_value(value), json_string_length(value));
      break;
    case JSON_INTEGER:
      ckpt_json_integer(json, json_integer_value(value));
      break;
    case JSON_REAL:
      emit_real(json, json_real_value(value));
      break;
    case JSON_TRUE:
      ckpt_json_bool(json, true);
      break;
    case JSON_FALSE:
      ckpt_json_bool(json, false);
      break;
    case JSON_NULL:
      ckpt_json_null(json);
      break;
  }
}

ckpt_status ck_json_dump(char **out, const json_t *value, ckpt_error *error) {
  *out = NULL;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (!json) return ck_no_memory(error, 0);
  ck_json_emit(json, value);
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  if (text) *out = ck_copy_text_n(text, n - 1);
  ckpt_json_free(json);
  return *out ? CKPT_OK : ck_no_memory(error, n);
}
