/* Rows of the store, in and out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "store.h"

/* ---- keys
 * ------------------------------------------------------------------------------------------------------------ */

/* Libraries as records print them. */
static choices_status canonical_libraries(const char **out, ch_arena *memory, const char *libraries,
                                          choices_error *error) {
  json_t *json = NULL;
  size_t at = 0;
  *out = "";
  if (!libraries || !libraries[0]) return CHOICES_OK;
  choices_status status = ch_json_next(&json, "libraries of a device", libraries, strlen(libraries), &at, error);
  if (status != CHOICES_OK) return status;
  *out = ch_json_text(memory, json);
  json_decref(json);
  return *out ? CHOICES_OK : ch_no_memory(error);
}

choices_status ch_place_make(ch_place *out, const choices_key *key, choices_error *error) {
  const choices_kind *kind = choices_kind_find(key->kind);
  char identity[CHOICES_IDENTITY_TEXT] = "";
  *out = (ch_place){.device = *key->device, .kind = kind ? kind->name : key->kind, .key = key->key};
  if (key->executable) {
    out->executable_n_bytes = key->executable->n_bytes;
    out->executable_modified_s = key->executable->modified_s;
    if (!kind || kind->by_executable) choices_executable_identity(identity, key->executable);
  }
  out->executable = ch_arena_text(&out->memory, identity);
  out->mode = key->mode ? key->mode : "";
  choices_status status = canonical_libraries(&out->device.libraries, &out->memory, key->device->libraries, error);
  if (status == CHOICES_OK && out->memory.failed) status = ch_no_memory(error);
  if (status != CHOICES_OK) ch_place_free(out);
  return status;
}

void ch_place_free(ch_place *place) { ch_arena_free(&place->memory); }

void ch_bind_device(sqlite3_stmt *statement, const choices_device *device) {
  ch_sql_text(statement, 1, device->device);
  sqlite3_bind_int64(statement, 2, device->driver);
  ch_sql_text(statement, 3, device->libraries ? device->libraries : "");
  sqlite3_bind_int64(statement, 4, device->capability);
  sqlite3_bind_int64(statement, 5, device->multiprocessors);
}

choices_status ch_device_id(int64_t *id, ch_layer *layer, const choices_device *device, const char *extra,
                            choices_error *error) {
  bool more = false;
  sqlite3_stmt *add = ch_sql(layer, CH_SQL_DEVICE_ADD, error);
  sqlite3_stmt *find = add ? ch_sql(layer, CH_SQL_DEVICE_ID, error) : NULL;
  if (!find) return CHOICES_IO;
  ch_bind_device(add, device);
  ch_sql_text(add, 6, device->gpu);
  ch_sql_text(add, 7, extra);
  choices_status status = ch_sql_run(layer, add, error);
  ch_bind_device(find, device);
  if (status == CHOICES_OK) status = ch_sql_next(&more, layer, find, error);
  if (status == CHOICES_OK && !more) return ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "a device is gone");
  *id = more ? sqlite3_column_int64(find, 0) : -1;
  sqlite3_reset(find);
  return status;
}

/* ---- out
 * ------------------------------------------------------------------------------------------------------------- */

static choices_status refuse(const ch_layer *layer, const char *what, choices_error *error) {
  return ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "found a malformed %s", what);
}

static json_t *column_json(sqlite3_stmt *statement, int column) {
  const char *text = ch_sql_column(statement, column);
  return text ? json_loadb(text, (size_t)sqlite3_column_bytes(statement, column),
                           JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL)
              : NULL;
}

static choices_status read_value(const char **value, bool *is_json, const char *kind, ch_layer *layer,
                                 sqlite3_stmt *statement, int column, ch_arena *memory, choices_error *error) {
  const char *expected = NULL;
  json_t *json = column_json(statement, column);
  bool good = json && ch_value_read(value, is_json, &expected, kind, json, memory);
  json_decref(json);
  if (memory->failed) return ch_no_memory(error);
  return good ? CHOICES_OK : refuse(layer, "value", error);
}

static bool read_samples(choices_candidate *to, const json_t *list, ch_arena *memory) {
  size_t n = json_array_size(list);
  int64_t *samples = ch_arena_take(memory, n, sizeof *samples);
  if (!json_is_array(list)) return false;
  for (size_t i = 0; samples && i < n; i++) {
    if (!json_is_integer(json_array_get(list, i))) return false;
    samples[i] = json_integer_value(json_array_get(list, i));
  }
  to->samples_ns = samples;
  to->n_samples = samples ? n : 0;
  return true;
}

