#include "kinds.h"

#include <string.h>

static const choices_kind kinds[] = {
    {.name = "convolution", .member = "convolutions", .is_map = true, .is_text = true, .most = 8},
    {.name = "node_gradients", .member = "node_gradients", .is_text = true},
    {.name = "product", .member = "products", .is_map = true, .is_text = true, .by_executable = true, .margin = 0.01},
    {.name = "recompute", .member = "recompute"},
    {.name = "stacking", .member = "stacking", .by_executable = true},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

const choices_kind *choices_kinds(size_t *n_out) {
  *n_out = N_KINDS;
  return kinds;
}

int ch_kind_index(const char *name) {
  for (int i = 0; i < N_KINDS; i++)
    if (strcmp(kinds[i].name, name) == 0 || strcmp(kinds[i].member, name) == 0) return i;
  return -1;
}

const choices_kind *choices_kind_find(const char *name) {
  int index = ch_kind_index(name);
  return index < 0 ? NULL : &kinds[index];
}

/* Null is "none recorded" of a kind with one value a run. */
static const char *refusal(const choices_kind *kind, const json_t *json) {
  if (json_is_null(json) && !kind->is_map) return NULL;
  if (kind->is_text) return json_is_string(json) ? NULL : kind->is_map ? "text" : "text or null";
  if (strcmp(kind->name, "stacking") == 0)
    return json_is_integer(json) && json_integer_value(json) > 0 ? NULL : "a positive integer or null";
  return json_is_number(json) && json_number_value(json) >= 0 ? NULL : "a number that is not negative, or null";
}

bool ch_value_read(const char **value, bool *is_json, const char **expected, const char *kind, const json_t *json,
                   ch_arena *arena) {
  const choices_kind *known = choices_kind_find(kind);
  *expected = known ? refusal(known, json) : NULL;
  if (*expected) return false;
  *is_json = !json_is_string(json);
  *value = *is_json ? ch_json_text(arena, json) : ch_arena_text(arena, json_string_value(json));
  return true;
}

void ch_value_put(ch_text *to, const char *value, bool is_json) {
  if (is_json)
    ch_text_add(to, value);
  else
    ch_json_put_string(to, value);
}
