/* What a store cannot be: missing, foreign, damaged, of another version, full, locked, read alone. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../libchoices/store.h"
#include "../common/choices.h"
#include "../common/choices_store.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

#define HEADER "{\"record\": \"choices\", \"version\": 1, \"device\": \"d\", \"gpu\": \"g\"}\n"

/* ---- what cannot be
 * ------------------------------------------------------------------------------------------------------ */

static void nowhere(void **state) {
  (void)state;
  choices_error error;
  choices_store *store = NULL;
  choices_record *record = NULL;
  const choices_store_options none = {0}, file = {.path = scratch("file/choices.db")};
  choices_expect_error(choices_store_open(&store, &none, &error), &error, "E-CHOICE-016", "HOME");
  scratch_write(scratch("file"), "x", 1);
  choices_expect_error(choices_store_open(&store, &file, &error), &error, "E-CHOICE-010", "directory");
  choices_expect_ok(choices_store_lookup(&record, NULL, &store_test_product, &error), &error);
  assert_null(record);
}

static void not_a_store(void **state) {
  (void)state;
  sqlite3 *db = NULL;
  char noise[8192];
  memset(noise, 'x', sizeof noise);
  scratch_write(scratch("noise.db"), noise, sizeof noise);
  store_test_refuses("noise.db", CHOICES_USE, "E-CHOICE-012", "not a database");
  store_test_refuses("noise.db", CHOICES_READ, "E-CHOICE-012", "not a database");
  size_t n = 0;
  char *after = scratch_read(scratch("noise.db"), &n);
  assert_int_equal(n, sizeof noise);
  assert_memory_equal(after, noise, n);
  free(after);
  assert_int_equal(sqlite3_open(scratch("other.db"), &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "CREATE TABLE t (a)", NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
  store_test_refuses("other.db", CHOICES_USE, "E-CHOICE-012", "another program");
  scratch_write(scratch("empty.db"), "", 0);
  choices_store_close(store_test_open("empty.db", CHOICES_USE));
}

static void execute(const char *name, const char *sql) {
  sqlite3 *db = NULL;
  assert_int_equal(sqlite3_open(scratch("%s", name), &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
  sqlite3_close(db);
}

static void later_version(void **state) {
  (void)state;
  choices_store *store = store_test_open("later.db", CHOICES_USE);
  store_test_decide(store, &store_test_engine, "engine 1", "engine 1");
  choices_store_close(store);
  execute("later.db", "PRAGMA user_version = 3");
  store_test_refuses("later.db", CHOICES_USE, "E-CHOICE-011", "found version 3, expected at most 2");
  store_test_refuses("later.db", CHOICES_READ, "E-CHOICE-011", "found version 3");
  execute("later.db", "PRAGMA user_version = 0");
  store_test_refuses("later.db", CHOICES_USE, "E-CHOICE-012", "found version 0");
}

/* A store as the first version wrote it is migrated with what it holds, whatever it is opened for. */
static void earlier_version(void **state) {
  (void)state;
  static const choices_access accesses[] = {CHOICES_USE, CHOICES_READ, CHOICES_WRITE};
  for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
    choices_error error;
    size_t n = 9;
    char words[64];
    scratch_empty();
    execute("early.db", ch_schema[0]);
    snprintf(words, sizeof words, "PRAGMA application_id = %d; PRAGMA user_version = 1", CH_APPLICATION_ID);
    execute("early.db", words);
    execute("early.db",
            "INSERT INTO device VALUES (1, 'compute_90 with 132 multiprocessors', 'g', 13000, "
            "'{\"cublas\": 130101, \"nvrtc\": \"13.0\"}', 90, 132, NULL);"
            "INSERT INTO choice VALUES (1, 1, 'convolution', 'Weight Spec { batch: 1 } bf16', '', '', '\"engine 3\"', "
            "NULL, NULL, NULL, NULL, 0, 0, 0, NULL);"
            "INSERT INTO candidate VALUES (1, 0, '\"engine 3\"', 0, '[5, 6]')");
    choices_store *store = store_test_open("early.db", accesses[i]);
    store_test_has(store, &store_test_engine, "engine 3", "user");
    char *text = store_test_export(store, true);
    assert_non_null(strstr(text, "{\"value\": \"engine 3\", \"state\": \"measured\", \"samples_ns\": [5, 6]}"));
    free(text);
    choices_expect_ok(choices_store_check(&n, store, NULL, NULL, &error), &error);
    assert_int_equal(n, 0);
    choices_store_close(store);
  }
}

static void note(void *context, const char *problem) { snprintf(context, 256, "%.255s", problem); }

static void checked(void **state) {
  (void)state;
  static const struct {
    const char *damage, *word;
  } cases[] = {
      {"UPDATE choice SET value = '{'", "malformed value"},
      {"UPDATE choice SET value = '4'", "malformed value"},
      {"UPDATE candidate SET state = 9", "malformed candidate"},
      {"UPDATE candidate SET probe = 'x'", "malformed candidate"},
      {"UPDATE candidate SET samples = '[\"x\"]'", "malformed candidate"},
      {"UPDATE choice SET device = 7", "refers to one that is gone"},
      {"DROP TABLE cost", "schema"},
      {"CREATE TABLE more (a)", "schema"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    choices_error error;
    choices_record *record = NULL;
    size_t n = 9;
    char told[256] = "";
    const choices_candidate candidate = {.value = "engine 2", .has_probe = true, .probe = 1};
    const choices_row row = {.value = "engine 2", .ahead = -1, .candidates = &candidate, .n_candidates = 1};
    scratch_empty();
    choices_store *store = store_test_open("check.db", CHOICES_USE);
    choices_expect_ok(choices_store_decide(&record, store, &store_test_engine, &row, &error), &error);
    choices_record_free(record);
    choices_expect_ok(choices_store_check(&n, store, note, told, &error), &error);
    assert_int_equal(n, 0);
    execute("check.db", cases[i].damage);
    choices_expect_ok(choices_store_check(&n, store, note, told, &error), &error);
    if (n == 0) print_error("%s\n", cases[i].damage);
    assert_true(n > 0);
    assert_non_null(strstr(told, cases[i].word));
    choices_store_close(store);
  }
}

/* Bytes written over in the middle: an error or a problem, never a crash. */
static void damaged(void **state) {
  (void)state;
  choices_error error;
  choices_imported counts;
  ch_text text = {0};
  ch_text_add(&text, HEADER);
  for (int i = 0; i < 2000; i++)
    ch_text_format(&text, "{\"record\": \"choice\", \"kind\": \"product\", \"key\": \"k%d\", \"value\": \"v\"}\n", i);
  choices_store *store = store_test_open("whole.db", CHOICES_WRITE);
  choices_expect_ok(store_test_import(store, text.bytes, CHOICES_CONFLICT_REFUSE, &counts, &error), &error);
  choices_store_close(store);
  ch_text_free(&text);
  size_t n_bytes = 0, n_seen = 0;
  char *whole = scratch_read(scratch("whole.db"), &n_bytes);
  uint64_t s = 5;
  for (int i = 0; i < 40; i++) {
    char *copy = malloc(n_bytes);
    memcpy(copy, whole, n_bytes);
    for (int k = 0; k < 64; k++) copy[100 + store_test_draw(&s) % (n_bytes - 100)] = (char)store_test_draw(&s);
    scratch_write(scratch("damaged.db"), copy, n_bytes);
    free(copy);
    const choices_store_options options = {.path = scratch("damaged.db"), .access = CHOICES_READ};
    size_t n = 0;
    choices_status status = choices_store_open(&store, &options, &error);
    if (status == CHOICES_OK) status = choices_store_check(&n, store, NULL, NULL, &error);
    n_seen += status != CHOICES_OK || n > 0;
    if (status != CHOICES_OK) assert_string_equal(error.code, "E-CHOICE-012");
    choices_store_close(store);
  }
  assert_true(n_seen > 35);
  free(whole);
}

/* In a child without the rights of the test: root writes where it wants. */
static void without_rights(void (*run)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(99);
    run();
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

#define REQUIRE(condition)                                            \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

static void read_only_child(void) {
  choices_error error;
  choices_store *store = NULL;
  choices_store_facts looked;
  choices_record *record = NULL;
  const choices_row row = {.value = "engine 9", .ahead = -1};
  choices_store_options options = {.path = scratch("closed/choices.db"), .access = CHOICES_USE, .busy_ms = 100};
  REQUIRE(choices_store_open(&store, &options, &error) == CHOICES_OK);
  REQUIRE(choices_store_look(&looked, store, &error) == CHOICES_OK);
  REQUIRE(!looked.writable && strcmp(looked.warning.code, "E-CHOICE-013") == 0);
  REQUIRE(choices_store_lookup(&record, store, &store_test_engine, &error) == CHOICES_OK && record);
  choices_record_free(record);
  REQUIRE(choices_store_decide(&record, store, &store_test_engine, &row, &error) == CHOICES_IO);
  REQUIRE(strcmp(error.code, "E-CHOICE-013") == 0);
  choices_store_close(store);
  options.access = CHOICES_WRITE;
  REQUIRE(choices_store_open(&store, &options, &error) == CHOICES_IO && strcmp(error.code, "E-CHOICE-013") == 0);
  options = (choices_store_options){.path = scratch("closed/deeper/choices.db"), .access = CHOICES_USE};
  REQUIRE(choices_store_open(&store, &options, &error) == CHOICES_IO && strcmp(error.code, "E-CHOICE-010") == 0);
}

static void read_only(void **state) {
  (void)state;
  choices_store *store = store_test_open("closed/choices.db", CHOICES_USE);
  store_test_decide(store, &store_test_engine, "engine 1", "engine 1");
  choices_store_close(store);
  struct stat facts;
  assert_int_equal(stat(scratch("."), &facts), 0);
  assert_int_equal(chmod(scratch("."), 0755), 0);
  assert_int_equal(chmod(scratch("closed/choices.db"), 0444), 0);
  assert_int_equal(chmod(scratch("closed"), 0555), 0);
  without_rights(read_only_child);
  assert_int_equal(chmod(scratch("closed"), 0700), 0);
}

static void full_disk_child(void) {
  choices_error error;
  choices_store *store = NULL;
  choices_record *record = NULL;
  int n_failed = 0, n_stored = 0;
  const struct rlimit small = {200000, 200000};
  const choices_store_options options = {.path = scratch("full.db"), .access = CHOICES_USE, .busy_ms = 100};
  signal(SIGXFSZ, SIG_IGN);
  REQUIRE(choices_store_open(&store, &options, &error) == CHOICES_OK);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (int i = 0; i < 400; i++) {
    char key[600];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    snprintf(key, 16, "%d", i);
    key[strlen(key)] = '.';
    choices_key full = store_test_engine;
    full.key = key;
    const choices_row row = {.value = "engine 9", .ahead = -1};
    choices_status status = choices_store_decide(&record, store, &full, &row, &error);
    n_failed += status != CHOICES_OK;
    n_stored += status == CHOICES_OK;
    if (status != CHOICES_OK) REQUIRE(strcmp(error.code, "E-CHOICE-014") == 0 && status == CHOICES_IO);
    choices_record_free(record);
    record = NULL;
  }
  REQUIRE(n_failed > 0 && n_stored > 0);
  choices_store_close(store);
}

static void full_disk(void **state) {
  (void)state;
  choices_error error;
  size_t n = 9;
  assert_int_equal(chmod(scratch("."), 0777), 0);
  without_rights(full_disk_child);
  choices_store *store = store_test_open("full.db", CHOICES_USE);
  choices_expect_ok(choices_store_check(&n, store, NULL, NULL, &error), &error);
  assert_int_equal(n, 0);
  store_test_decide(store, &store_test_engine, "engine 1", "engine 1");
  choices_store_close(store);
}

static void busy(void **state) {
  (void)state;
  choices_error error;
  choices_record *record = NULL;
  sqlite3 *db = NULL;
  choices_store *store = NULL;
  const choices_row row = {.value = "engine 9", .ahead = -1};
  choices_store_close(store_test_open("busy.db", CHOICES_USE));
  const choices_store_options options = {.path = scratch("busy.db"), .busy_ms = 30};
  choices_expect_ok(choices_store_open(&store, &options, &error), &error);
  assert_int_equal(sqlite3_open(scratch("busy.db"), &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  choices_expect_error(choices_store_decide(&record, store, &store_test_engine, &row, &error), &error, "E-CHOICE-015",
                       "locked");
  store_test_has(store, &store_test_engine, NULL, NULL); /* readers go on */
  sqlite3_close(db);
  store_test_decide(store, &store_test_engine, "engine 9", "engine 9");
  choices_store_close(store);
}

static void journals(void **state) {
  (void)state;
  choices_error error;
  choices_store *store = NULL;
  choices_store_facts looked;
  static const struct {
    choices_journal journal;
    const char *name;
  } cases[] = {
      {CHOICES_JOURNAL_ROLLBACK, "delete"}, {CHOICES_JOURNAL_WAL, "wal"}, {CHOICES_JOURNAL_ROLLBACK, "delete"}};
  for (size_t i = 0; i < 3; i++) {
    const choices_store_options options = {.path = scratch("journal.db"), .journal = cases[i].journal};
    choices_expect_ok(choices_store_open(&store, &options, &error), &error);
    choices_expect_ok(choices_store_look(&looked, store, &error), &error);
    assert_string_equal(looked.journal, cases[i].name);
    store_test_decide(store, &store_test_engine, "engine 9", "engine 9");
    choices_store_close(store);
  }
  assert_true(ch_is_network_magic(0x6969) && ch_is_network_magic(0xff534d42) && ch_is_network_magic(0x65735546));
  assert_false(ch_is_network_magic(0xef53) || ch_is_network_magic(0x01021994)); /* ext4, tmpfs */
  assert_false(ch_is_network(scratch(".")) || ch_is_network("/nonexistent"));
}

static void odd_names(void **state) {
  (void)state;
  static const char *const names[] = {"a b?c#d%41e.db", "file:x?mode=memory", "\xc3\xa9.db"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    choices_error error;
    choices_store *store = NULL;
    store_test_decide(store = store_test_open(names[i], CHOICES_USE), &store_test_engine, "engine 1", "engine 1");
    choices_store_close(store);
    assert_true(scratch_has(scratch("%s", names[i])));
    char *copy = strdup(scratch("%s", names[i]));
    const choices_store_options options = {.path = scratch("user.db"), .system_path = copy};
    choices_expect_ok(choices_store_open(&store, &options, &error), &error);
    store_test_has(store, &store_test_engine, "engine 1", "system");
    choices_store_close(store);
    free(copy);
  }
}

static void identities(void **state) {
  (void)state;
  choices_error error;
  choices_executable self, none;
  char room[CHOICES_BUILD_ID_TEXT], text[CHOICES_IDENTITY_TEXT];
  choices_expect_ok(choices_executable_read(&self, room, "/proc/self/exe", &error), &error);
  assert_true(self.n_bytes > 0 && self.modified_s > 0);
  choices_executable_identity(text, &self);
  if (self.build_id) assert_int_equal(strspn(self.build_id, "0123456789abcdef"), strlen(self.build_id));
  scratch_write(scratch("plain"), "text", 4);
  choices_expect_ok(choices_executable_read(&none, room, scratch("plain"), &error), &error);
  assert_null(none.build_id);
  none.modified_s = 7;
  choices_executable_identity(text, &none);
  assert_string_equal(text, "size 4 modified 7");
  choices_expect_error(choices_executable_read(&none, room, "/nonexistent", &error), &error, "E-CHOICE-008",
                       "No such file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(nowhere, store_test_empty),
      cmocka_unit_test_setup(not_a_store, store_test_empty),
      cmocka_unit_test_setup(later_version, store_test_empty),
      cmocka_unit_test_setup(earlier_version, store_test_empty),
      cmocka_unit_test_setup(checked, store_test_empty),
      cmocka_unit_test_setup(damaged, store_test_empty),
      cmocka_unit_test_setup(read_only, store_test_empty),
      cmocka_unit_test_setup(full_disk, store_test_empty),
      cmocka_unit_test_setup(busy, store_test_empty),
      cmocka_unit_test_setup(journals, store_test_empty),
      cmocka_unit_test_setup(odd_names, store_test_empty),
      cmocka_unit_test_setup(identities, store_test_empty),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
