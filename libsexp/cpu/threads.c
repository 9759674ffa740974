/* The pool: one mailbox a worker. A call writes the job, then posts to as many workers as it has parts;
 * a worker that finds nothing new for some microseconds sleeps on its condition variable, so an idle pool
 * costs nothing to others on the machine, and two calls in close succession need no system call.
 *
 * Sleeping and posting cannot miss each other: the poster writes `posted` and then reads `asleep`, the
 * worker writes `asleep` and then reads `posted`, all sequentially consistent, so one of them sees the
 * other. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "threads.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPINS = 1500, CACHE_LINE = 64 };

/* One side of a rendezvous: a count that grows, and who waits for it. */
typedef struct signal_box {
  _Alignas(CACHE_LINE) _Atomic uint64_t posted;
  _Atomic bool asleep;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} signal_box;

typedef struct worker {
  signal_box box;
  sx_pool *pool;
  int thread; /* 1 for the first; the caller is 0 */
  pthread_t handle;
} worker;

struct sx_pool {
  int n_threads; /* the caller included */
  int spins;     /* 0 where threads outnumber processors: spinning would hold up who is waited for */
  worker *workers;
  signal_box done; /* posted once by each part that a worker ends */
  uint64_t n_done; /* parts ended by workers so far */
  _Atomic bool stop;
  sx_parallel *function;
  void *context;
  int64_t n, grain, n_grains;
  int n_parts;
};

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool box_open(signal_box *box) {
  atomic_init(&box->posted, 0);
  atomic_init(&box->asleep, false);
  if (pthread_mutex_init(&box->mutex, NULL)) return false;
  if (!pthread_cond_init(&box->changed, NULL)) return true;
  pthread_mutex_destroy(&box->mutex);
  return false;
}

static void box_close(signal_box *box) {
  pthread_cond_destroy(&box->changed);
  pthread_mutex_destroy(&box->mutex);
}

static void box_post(signal_box *box) {
  atomic_fetch_add(&box->posted, 1);
  if (!atomic_load(&box->asleep)) return;
  pthread_mutex_lock(&box->mutex);
  pthread_cond_signal(&box->changed);
  pthread_mutex_unlock(&box->mutex);
}

/* Returns when `posted` has reached target. */
static void box_wait(signal_box *box, uint64_t target, int spins) {
  for (int i = 0; i < spins; i++) {
    if (atomic_load_explicit(&box->posted, memory_order_acquire) >= target) return;
    relax();
  }
  pthread_mutex_lock(&box->mutex);
  atomic_store(&box->asleep, true);
  while (atomic_load(&box->posted) < target) pthread_cond_wait(&box->changed, &box->mutex);
  atomic_store(&box->asleep, false);
  pthread_mutex_unlock(&box->mutex);
}

/* Grain at which part p begins; the first parts are one grain longer where they do not come out even. */
static int64_t part_begin(const sx_pool *pool, int p) {
  int64_t each = pool->n_grains / pool->n_parts, rest = pool->n_grains % pool->n_parts;
  return each * p + (p < rest ? p : rest);
}

static void run_part(const sx_pool *pool, int p) {
  int64_t last = part_begin(pool, p + 1);
  int64_t end = last == pool->n_grains ? pool->n : last * pool->grain;
  pool->function(pool->context, part_begin(pool, p) * pool->grain, end, p);
}

static void *work(void *argument) {
  worker *self = argument;
  sx_pool *pool = self->pool;
  fesetenv(FE_DFL_ENV); /* a thread begins with the rounding and flushing modes of who made it */
  for (uint64_t seen = 1;; seen++) {
    box_wait(&self->box, seen, pool->spins);
    if (atomic_load(&pool->stop)) return NULL;
    run_part(pool, self->thread);
    box_post(&pool->done);
  }
}

static bool worker_start(worker *self, sx_pool *pool, int thread) {
  self->pool = pool;
  self->thread = thread;
  if (!box_open(&self->box)) return false;
  if (!pthread_create(&self->handle, NULL, work, self)) return true;
  box_close(&self->box);
  return false;
}

static void workers_stop(sx_pool *pool, int n_started) {
  atomic_store(&pool->stop, true);
  for (int i = 0; i < n_started; i++) {
    worker *one = &pool->workers[i];
    box_post(&one->box);
    pthread_join(one->handle, NULL);
    box_close(&one->box);
  }
}

/* Workers take no signals: those are for the threads of who uses the library. */
static int workers_start(sx_pool *pool) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int n = 0;
  while (n < pool->n_threads - 1 && worker_start(&pool->workers[n], pool, n + 1)) n++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return n;
}

static void *take_lines(size_t n, size_t bytes) {
  if (bytes > (SIZE_MAX - CACHE_LINE) / (n ? n : 1)) return NULL;
  void *lines = NULL;
  return posix_memalign(&lines, CACHE_LINE, n * bytes + CACHE_LINE) ? NULL : lines;
}

sx_pool *sx_pool_new(int n_threads) {
  if (n_threads < 1) n_threads = 1;
  sx_pool *pool = take_lines(1, sizeof *pool);
  if (!pool) return NULL;
  *pool = (sx_pool){.n_threads = n_threads, .spins = n_threads > sx_pool_processors() ? 0 : SPINS};
  pool->workers = take_lines((size_t)n_threads - 1, sizeof *pool->workers);
  if (!pool->workers) goto no_workers;
  if (!box_open(&pool->done)) goto no_box;
  int started = workers_start(pool);
  if (started == n_threads - 1) return pool;
  workers_stop(pool, started);
  box_close(&pool->done);
no_box:
  free(pool->workers);
no_workers:
  free(pool);
  return NULL;
}

void sx_pool_free(sx_pool *pool) {
  if (!pool) return;
  workers_stop(pool, pool->n_threads - 1);
  box_close(&pool->done);
  free(pool->workers);
  free(pool);
}

int sx_pool_threads(const sx_pool *pool) { return pool ? pool->n_threads : 1; }

void sx_pool_run(sx_pool *pool, int64_t n, int64_t grain, sx_parallel *function, void *context) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  int64_t n_grains = n / grain + (n % grain != 0);
  int n_threads = sx_pool_threads(pool);
  int n_parts = n_grains < n_threads ? (int)n_grains : n_threads;
  if (n_parts == 1) {
    function(context, 0, n, 0);
    return;
  }
  pool->function = function;
  pool->context = context;
  pool->n = n;
  pool->grain = grain;
  pool->n_grains = n_grains;
  pool->n_parts = n_parts;
  for (int p = 1; p < n_parts; p++) box_post(&pool->workers[p - 1].box);
  run_part(pool, 0);
  pool->n_done += (uint64_t)n_parts - 1;
  box_wait(&pool->done, pool->n_done, pool->spins);
}

int sx_pool_processors(void) {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}
