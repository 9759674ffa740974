#include "json_members.h"

#include <string.h>

bool json_text_equal(const json_text *left, const json_text *right) {
  return left->n == right->n && memcmp(left->text, right->text, left->n) == 0;
}

/* Where a string that starts at `at` has its closing quote. */
static size_t string_end(const json_text *of, size_t at) {
  for (at++; at < of->n && of->text[at] != '"'; at++)
    if (of->text[at] == '\\') at++;
  return at;
}

/* Where a value that starts at `at` ends: at the comma or the bracket after it. */
static size_t value_end(const json_text *of, size_t at) {
  size_t depth = 0;
  for (; at < of->n; at++) {
    char c = of->text[at];
    if (c == '"') at = string_end(of, at);
    if (c == '{' || c == '[') depth++;
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '}' || c == ']') depth--;
  }
  return at;
}

static size_t skip_space(const json_text *of, size_t at) {
  while (at < of->n && strchr(" \t\r\n", of->text[at])) at++;
  return at;
}

bool json_member_next(json_text *key, json_text *value, const json_text *object, size_t *at) {
  size_t begin = skip_space(object, *at);
  if (*at == 0 && (begin >= object->n || object->text[begin] != '{')) return false;
  if (begin < object->n && (object->text[begin] == '{' || object->text[begin] == ','))
    begin = skip_space(object, begin + 1);
  if (begin >= object->n || object->text[begin] != '"') return false;
  size_t end = string_end(object, begin);
  *key = (json_text){object->text + begin + 1, end - begin - 1};
  size_t colon = skip_space(object, end + 1);
  size_t first = skip_space(object, colon + 1), last = value_end(object, first);
  *at = last;
  while (last > first && strchr(" \t\r\n", object->text[last - 1])) last--;
  *value = (json_text){object->text + first, last - first};
  return last <= object->n;
}

bool json_member_find(json_text *value, const json_text *object, const json_text *key) {
  json_text found;
  for (size_t at = 0; json_member_next(&found, value, object, &at);)
    if (json_text_equal(&found, key)) return true;
  return false;
}
