/* What sharing a piece of work among threads costs, beside one thread: microseconds a launch (median and best) of work
 * that takes about so long on one thread, where workers still look for work and where they sleep; with workers bound to
 * processors and not, in turn. Whole steps: bench_threads.py. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../libsexp/cpu/threads.h"

enum { UNITS = 64, MOST = 2000 };
enum { ALONE, FREE, BOUND, N_POOLS };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* So many dependent additions for each unit. */
static void spend(void *context, int64_t begin, int64_t end, int thread) {
  int64_t n = *(const int64_t *)context * (end - begin);
  volatile double x = thread;
  for (int64_t i = 0; i < n; i++) x = x + 1.0;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct timing {
  double median, best;
} timing;

static timing take(double *samples, int n) {
  qsort(samples, (size_t)n, sizeof *samples, compare);
  return (timing){samples[n / 2], samples[0]};
}

static void measure(sx_pool *const *pools, int64_t work, bool asleep, timing *timings) {
  static double samples[N_POOLS][MOST];
  int n = asleep ? MOST / 20 : MOST;
  struct timespec pause = {0, 1000000};
  for (int i = 0; i < n; i++)
    for (int p = 0; p < N_POOLS; p++) {
      if (asleep) nanosleep(&pause, NULL);
      for (int again = 0; again < (asleep ? 1 : 4); again++) {
        double begin = now_us();
        sx_pool_run(pools[p], UNITS, 1, spend, &work);
        samples[p][i] = now_us() - begin;
      }
    }
  for (int p = 0; p < N_POOLS; p++) timings[p] = take(samples[p], n);
}

int main(void) {
  static const int64_t works[] = {0, 30, 300, 3000};
  int n_threads = sx_pool_processors();
  sx_pool *pools[N_POOLS] = {sx_pool_new(1), sx_pool_new(n_threads), sx_pool_new(n_threads)};
  bool bound = sx_pool_pin(pools[BOUND]);
  printf("%d threads%s; microseconds a launch, median [best]\n", n_threads, bound ? "" : ", which cannot be bound");
  printf("%-10s %18s %20s %20s\n", "workers", "1 thread", "free", "bound");
  for (int asleep = 0; asleep < 2; asleep++)
    for (size_t w = 0; w < sizeof works / sizeof *works; w++) {
      timing t[N_POOLS];
      measure(pools, works[w], asleep, t);
      printf("%-10s %9.2f [%6.2f] %11.2f [%6.2f] %11.2f [%6.2f]\n", asleep ? "asleep" : "looking", t[ALONE].median,
             t[ALONE].best, t[FREE].median, t[FREE].best, t[BOUND].median, t[BOUND].best);
    }
  for (int p = 0; p < N_POOLS; p++) sx_pool_free(pools[p]);
  return 0;
}
