/* Opening one file of the store: what it is, its journal, its version. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/statfs.h>
#endif

#include "error.h"
#include "store.h"

/* From the manual page of statfs(2). */
static const unsigned long network_magics[] = {
    0x6969,     /* NFS */
    0x517b,     /* SMB */
    0xfe534d42, /* SMB2 */
    0xff534d42, /* CIFS */
    0x65735546, /* FUSE: sshfs and others */
    0x0bd00bd0, /* Lustre */
    0x00c36400, /* Ceph */
    0x01021997, /* 9P */
    0x47504653, /* GPFS */
    0x5346414f, /* AFS */
    0x6b414653, /* AFS of the kernel */
    0x73757245, /* Coda */
    0x19830326, /* BeeGFS */
    0x01161970, /* GFS2 */
    0x7461636f, /* OCFS2 */
    0x564c,     /* NCP */
};

bool ch_is_network_magic(unsigned long magic) {
  for (size_t i = 0; i < sizeof network_magics / sizeof *network_magics; i++)
    if ((magic & 0xffffffff) == network_magics[i]) return true;
  return false;
}

bool ch_is_network(const char *path) {
#ifdef __linux__
  struct statfs facts;
  return statfs(path, &facts) == 0 && ch_is_network_magic((unsigned long)facts.f_type);
#else
  (void)path;
  return false;
#endif
}

/* As SQLite takes it: a plain path, or a URI of a file that nobody writes. */
static char *name_for_sqlite(const char *path, bool immutable) {
  ch_text text = {0};
  if (immutable) ch_text_add(&text, "file:");
  if (path[0] != '/') ch_text_add(&text, "./"); /* never ":memory:" or "file:" */
  for (const char *c = path; *c; c++)
    ch_text_format(&text, immutable && strchr("%?#", *c) ? "%%%02X" : "%c", (unsigned char)*c);
  if (immutable) ch_text_add(&text, "?immutable=1");
  return ch_text_take(&text);
}

