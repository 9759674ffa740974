/* Statements, and what SQLite says when one fails. */
#include <stdlib.h>

#include "error.h"
#include "store.h"

#define ROW_COLUMNS                                                                                     \
  "c.id, c.kind, c.key, c.executable, c.mode, c.value, c.measured, c.tool, c.reason, c.ahead, c.bits, " \
  "c.executable_bytes, c.executable_modified, c.extra"
#define DEVICE_IS \
  "d.device = ?1 AND d.driver = ?2 AND d.libraries = ?3 AND d.capability = ?4 AND d.multiprocessors = ?5"
#define DEVICE_ID "(SELECT d.id FROM device d WHERE " DEVICE_IS ")"

static const char *const texts[CH_N_SQL] = {
    [CH_SQL_BEGIN] = "BEGIN IMMEDIATE",
    [CH_SQL_COMMIT] = "COMMIT",
    [CH_SQL_ROLLBACK] = "ROLLBACK",
    [CH_SQL_DEVICE_ADD] =
        "INSERT OR IGNORE INTO device (device, driver, libraries, capability, multiprocessors, gpu, extra) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [CH_SQL_DEVICE_ID] = "SELECT d.id FROM device d WHERE " DEVICE_IS,
    [CH_SQL_LOOKUP] = "SELECT " ROW_COLUMNS " FROM choice c WHERE c.device = " DEVICE_ID
                      " AND c.kind = ?6 AND c.key = ?7 AND c.executable = ?8 AND c.mode = ?9",
    [CH_SQL_ADD] =
        "INSERT OR IGNORE INTO choice (device, kind, key, executable, mode, value, measured, tool, reason, "
        "ahead, bits, executable_bytes, executable_modified, extra) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    [CH_SQL_REPLACE] =
        "UPDATE choice SET value = ?6, measured = ?7, tool = ?8, reason = ?9, ahead = ?10, bits = ?11, "
        "executable_bytes = ?12, executable_modified = ?13, extra = ?14 "
        "WHERE device = ?1 AND kind = ?2 AND key = ?3 AND executable = ?4 AND mode = ?5",
    [CH_SQL_CANDIDATE_ADD] =
        "INSERT INTO candidate (choice, place, value, state, probe, samples) "
        "SELECT id, ?6, ?7, ?8, ?9, ?10 FROM choice "
        "WHERE device = ?1 AND kind = ?2 AND key = ?3 AND executable = ?4 AND mode = ?5",
    [CH_SQL_CANDIDATES_DROP] =
        "DELETE FROM candidate WHERE choice = (SELECT id FROM choice "
        "WHERE device = ?1 AND kind = ?2 AND key = ?3 AND executable = ?4 AND mode = ?5)",
    [CH_SQL_CANDIDATES] = "SELECT value, state, probe, samples FROM candidate WHERE choice = ?1 ORDER BY place",
    [CH_SQL_REJECT] = "INSERT OR IGNORE INTO rejected (device, kind, key, value) VALUES (?1, ?2, ?3, ?4)",
    [CH_SQL_IS_REJECTED] =
        "SELECT 1 FROM rejected WHERE device = " DEVICE_ID " AND kind = ?6 AND key = ?7 AND value = ?8",
    [CH_SQL_COST] = "SELECT time_ns FROM cost WHERE device = " DEVICE_ID " AND key = ?6",
    [CH_SQL_COST_ADD] = "INSERT OR IGNORE INTO cost (device, key, time_ns) VALUES (?1, ?2, ?3)",
    [CH_SQL_ROWS] = "SELECT " ROW_COLUMNS
                    ", c.device FROM choice c JOIN device d ON d.id = c.device WHERE (?1 IS NULL OR d.device = ?1) "
                    "AND (?2 IS NULL OR c.kind = ?2) AND (?3 IS NULL OR c.key = ?3)",
    [CH_SQL_COSTS] = "SELECT device, key, time_ns FROM cost",
    [CH_SQL_DEVICES] =
        "SELECT id, device, driver, libraries, capability, multiprocessors, gpu, extra FROM device "
        "WHERE ?1 IS NULL OR device = ?1",
    [CH_SQL_DROP] = "DELETE FROM choice WHERE id = ?1",
    [CH_SQL_COSTS_DROP] = "DELETE FROM cost WHERE device IN (SELECT id FROM device WHERE ?1 IS NULL OR device = ?1)",
    [CH_SQL_DEVICES_DROP] =
        "DELETE FROM device WHERE id NOT IN (SELECT device FROM choice UNION SELECT device FROM cost "
        "UNION SELECT device FROM rejected)",
};

