/* The pool: every index once, cuts at multiples of the grain, whoever is late is helped, and no processor time while
 * idle. */
#define _GNU_SOURCE /* sched_getaffinity */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/cpu/threads.h"
#include "../common/cmocka_all.h"

enum { MOST = 5000, MOST_THREADS = 16 };

typedef struct trace {
  uint8_t visits[MOST];
  int64_t grain, n;
  atomic_int wrong; /* calls that are empty or not cut at the grain, or at once with another of their thread */
  atomic_bool busy[MOST_THREADS];
} trace;

static void note(void *context, int64_t begin, int64_t end, int thread) {
  trace *seen = context;
  bool cut = begin % seen->grain == 0 && (end % seen->grain == 0 || end == seen->n);
  if (!cut || begin >= end || atomic_exchange(&seen->busy[thread], true)) atomic_fetch_add(&seen->wrong, 1);
  for (int64_t i = begin; i < end; i++) seen->visits[i]++;
  atomic_store(&seen->busy[thread], false);
}

static void check_run(sx_pool *pool, int64_t n, int64_t grain) {
  trace seen = {.grain = grain, .n = n};
  sx_pool_run(pool, n, grain, note, &seen);
  assert_int_equal(atomic_load(&seen.wrong), 0);
  for (int64_t i = 0; i < MOST; i++) assert_int_equal(seen.visits[i], i < n);
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
        for (int round = 0; round < 3; round++) check_run(pool, sizes[s], grains[g]);
      }
    sx_pool_free(pool);
  }
}

/* Of more grains than the pool counts. */
static void note_ends(void *context, int64_t begin, int64_t end, int thread) {
  int64_t *ends = context; /* indices seen; the last end */
  (void)thread;
  __atomic_fetch_add(&ends[0], end - begin, __ATOMIC_SEQ_CST);
  if (end == INT64_MAX) __atomic_store_n(&ends[1], end, __ATOMIC_SEQ_CST);
}

static void any_number_of_grains(void **state) {
  (void)state;
  sx_pool *pool = sx_pool_new(3);
  int64_t ends[2] = {0};
  sx_pool_run(pool, INT64_MAX, 1, note_ends, ends);
  assert_true(ends[0] == INT64_MAX && ends[1] == INT64_MAX);
  sx_pool_free(pool);
}

/* The first unit that a worker takes waits until the caller has done all that the worker has not begun. */
typedef struct lateness {
  atomic_int done, late; /* units; of a worker */
} lateness;

static void be_late(void *context, int64_t begin, int64_t end, int thread) {
  lateness *l = context;
  struct timespec pause = {0, 100000};
  if (thread) atomic_fetch_add(&l->late, (int)(end - begin));
  for (int i = 0; thread && i < 20000 && atomic_load(&l->done) + atomic_load(&l->late) < 64; i++)
    nanosleep(&pause, NULL);
  atomic_fetch_add(&l->done, (int)(end - begin));
}

static void who_is_late_is_helped(void **state) {
  (void)state;
  sx_pool *pool = sx_pool_new(2);
  for (int round = 0; round < 5; round++) {
    lateness l = {0};
    sx_pool_run(pool, 64, 1, be_late, &l);
    assert_int_equal(atomic_load(&l.done), 64);
    assert_true(atomic_load(&l.late) <= 16); /* half of its half */
  }
  sx_pool_free(pool);
}

static void all_bytes_are_zeroed(void **state) {
  (void)state;
  static const int64_t sizes[] = {0, 1, 4095, 131071, 131073, 1000001};
  static unsigned char bytes[1000003];
  sx_pool *pool = sx_pool_new(3);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    memset(bytes, 7, sizeof bytes);
    sx_pool_zero(pool, bytes + 1, sizes[s]);
    for (int64_t i = 0; i < (int64_t)sizeof bytes; i++)
      if (bytes[i] != (i < 1 || i > sizes[s] ? 7 : 0)) fail_msg("%lld of %lld", (long long)i, (long long)sizes[s]);
  }
  sx_pool_free(pool);
}

static void no_pool_is_one_thread(void **state) {
  (void)state;
  assert_int_equal(sx_pool_threads(NULL), 1);
  check_run(NULL, 100, 7);
  sx_pool_free(NULL);
  assert_false(sx_pool_pin(NULL));
}

/* Workers go to processors that the process may use, one each; more workers than processors are left as they are. */
typedef struct placing {
  cpu_set_t of[MOST_THREADS];
  atomic_int n_seen;
  int n;
} placing;

static void note_place(void *context, int64_t begin, int64_t end, int thread) {
  placing *p = context;
  (void)begin, (void)end;
  sched_getaffinity(0, sizeof p->of[thread], &p->of[thread]);
  atomic_fetch_add(&p->n_seen, 1);
  for (int i = 0; i < 5000000 && atomic_load(&p->n_seen) < p->n; i++) sched_yield();
}

static void workers_are_bound_within_the_mask(void **state) {
  (void)state;
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  int n = CPU_COUNT(&allowed) < MOST_THREADS ? CPU_COUNT(&allowed) : MOST_THREADS;
  sx_pool *pool = sx_pool_new(n), *crowd = sx_pool_new(CPU_COUNT(&allowed) + 1);
  assert_true(sx_pool_pin(pool));
  placing p = {.n = n};
  sx_pool_run(pool, n, 1, note_place, &p);
  assert_int_equal(atomic_load(&p.n_seen), n);
  assert_true(CPU_EQUAL(&p.of[0], &allowed)); /* the caller stays free */
  cpu_set_t taken, both;
  size_t first = 0;
  while (!CPU_ISSET(first, &allowed)) first++;
  CPU_ZERO(&taken);
  CPU_SET(first, &taken); /* the caller's */
  for (int t = 1; t < n; t++) {
    assert_int_equal(CPU_COUNT(&p.of[t]), 1);
    CPU_AND(&both, &p.of[t], &allowed);
    assert_int_equal(CPU_COUNT(&both), 1);
    CPU_AND(&both, &p.of[t], &taken);
    assert_int_equal(CPU_COUNT(&both), 0);
    CPU_OR(&taken, &taken, &p.of[t]);
  }
  assert_false(sx_pool_pin(crowd));
  sx_pool_free(pool);
  sx_pool_free(crowd);
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
  check_run(pool, 100, 1);
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
      cmocka_unit_test(every_index_is_visited_once),
      cmocka_unit_test(any_number_of_grains),
      cmocka_unit_test(who_is_late_is_helped),
      cmocka_unit_test(all_bytes_are_zeroed),
      cmocka_unit_test(no_pool_is_one_thread),
      cmocka_unit_test(many_calls_in_a_row),
      cmocka_unit_test(an_idle_pool_sleeps),
      cmocka_unit_test(a_processor_is_counted),
      cmocka_unit_test(workers_are_bound_within_the_mask),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