static choices_status read_candidate(choices_candidate *to, const char *kind, ch_layer *layer, sqlite3_stmt *statement,
                                     ch_arena *memory, choices_error *error) {
  choices_status status = read_value(&to->value, &to->is_json, kind, layer, statement, 0, memory, error);
  if (status != CHOICES_OK) return status;
  int64_t state = sqlite3_column_int64(statement, 1);
  const char *probe = ch_sql_column(statement, 2);
  json_t *samples = column_json(statement, 3);
  bool good = state >= CHOICES_MEASURED && state <= CHOICES_FAILED && read_samples(to, samples, memory) &&
              (!probe || (strlen(probe) == 16 && strspn(probe, "0123456789abcdef") == 16));
  json_decref(samples);
  to->state = (choices_state)(good ? state : 0);
  to->has_probe = probe != NULL;
  to->probe = good && probe ? strtoull(probe, NULL, 16) : 0;
  return good ? CHOICES_OK : refuse(layer, "candidate", error);
}

static choices_status read_candidates(choices_row *row, int64_t id, ch_layer *layer, ch_arena *memory,
                                      choices_error *error) {
  enum { MOST = 4096 };
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_CANDIDATES, error);
  if (!statement) return CHOICES_IO;
  sqlite3_bind_int64(statement, 1, id);
  choices_candidate *candidates = NULL;
  size_t n = 0, room = 0;
  bool more = true;
  choices_status status = CHOICES_OK;
  while (status == CHOICES_OK) {
    status = ch_sql_next(&more, layer, statement, error);
    if (status != CHOICES_OK || !more) break;
    void *grown = n < MOST ? ch_grow(candidates, n, &room, sizeof *candidates) : NULL;
    if (grown) candidates = grown;
    if (grown) candidates[n] = (choices_candidate){0};
    status = grown ? read_candidate(&candidates[n++], row->kind, layer, statement, memory, error) : ch_no_memory(error);
  }
  if (status == CHOICES_OK && n) {
    choices_candidate *kept = ch_arena_take(memory, n, sizeof *kept);
    if (kept) memcpy(kept, candidates, n * sizeof *kept);
    row->candidates = kept;
    row->n_candidates = kept ? n : 0;
  }
  sqlite3_reset(statement);
  free(candidates);
  return status;
}

choices_status ch_row_read(choices_record *record, size_t device, ch_layer *layer, sqlite3_stmt *statement,
                           bool measurements, choices_error *error) {
  ch_arena *memory = &record->memory;
  int64_t bits = sqlite3_column_int64(statement, 10);
  choices_row row = {
      .device = device,
      .kind = ch_arena_text(memory, ch_sql_column(statement, 1)),
      .key = ch_arena_text(memory, ch_sql_column(statement, 2)),
      .executable = ch_arena_text(memory, ch_sql_column(statement, 3)),
      .mode = ch_arena_text(memory, ch_sql_column(statement, 4)),
      .measured = ch_arena_text(memory, ch_sql_column(statement, 6)),
      .tool = ch_arena_text(memory, ch_sql_column(statement, 7)),
      .reason = ch_arena_text(memory, ch_sql_column(statement, 8)),
      .ahead = sqlite3_column_type(statement, 9) == SQLITE_NULL ? -1 : sqlite3_column_double(statement, 9),
      .bits = bits == 1   ? CHOICES_BITS_NEUTRAL
              : bits == 2 ? CHOICES_BITS_MOVE
                          : CHOICES_BITS_UNKNOWN,
      .executable_n_bytes = sqlite3_column_int64(statement, 11),
      .executable_modified_s = sqlite3_column_int64(statement, 12),
      .extra = ch_arena_text(memory, ch_sql_column(statement, 13)),
      .origin = layer->origin};
  if (memory->failed) return ch_no_memory(error);
  if (!row.kind || !row.key || !row.executable || !row.mode || !row.kind[0] || !row.key[0])
    return refuse(layer, "row", error);
  choices_status status = read_value(&row.value, &row.is_json, row.kind, layer, statement, 5, memory, error);
  if (status == CHOICES_OK && measurements)
    status = read_candidates(&row, sqlite3_column_int64(statement, 0), layer, memory, error);
  if (status != CHOICES_OK) return status;
  return ch_record_add(record, &row) ? CHOICES_OK : ch_no_memory(error);
}

choices_status ch_row_find(bool *found, choices_record *record, ch_layer *layer, const ch_place *place,
                           bool measurements, choices_error *error) {
  *found = false;
  if (!layer->db) return CHOICES_OK;
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_LOOKUP, error);
  if (!statement) return CHOICES_IO;
  ch_bind_device(statement, &place->device);
  ch_sql_text(statement, 6, place->kind);
  ch_sql_text(statement, 7, place->key);
  ch_sql_text(statement, 8, place->executable);
  ch_sql_text(statement, 9, place->mode);
  choices_status status = ch_sql_next(found, layer, statement, error);
  if (status == CHOICES_OK && *found && record) {
    choices_device device = place->device;
    if (device.libraries && !device.libraries[0]) device.libraries = NULL;
    size_t index = ch_record_device(record, &device, NULL);
    status =
        index == SIZE_MAX ? ch_no_memory(error) : ch_row_read(record, index, layer, statement, measurements, error);
  }
  sqlite3_reset(statement);
  return status;
}

/* ---- in
 * -------------------------------------------------------------------------------------------------------------- */

