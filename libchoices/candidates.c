/* The measured candidates of a choice as JSON: [{"value": …, "state": …, "probe": …, "samples_ns": […]}, …]. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "record.h"

void ch_candidates_put(ch_text *to, const choices_row *row) {
  ch_text_add(to, "[");
  for (size_t i = 0; i < row->n_candidates; i++) {
    const choices_candidate *from = &row->candidates[i];
    ch_text_add(to, i ? ", {" : "{");
    ch_json_put_name(to, "value");
    ch_value_put(to, from->value, from->is_json);
    ch_json_put_name(to, "state");
    ch_json_put_string(to, ch_state_word(from->state));
    if (from->has_probe) ch_text_format(to, ", \"probe\": \"%016" PRIx64 "\"", from->probe);
    ch_text_add(to, ", \"samples_ns\": [");
    for (size_t k = 0; k < from->n_samples; k++) ch_text_format(to, "%s%" PRId64, k ? ", " : "", from->samples_ns[k]);
    ch_text_add(to, "]}");
  }
  ch_text_add(to, "]");
}

static bool read_probe(choices_candidate *to, const json_t *probe) {
  const char *digits = json_string_value(probe);
  if (!probe) return true;
  if (!digits || strlen(digits) != 16 || strspn(digits, "0123456789abcdef") != 16) return false;
  to->has_probe = true;
  to->probe = strtoull(digits, NULL, 16);
  return true;
}

static bool read_samples(choices_candidate *to, const json_t *list, ch_arena *memory) {
  size_t index, n = json_array_size(list);
  json_t *item;
  int64_t *samples = ch_arena_take(memory, n, sizeof *samples);
  if (list && !json_is_array(list)) return false;
  json_array_foreach(list, index, item) {
    if (!json_is_integer(item) || json_integer_value(item) < 0) return false;
    if (samples) samples[index] = json_integer_value(item);
  }
  to->samples_ns = samples;
  to->n_samples = samples ? n : 0;
  return true;
}

static bool read_candidate(choices_candidate *to, const char **expected, const char *kind, const json_t *from,
                           ch_arena *memory) {
  const json_t *value = json_object_get(from, "value"), *state = json_object_get(from, "state");
  int index = json_is_string(state) ? ch_state_read(json_string_value(state)) : -1;
  *expected = "objects with a value and a state";
  if (!value || index < 0 || !ch_value_read(&to->value, &to->is_json, expected, kind, value, memory)) return false;
  to->state = (choices_state)index;
  *expected = "probes of 16 hexadecimal digits";
  if (!read_probe(to, json_object_get(from, "probe"))) return false;
  *expected = "samples that are integers and not negative";
  return read_samples(to, json_object_get(from, "samples_ns"), memory);
}

bool ch_candidates_read(choices_row *row, const char **expected, const json_t *list, ch_arena *memory) {
  size_t index;
  json_t *item;
  *expected = "an array of objects";
  if (!json_is_array(list)) return false;
  choices_candidate *candidates = ch_arena_take(memory, json_array_size(list), sizeof *candidates);
  if (!candidates) return true; /* the arena remembers */
  json_array_foreach(list, index,
                     item) if (!read_candidate(&candidates[index], expected, row->kind, item, memory)) return false;
  row->candidates = candidates;
  row->n_candidates = json_array_size(list);
  return true;
}
