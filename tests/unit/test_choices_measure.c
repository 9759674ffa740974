/* The measuring protocol under a clock that the test sets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/choices.h"
#include "../common/choices_store.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

enum { MOST = 12, ROUNDS = 7 };

/* A device whose candidates take so long in each round; 0 in all: as the first says. */
typedef struct bench {
  int64_t now;
  int64_t time_ns[MOST][ROUNDS];
  uint64_t probe[MOST], probe_again[MOST];
  choices_ran runs[MOST], proves[MOST];
  int n_runs[MOST], n_probes[MOST];
  char order[512]; /* candidates in the order of their runs */
} bench;

static choices_ran run(void *context, size_t i) {
  bench *b = context;
  sprintf(b->order + strlen(b->order), "%zu", i);
  int64_t t = b->time_ns[i][b->n_runs[i]];
  b->now += t ? t : b->time_ns[i][0];
  b->n_runs[i]++;
  return b->runs[i];
}

static choices_ran probe(void *context, size_t i, uint64_t *digest) {
  bench *b = context;
  *digest = b->n_probes[i]++ && b->probe_again[i] ? b->probe_again[i] : b->probe[i];
  return b->proves[i];
}

static int64_t now_ns(void *context) { return ((bench *)context)->now; }

static const char *const engines[] = {"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"};

static choices_status measure(choices_decision *out, bench *b, choices_store *store, const choices_key *key, size_t n,
                              choices_error *error) {
  const choices_measuring asked = {.key = key,
                                   .values = engines,
                                   .n_values = n,
                                   .run = run,
                                   .probe = probe,
                                   .now_ns = now_ns,
                                   .context = b,
                                   .measured = "2026-11-29T12:00:00Z",
                                   .tool = "test"};
  return choices_measure(out, store, &asked, error);
}

static void decides(bench b, const choices_key *key, size_t n, const char *value, const char *reason) {
  choices_error error;
  choices_decision d;
  choices_expect_ok(measure(&d, &b, NULL, key, n, &error), &error);
  assert_string_equal(d.value, value);
  assert_string_equal(d.reason, reason);
  assert_false(d.hit || d.stored);
  choices_decision_free(&d);
}

static void rules(void **state) {
  (void)state;
  const choices_key *engine = &store_test_engine, *product = &store_test_product;
  static const char first[] = "first: none is ahead by enough";
  decides((bench){.time_ns = {{100}}}, engine, 1, "e0", "the only candidate");
  decides((bench){.time_ns = {{100}, {90}, {80}}}, engine, 3, "e2", "ahead");
  decides((bench){.time_ns = {{100}, {100}}}, engine, 2, "e0", first);
  /* Two that are near: the first of them in order, whichever is faster today. */
  decides((bench){.time_ns = {{1000}, {500, 508, 496, 504, 500, 498, 502}, {499, 507, 495, 503, 499, 497, 501}}},
          engine, 3, "e1", "ahead");
  /* Ahead, but within the spread. */
  decides((bench){.time_ns = {{100, 120, 90, 110, 95, 130, 105}, {97, 117, 87, 107, 92, 127, 102}}}, engine, 2, "e0",
          first);
  /* One outlier does not count. */
  decides((bench){.time_ns = {{100, 100, 100, 100, 100, 100, 900}, {90, 90, 90, 90, 90, 90, 90}}}, engine, 2, "e1",
          "ahead");
  /* A product's margin is one percent. */
  decides((bench){.time_ns = {{10080}, {10000}}}, product, 2, "e0", first);
  decides((bench){.time_ns = {{10100}, {10000}}}, product, 2, "e1", "ahead");
  decides((bench){.time_ns = {{10080}, {10000}}}, engine, 2, "e1", "ahead");
  /* Only the first eight engines are looked at. */
  decides((bench){.time_ns = {{100}, {100}, {100}, {100}, {100}, {100}, {100}, {100}, {10}, {10}}}, engine, 10, "e0",
          first);
  /* A clock that stands still decides nothing. */
  decides((bench){.now = 5}, engine, 3, "e0", first);
}

static void interleaved(void **state) {
  (void)state;
  bench b = {.time_ns = {{3}, {2}, {1}}, .probe = {7, 7, 7}};
  choices_error error;
  choices_decision d;
  choices_expect_ok(measure(&d, &b, NULL, &store_test_engine, 3, &error), &error);
  assert_true(d.has_probe && d.probe == 7);
  assert_string_equal(b.order, "012210012210012210012");
  for (int i = 0; i < 3; i++) assert_int_equal(b.n_probes[i], 2);
  assert_int_equal(d.n_candidates, 3);
  assert_int_equal(d.candidates[2].n_samples, ROUNDS);
  assert_int_equal(d.candidates[2].samples_ns[0], 1);
  assert_true(d.ahead == 2.0);
  assert_int_equal(d.bits, CHOICES_BITS_NEUTRAL);
  assert_string_equal(d.warning.code, "");
  choices_decision_free(&d);
}

