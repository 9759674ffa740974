/* Eight processes that measure, import and export at once, some of them killed: no decision is lost or torn, all agree,
 * and the store stays whole. A minute; ten seconds with QUICK. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/choices.h"
#include "../common/choices_store.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

enum { N_PROCESSES = 8, N_VALUES = 4, N_KEYS = 200000, WINDOW = 24, KEYS_A_SECOND = 60 };

#define REQUIRE(condition)                                            \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                       \
    }                                                                 \
  } while (0)

static const char *const values[N_VALUES] = {"engine 0", "engine 1", "engine 2", "engine 3"};

static int64_t now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A process and the keys that all are at now. */
typedef struct worker {
  uint64_t random;
  int64_t begun_ms;
  int log;
  choices_journal journal;
  choices_store *store;
} worker;

/* Keys come up as time goes, so that all meet at the same new ones. */
static int draw_key(worker *w) {
  int64_t base = (now_ms() - w->begun_ms) * KEYS_A_SECOND / 1000;
  return (int)(base + (int64_t)(store_test_draw(&w->random) % WINDOW)) % N_KEYS;
}

static void name_key(char out[32], int key) { snprintf(out, 32, "Key { n: %d }", key); }

/* What this process uses from now on, in one write. */
static void log_used(const worker *w, int key, const char *value) {
  char line[64];
  int n = snprintf(line, sizeof line, "%d %s\n", key, value);
  REQUIRE(write(w->log, line, (size_t)n) == n);
}

static void open_store(worker *w) {
  choices_error error;
  const choices_store_options options = {.path = scratch("torture.db"), .journal = w->journal, .busy_ms = 60000};
  if (choices_store_open(&w->store, &options, &error) != CHOICES_OK) fprintf(stderr, "%s\n", error.message);
  REQUIRE(w->store);
}

/* ---- measuring: every process times otherwise ---- */

static choices_ran run(void *context, size_t i) {
  (void)context;
  (void)i;
  return CHOICES_RAN;
}

static choices_ran probe(void *context, size_t i, uint64_t *digest) {
  (void)context;
  *digest = i;
  return CHOICES_RAN;
}

static int64_t clock_ns(void *context) {
  worker *w = context;
  return (int64_t)(store_test_draw(&w->random) % 1000000);
}

static void measure(worker *w) {
  char name[32];
  int index = draw_key(w);
  name_key(name, index);
  choices_key key = store_test_engine;
  key.key = name;
  choices_error error;
  choices_decision decision;
  const choices_measuring asked = {.key = &key,
                                   .values = values,
                                   .n_values = N_VALUES,
                                   .rounds = 1,
                                   .run = run,
                                   .probe = probe,
                                   .now_ns = clock_ns,
                                   .context = w};
  choices_status status = choices_measure(&decision, w->store, &asked, &error);
  if (status != CHOICES_OK || !decision.stored) fprintf(stderr, "%s %s\n", error.message, decision.warning.message);
  REQUIRE(status == CHOICES_OK && decision.stored);
  log_used(w, index, decision.value);
  choices_decision_free(&decision);
}

/* ---- importing ---- */

static void import(worker *w) {
  char text[2048], name[32];
  choices_error error;
  choices_imported counts;
  choices_record *record = NULL, *found = NULL;
  const choices_row *rows = NULL;
  const choices_device *d = &store_test_device;
  int keys[3],
      n = snprintf(text, sizeof text,
                   "{\"record\": \"choices\", \"version\": 1, \"device\": \"%s\", \"driver\": %d, \"libraries\": %s, "
                   "\"compute_capability\": %d, \"multiprocessors\": %d}\n",
                   d->device, (int)d->driver, d->libraries, (int)d->capability, (int)d->multiprocessors);
  for (int i = 0; i < 3; i++) {
    keys[i] = draw_key(w);
    if (i && (keys[i] == keys[0] || keys[i] == keys[i - 1])) keys[i] = N_KEYS + i;
    name_key(name, keys[i]);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "{\"record\": \"choice\", \"kind\": \"convolution\", \"key\": \"%s\", \"value\": \"%s\"}\n", name,
                  keys[i] < N_KEYS ? values[store_test_draw(&w->random) % N_VALUES] : values[0]);
  }
  REQUIRE(choices_record_parse(&record, "r", text, strlen(text), &error) == CHOICES_OK);
  REQUIRE(choices_store_import(&counts, w->store, record, CHOICES_CONFLICT_KEEP, &error) == CHOICES_OK);
  for (int i = 0; i < 3; i++) {
    choices_key key = store_test_engine;
    name_key(name, keys[i]);
    key.key = name;
    REQUIRE(choices_store_lookup(&found, w->store, &key, &error) == CHOICES_OK && found);
    REQUIRE(choices_record_rows(found, &rows) == 1);
    log_used(w, keys[i], rows[0].value);
    choices_record_free(found);
  }
  choices_record_free(record);
}

/* ---- exporting ---- */