static void bind_place(sqlite3_stmt *statement, int64_t device, const choices_row *row) {
  sqlite3_bind_int64(statement, 1, device);
  ch_sql_text(statement, 2, row->kind);
  ch_sql_text(statement, 3, row->key);
  ch_sql_text(statement, 4, row->executable);
  ch_sql_text(statement, 5, row->mode);
}

/* Copied by SQLite, as it does not outlive the call. */
static bool bind_value(sqlite3_stmt *statement, int place, const char *value, bool is_json) {
  ch_text text = {0};
  ch_value_put(&text, value, is_json);
  bool good =
      !text.failed && sqlite3_bind_text(statement, place, text.bytes, (int)text.n, SQLITE_TRANSIENT) == SQLITE_OK;
  ch_text_free(&text);
  return good;
}

static bool bind_row(sqlite3_stmt *statement, int64_t device, const choices_row *row) {
  bind_place(statement, device, row);
  ch_sql_text(statement, 7, row->measured);
  ch_sql_text(statement, 8, row->tool);
  ch_sql_text(statement, 9, row->reason);
  if (row->ahead >= 0) sqlite3_bind_double(statement, 10, row->ahead);
  sqlite3_bind_int64(statement, 11, row->bits);
  sqlite3_bind_int64(statement, 12, row->executable_n_bytes);
  sqlite3_bind_int64(statement, 13, row->executable_modified_s);
  ch_sql_text(statement, 14, row->extra);
  return bind_value(statement, 6, row->value, row->is_json);
}

static bool bind_samples(sqlite3_stmt *statement, int place, const choices_candidate *candidate) {
  ch_text text = {0};
  ch_text_add(&text, "[");
  for (size_t i = 0; i < candidate->n_samples; i++)
    ch_text_format(&text, "%s%" PRId64, i ? ", " : "", candidate->samples_ns[i]);
  ch_text_add(&text, "]");
  bool good =
      !text.failed && sqlite3_bind_text(statement, place, text.bytes, (int)text.n, SQLITE_TRANSIENT) == SQLITE_OK;
  ch_text_free(&text);
  return good;
}

static choices_status reject(ch_layer *layer, int64_t device, const choices_row *row,
                             const choices_candidate *candidate, choices_error *error) {
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_REJECT, error);
  if (!statement) return CHOICES_IO;
  sqlite3_bind_int64(statement, 1, device);
  ch_sql_text(statement, 2, row->kind);
  ch_sql_text(statement, 3, row->key);
  return bind_value(statement, 4, candidate->value, candidate->is_json) ? ch_sql_run(layer, statement, error)
                                                                        : ch_no_memory(error);
}

static choices_status add_candidates(ch_layer *layer, int64_t device, const choices_row *row, choices_error *error) {
  choices_status status = CHOICES_OK;
  for (size_t i = 0; status == CHOICES_OK && i < row->n_candidates; i++) {
    const choices_candidate *candidate = &row->candidates[i];
    char probe[32];
    sqlite3_stmt *statement = ch_sql(layer, CH_SQL_CANDIDATE_ADD, error);
    if (!statement) return CHOICES_IO;
    bind_place(statement, device, row);
    snprintf(probe, sizeof probe, "%016" PRIx64, candidate->probe);
    sqlite3_bind_int64(statement, 6, (int64_t)i);
    bool good =
        bind_value(statement, 7, candidate->value, candidate->is_json) && bind_samples(statement, 10, candidate);
    sqlite3_bind_int64(statement, 8, candidate->state);
    if (candidate->has_probe) ch_sql_text(statement, 9, probe);
    status = good ? ch_sql_run(layer, statement, error) : ch_no_memory(error);
    sqlite3_clear_bindings(statement);
    if (status == CHOICES_OK && candidate->state == CHOICES_REJECTED)
      status = reject(layer, device, row, candidate, error);
  }
  return status;
}

choices_status ch_row_add(bool *added, ch_layer *layer, int64_t device, const choices_row *row, choices_error *error) {
  *added = false;
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_ADD, error);
  if (!statement) return CHOICES_IO;
  if (!bind_row(statement, device, row)) return ch_no_memory(error);
  choices_status status = ch_sql_run(layer, statement, error);
  if (status != CHOICES_OK) return status;
  *added = sqlite3_changes(layer->db) > 0;
  return *added ? add_candidates(layer, device, row, error) : CHOICES_OK;
}

choices_status ch_row_replace(ch_layer *layer, int64_t device, const choices_row *row, choices_error *error) {
  sqlite3_stmt *drop = ch_sql(layer, CH_SQL_CANDIDATES_DROP, error);
  sqlite3_stmt *replace = drop ? ch_sql(layer, CH_SQL_REPLACE, error) : NULL;
  if (!replace) return CHOICES_IO;
  bind_place(drop, device, row);
  choices_status status = ch_sql_run(layer, drop, error);
  if (status != CHOICES_OK) return status;
  if (!bind_row(replace, device, row)) return ch_no_memory(error);
  status = ch_sql_run(layer, replace, error);
  return status == CHOICES_OK ? add_candidates(layer, device, row, error) : status;
}
