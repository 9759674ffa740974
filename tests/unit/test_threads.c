/* The pool: every index once, cuts at multiples of the grain, one partition for one number of threads,
 * and no processor time while idle. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/cpu/threads.h"
#include "../common/cmocka_all.h"

enum { MOST = 5000, MOST_THREADS = 16 };

typedef struct trace {
  uint8_t visits[MOST];
  int64_t begin[MOST_THREADS], end[MOST_THREADS];
  int calls[MOST_THREADS];
} trace;

static void note(void *context, int64_t begin, int64_t end, int thread) {
  trace *seen = context;
  seen->begin[thread] = begin;
  seen->end[thread] = end;
  seen->calls[thread]++;
  for (int64_t i = begin; i < end; i++) seen->visits[i]++;
}

static void check_trace(const trace *seen, int64_t n, int64_t grain, int n_threads) {
  for (int64_t i = 0; i < MOST; i++) assert_int_equal(seen->visits[i], i < n);
  int64_t at = 0;
  for (int p = 0; p < MOST_THREADS; p++) {
    assert_true(seen->calls[p] <= (p < n_threads));
    if (!seen->calls[p]) continue;
    assert_int_equal(seen->begin[p], at);
    assert_int_equal(seen->begin[p] % grain, 0);
    assert_true(seen->end[p] > at);
    at = seen->end[p];
  }
  assert_int_equal(at, n);
}

static void every_index_is_visited_once(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 3, 7, 16};
  static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 100, 1000, 4999, 5000}, grains[] = {1, 2, 3, 16, 1000, 9000};
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
    sx_pool *pool = sx_pool_new(threads[t]);
    assert_non_null(pool);
    assert_int_equal(sx_pool_threads(pool), threads[t]);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
        trace first = {0}, second = {0};
        sx_pool_run(pool, sizes[s], grains[g], note, &first);
        check_trace(&first, sizes[s], grains[g], threads[t]);
        sx_pool_run(pool, sizes[s], grains[g], note, &second);
        assert_memory_equal(&first, &second, sizeof first);
      }
    sx_pool_free(pool);
  }
}

static void parts_are_even(void **state) {
  (void)state;
  sx_pool *pool = sx_pool_new(3);
  trace seen = {0};
  sx_pool_run(pool, 1000, 100, note, &seen);
  assert_int_equal(seen.end[0] - seen.begin[0], 400);
  assert_int_equal(seen.end[1] - seen.begin[1], 300);
  assert_int_equal(seen.end[2] - seen.begin[2], 300);
  sx_pool_free(pool);
}

static void no_pool_is_one_thread(void **state) {
  (void)state;
  trace seen = {0};
  assert_int_equal(sx_pool_threads(NULL), 1);
  sx_pool_run(NULL, 100, 7, note, &seen);
  check_trace(&seen, 100, 7, 1);
  sx_pool_free(NULL);
}

static void add_parts(void *context, int64_t begin, int64_t end, int thread) {
  int64_t *sums = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) sums[i] += i;
}

/* Calls in close succession, and calls after a pause in which the workers fell asleep. */
static void many_calls_in_a_row(void **state) {
  (void)state;
  sx_pool *pool = sx_pool_new(4);
  int64_t sums[64] = {0};
  for (int round = 0; round < 20000; round++) sx_pool_run(pool, 64, 1 + round % 20, add_parts, sums);
  struct timespec pause = {0, 2000000};
  for (int round = 0; round < 50; round++) {
    nanosleep(&pause, NULL);
    sx_pool_run(pool, 64, 1, add_parts, sums);
  }
  for (int64_t i = 0; i < 64; i++) assert_int_equal(sums[i], 20050 * i);
  sx_pool_free(pool);
}

static int64_t processor_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void an_idle_pool_sleeps(void **state) {
  (void)state;
  int n_threads = sx_pool_processors();
  sx_pool *pool = sx_pool_new(n_threads < 2 ? 2 : n_threads);
  trace seen = {0};
  sx_pool_run(pool, 100, 1, note, &seen);
  struct timespec pause = {0, 200000000};
  int64_t before = processor_ns();
  nanosleep(&pause, NULL);
  assert_true(processor_ns() - before < 50000000);
  sx_pool_free(pool);
}

static void a_processor_is_counted(void **state) {
  (void)state;
  assert_true(sx_pool_processors() >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_index_is_visited_once), cmocka_unit_test(parts_are_even),
      cmocka_unit_test(no_pool_is_one_thread),       cmocka_unit_test(many_calls_in_a_row),
      cmocka_unit_test(an_idle_pool_sleeps),         cmocka_unit_test(a_processor_is_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
