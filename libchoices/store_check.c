/* Reads a whole store and tells what is wrong with it. */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "store.h"

typedef struct checking {
  ch_layer *layer;
  choices_problem_function *tell;
  void *context;
  size_t n;
} checking;

static void problem(checking *c, const char *format, const char *detail) {
  char words[2304];
  snprintf(words, sizeof words, format, detail);
  c->n++;
  if (c->tell) c->tell(c->context, words);
}

/* The texts that a pragma or query gives, but for `good`. */
static choices_status tell_rows(checking *c, const char *sql, const char *format, const char *good,
                                choices_error *error) {
  sqlite3_stmt *statement = NULL;
  bool more = true;
  choices_status status = CHOICES_OK;
  if (sqlite3_prepare_v2(c->layer->db, sql, -1, &statement, NULL) != SQLITE_OK) status = ch_sql_fail(c->layer, error);
  while (status == CHOICES_OK && more) {
    status = ch_sql_next(&more, c->layer, statement, error);
    const char *text = status == CHOICES_OK && more ? ch_sql_column(statement, 0) : NULL;
    if (status == CHOICES_OK && more && !(text && good && strcmp(text, good) == 0))
      problem(c, format, text ? text : "");
  }
  sqlite3_finalize(statement);
  return status;
}

/* The same objects as a new store has, by the text that made them. */
static choices_status check_schema(checking *c, choices_error *error) {
  static const char list[] =
      "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' "
      "ORDER BY name";
  sqlite3 *fresh = NULL;
  sqlite3_stmt *expected = NULL, *found = NULL;
  bool good = sqlite3_open_v2(":memory:", &fresh, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) == SQLITE_OK;
  for (int i = 0; good && i < ch_schema_version; i++)
    good = sqlite3_exec(fresh, ch_schema[i], NULL, NULL, NULL) == SQLITE_OK;
  good = good && sqlite3_prepare_v2(fresh, list, -1, &expected, NULL) == SQLITE_OK &&
         sqlite3_prepare_v2(c->layer->db, list, -1, &found, NULL) == SQLITE_OK;
  bool same = good;
  while (same) {
    int left = sqlite3_step(expected), right = sqlite3_step(found);
    if (left != SQLITE_ROW || right != SQLITE_ROW) {
      same = left == right;
      break;
    }
    same = strcmp(ch_sql_column(expected, 0), ch_sql_column(found, 0)) == 0;
  }
  if (good && !same) problem(c, "the schema is not %s's", "version 2");
  sqlite3_finalize(expected);
  sqlite3_finalize(found);
  sqlite3_close(fresh);
  return good ? CHOICES_OK : ch_no_memory(error);
}

/* Every row as it would be read. */
static void check_values(checking *c, choices_store *store) {
  choices_record *record = NULL;
  choices_error reason;
  const choices_filter all = {0};
  if (choices_store_record(&record, store, &all, true, &reason) != CHOICES_OK) problem(c, "%s", reason.message);
  choices_record_free(record);
}

choices_status choices_store_check(size_t *n_problems, choices_store *store, choices_problem_function *tell,
                                   void *context, choices_error *error) {
  checking c = {&store->user, tell, context, 0};
  choices_status status = CHOICES_OK;
  ch_error_clear(error);
  if (c.layer->db) status = tell_rows(&c, "PRAGMA integrity_check", "%s", "ok", error);
  if (c.layer->db && status == CHOICES_OK)
    status = tell_rows(&c, "PRAGMA foreign_key_check", "a row of table %s refers to one that is gone", NULL, error);
  if (c.layer->db && status == CHOICES_OK) status = check_schema(&c, error);
  if (status == CHOICES_OK && c.n == 0) check_values(&c, store);
  *n_problems = c.n;
  return status;
}
