/* Bit probes of a record: the member "probes" of a choices object, {"convolution KEY": "16 hexadecimal digits"}. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"

enum { DIGITS = 16 };

static bool add(choices_record *record, const choices_probe *probe) {
  void *grown = ch_grow(record->probes, record->n_probes, &record->probe_room, sizeof *record->probes);
  if (!grown || record->memory.failed) return false;
  record->probes = grown;
  record->probes[record->n_probes++] = *probe;
  return true;
}

bool ch_probes_read(choices_record *record, const char **expected, const json_t *probes) {
  static const char hexadecimal[] = "0123456789abcdef";
  const char *name;
  json_t *value;
  *expected = "an object of probes: kind and key, and 16 hexadecimal digits";
  if (!json_is_object(probes)) return false;
  json_object_foreach((json_t *)(uintptr_t)probes, name, value) {
    const char *digits = json_string_value(value), *space = strchr(name, ' ');
    if (!digits || strlen(digits) != DIGITS || strspn(digits, hexadecimal) != DIGITS) return false;
    if (!space || space == name || !space[1]) return false;
    char *kind = (char *)(uintptr_t)ch_arena_text(&record->memory, name);
    if (kind) kind[space - name] = 0;
    const choices_probe probe = {
        .kind = kind, .key = kind ? kind + (space - name) + 1 : NULL, .digest = strtoull(digits, NULL, 16)};
    *expected = NULL;
    if (!add(record, &probe)) return false;
    *expected = "an object of probes: kind and key, and 16 hexadecimal digits";
  }
  return true;
}

json_t *ch_probes_json(const choices_object *object) {
  json_t *json = json_object();
  bool good = json != NULL;
  for (size_t i = 0; good && i < object->n_probes; i++) {
    const choices_probe *probe = &object->probes[i];
    ch_text name = {0};
    ch_text_format(&name, "%s %s", probe->kind, probe->key);
    good = !name.failed && json_object_set_new(json, name.bytes, json_sprintf("%016" PRIx64, probe->digest)) == 0;
    ch_text_free(&name);
  }
  if (good) return json;
  json_decref(json);
  return NULL;
}

static int by_name(const void *left, const void *right) {
  const choices_probe *a = left, *b = right;
  int order = strcmp(a->kind, b->kind);
  return order ? order : strcmp(a->key, b->key);
}

bool ch_probes_finish(choices_record *record) {
  for (size_t i = 0; i < record->n_rows && !record->is_object; i++) {
    const choices_row *row = &record->rows[i];
    for (size_t k = 0; k < row->n_candidates; k++) {
      const choices_candidate *candidate = &row->candidates[k];
      const choices_probe probe = {row->kind, row->key, row->value, candidate->probe};
      bool chosen = candidate->has_probe && strcmp(candidate->value, row->value) == 0;
      if (chosen && !add(record, &probe)) return false;
    }
  }
  if (record->n_probes) qsort(record->probes, record->n_probes, sizeof *record->probes, by_name);
  for (size_t i = 0; i < record->n_probes && record->is_object; i++) {
    choices_probe *probe = &record->probes[i];
    const choices_row *row = choices_record_find(record, probe->kind, probe->key);
    if (row) probe->value = row->value;
  }
  return true;
}
