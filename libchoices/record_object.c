/* The choices object of a run. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "record.h"
#include "utf8.h"

/* What the digest leaves out of an object: how and when, not what. */
static const char *const volatile_members[] = {"created", "host",    "measured", "measurements",
                                               "probes",  "timings", "tool"};

static bool is_volatile(const char *name) {
  for (size_t i = 0; i < sizeof volatile_members / sizeof *volatile_members; i++)
    if (strcmp(volatile_members[i], name) == 0) return true;
  return false;
}

static choices_status refuse(choices_error *error, const char *name, const char *member, const char *expected) {
  return ch_fail(error, CH_E_RECORD_FORMAT, name, 0, "member \"%s\": expected %s", member, expected);
}

static choices_status read_one(choices_record *record, const char *name, const char *kind, const char *key,
                               const char *member, const json_t *value, choices_error *error) {
  choices_row row = {.kind = kind, .key = key, .executable = "", .mode = "", .ahead = -1};
  const char *expected = NULL;
  if (!ch_value_read(&row.value, &row.is_json, &expected, kind, value, &record->memory))
    return refuse(error, name, member, expected);
  return ch_record_add(record, &row) ? CHOICES_OK : ch_no_memory(error);
}

static choices_status read_kind(choices_record *record, const char *name, int index, const json_t *value,
                                choices_error *error) {
  size_t n_kinds;
  const choices_kind *kind = &choices_kinds(&n_kinds)[index];
  record->maps |= 1u << index;
  if (!kind->is_map) return read_one(record, name, kind->name, "", kind->member, value, error);
  if (!json_is_object(value)) return refuse(error, name, kind->member, "an object of keys and values");
  const char *key;
  json_t *item;
  json_object_foreach((json_t *)(uintptr_t)value, key, item) {
    if (!key[0]) return refuse(error, name, kind->member, "keys that are not empty");
    const char *kept = ch_arena_text(&record->memory, key);
    choices_status status =
        kept ? read_one(record, name, kind->name, kept, kind->member, item, error) : ch_no_memory(error);
    if (status != CHOICES_OK) return status;
  }
  return CHOICES_OK;
}

static choices_status read_needed(choices_record *record, const char *name, const json_t *list, choices_error *error) {
  size_t index;
  json_t *item;
  if (!json_is_array(list)) return refuse(error, name, "requires", "an array of names of members");
  record->needed = ch_arena_take(&record->memory, json_array_size(list), sizeof *record->needed);
  json_array_foreach(list, index, item) {
    if (!json_is_string(item)) return refuse(error, name, "requires", "an array of names of members");
    if (record->needed) record->needed[record->n_needed++] = ch_arena_text(&record->memory, json_string_value(item));
  }
  return CHOICES_OK;
}

/* A member that is no decision. */
static choices_status read_fact(choices_record *record, const char *name, const char *key, const json_t *value,
                                choices_error *error) {
  choices_object *object = &record->object;
  const char *text = json_is_string(value) ? ch_arena_text(&record->memory, json_string_value(value))
                                           : ch_json_text(&record->memory, value);
  record->facts[record->n_facts++] = (ch_fact){ch_arena_text(&record->memory, key), text};
  if (strcmp(key, "device") == 0) {
    if (!json_is_string(value)) return refuse(error, name, key, "text");
    object->device = text;
  } else if (strcmp(key, "graph") == 0) {
    if (!json_is_string(value)) return refuse(error, name, key, "text");
    object->graph = text;
  } else if (strcmp(key, "numerics") == 0) {
    if (!json_is_integer(value) || json_integer_value(value) < 1) return refuse(error, name, key, "a positive integer");
    object->numerics = json_integer_value(value);
  } else if (strcmp(key, "strict") == 0 || strcmp(key, "portable") == 0) {
    if (!json_is_boolean(value)) return refuse(error, name, key, "true or false");
    *(key[0] == 's' ? &object->strict : &object->portable) = json_is_true(value);
  } else if (strcmp(key, "requires") == 0) {
    return read_needed(record, name, value, error);
  }
  return CHOICES_OK;
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const ch_fact *)left)->name, ((const ch_fact *)right)->name);
}

/* The whole text, and the one that the digest is of. */
static choices_status keep_texts(choices_record *record, const json_t *object, choices_error *error) {
  json_t *identity = json_copy((json_t *)(uintptr_t)object);
  if (!identity) return ch_no_memory(error);
  for (size_t i = 0; i < sizeof volatile_members / sizeof *volatile_members; i++)
    json_object_del(identity, volatile_members[i]);
  record->object_text = ch_json_text(&record->memory, object);
  record->identity_text = ch_json_text(&record->memory, identity);
  json_decref(identity);
  return record->memory.failed ? ch_no_memory(error) : CHOICES_OK;
}

