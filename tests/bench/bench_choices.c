/* The store of choices with 100 000 rows, beside SQLite itself: exporting all of it, against a query that reads the
 * same columns in the same order and writes them; looking a key up, against the same query prepared once; deciding,
 * against one insert in an immediate transaction. Medians of rounds that are interleaved; a line: name, time, SQLite's
 * time, ratio.
 *
 *   bench_choices [DIRECTORY [ROWS]]   by default in $TMPDIR or /tmp */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../libchoices/choices.h"

enum { ROUNDS = 5, LOOKUPS = 20000, DECISIONS = 200 };

static char path[4096];
static int n_rows = 100000;
static const choices_device device = {.device = "compute_90 with 132 multiprocessors, cuBLAS 130101, cuDNN 91900",
                                      .libraries = "{\"cublas\": 130101, \"cudnn\": 91900}",
                                      .driver = 13000,
                                      .capability = 90,
                                      .multiprocessors = 132};

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static void check(choices_status status, const choices_error *error) {
  if (status != CHOICES_OK) fail(error->message);
}

static void name_key(char out[128], int i) {
  snprintf(out, 128, "Weight Spec { batch: %d, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512 } bf16", i);
}

static choices_store *open_store(void) {
  choices_error error;
  choices_store *store = NULL;
  const choices_store_options options = {.path = path, .access = CHOICES_WRITE};
  check(choices_store_open(&store, &options, &error), &error);
  return store;
}

static void fill(void) {
  choices_error error;
  choices_imported counts;
  choices_record *record = NULL;
  size_t room = 400u * (size_t)n_rows + 1000, n = 0;
  char *text = malloc(room), key[128];
  if (!text) fail("no memory");
  n += (size_t)snprintf(
      text, room,
      "{\"record\": \"choices\", \"version\": 1, \"device\": \"%s\", \"driver\": 13000, \"libraries\": %s, "
      "\"compute_capability\": 90, \"multiprocessors\": 132}\n",
      device.device, device.libraries);
  for (int i = 0; i < n_rows; i++) {
    name_key(key, i);
    n += (size_t)snprintf(
        text + n, room - n,
        "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"%s\", \"value\": \"engine 47 knobs "
        "0=%d 2=3 5=3 14=2\"}\n",
        key, i % 7);
  }
  check(choices_record_parse(&record, "filling", text, n, &error), &error);
  choices_store *store = open_store();
  double begin = now_s();
  check(choices_store_import(&counts, store, record, CHOICES_CONFLICT_REFUSE, &error), &error);
  printf("%-10s %8d rows, %.2f s\n", "import", n_rows, now_s() - begin);
  choices_store_close(store);
  choices_record_free(record);
  free(text);
}

static sqlite3 *open_raw(void) {
  sqlite3 *db = NULL;
  if (sqlite3_open(path, &db) != SQLITE_OK) fail("sqlite3_open");
  return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *statement = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail(sqlite3_errmsg(db));
  return statement;
}

/* ---- what is measured ----------------------------------------------------------------------------------------------
 */

static double export_ours(void) {
  choices_error error;
  choices_record *record = NULL;
  FILE *to = fopen("/dev/null", "w");
  double begin = now_s();
  choices_store *store = open_store();
  check(choices_store_record(&record, store, &(choices_filter){0}, false, &error), &error);
  fputs(choices_record_text(record), to);
  choices_record_free(record);
  choices_store_close(store);
  double elapsed = now_s() - begin;
  fclose(to);
  return elapsed;
}

static double export_raw(void) {
  FILE *to = fopen("/dev/null", "w");
  double begin = now_s();
  sqlite3 *db = open_raw();
  sqlite3_stmt *all =
      prepare(db,
              "SELECT d.device, kind, key, executable, mode, value FROM choice c JOIN device d ON d.id = c.device "
              "ORDER BY 1, 2, 3, 4, 5");
  while (sqlite3_step(all) == SQLITE_ROW)
    fprintf(to, "%s %s %s %s\n", sqlite3_column_text(all, 1), sqlite3_column_text(all, 2), sqlite3_column_text(all, 4),
            sqlite3_column_text(all, 5));
  sqlite3_finalize(all);
  sqlite3_close(db);
  double elapsed = now_s() - begin;
  fclose(to);
  return elapsed;
}

