#include "loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "sum_tree.h"

enum { N_SLOTS = 4 };

/* Where the producer stands. */
typedef struct cursor {
  uint32_t stage;
  int64_t microbatch; /* within the stage */
} cursor;

/* Slots go round: `filled` were produced and `taken` given out since the start; the one given out last is
 * the consumer's until it asks for the next. */
struct sx_loader {
  sx_loader_stage *stages;
  uint32_t n_stages;
  sx_microbatch slots[N_SLOTS];
  cursor at;
  uint64_t filled, taken;
  bool threaded;
  atomic_bool stop;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
};

/* ---- microbatches ---- */

static int64_t largest_field(const sx_dataset *const *datasets, size_t n_datasets, uint32_t field) {
  int64_t largest = 0;
  for (size_t i = 0; i < n_datasets; i++)
    if (datasets[i] && field < datasets[i]->n_fields && datasets[i]->n_bytes[field] > largest)
      largest = datasets[i]->n_bytes[field];
  return largest;
}

void sx_microbatch_init(sx_microbatch *microbatch, const sx_dataset *const *datasets, size_t n_datasets, int64_t batch,
                        sx_arena *arena) {
  uint32_t n_fields = 0;
  for (size_t i = 0; i < n_datasets; i++)
    if (datasets[i] && datasets[i]->n_fields > n_fields) n_fields = datasets[i]->n_fields;
  microbatch->fields = SX_NEW_N(arena, void *, n_fields);
  microbatch->records = SX_NEW_N(arena, int64_t, batch);
  for (uint32_t f = 0; f < n_fields; f++) {
    int64_t n_bytes;
    if (__builtin_mul_overflow(largest_field(datasets, n_datasets, f), batch, &n_bytes)) sx_memory_fail(arena->memory);
    microbatch->fields[f] = sx_take_aligned(arena, n_bytes);
  }
}

/* NULL stop: never. */
static bool read_until(sx_microbatch *to, const sx_dataset *dataset, int64_t position, int64_t n_records,
                       const atomic_bool *stop) {
  to->failed = !sx_dataset_check(dataset, &to->why);
  for (int64_t r = 0; r < n_records && !to->failed; r++) {
    if (stop && atomic_load_explicit(stop, memory_order_relaxed)) return false;
    to->records[r] = sx_dataset_record(dataset, position + r);
    for (uint32_t f = 0; f < dataset->n_fields && !to->failed; f++)
      to->failed =
          !sx_dataset_read(dataset, to->records[r], f, (char *)to->fields[f] + r * dataset->n_bytes[f], &to->why);
  }
  return !to->failed;
}

bool sx_microbatch_read(sx_microbatch *to, const sx_dataset *dataset, int64_t position, int64_t n_records) {
  return read_until(to, dataset, position, n_records, NULL);
}

/* ---- producing ---- */

static bool at_end(const sx_loader *loader) { return loader->at.stage == loader->n_stages; }

static void skip_finished_stages(sx_loader *loader) {
  while (!at_end(loader)) {
    const sx_loader_stage *stage = &loader->stages[loader->at.stage];
    int64_t n = stage->dataset ? stage->steps * stage->microbatches : 0;
    if (loader->at.microbatch < n) return;
    loader->at = (cursor){loader->at.stage + 1, 0};
  }
}

/* Fills a slot with the microbatch at the cursor, and moves on unless it failed. */
static bool produce(sx_loader *loader, sx_microbatch *slot, const atomic_bool *stop) {
  const sx_loader_stage *stage = &loader->stages[loader->at.stage];
  if (!read_until(slot, stage->dataset, loader->at.microbatch * stage->batch, stage->batch, stop)) return false;
  loader->at.microbatch++;
  skip_finished_stages(loader);
  return true;
}