static void rejected(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  bool is = false;
  choices_store *store = store_test_open("m.db", CHOICES_USE);
  bench b = {.time_ns = {{5}, {1}, {3}}, .probe = {1, 1, 2}, .probe_again = {0, 9, 0}};
  choices_expect_ok(measure(&d, &b, store, &store_test_engine, 3, &error), &error);
  assert_string_equal(d.value, "e2");
  assert_int_equal(d.candidates[1].state, CHOICES_REJECTED);
  assert_int_equal(b.n_runs[1], 0);
  assert_int_equal(d.bits, CHOICES_BITS_MOVE);
  assert_true(d.stored);
  choices_decision_free(&d);
  choices_expect_ok(choices_store_is_rejected(&is, store, &store_test_engine, "e1", &error), &error);
  assert_true(is);
  /* For good: once the decision is gone, it is not even run, however it behaves now. */
  size_t n = 0;
  choices_expect_ok(choices_store_remove(&n, store, &(choices_removal){0}, &error), &error);
  bench well = {.time_ns = {{5}, {1}, {3}}, .probe = {1, 1, 2}};
  choices_expect_ok(measure(&d, &well, store, &store_test_engine, 3, &error), &error);
  assert_string_equal(d.value, "e2");
  assert_int_equal(well.n_probes[1], 0);
  choices_decision_free(&d);
  choices_store_close(store);
}

/* What has no output of its own is timed alone, and whether it moves bits is unknown. */
static void unproven(void **state) {
  (void)state;
  bench b = {.time_ns = {{100}, {80}}};
  choices_error error;
  choices_decision d;
  const choices_measuring asked = {
      .key = &store_test_engine, .values = engines, .n_values = 2, .run = run, .now_ns = now_ns, .context = &b};
  choices_expect_ok(choices_measure(&d, NULL, &asked, &error), &error);
  assert_string_equal(d.value, "e1");
  assert_int_equal(d.bits, CHOICES_BITS_UNKNOWN);
  assert_false(d.candidates[0].has_probe || d.candidates[1].has_probe);
  assert_int_equal(b.n_runs[0], ROUNDS);
  choices_decision_free(&d);
}

static void none_left(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  bench b = {.probe = {1, 1}, .probe_again = {2, 0}, .proves = {CHOICES_RAN, CHOICES_RAN_REFUSED}};
  choices_expect_error(measure(&d, &b, NULL, &store_test_engine, 2, &error), &error, "E-CHOICE-018", "each of 2");
  choices_decision_free(&d);
  bench late = {.runs = {CHOICES_RAN_REFUSED}, .time_ns = {{1}, {5}}};
  choices_expect_ok(measure(&d, &late, NULL, &store_test_engine, 2, &error), &error);
  assert_string_equal(d.value, "e1");
  assert_int_equal(d.candidates[0].state, CHOICES_FAILED);
  choices_decision_free(&d);
  choices_expect_error(measure(&d, &late, NULL, &store_test_engine, 0, &error), &error, "E-CHOICE-018", "each of 0");
  choices_decision_free(&d);
}

/* The decision would depend on what else is running: none is made, none stored. */
static void out_of_memory(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  choices_store *store = store_test_open("m.db", CHOICES_USE);
  bench b = {.proves = {CHOICES_RAN, CHOICES_RAN_OUT_OF_MEMORY}};
  choices_expect_error(measure(&d, &b, store, &store_test_engine, 3, &error), &error, "E-CHOICE-019", "e1");
  assert_int_equal(d.candidates[1].state, CHOICES_OUT_OF_MEMORY);
  choices_decision_free(&d);
  bench late = {.runs = {CHOICES_RAN, CHOICES_RAN, CHOICES_RAN_OUT_OF_MEMORY}};
  choices_expect_error(measure(&d, &late, store, &store_test_engine, 3, &error), &error, "E-CHOICE-019", "e2");
  choices_decision_free(&d);
  store_test_has(store, &store_test_engine, NULL, NULL);
  choices_store_close(store);
}

static void stored_then_used(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  choices_store *store = store_test_open("m.db", CHOICES_USE);
  bench b = {.time_ns = {{5}, {1}}};
  choices_expect_ok(measure(&d, &b, store, &store_test_engine, 2, &error), &error);
  assert_true(!d.hit && d.stored && d.index == 1);
  choices_decision_free(&d);
  bench other = {.time_ns = {{1}, {5}}}; /* would decide otherwise, and is not asked */
  choices_expect_ok(measure(&d, &other, store, &store_test_engine, 2, &error), &error);
  assert_true(d.hit && d.index == 1 && other.n_probes[0] == 0);
  assert_string_equal(d.reason, "remembered");
  choices_decision_free(&d);
  choices_store_close(store);
}