static void export(worker *w) {
  choices_error error;
  choices_record *record = NULL, *again = NULL;
  const choices_row *rows = NULL;
  char *text = NULL;
  REQUIRE(choices_store_record(&record, w->store, &(choices_filter){0}, true, &error) == CHOICES_OK);
  REQUIRE(choices_record_measurements(&text, record, &error) == CHOICES_OK);
  REQUIRE(choices_record_parse(&again, "r", text, strlen(text), &error) == CHOICES_OK);
  size_t n = choices_record_rows(again, &rows);
  for (size_t i = 0; i < n; i++) {
    REQUIRE(rows[i].n_candidates == 0 || rows[i].n_candidates == N_VALUES); /* with its candidates, or imported */
    int key = -1;
    if (n < 50 || i % (n / 50) == 0) {
      REQUIRE(sscanf(rows[i].key, "Key { n: %d }", &key) == 1);
      log_used(w, key, rows[i].value);
    }
  }
  free(text);
  choices_record_free(record);
  choices_record_free(again);
}

static void work(int place, uint64_t seed, int64_t begun_ms, int64_t end_ms, choices_journal journal) {
  worker w = {.random = seed * 7919 + 1, .begun_ms = begun_ms, .journal = journal};
  w.log = open(scratch("log"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  REQUIRE(w.log >= 0);
  open_store(&w);
  for (int turn = 0; now_ms() < end_ms; turn++) {
    if (place < 5)
      measure(&w);
    else if (place < 7)
      import(&w);
    else
      export(&w);
    if (turn % 64 == 63) { /* stores are opened and closed meanwhile */
      choices_store_close(w.store);
      open_store(&w);
    }
  }
  choices_store_close(w.store);
  _exit(0);
}

/* ---- the parent ---- */

typedef struct outcome {
  int n_killed, n_failed, n_used, n_lost, n_disagree;
  size_t n_rows, n_problems;
} outcome;

static pid_t start(int place, uint64_t seed, int64_t begun_ms, int64_t end_ms, choices_journal journal) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) work(place, seed, begun_ms, end_ms, journal);
  return child;
}

static void note(void *context, const char *problem) {
  (void)context;
  print_error("%s\n", problem);
}

/* Every use that any process logged is what the store has. */
static void judge(outcome *out) {
  choices_error error;
  choices_record *record = NULL;
  const choices_row *rows = NULL;
  choices_store *store = store_test_open("torture.db", CHOICES_USE);
  choices_expect_ok(choices_store_check(&out->n_problems, store, note, NULL, &error), &error);
  choices_expect_ok(choices_store_record(&record, store, &(choices_filter){0}, true, &error), &error);
  out->n_rows = choices_record_rows(record, &rows);
  const char **known = calloc(N_KEYS + 3, sizeof *known);
  for (size_t i = 0; i < out->n_rows; i++) {
    int key = -1;
    assert_int_equal(sscanf(rows[i].key, "Key { n: %d }", &key), 1);
    known[key] = rows[i].value;
  }
  char *log = scratch_read(scratch("log"), NULL);
  for (char *rest = log, *line; (line = strtok_r(rest, "\n", &rest)); out->n_used++) {
    char *value = strchr(line, ' ');
    int key = atoi(line);
    if (!known[key])
      out->n_lost++;
    else if (strcmp(known[key], value + 1) != 0)
      out->n_disagree++;
  }
  free(log);
  free(known);
  choices_record_free(record);
  choices_store_close(store);
}

static void torture(int seconds, choices_journal journal, const char *name) {
  outcome out = {0};
  pid_t children[N_PROCESSES];
  uint64_t random = 1, seed = 1;
  int64_t begun_ms = now_ms(), end_ms = begun_ms + seconds * 1000;
  for (int i = 0; i < N_PROCESSES; i++) children[i] = start(i, seed++, begun_ms, end_ms, journal);
  while (now_ms() < end_ms - 500) {
    const struct timespec pause = {0, (long)(5000000 + store_test_draw(&random) % 40000000)};
    nanosleep(&pause, NULL);
    int i = (int)(store_test_draw(&random) % N_PROCESSES), status = 0;
    kill(children[i], SIGKILL);
    waitpid(children[i], &status, 0);
    out.n_killed += WIFSIGNALED(status);
    out.n_failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    children[i] = start(i, seed++, begun_ms, end_ms, journal);
  }
  for (int i = 0; i < N_PROCESSES; i++) {
    int status = 0;
    waitpid(children[i], &status, 0);
    out.n_failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  judge(&out);
  print_message(
      "%s, %d s: %zu decisions, used %d times by %d processes at once, %d of them killed; %d lost, %d disagree, "
      "%zu problems, %d failed\n",
      name, seconds, out.n_rows, out.n_used, N_PROCESSES, out.n_killed, out.n_lost, out.n_disagree, out.n_problems,
      out.n_failed);
  assert_int_equal(out.n_lost + out.n_disagree + out.n_failed, 0);
  assert_int_equal(out.n_problems, 0);
  assert_true(out.n_killed > seconds && out.n_rows > (size_t)seconds && out.n_used > (int)out.n_rows);
}

static int seconds_of(int all, int quick) {
  const char *asked = getenv("QUICK");
  return asked && asked[0] ? quick : all;
}

static void with_write_ahead(void **state) {
  (void)state;
  torture(seconds_of(40, 6), CHOICES_JOURNAL_WAL, "write-ahead log");
}

static void with_rollback(void **state) {
  (void)state;
  torture(seconds_of(20, 4), CHOICES_JOURNAL_ROLLBACK, "rollback journal");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(with_write_ahead, store_test_empty),
                                     cmocka_unit_test_setup(with_rollback, store_test_empty)};
  setpriority(PRIO_PROCESS, 0, 10); /* other suites go on beside it */
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