static double lookup_ours(void) {
  choices_error error;
  char text[128];
  choices_store *store = open_store();
  double begin = now_s();
  for (int i = 0; i < LOOKUPS; i++) {
    choices_record *record = NULL;
    name_key(text, (int)((unsigned)i * 7919u % (unsigned)n_rows));
    const choices_key key = {.device = &device, .kind = "convolution", .key = text};
    check(choices_store_lookup(&record, store, &key, &error), &error);
    if (!record) fail("a key is not found");
    choices_record_free(record);
  }
  double elapsed = now_s() - begin;
  choices_store_close(store);
  return elapsed / LOOKUPS;
}

static double lookup_raw(void) {
  char text[128];
  sqlite3 *db = open_raw();
  sqlite3_stmt *one =
      prepare(db,
              "SELECT value FROM choice WHERE device = (SELECT id FROM device WHERE device = ?1) AND kind = ?2 AND "
              "key = ?3 AND executable = '' AND mode = ''");
  double begin = now_s();
  for (int i = 0; i < LOOKUPS; i++) {
    name_key(text, (int)((unsigned)i * 7919u % (unsigned)n_rows));
    sqlite3_reset(one);
    sqlite3_bind_text(one, 1, device.device, -1, SQLITE_STATIC);
    sqlite3_bind_text(one, 2, "convolution", -1, SQLITE_STATIC);
    sqlite3_bind_text(one, 3, text, -1, SQLITE_STATIC);
    if (sqlite3_step(one) != SQLITE_ROW) fail("a row is not found");
  }
  double elapsed = now_s() - begin;
  sqlite3_finalize(one);
  sqlite3_close(db);
  return elapsed / LOOKUPS;
}

static int next_key = 10000000;

static double decide_ours(void) {
  choices_error error;
  char text[128];
  choices_store *store = open_store();
  double begin = now_s();
  for (int i = 0; i < DECISIONS; i++) {
    choices_record *record = NULL;
    name_key(text, next_key++);
    const choices_key key = {.device = &device, .kind = "convolution", .key = text};
    const choices_row row = {.value = "engine 47", .ahead = -1};
    check(choices_store_decide(&record, store, &key, &row, &error), &error);
    choices_record_free(record);
  }
  double elapsed = now_s() - begin;
  choices_store_close(store);
  return elapsed / DECISIONS;
}

static double decide_raw(void) {
  char text[128];
  sqlite3 *db = open_raw();
  sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL);
  sqlite3_stmt *add = prepare(db,
                              "INSERT INTO choice (device, kind, key, executable, mode, value, bits, executable_bytes, "
                              "executable_modified) VALUES (1, 'convolution', ?1, '', '', '\"engine 47\"', 0, 0, 0)");
  double begin = now_s();
  for (int i = 0; i < DECISIONS; i++) {
    name_key(text, next_key++);
    sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    sqlite3_reset(add);
    sqlite3_bind_text(add, 1, text, -1, SQLITE_STATIC);
    if (sqlite3_step(add) != SQLITE_DONE) fail(sqlite3_errmsg(db));
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  }
  double elapsed = now_s() - begin;
  sqlite3_finalize(add);
  sqlite3_close(db);
  return elapsed / DECISIONS;
}

static int by_time(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

static void compare(const char *name, double (*ours)(void), double (*raw)(void), double scale, const char *unit) {
  double a[ROUNDS], b[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    a[i] = ours();
    b[i] = raw();
  }
  qsort(a, ROUNDS, sizeof *a, by_time);
  qsort(b, ROUNDS, sizeof *b, by_time);
  printf("%-10s %8.2f %s, SQLite %8.2f %s, ratio %.2f\n", name, a[ROUNDS / 2] * scale, unit, b[ROUNDS / 2] * scale,
         unit, a[ROUNDS / 2] / b[ROUNDS / 2]);
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
  if (argc > 2) n_rows = atoi(argv[2]);
  if (n_rows < 1) fail("expected a number of rows");
  snprintf(path, sizeof path, "%s/bench-choices-%d.db", folder, (int)getpid());
  fill();
  compare("export", export_ours, export_raw, 1e3, "ms");
  compare("lookup", lookup_ours, lookup_raw, 1e6, "us");
  compare("decide", decide_ours, decide_raw, 1e3, "ms");
  unlink(path);
  return 0;
}
