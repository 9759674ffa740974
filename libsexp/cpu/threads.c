/* The pool: one mailbox a worker, and one range of units of work a thread. A call writes the job, fills the ranges and
 * posts to the workers; a worker that finds nothing new for some microseconds sleeps on its condition variable, so an
 * idle pool costs nothing to others on the machine, and two calls in close succession need no system call.
 *
 * A thread takes units from the front of its own range, some at a time, and when that is empty from the back of the
 * others': who is late, or shares its processor with another program, is helped. In each word `left` are both ends of
 * what is left of a range, and units are taken by compare-and-swap. Whoever succeeds has units of the job that is on,
 * however late it comes, and the job's fields stay until these are done: they may be read then, not before.
 *
 * Sleeping and posting cannot miss each other: the poster writes `posted` and then reads `asleep`, the
 * worker writes `asleep` and then reads `posted`, all sequentially consistent, so one of them sees the
 * other. */
#define _GNU_SOURCE /* sched_getaffinity, pthread_setaffinity_np */
#include "threads.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPINS = 1500, CACHE_LINE = 64, TAKES = 16, MOST_UNITS = 1 << 30, ZEROS_GRAIN = 1 << 17 };

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

/* Units that are left of a thread's: the first of them in the upper half, the one after the last in the lower. */
typedef struct range {
  _Alignas(CACHE_LINE) _Atomic uint64_t left;
} range;