/* Waits for a free slot, one that the consumer holds or has yet to take being none. */
static sx_microbatch *wait_for_slot(sx_loader *loader) {
  pthread_mutex_lock(&loader->mutex);
  uint64_t held = loader->taken ? 1 : 0;
  while (!atomic_load(&loader->stop) && loader->filled - loader->taken + held == N_SLOTS) {
    pthread_cond_wait(&loader->changed, &loader->mutex);
    held = loader->taken ? 1 : 0;
  }
  sx_microbatch *slot = atomic_load(&loader->stop) ? NULL : &loader->slots[loader->filled % N_SLOTS];
  pthread_mutex_unlock(&loader->mutex);
  return slot;
}

static void *produce_all(void *context) {
  sx_loader *loader = context;
  bool going = true;
  while (going) {
    sx_microbatch *slot = at_end(loader) ? NULL : wait_for_slot(loader);
    if (!slot) break;
    going = produce(loader, slot, &loader->stop);
    pthread_mutex_lock(&loader->mutex);
    if (going || slot->failed) loader->filled++;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
  }
  return NULL;
}

/* ---- the consumer's side ---- */

sx_loader *sx_loader_new(const sx_loader_stage *stages, uint32_t n_stages, sx_arena *arena) {
  sx_loader *loader = SX_NEW(arena, sx_loader);
  const sx_dataset **datasets = SX_NEW_N(arena, const sx_dataset *, n_stages);
  int64_t batch = 0;
  loader->stages = SX_NEW_N(arena, sx_loader_stage, n_stages);
  loader->n_stages = n_stages;
  for (uint32_t i = 0; i < n_stages; i++) {
    loader->stages[i] = stages[i];
    datasets[i] = stages[i].dataset;
    if (stages[i].dataset && stages[i].batch > batch) batch = stages[i].batch;
  }
  for (int s = 0; s < N_SLOTS; s++) sx_microbatch_init(&loader->slots[s], datasets, n_stages, batch, arena);
  skip_finished_stages(loader);
  return loader;
}

void sx_loader_skip(sx_loader *loader, uint32_t stage, int64_t steps) {
  loader->at = (cursor){stage, steps * loader->stages[stage].microbatches};
  skip_finished_stages(loader);
}

/* The thread takes no signals: they are the caller's. */
static bool create_thread(sx_loader *loader) {
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before)) return false;
  int status = pthread_create(&loader->thread, NULL, produce_all, loader);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return !status;
}

bool sx_loader_start(sx_loader *loader) {
  if (at_end(loader)) return true;
  if (pthread_mutex_init(&loader->mutex, NULL)) return false;
  if (!pthread_cond_init(&loader->changed, NULL)) {
    atomic_init(&loader->stop, false);
    loader->threaded = create_thread(loader);
    if (loader->threaded) return true;
    pthread_cond_destroy(&loader->changed);
  }
  pthread_mutex_destroy(&loader->mutex);
  return false;
}

void sx_loader_stop(sx_loader *loader) {
  if (!loader->threaded) return;
  atomic_store(&loader->stop, true);
  pthread_mutex_lock(&loader->mutex);
  pthread_cond_broadcast(&loader->changed);
  pthread_mutex_unlock(&loader->mutex);
  pthread_join(loader->thread, NULL);
  pthread_cond_destroy(&loader->changed);
  pthread_mutex_destroy(&loader->mutex);
  loader->threaded = false;
}

static const sx_microbatch *next_of_thread(sx_loader *loader) {
  pthread_mutex_lock(&loader->mutex);
  bool stuck = loader->taken && loader->slots[(loader->taken - 1) % N_SLOTS].failed;
  if (!stuck) {
    while (loader->filled == loader->taken) pthread_cond_wait(&loader->changed, &loader->mutex);
    loader->taken++;
    pthread_cond_broadcast(&loader->changed);
  }
  const sx_microbatch *slot = &loader->slots[(loader->taken - 1) % N_SLOTS];
  pthread_mutex_unlock(&loader->mutex);
  return slot;
}

const sx_microbatch *sx_loader_next(sx_loader *loader) {
  if (loader->threaded) return next_of_thread(loader);
  produce(loader, &loader->slots[0], NULL);
  return &loader->slots[0];
}