/* SQLite's result as a code of ours, by its primary result. */
static ch_code code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_NOMEM:
      return CH_E_NO_MEMORY;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return CH_E_STORE_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR: /* a table or column that is not there */
    case SQLITE_CONSTRAINT:
      return CH_E_STORE_CORRUPT;
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return CH_E_STORE_READ_ONLY;
    case SQLITE_CANTOPEN:
      return CH_E_STORE_OPEN;
    default:
      return CH_E_STORE_WRITE;
  }
}

choices_status ch_sql_fail(const ch_layer *layer, choices_error *error) {
  int result = layer->db ? sqlite3_extended_errcode(layer->db) : SQLITE_NOMEM;
  int system = (result & 0xff) == SQLITE_IOERR ? sqlite3_system_errno(layer->db) : 0;
  return ch_fail(error, code_of(result), layer->path, system, "%s",
                 layer->db ? sqlite3_errmsg(layer->db) : "no memory");
}

sqlite3_stmt *ch_sql(ch_layer *layer, ch_statement which, choices_error *error) {
  sqlite3_stmt **statement = &layer->statements[which];
  if (!*statement &&
      sqlite3_prepare_v3(layer->db, texts[which], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) != SQLITE_OK) {
    ch_sql_fail(layer, error);
    return NULL;
  }
  sqlite3_reset(*statement);
  sqlite3_clear_bindings(*statement);
  return *statement;
}

choices_status ch_sql_next(bool *more, ch_layer *layer, sqlite3_stmt *statement, choices_error *error) {
  int result = sqlite3_step(statement);
  *more = result == SQLITE_ROW;
  if (result == SQLITE_ROW) return CHOICES_OK;
  choices_status status = result == SQLITE_DONE ? CHOICES_OK : ch_sql_fail(layer, error);
  sqlite3_reset(statement);
  return status;
}

choices_status ch_sql_run(ch_layer *layer, sqlite3_stmt *statement, choices_error *error) {
  bool more = true;
  choices_status status = CHOICES_OK;
  while (status == CHOICES_OK && more) status = ch_sql_next(&more, layer, statement, error);
  return status;
}

void ch_sql_text(sqlite3_stmt *statement, int place, const char *text) {
  sqlite3_bind_text(statement, place, text, -1, SQLITE_STATIC);
}

const char *ch_sql_column(sqlite3_stmt *statement, int column) {
  return (const char *)sqlite3_column_text(statement, column);
}

int64_t ch_sql_number(ch_layer *layer, const char *sql, int64_t otherwise) {
  sqlite3_stmt *statement = NULL;
  int64_t number = otherwise;
  if (sqlite3_prepare_v2(layer->db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW)
    number = sqlite3_column_int64(statement, 0);
  return sqlite3_finalize(statement) == SQLITE_OK ? number : otherwise;
}

void ch_layer_close(ch_layer *layer) {
  for (int i = 0; i < CH_N_SQL; i++) sqlite3_finalize(layer->statements[i]);
  sqlite3_close(layer->db);
  free(layer->path);
  *layer = (ch_layer){.origin = layer->origin};
}

static choices_status run_statement(ch_layer *layer, ch_statement which, choices_error *error) {
  sqlite3_stmt *statement = ch_sql(layer, which, error);
  return statement ? ch_sql_run(layer, statement, error) : CHOICES_IO;
}

/* A failed statement may leave others unfinished, which a rollback would wait for: all are reset first. */
static void roll_back(ch_layer *layer) {
  for (int i = 0; i < CH_N_SQL; i++)
    if (layer->statements[i]) sqlite3_reset(layer->statements[i]);
  if (!sqlite3_get_autocommit(layer->db)) run_statement(layer, CH_SQL_ROLLBACK, NULL);
}

choices_status ch_in_transaction(choices_store *store, ch_transaction *run, void *context, choices_error *error) {
  ch_layer *layer = &store->user;
  if (!layer->db || !layer->writable)
    return ch_fail(error, CH_E_STORE_READ_ONLY, layer->path, 0, "it is open for reading alone");
  choices_status status = run_statement(layer, CH_SQL_BEGIN, error);
  if (status != CHOICES_OK) return status;
  status = run(context, layer, error);
  if (status == CHOICES_OK) status = run_statement(layer, CH_SQL_COMMIT, error);
  if (status != CHOICES_OK) roll_back(layer);
  return status;
}