/* Another process decides while this one measures: this one takes the other's. */
static choices_store *theirs;
static choices_ran run_and_lose(void *context, size_t i) {
  bench *b = context;
  if (i == 0 && b->n_runs[0] == 3) store_test_decide(theirs, &store_test_engine, "e0", "e0");
  return run(context, i);
}

static void another_decides(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  choices_store *ours = store_test_open("m.db", CHOICES_USE);
  theirs = store_test_open("m.db", CHOICES_USE);
  bench b = {.time_ns = {{5}, {1}}};
  const choices_measuring asked = {.key = &store_test_engine,
                                   .values = engines,
                                   .n_values = 2,
                                   .run = run_and_lose,
                                   .probe = probe,
                                   .now_ns = now_ns,
                                   .context = &b};
  choices_expect_ok(choices_measure(&d, ours, &asked, &error), &error);
  assert_string_equal(d.value, "e0");
  assert_string_equal(d.reason, "remembered");
  assert_true(d.stored && !d.hit);
  choices_decision_free(&d);
  choices_store_close(ours);
  choices_store_close(theirs);
}

/* Nothing remembered: the decision stands, and says so. */
static void store_fails(void **state) {
  (void)state;
  choices_error error;
  choices_decision d;
  choices_store_close(store_test_open("m.db", CHOICES_USE));
  choices_store *store = store_test_open("m.db", CHOICES_READ);
  bench b = {.time_ns = {{5}, {1}}};
  choices_expect_ok(measure(&d, &b, store, &store_test_engine, 2, &error), &error);
  assert_true(!d.stored && d.index == 1);
  assert_string_equal(d.warning.code, "E-CHOICE-013");
  choices_decision_free(&d);
  choices_store_close(store);
  store = store_test_open("m.db", CHOICES_USE);
  store_test_decide(store, &store_test_engine, "e9", "e9");
  bench again = {.time_ns = {{5}, {1}}};
  choices_expect_ok(measure(&d, &again, store, &store_test_engine, 2, &error), &error);
  assert_true(!d.stored && d.index == 1); /* what is remembered is not offered */
  assert_string_equal(d.warning.code, "E-CHOICE-018");
  choices_decision_free(&d);
  choices_store_close(store);
}

static void statistics(void **state) {
  (void)state;
  int64_t median = 0, spread = 0, seven[] = {9, 1, 5, 3, 7, 100, 4}, two[] = {4, 2}, one[] = {3};
  choices_statistics(&median, &spread, seven, 7);
  assert_int_equal(median, 5);
  assert_int_equal(spread, 9 - 3);
  choices_statistics(&median, &spread, two, 2);
  assert_int_equal(median, 3);
  assert_int_equal(spread, 2);
  choices_statistics(&median, &spread, one, 1);
  assert_int_equal(median, 3);
  assert_int_equal(spread, 0);
}

/* 5 percent, of the seeds. */
static void cost_model(void **state) {
  (void)state;
  const double ahead[] = {100, 94, 200}, near[] = {100, 96, 200}, exact[] = {105, 100}, alone[] = {7},
               bad[] = {0.0 / 0.0, 1};
  assert_int_equal(choices_cost_pick(ahead, 3), 1);
  assert_int_equal(choices_cost_pick(near, 3), -1);
  assert_int_equal(choices_cost_pick(exact, 2), -1);
  assert_int_equal(choices_cost_pick(alone, 1), 0);
  assert_int_equal(choices_cost_pick(alone, 0), -1);
  assert_int_equal(choices_cost_pick(bad, 2), -1);
}

static void probe_digests(void **state) {
  (void)state;
  uint64_t digest = 0;
  choices_error error;
  choices_expect_ok(choices_probe_digest(&digest, "abc", 3, &error), &error);
  assert_true(digest == UINT64_C(0xba7816bf8f01cfea));
  choices_expect_ok(choices_probe_digest(&digest, NULL, 0, &error), &error);
  assert_true(digest == UINT64_C(0xe3b0c44298fc1c14));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules),
      cmocka_unit_test(interleaved),
      cmocka_unit_test_setup(rejected, store_test_empty),
      cmocka_unit_test(unproven),
      cmocka_unit_test(none_left),
      cmocka_unit_test_setup(out_of_memory, store_test_empty),
      cmocka_unit_test_setup(stored_then_used, store_test_empty),
      cmocka_unit_test_setup(another_decides, store_test_empty),
      cmocka_unit_test_setup(store_fails, store_test_empty),
      cmocka_unit_test(statistics),
      cmocka_unit_test(cost_model),
      cmocka_unit_test(probe_digests),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
