/* The store: SQLite files in two layers, the statements on them, transactions. */
#ifndef CH_STORE_H
#define CH_STORE_H

#include <sqlite3.h>

#include "choices.h"
#include "memory.h"
#include "record.h"

/* Steps of the schema (made of schema.sql): ch_schema[v - 1] leads to version v. */
extern const char *const ch_schema[];
extern const int ch_schema_version;
enum { CH_APPLICATION_ID = 0x53784368 }; /* "SxCh" in the file's header: what tells a store from other databases */

typedef enum ch_statement {
  CH_SQL_BEGIN,
  CH_SQL_COMMIT,
  CH_SQL_ROLLBACK,
  CH_SQL_DEVICE_ADD,
  CH_SQL_DEVICE_ID,
  CH_SQL_LOOKUP,
  CH_SQL_ADD,
  CH_SQL_REPLACE,
  CH_SQL_CANDIDATE_ADD,
  CH_SQL_CANDIDATES_DROP,
  CH_SQL_CANDIDATES,
  CH_SQL_REJECT,
  CH_SQL_IS_REJECTED,
  CH_SQL_COST,
  CH_SQL_COST_ADD,
  CH_SQL_ROWS,
  CH_SQL_COSTS,
  CH_SQL_DEVICES,
  CH_SQL_DROP,
  CH_SQL_COSTS_DROP,
  CH_SQL_DEVICES_DROP,
  CH_N_SQL
} ch_statement;

typedef struct ch_layer {
  sqlite3 *db; /* NULL: no such layer */
  char *path;
  const char *origin; /* "user", "system" */
  bool writable, immutable, network;
  sqlite3_stmt *statements[CH_N_SQL];
} ch_layer;

struct choices_store {
  ch_layer user, system;
  choices_error warning;
};

/* ---- one layer: sql.c ---- */

/* The prepared statement, reset and without bindings; NULL and *error on a failure. */
sqlite3_stmt *ch_sql(ch_layer *layer, ch_statement which, choices_error *error);
/* Runs it to its end. */
choices_status ch_sql_run(ch_layer *layer, sqlite3_stmt *statement, choices_error *error);
/* The next row: *more is false after the last. */
choices_status ch_sql_next(bool *more, ch_layer *layer, sqlite3_stmt *statement, choices_error *error);
/* What the last call on the layer failed with, as an error of ours. */
choices_status ch_sql_fail(const ch_layer *layer, choices_error *error);
void ch_sql_text(sqlite3_stmt *statement, int place, const char *text); /* NULL: null */
const char *ch_sql_column(sqlite3_stmt *statement, int column);         /* borrowed until the next row; NULL: null */
int64_t ch_sql_number(ch_layer *layer, const char *sql, int64_t otherwise);
void ch_layer_close(ch_layer *layer);

/* Runs a function in one immediate transaction of the user's layer; rolled back where it fails. */
typedef choices_status ch_transaction(void *context, ch_layer *layer, choices_error *error);
choices_status ch_in_transaction(choices_store *store, ch_transaction *run, void *context, choices_error *error);

/* ---- opening: layer.c ---- */

/* Opens for reading and writing, makes and migrates; the file and its directory exist. */
choices_status ch_layer_open(ch_layer *layer, const choices_store_options *options, choices_error *error);
/* Opens for reading alone. E-CHOICE-013 with *older where the schema is older than this version's. */
choices_status ch_layer_open_read(ch_layer *layer, int busy_ms, bool *older, choices_error *error);
/* Whether the file system of a path is one of a network; false where it cannot be said. */
bool ch_is_network(const char *path);
bool ch_is_network_magic(unsigned long magic);

/* ---- rows: rows.c ---- */

/* A key with its texts as the store holds them. */
typedef struct ch_place {
  ch_arena memory;
  choices_device device;
  const char *kind, *key, *executable, *mode;
  int64_t executable_n_bytes, executable_modified_s;
} ch_place;
choices_status ch_place_make(ch_place *out, const choices_key *key, choices_error *error);
void ch_place_free(ch_place *place);

/* Device facts bound at places 1 to 5. */
void ch_bind_device(sqlite3_stmt *statement, const choices_device *device);
/* The row of a device, made where it is missing. */
choices_status ch_device_id(int64_t *id, ch_layer *layer, const choices_device *device, const char *extra,
                            choices_error *error);
/* The row of a statement CH_SQL_LOOKUP or CH_SQL_ROWS, into the record. With its candidates where asked for. */
choices_status ch_row_read(choices_record *record, size_t device, ch_layer *layer, sqlite3_stmt *statement,
                           bool measurements, choices_error *error);
/* Looks a place up; *record gets a row where there is one. */
choices_status ch_row_find(bool *found, choices_record *record, ch_layer *layer, const ch_place *place,
                           bool measurements, choices_error *error);
/* Inserts a row of a device unless its key is there: *added. Or replaces its value. */
choices_status ch_row_add(bool *added, ch_layer *layer, int64_t device, const choices_row *row, choices_error *error);
choices_status ch_row_replace(ch_layer *layer, int64_t device, const choices_row *row, choices_error *error);

/* A timing of the cost model; *time_ns stays as it is where there is none. */
choices_status ch_cost_find(int64_t *time_ns, ch_layer *layer, const choices_device *device, const char *key,
                            choices_error *error);

#endif
