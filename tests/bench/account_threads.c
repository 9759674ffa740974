/* Where the time of training steps goes between threads: linked with sexpgpu-run, whose calls of the pool and of a step
 * come through here (the linker's --wrap). At the end one line of JSON goes to the file that ACCOUNT_THREADS names, of
 * the steps after the third:
 *
 *   steps, ms (median of a step), and a step's average of
 *   launches   calls that were cut into parts        alone      calls of one part
 *   parallel   ms from the begin of a launch to its end, on the caller
 *   work       ms that all parts took together
 *   wake       ms until the last thread that took a part began
 *   wait       ms that the caller waited after its own part
 *   small      ms of calls of one part                outside    ms in no call: what only the caller does
 */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../libsexp/cpu/threads.h"
#include "../../libsexp/sexp.h"

enum { MOST_THREADS = 256, MOST_STEPS = 1 << 16, WARM = 3 };

void __real_sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context);
void __wrap_sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context);
sexp_status __real_sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages);
sexp_status __wrap_sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages);

typedef struct part {
  _Alignas(64) double begin, end, work; /* of its first call, of its last, of all */
} part;

typedef struct launch {
  sx_parallel *function;
  void *context;
  part parts[MOST_THREADS]; /* end of 0: none */
} launch;

typedef struct account {
  double launches, alone, parallel, work, wake, wait, small, steps_ms;
} account;

static account total;
static launch now;
static double steps[MOST_STEPS];
static int n_steps;

static double clock_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_part(void *context, int64_t begin, int64_t end, int thread) {
  const launch *l = context;
  part *mine = &now.parts[thread];
  double started = clock_ms();
  l->function(l->context, begin, end, thread);
  if (mine->end == 0.0) mine->begin = started;
  mine->end = clock_ms();
  mine->work += mine->end - started;
}

static void add_launch(double begin, double end, int n_threads) {
  double last = now.parts[0].begin;
  total.launches++;
  total.parallel += end - begin;
  if (now.parts[0].end > 0) total.wait += end - now.parts[0].end;
  for (int p = 0; p < n_threads; p++) {
    if (now.parts[p].end == 0.0) continue;
    total.work += now.parts[p].work;
    if (now.parts[p].begin > last) last = now.parts[p].begin;
  }
  total.wake += last - begin;
}

void __wrap_sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context) {
  int n_threads = sx_pool_threads(pool);
  bool alone = n_threads == 1 || n <= grain;
  double begin = clock_ms();
  if (alone || n_threads > MOST_THREADS) {
    __real_sx_pool_run(pool, n, grain, function, context);
    total.alone++;
    total.small += clock_ms() - begin;
    return;
  }
  now.function = function;
  now.context = context;
  for (int p = 0; p < n_threads; p++) now.parts[p] = (part){0};
  __real_sx_pool_run(pool, n, grain, run_part, &now);
  add_launch(begin, clock_ms(), n_threads);
}

sexp_status __wrap_sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages) {
  double begin = clock_ms();
  if (n_steps == WARM) total = (account){0};
  sexp_status status = __real_sexp_run_step(run, step, messages);
  double took = clock_ms() - begin;
  if (status != SEXP_OK) return status;
  if (n_steps >= WARM) total.steps_ms += took;
  if (n_steps < MOST_STEPS) steps[n_steps++] = took;
  return status;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("ACCOUNT_THREADS");
  FILE *to = path && n_steps > WARM ? fopen(path, "w") : NULL;
  if (!to) return;
  int n = n_steps - WARM;
  qsort(steps + WARM, (size_t)n, sizeof *steps, compare);
  double outside = total.steps_ms - total.parallel - total.small;
  fprintf(to,
          "{\"steps\": %d, \"ms\": %.4f, \"best\": %.4f, \"launches\": %.1f, \"alone\": %.1f, \"parallel\": %.4f, "
          "\"work\": %.4f, \"wake\": %.4f, \"wait\": %.4f, \"small\": %.4f, \"outside\": %.4f}\n",
          n, steps[WARM + n / 2], steps[WARM], total.launches / n, total.alone / n, total.parallel / n, total.work / n,
          total.wake / n, total.wait / n, total.small / n, outside / n);
  fclose(to);
}
