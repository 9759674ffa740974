/* What a run does with the store: look up, decide, timings of the cost model. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"

/* Finishes a record that has at most the one row. */
static choices_status finish(choices_record **out, choices_record *record, bool found, choices_status status,
                             choices_error *error) {
  if (status == CHOICES_OK && found) return ch_record_finish(out, record, NULL, error);
  choices_record_free(record);
  return status;
}

choices_status choices_store_lookup(choices_record **out, choices_store *store, const choices_key *key,
                                    choices_error *error) {
  ch_place place;
  bool found = false;
  *out = NULL;
  ch_error_clear(error);
  if (!store) return CHOICES_OK;
  choices_status status = ch_place_make(&place, key, error);
  if (status != CHOICES_OK) return status;
  choices_record *record = ch_record_new();
  status = record ? ch_row_find(&found, record, &store->user, &place, true, error) : ch_no_memory(error);
  if (status == CHOICES_OK && !found) status = ch_row_find(&found, record, &store->system, &place, true, error);
  ch_place_free(&place);
  return finish(out, record, found, status, error);
}

typedef struct deciding {
  const ch_place *place;
  const choices_row *row;
  choices_record *record;
  bool found;
} deciding;

static choices_status decide(void *context, ch_layer *layer, choices_error *error) {
  deciding *d = context;
  int64_t device = 0;
  bool added = false;
  choices_row row = *d->row;
  row.kind = d->place->kind;
  row.key = d->place->key;
  row.executable = d->place->executable;
  row.mode = d->place->mode;
  row.executable_n_bytes = d->place->executable_n_bytes;
  row.executable_modified_s = d->place->executable_modified_s;
  choices_status status = ch_device_id(&device, layer, &d->place->device, NULL, error);
  if (status == CHOICES_OK) status = ch_row_add(&added, layer, device, &row, error);
  if (status == CHOICES_OK) status = ch_row_find(&d->found, d->record, layer, d->place, false, error);
  if (status == CHOICES_OK && !d->found) return ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "a row is gone");
  return status;
}

choices_status choices_store_decide(choices_record **out, choices_store *store, const choices_key *key,
                                    const choices_row *row, choices_error *error) {
  ch_place place;
  *out = NULL;
  ch_error_clear(error);
  choices_status status = ch_place_make(&place, key, error);
  if (status != CHOICES_OK) return status;
  deciding d = {&place, row, ch_record_new(), false};
  status = d.record ? ch_in_transaction(store, decide, &d, error) : ch_no_memory(error);
  ch_place_free(&place);
  return finish(out, d.record, d.found, status, error);
}

static choices_status is_rejected(bool *out, ch_layer *layer, const ch_place *place, const char *value,
                                  choices_error *error) {
  if (!layer->db || *out) return CHOICES_OK;
  const choices_kind *kind = choices_kind_find(place->kind);
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_IS_REJECTED, error);
  ch_text text = {0};
  if (!statement) return CHOICES_IO;
  ch_value_put(&text, value, kind && !kind->is_text);
  ch_bind_device(statement, &place->device);
  ch_sql_text(statement, 6, place->kind);
  ch_sql_text(statement, 7, place->key);
  ch_sql_text(statement, 8, text.bytes);
  choices_status status = text.failed ? ch_no_memory(error) : ch_sql_next(out, layer, statement, error);
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  ch_text_free(&text);
  return status;
}

choices_status choices_store_is_rejected(bool *out, choices_store *store, const choices_key *key, const char *value,
                                         choices_error *error) {
  ch_place place;
  *out = false;
  ch_error_clear(error);
  if (!store) return CHOICES_OK;
  choices_status status = ch_place_make(&place, key, error);
  if (status != CHOICES_OK) return status;
  status = is_rejected(out, &store->user, &place, value, error);
  if (status == CHOICES_OK) status = is_rejected(out, &store->system, &place, value, error);
  ch_place_free(&place);
  return status;
}

/* ---- the cost model
 * ---------------------------------------------------------------------------------------------------- */

choices_status ch_cost_find(int64_t *time_ns, ch_layer *layer, const choices_device *device, const char *key,
                            choices_error *error) {
  bool found = false;
  if (!layer->db) return CHOICES_OK;
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_COST, error);
  if (!statement) return CHOICES_IO;
  ch_bind_device(statement, device);
  ch_sql_text(statement, 6, key);
  choices_status status = ch_sql_next(&found, layer, statement, error);
  if (found) *time_ns = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return status;
}

typedef struct costing {
  const ch_place *place;
  int64_t measured_ns, *time_ns;
} costing;

static choices_status keep_cost(void *context, ch_layer *layer, choices_error *error) {
  costing *c = context;
  int64_t device = 0;
  choices_status status = ch_device_id(&device, layer, &c->place->device, NULL, error);
  sqlite3_stmt *statement = status == CHOICES_OK ? ch_sql(layer, CH_SQL_COST_ADD, error) : NULL;
  if (!statement) return status == CHOICES_OK ? CHOICES_IO : status;
  sqlite3_bind_int64(statement, 1, device);
  ch_sql_text(statement, 2, c->place->key);
  sqlite3_bind_int64(statement, 3, c->measured_ns);
  status = ch_sql_run(layer, statement, error);
  return status == CHOICES_OK ? ch_cost_find(c->time_ns, layer, &c->place->device, c->place->key, error) : status;
}

choices_status choices_store_cost(int64_t *time_ns, choices_store *store, const choices_device *device, const char *key,
                                  choices_error *error) {
  const choices_key full = {.device = device, .kind = "cost", .key = key};
  ch_place place;
  *time_ns = -1;
  ch_error_clear(error);
  if (!store) return CHOICES_OK;
  choices_status status = ch_place_make(&place, &full, error);
  if (status != CHOICES_OK) return status;
  status = ch_cost_find(time_ns, &store->user, &place.device, key, error);
  if (status == CHOICES_OK && *time_ns < 0) status = ch_cost_find(time_ns, &store->system, &place.device, key, error);
  ch_place_free(&place);
  return status;
}

choices_status choices_store_keep_cost(int64_t *time_ns, choices_store *store, const choices_device *device,
                                       const char *key, int64_t measured_ns, choices_error *error) {
  const choices_key full = {.device = device, .kind = "cost", .key = key};
  ch_place place;
  *time_ns = -1;
  ch_error_clear(error);
  choices_status status = ch_place_make(&place, &full, error);
  if (status != CHOICES_OK) return status;
  costing c = {&place, measured_ns, time_ns};
  status = ch_in_transaction(store, keep_cost, &c, error);
  ch_place_free(&place);
  return status;
}