struct sx_pool {
  int n_threads; /* the caller included */
  int spins;     /* 0 where threads outnumber processors: spinning would hold up who is waited for */
  worker *workers;
  range *ranges;   /* one a thread */
  signal_box done; /* posted once a job, by whoever ends its last unit */
  uint64_t n_jobs; /* so far */
  _Atomic bool stop;
  /* The job. A unit is a grain, or several where there are very many. */
  sx_parallel *function;
  void *context;
  int64_t n, unit, n_units;
  _Atomic int64_t least;                           /* units that are taken at once, where there are as many */
  _Alignas(CACHE_LINE) _Atomic int64_t unfinished; /* units */
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

/* Half of what is left of a range, from its front or its back, into [*begin, *end). False: nothing is left. */
static bool take(sx_pool *pool, range *from, bool front, int64_t *begin, int64_t *end) {
  int64_t least = atomic_load_explicit(&pool->least, memory_order_relaxed);
  uint64_t left = atomic_load_explicit(&from->left, memory_order_relaxed), rest;
  do {
    int64_t first = (int64_t)(left >> 32), last = (int64_t)(left & UINT32_MAX), n = last - first;
    if (n <= 0) return false;
    int64_t taken = n / 2 > least ? n / 2 : n < least ? n : least;
    *begin = front ? first : last - taken;
    *end = *begin + taken;
    rest = front ? (uint64_t)*end << 32 | (uint64_t)last : (uint64_t)first << 32 | (uint64_t)*begin;
  } while (
      !atomic_compare_exchange_weak_explicit(&from->left, &left, rest, memory_order_acq_rel, memory_order_relaxed));
  return true;
}

static void run_taken(sx_pool *pool, int64_t begin, int64_t end, int thread) {
  pool->function(pool->context, begin * pool->unit, end == pool->n_units ? pool->n : end * pool->unit, thread);
  if (atomic_fetch_sub(&pool->unfinished, end - begin) == end - begin) box_post(&pool->done);
}

/* All that can be had: of the own range, then of those of the threads that follow. */
static void run_share(sx_pool *pool, int thread) {
  int64_t begin, end;
  for (int k = 0; k < pool->n_threads; k++) {
    range *from = &pool->ranges[(thread + k) % pool->n_threads];
    while (take(pool, from, !k, &begin, &end)) run_taken(pool, begin, end, thread);
  }
}

static void *work(void *argument) {
  worker *self = argument;
  sx_pool *pool = self->pool;
  fesetenv(FE_DFL_ENV); /* a thread begins with the rounding and flushing modes of who made it */
  for (uint64_t seen = 0;;) {
    box_wait(&self->box, seen + 1, pool->spins);
    seen = atomic_load(&self->box.posted);
    if (atomic_load(&pool->stop)) return NULL;
    run_share(pool, self->thread);
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

/* The ranges are empty. */
static bool take_threads(sx_pool *pool) {
  size_t n = (size_t)pool->n_threads;
  pool->ranges = take_lines(n, sizeof *pool->ranges);
  pool->workers = take_lines(n - 1, sizeof *pool->workers);
  for (size_t t = 0; pool->ranges && t < n; t++) atomic_init(&pool->ranges[t].left, 0);
  return pool->ranges && pool->workers;
}

static void give_threads(sx_pool *pool) {
  free(pool->ranges);
  free(pool->workers);
  free(pool);
}

sx_pool *sx_pool_new(int n_threads) {
  if (n_threads < 1) n_threads = 1;
  sx_pool *pool = take_lines(1, sizeof *pool);
  if (!pool) return NULL;
  *pool = (sx_pool){.n_threads = n_threads, .spins = n_threads > sx_pool_processors() ? 0 : SPINS};
  if (take_threads(pool) && box_open(&pool->done)) {
    int started = workers_start(pool);
    if (started == n_threads - 1) return pool;
    workers_stop(pool, started);
    box_close(&pool->done);
  }
  give_threads(pool);
  return NULL;
}

void sx_pool_free(sx_pool *pool) {
  if (!pool) return;
  workers_stop(pool, pool->n_threads - 1);
  box_close(&pool->done);
  give_threads(pool);
}

#if defined(__linux__)
static bool pin_workers(sx_pool *pool, const cpu_set_t *allowed) {
  bool bound = true;
  int t = -1; /* the thread for the processor at hand; the caller has the first */
  for (size_t i = 0; i < CPU_SETSIZE && t < pool->n_threads - 1 && bound; i++) {
    cpu_set_t one;
    if (!CPU_ISSET(i, allowed) || ++t == 0) continue;
    CPU_ZERO(&one);
    CPU_SET(i, &one);
    bound = !pthread_setaffinity_np(pool->workers[t - 1].handle, sizeof one, &one);
  }
  for (int n = t - 1; n >= 0 && !bound; n--) pthread_setaffinity_np(pool->workers[n].handle, sizeof *allowed, allowed);
  return bound;
}

bool sx_pool_pin(sx_pool *pool) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (!pool || sched_getaffinity(0, sizeof allowed, &allowed) || CPU_COUNT(&allowed) < pool->n_threads) return false;
  return pin_workers(pool, &allowed);
}
#else
bool sx_pool_pin(sx_pool *pool) {
  (void)pool;
  return false;
}
#endif

int sx_pool_threads(const sx_pool *pool) { return pool ? pool->n_threads : 1; }

static void begin_job(sx_pool *pool, int64_t n, int64_t grain, int64_t n_parts) {
  int64_t n_grains = n / grain + (n % grain != 0), in_unit = n_grains / MOST_UNITS + 1;
  pool->n = n;
  pool->unit = in_unit * grain;
  pool->n_units = n / pool->unit + (n % pool->unit != 0);
  int64_t each = pool->n_units / n_parts, rest = pool->n_units % n_parts, least = each / TAKES;
  atomic_store_explicit(&pool->least, least > 1 ? least : 1, memory_order_relaxed);
  atomic_store_explicit(&pool->unfinished, pool->n_units, memory_order_relaxed);
  for (int64_t p = n_parts; p-- > 0;) {
    int64_t begin = each * p + (p < rest ? p : rest), end = begin + each + (p < rest);
    atomic_store_explicit(&pool->ranges[p].left, (uint64_t)begin << 32 | (uint64_t)end, memory_order_release);
  }
}

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
  begin_job(pool, n, grain, n_parts);
  for (int p = 1; p < n_parts; p++) box_post(&pool->workers[p - 1].box);
  run_share(pool, 0);
  box_wait(&pool->done, ++pool->n_jobs, pool->spins);
}

static void zero_range(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  memset((char *)context + begin, 0, (size_t)(end - begin));
}

void sx_pool_zero(sx_pool *pool, void *memory, int64_t n_bytes) {
  sx_pool_run(pool, n_bytes, ZEROS_GRAIN, zero_range, memory);
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