static choices_status connect(ch_layer *layer, int flags, int busy_ms, choices_error *error) {
  char *name = name_for_sqlite(layer->path, flags & SQLITE_OPEN_URI);
  if (!name) return ch_no_memory(error);
  int result = sqlite3_open_v2(name, &layer->db, flags | SQLITE_OPEN_FULLMUTEX, NULL);
  free(name);
  if (result != SQLITE_OK) return ch_sql_fail(layer, error);
  sqlite3_extended_result_codes(layer->db, 1);
  sqlite3_busy_timeout(layer->db, busy_ms);
  sqlite3_db_config(layer->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(layer->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  return CHOICES_OK;
}

static void disconnect(ch_layer *layer) {
  sqlite3_close(layer->db);
  layer->db = NULL;
}

/* Another program's file, or a later version's, is refused. A file of no content is a store that is not yet made. */
static choices_status identify(int64_t *version, ch_layer *layer, choices_error *error) {
  int64_t tables = ch_sql_number(layer, "SELECT count(*) FROM sqlite_master", -1);
  if (tables < 0) return ch_sql_fail(layer, error);
  int64_t application = ch_sql_number(layer, "PRAGMA application_id", -1);
  *version = ch_sql_number(layer, "PRAGMA user_version", -1);
  bool empty = tables == 0 && application == 0 && *version == 0;
  if (!empty && application != CH_APPLICATION_ID)
    return ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "it is a database of another program");
  if (*version > ch_schema_version)
    return ch_fail(error, CH_E_STORE_VERSION, layer->path, 0, "found version %lld, expected at most %d",
                   (long long)*version, ch_schema_version);
  if (*version < 0 || (!empty && *version < 1))
    return ch_fail(error, CH_E_STORE_CORRUPT, layer->path, 0, "found version %lld", (long long)*version);
  return CHOICES_OK;
}

static bool execute(ch_layer *layer, const char *sql) {
  return sqlite3_exec(layer->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

/* All steps from what is there, or none. Another process may have made them meanwhile. */
static choices_status migrate(ch_layer *layer, choices_error *error) {
  char words[80];
  int64_t version = 0;
  if (!execute(layer, "BEGIN IMMEDIATE")) return ch_sql_fail(layer, error);
  choices_status status = identify(&version, layer, error);
  for (; status == CHOICES_OK && version < ch_schema_version; version++)
    if (!execute(layer, ch_schema[version])) status = ch_sql_fail(layer, error);
  snprintf(words, sizeof words, "PRAGMA application_id = %d; PRAGMA user_version = %d", CH_APPLICATION_ID,
           ch_schema_version);
  if (status == CHOICES_OK && !(execute(layer, words) && execute(layer, "COMMIT"))) status = ch_sql_fail(layer, error);
  if (status != CHOICES_OK) execute(layer, "ROLLBACK");
  return status;
}

static void read_journal(char out[16], ch_layer *layer) {
  sqlite3_stmt *statement = NULL;
  snprintf(out, 16, "unknown");
  if (sqlite3_prepare_v2(layer->db, "PRAGMA journal_mode", -1, &statement, NULL) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW)
    snprintf(out, 16, "%s", ch_sql_column(statement, 0));
  sqlite3_finalize(statement);
}

/* Changing the journal needs the file alone; SQLite does not wait for that, so it is tried again. Where it cannot be
 * had, the journal stays what it is: any works. */
static void set_journal(ch_layer *layer, bool wal, int busy_ms) {
  enum { PAUSE_MS = 20 };
  char found[16];
  for (int waited = 0;; waited += PAUSE_MS) {
    read_journal(found, layer);
    if (strcmp(found, wal ? "wal" : "delete") == 0) return;
    if (execute(layer, wal ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE")) return;
    if ((sqlite3_errcode(layer->db) & 0xff) != SQLITE_BUSY || waited >= busy_ms) return;
    sqlite3_sleep(PAUSE_MS);
  }
}

choices_status ch_layer_open(ch_layer *layer, const choices_store_options *options, choices_error *error) {
  int busy_ms = options->busy_ms > 0 ? options->busy_ms : 10000;
  int64_t version = 0;
  choices_status status = connect(layer, SQLITE_OPEN_READWRITE, busy_ms, error);
  if (status == CHOICES_OK) status = identify(&version, layer, error);
  if (status == CHOICES_OK && sqlite3_db_readonly(layer->db, "main") == 1)
    status = ch_fail(error, CH_E_STORE_READ_ONLY, layer->path, 0, "permission to write is missing");
  if (status == CHOICES_OK) {
    bool wal = options->journal == CHOICES_JOURNAL_WAL || (options->journal == CHOICES_JOURNAL_AUTO && !layer->network);
    set_journal(layer, wal, busy_ms);
    if (!execute(layer, "PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")) status = ch_sql_fail(layer, error);
  }
  if (status == CHOICES_OK && version < ch_schema_version) status = migrate(layer, error);
  layer->writable = status == CHOICES_OK;
  if (status != CHOICES_OK) disconnect(layer);
  return status;
}

/* A file whose directory cannot be written may need the file's lock files to be made: then it is read as one that
 * nobody writes. */
choices_status ch_layer_open_read(ch_layer *layer, int busy_ms, bool *older, choices_error *error) {
  static const int ways[] = {SQLITE_OPEN_READONLY, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI};
  choices_status status = CHOICES_OK;
  *older = false;
  for (int i = 0; i < 2; i++) {
    int64_t version = 0;
    layer->immutable = i == 1;
    status = connect(layer, ways[i], busy_ms > 0 ? busy_ms : 10000, error);
    if (status == CHOICES_OK) status = identify(&version, layer, error);
    *older = status == CHOICES_OK && version < ch_schema_version;
    if (*older)
      status = ch_fail(error, CH_E_STORE_READ_ONLY, layer->path, 0,
                       "found version %lld; it would have to be migrated to version %d", (long long)version,
                       ch_schema_version);
    if (status == CHOICES_OK) return status;
    int result = layer->db ? sqlite3_errcode(layer->db) & 0xff : SQLITE_OK;
    disconnect(layer);
    if (*older || (result != SQLITE_CANTOPEN && result != SQLITE_READONLY)) return status;
  }
  return status;
}
