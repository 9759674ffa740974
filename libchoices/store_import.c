/* Records into the store, and rows out of it. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "store.h"

typedef struct importing {
  const choices_record *from;
  choices_conflict conflict;
  choices_imported counts;
  choices_record *there; /* the row that is in the store under a key of the record */
} importing;

static bool same_value(const choices_row *left, const choices_row *right) {
  return left->is_json == right->is_json && strcmp(left->value, right->value) == 0;
}

static choices_status settle(importing *i, ch_layer *layer, int64_t device, const choices_row *row,
                             const choices_row *there, choices_error *error) {
  if (same_value(row, there)) {
    i->counts.n_same++;
    return CHOICES_OK;
  }
  if (i->conflict == CHOICES_CONFLICT_REFUSE)
    return ch_fail(error, CH_E_CONFLICT, NULL, 0, "%s %.400s is %.200s in the store and %.200s in the record",
                   row->kind, row->key, there->value, row->value);
  if (i->conflict == CHOICES_CONFLICT_KEEP) {
    i->counts.n_kept++;
    return CHOICES_OK;
  }
  i->counts.n_replaced++;
  return ch_row_replace(layer, device, row, error);
}

static choices_status import_row(importing *i, ch_layer *layer, int64_t device, const choices_device *facts,
                                 const choices_row *row, choices_error *error) {
  bool added = false, found = false;
  choices_status status = ch_row_add(&added, layer, device, row, error);
  i->counts.n_added += added;
  if (status != CHOICES_OK || added) return status;
  const ch_place place = {
      .device = *facts, .kind = row->kind, .key = row->key, .executable = row->executable, .mode = row->mode};
  choices_record *there = ch_record_new();
  status = there ? ch_row_find(&found, there, layer, &place, false, error) : ch_no_memory(error);
  if (status == CHOICES_OK && !found) status = ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "a row is gone");
  if (status == CHOICES_OK) status = settle(i, layer, device, row, &there->rows[0], error);
  choices_record_free(there);
  return status;
}

static choices_status import_cost(ch_layer *layer, int64_t device, const choices_cost *cost, choices_error *error) {
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_COST_ADD, error);
  if (!statement) return CHOICES_IO;
  sqlite3_bind_int64(statement, 1, device);
  ch_sql_text(statement, 2, cost->key);
  sqlite3_bind_int64(statement, 3, cost->time_ns);
  return ch_sql_run(layer, statement, error);
}

static choices_status import_all(void *context, ch_layer *layer, choices_error *error) {
  importing *i = context;
  const choices_record *from = i->from;
  choices_status status = CHOICES_OK;
  int64_t *ids = malloc((from->n_devices + 1) * sizeof *ids);
  if (!ids) return ch_no_memory(error);
  for (size_t k = 0; status == CHOICES_OK && k < from->n_devices; k++)
    status = ch_device_id(&ids[k], layer, &from->devices[k], from->device_extras[k], error);
  for (size_t k = 0; status == CHOICES_OK && k < from->n_rows; k++) {
    const choices_row *row = &from->rows[k];
    status = import_row(i, layer, ids[row->device], &from->devices[row->device], row, error);
  }
  for (size_t k = 0; status == CHOICES_OK && k < from->n_costs; k++)
    status = import_cost(layer, ids[from->costs[k].device], &from->costs[k], error);
  free(ids);
  return status;
}

choices_status choices_store_import(choices_imported *out, choices_store *store, const choices_record *record,
                                    choices_conflict conflict, choices_error *error) {
  importing i = {.from = record, .conflict = conflict};
  *out = (choices_imported){0};
  ch_error_clear(error);
  if (record->is_object)
    return ch_fail(error, CH_E_RECORD_NONE, NULL, 0,
                   "a run's choices say too little of their device to be stored; pin a run to them with --choices");
  choices_status status = ch_in_transaction(store, import_all, &i, error);
  if (status == CHOICES_OK) *out = i.counts;
  return status;
}

/* ---- removing
 * ---------------------------------------------------------------------------------------------------------- */

typedef struct removing {
  const choices_removal *removal;
  const char *kind;
  size_t n;
} removing;

/* Of a statement CH_SQL_ROWS. */
static bool goes(const removing *r, sqlite3_stmt *row) {
  const char *executable = ch_sql_column(row, 3), *measured = ch_sql_column(row, 6);
  if (r->removal->older_than && (!measured || strcmp(measured, r->removal->older_than) >= 0)) return false;
  if (!r->removal->n_executables) return true;
  for (size_t i = 0; i < r->removal->n_executables; i++)
    if (strcmp(executable, r->removal->executables[i]) == 0) return false;
  return executable[0] != 0;
}

static choices_status list_rows(int64_t **ids, removing *r, ch_layer *layer, choices_error *error) {
  size_t room = 0;
  bool more = true;
  sqlite3_stmt *statement = ch_sql(layer, CH_SQL_ROWS, error);
  if (!statement) return CHOICES_IO;
  ch_sql_text(statement, 1, r->removal->filter.device);
  ch_sql_text(statement, 2, r->kind);
  ch_sql_text(statement, 3, r->removal->filter.key);
  choices_status status = ch_sql_next(&more, layer, statement, error);
  while (status == CHOICES_OK && more) {
    if (goes(r, statement)) {
      void *grown = ch_grow(*ids, r->n, &room, sizeof **ids);
      if (!grown) return ch_no_memory(error);
      *ids = grown;
      (*ids)[r->n++] = sqlite3_column_int64(statement, 0);
    }
    status = ch_sql_next(&more, layer, statement, error);
  }
  return status;
}

static choices_status drop(ch_layer *layer, ch_statement which, const char *text, int64_t id, choices_error *error) {
  sqlite3_stmt *statement = ch_sql(layer, which, error);
  if (!statement) return CHOICES_IO;
  if (which == CH_SQL_DROP) sqlite3_bind_int64(statement, 1, id);
  if (which == CH_SQL_COSTS_DROP) ch_sql_text(statement, 1, text);
  return ch_sql_run(layer, statement, error);
}

static choices_status remove_all(void *context, ch_layer *layer, choices_error *error) {
  removing *r = context;
  int64_t *ids = NULL;
  const choices_removal *removal = r->removal;
  bool whole = !removal->filter.kind && !removal->filter.key && !removal->older_than && !removal->n_executables;
  choices_status status = list_rows(&ids, r, layer, error);
  for (size_t i = 0; status == CHOICES_OK && i < r->n; i++) status = drop(layer, CH_SQL_DROP, NULL, ids[i], error);
  if (status == CHOICES_OK && whole) status = drop(layer, CH_SQL_COSTS_DROP, removal->filter.device, 0, error);
  if (status == CHOICES_OK) status = drop(layer, CH_SQL_DEVICES_DROP, NULL, 0, error);
  free(ids);
  return status;
}

choices_status choices_store_remove(size_t *n_removed, choices_store *store, const choices_removal *removal,
                                    choices_error *error) {
  const choices_kind *kind = removal->filter.kind ? choices_kind_find(removal->filter.kind) : NULL;
  removing r = {removal, kind ? kind->name : removal->filter.kind, 0};
  ch_error_clear(error);
  choices_status status = ch_in_transaction(store, remove_all, &r, error);
  *n_removed = status == CHOICES_OK ? r.n : 0;
  return status;
}