choices_status ch_object_read(choices_record *record, const char *name, const json_t *object, choices_error *error) {
  const char *key;
  json_t *value;
  choices_status status = CHOICES_OK;
  record->is_object = true;
  record->facts = ch_arena_take(&record->memory, json_object_size(object), sizeof *record->facts);
  if (!record->facts) return ch_no_memory(error);
  json_object_foreach((json_t *)(uintptr_t)object, key, value) {
    int index = ch_kind_index(key);
    size_t n_kinds;
    bool decides = index >= 0 && strcmp(choices_kinds(&n_kinds)[index].member, key) == 0;
    const char *expected = NULL;
    if (decides)
      status = read_kind(record, name, index, value, error);
    else if (strcmp(key, "probes") == 0 && !ch_probes_read(record, &expected, value))
      status = expected ? refuse(error, name, key, expected) : ch_no_memory(error);
    else if (!is_volatile(key))
      status = read_fact(record, name, key, value, error);
    if (status != CHOICES_OK) return status;
  }
  if (record->memory.failed) return ch_no_memory(error);
  if (!record->object.device) return refuse(error, name, "device", "the facts of a device");
  qsort(record->facts, record->n_facts, sizeof *record->facts, by_name);
  choices_device device = {.device = record->object.device};
  if (ch_record_device(record, &device, NULL) != 0) return ch_no_memory(error);
  return keep_texts(record, object, error);
}

/* ---- making one ----------------------------------------------------------------------------------------------------
 */

/* Null where memory fails: that the value is JSON was seen before. */
static json_t *value_json(const choices_row *row) {
  return row->is_json ? json_loads(row->value, JSON_DECODE_ANY, NULL) : json_string(row->value);
}

static bool add_row(json_t *to, const choices_row *row) {
  const choices_kind *kind = choices_kind_find(row->kind);
  if (!kind->is_map) return json_object_set_new(to, kind->member, value_json(row)) == 0;
  json_t *map = json_object_get(to, kind->member);
  if (!map && json_object_set_new(to, kind->member, map = json_object()) != 0) return false;
  return json_object_set_new(map, row->key, value_json(row)) == 0;
}

/* Whether what is given can be in an object at all, so that a failure after it is one of memory. */
static choices_status check_rows(const choices_object *object, const choices_row *rows, size_t n_rows,
                                 choices_error *error) {
  bool good = ch_utf8_is(object->device) && (!object->graph || ch_utf8_is(object->graph));
  for (size_t i = 0; good && i < object->n_probes; i++) good = ch_utf8_is(object->probes[i].key);
  for (size_t i = 0; good && i < n_rows; i++) {
    json_error_t refused = {.text = ""};
    json_t *value = rows[i].is_json ? json_loads(rows[i].value, JSON_DECODE_ANY, &refused) : NULL;
    json_decref(value);
    good = choices_kind_find(rows[i].kind) && ch_utf8_is(rows[i].key) && ch_utf8_is(rows[i].value) && !refused.text[0];
  }
  if (good) return CHOICES_OK;
  return ch_fail(error, CH_E_RECORD_FORMAT, "this run's choices", 0, "expected UTF-8, known kinds and values");
}

static bool add_facts(json_t *to, const choices_object *object) {
  bool good = json_object_set_new(to, "device", json_string(object->device)) == 0;
  if (object->graph) good = good && json_object_set_new(to, "graph", json_string(object->graph)) == 0;
  if (object->numerics) good = good && json_object_set_new(to, "numerics", json_integer(object->numerics)) == 0;
  if (object->portable) good = good && json_object_set_new(to, "portable", json_true()) == 0;
  if (object->n_probes) good = good && json_object_set_new(to, "probes", ch_probes_json(object)) == 0;
  return good && json_object_set_new(to, "strict", json_boolean(object->strict)) == 0;
}

choices_status choices_record_make(choices_record **out, const choices_object *object, const choices_row *rows,
                                   size_t n_rows, const char *const *maps, size_t n_maps, choices_error *error) {
  *out = NULL;
  ch_error_clear(error);
  choices_status status = check_rows(object, rows, n_rows, error);
  if (status != CHOICES_OK) return status;
  json_t *json = json_object();
  choices_record *record = ch_record_new();
  bool good = json && record && add_facts(json, object);
  for (size_t i = 0; good && i < n_maps; i++) good = json_object_set_new(json, maps[i], json_object()) == 0;
  for (size_t i = 0; good && i < n_rows; i++) good = add_row(json, &rows[i]);
  if (!good) status = ch_no_memory(error);
  if (status == CHOICES_OK) status = ch_object_read(record, "this run's choices", json, error);
  json_decref(json);
  if (status == CHOICES_OK) return ch_record_finish(out, record, NULL, error);
  choices_record_free(record);
  return status;
}
