/* The store as a record: its own rows, and beneath them the system's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "kinds.h"
#include "store.h"

/* The device rows of a layer, and their places in the record (SIZE_MAX: none of its rows is in it yet). */
typedef struct known_device {
  int64_t id;
  choices_device facts;
  const char *extra;
  size_t place;
} known_device;

typedef struct loading {
  choices_record *record;
  ch_layer *layer, *above;
  const choices_filter *filter;
  const char *kind;
  bool measurements;
  known_device *devices;
  size_t n_devices, room;
} loading;

static choices_status load_devices(loading *l, choices_error *error) {
  bool more = true;
  sqlite3_stmt *statement = ch_sql(l->layer, CH_SQL_DEVICES, error);
  if (!statement) return CHOICES_IO;
  ch_sql_text(statement, 1, l->filter->device);
  ch_arena *memory = &l->record->memory;
  choices_status status = ch_sql_next(&more, l->layer, statement, error);
  for (; status == CHOICES_OK && more; status = ch_sql_next(&more, l->layer, statement, error)) {
    void *grown = ch_grow(l->devices, l->n_devices, &l->room, sizeof *l->devices);
    if (!grown) return ch_no_memory(error);
    l->devices = grown;
    known_device *device = &l->devices[l->n_devices++];
    *device = (known_device){.id = sqlite3_column_int64(statement, 0), .place = SIZE_MAX};
    device->facts = (choices_device){.device = ch_arena_text(memory, ch_sql_column(statement, 1)),
                                     .driver = sqlite3_column_int64(statement, 2),
                                     .libraries = ch_arena_text(memory, ch_sql_column(statement, 3)),
                                     .capability = sqlite3_column_int64(statement, 4),
                                     .multiprocessors = sqlite3_column_int64(statement, 5),
                                     .gpu = ch_arena_text(memory, ch_sql_column(statement, 6))};
    device->extra = ch_arena_text(memory, ch_sql_column(statement, 7));
    if (device->facts.libraries && !device->facts.libraries[0]) device->facts.libraries = NULL;
  }
  return status == CHOICES_OK && memory->failed ? ch_no_memory(error) : status;
}

static known_device *find_device(loading *l, int64_t id) {
  for (size_t i = 0; i < l->n_devices; i++)
    if (l->devices[i].id == id) return &l->devices[i];
  return NULL;
}

static choices_status place_of(size_t *place, loading *l, int64_t id, choices_error *error) {
  known_device *device = find_device(l, id);
  if (!device) return ch_fail(error, CH_E_STORE_CORRUPT, l->layer->path, 0, "a row of an unknown device");
  if (device->place == SIZE_MAX) device->place = ch_record_device(l->record, &device->facts, device->extra);
  *place = device->place;
  return device->place == SIZE_MAX ? ch_no_memory(error) : CHOICES_OK;
}

/* Whether the layer above has a value for the row that a statement is at. */
static choices_status is_hidden(bool *hidden, loading *l, sqlite3_stmt *statement, choices_error *error) {
  *hidden = false;
  const known_device *device = find_device(l, sqlite3_column_int64(statement, 14));
  if (!l->above || !device) return CHOICES_OK;
  const ch_place place = {.device = device->facts,
                          .kind = ch_sql_column(statement, 1),
                          .key = ch_sql_column(statement, 2),
                          .executable = ch_sql_column(statement, 3),
                          .mode = ch_sql_column(statement, 4)};
  return ch_row_find(hidden, NULL, l->above, &place, false, error);
}

static choices_status load_rows(loading *l, choices_error *error) {
  bool more = true, hidden = false;
  sqlite3_stmt *statement = ch_sql(l->layer, CH_SQL_ROWS, error);
  if (!statement) return CHOICES_IO;
  ch_sql_text(statement, 1, l->filter->device);
  ch_sql_text(statement, 2, l->kind);
  ch_sql_text(statement, 3, l->filter->key);
  choices_status status = ch_sql_next(&more, l->layer, statement, error);
  while (status == CHOICES_OK && more) {
    size_t place = 0;
    status = is_hidden(&hidden, l, statement, error);
    if (status == CHOICES_OK && !hidden) status = place_of(&place, l, sqlite3_column_int64(statement, 14), error);
    if (status == CHOICES_OK && !hidden)
      status = ch_row_read(l->record, place, l->layer, statement, l->measurements, error);
    if (status == CHOICES_OK) status = ch_sql_next(&more, l->layer, statement, error);
  }
  sqlite3_reset(statement);
  return status;
}

/* A timing that the layer above has too is not wanted. */
static choices_status wants_cost(bool *wanted, loading *l, int64_t id, const char *key, choices_error *error) {
  const known_device *device = find_device(l, id);
  int64_t above_ns = -1;
  *wanted = device != NULL;
  if (!device || !l->above) return CHOICES_OK;
  choices_status status = ch_cost_find(&above_ns, l->above, &device->facts, key, error);
  *wanted = above_ns < 0;
  return status;
}

/* They have no kind and no key to be asked for by. */
static choices_status load_costs(loading *l, choices_error *error) {
  bool more = true, wanted = false;
  if (!l->measurements || l->kind || l->filter->key) return CHOICES_OK;
  sqlite3_stmt *statement = ch_sql(l->layer, CH_SQL_COSTS, error);
  if (!statement) return CHOICES_IO;
  choices_status status = ch_sql_next(&more, l->layer, statement, error);
  while (status == CHOICES_OK && more) {
    choices_cost cost = {.key = ch_arena_text(&l->record->memory, ch_sql_column(statement, 1)),
                         .time_ns = sqlite3_column_int64(statement, 2)};
    int64_t id = sqlite3_column_int64(statement, 0);
    status = cost.key ? wants_cost(&wanted, l, id, cost.key, error) : ch_no_memory(error);
    if (status == CHOICES_OK && wanted) status = place_of(&cost.device, l, id, error);
    if (status == CHOICES_OK && wanted && !ch_record_add_cost(l->record, &cost)) status = ch_no_memory(error);
    if (status == CHOICES_OK) status = ch_sql_next(&more, l->layer, statement, error);
  }
  sqlite3_reset(statement);
  return status;
}

/* All from one snapshot, so that no row is without its device or candidates. */
static choices_status load_layer(loading *l, choices_error *error) {
  if (!l->layer->db) return CHOICES_OK;
  if (sqlite3_exec(l->layer->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) return ch_sql_fail(l->layer, error);
  choices_status status = load_devices(l, error);
  if (status == CHOICES_OK) status = load_rows(l, error);
  if (status == CHOICES_OK) status = load_costs(l, error);
  sqlite3_exec(l->layer->db, "COMMIT", NULL, NULL, NULL);
  free(l->devices);
  return status;
}

choices_status choices_store_record(choices_record **out, choices_store *store, const choices_filter *filter,
                                    bool measurements, choices_error *error) {
  const choices_kind *kind = filter->kind ? choices_kind_find(filter->kind) : NULL;
  *out = NULL;
  ch_error_clear(error);
  choices_record *record = ch_record_new();
  if (!record) return ch_no_memory(error);
  loading user = {record, &store->user, NULL, filter, kind ? kind->name : filter->kind, measurements, NULL, 0, 0};
  loading system = user;
  system.layer = &store->system;
  system.above = &store->user;
  choices_status status = load_layer(&user, error);
  if (status == CHOICES_OK) status = load_layer(&system, error);
  if (status == CHOICES_OK) return ch_record_finish(out, record, store->user.path, error);
  choices_record_free(record);
  return status;
}
