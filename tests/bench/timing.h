/* Times of samples, and their order. */
#ifndef BENCH_TIMING_H
#define BENCH_TIMING_H

#include <time.h>

static clockid_t the_clock = CLOCK_MONOTONIC; /* main may choose another */

static inline double now_ns(void) {
  struct timespec t;
  clock_gettime(the_clock, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Of doubles, for qsort. */
static inline int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

#endif
