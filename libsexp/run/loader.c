#include "loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { N_SETS = 2 };

/* Where the producer stands. */
typedef struct cursor {
  uint32_t stage;
  int64_t microbatch; /* within the stage */
} cursor;

/* Slots go round: places before `filled` were produced and those before `taken` given out since the start; before
 * `released` they may be filled anew, n_slots further on. Of whole steps, every step begins at a multiple of `stride`
 * places. */
struct sx_loader {
  sx_loader_stage *stages;
  uint32_t n_stages;
  sx_microbatch *slots;
  uint64_t n_slots, stride;     /* stride 0: not of whole steps */
  unsigned char **sets[N_SETS]; /* one block a field */
  cursor at;
  uint64_t filled, taken, released;
  const sx_microbatch *given; /* out last */
  bool threaded;
  atomic_bool stop;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
};

void *sx_take_aligned(sx_arena *arena, int64_t n_bytes) {
  enum { ALIGNMENT = 64 };
  char *bytes = sx_arena_take(arena, (size_t)n_bytes + ALIGNMENT, 1);
  return bytes + (ALIGNMENT - (uintptr_t)bytes % ALIGNMENT) % ALIGNMENT;
}

/* ---- microbatches ---- */

static int64_t largest_field(const sx_dataset *const *datasets, size_t n_datasets, uint32_t field) {
  int64_t largest = 0;
  for (size_t i = 0; i < n_datasets; i++)
    if (datasets[i] && field < datasets[i]->n_fields && datasets[i]->n_bytes[field] > largest)
      largest = datasets[i]->n_bytes[field];
  return largest;
}

static uint32_t most_fields(const sx_dataset *const *datasets, size_t n_datasets) {
  uint32_t n_fields = 0;
  for (size_t i = 0; i < n_datasets; i++)
    if (datasets[i] && datasets[i]->n_fields > n_fields) n_fields = datasets[i]->n_fields;
  return n_fields;
}

void sx_microbatch_init(sx_microbatch *microbatch, const sx_dataset *const *datasets, size_t n_datasets, int64_t batch,
                        const sx_host_memory *memory) {
  uint32_t n_fields = most_fields(datasets, n_datasets);
  microbatch->fields = SX_NEW_N(memory->arena, void *, n_fields);
  microbatch->records = SX_NEW_N(memory->arena, int64_t, batch);
  for (uint32_t f = 0; f < n_fields; f++) {
    int64_t n_bytes;
    if (__builtin_mul_overflow(largest_field(datasets, n_datasets, f), batch, &n_bytes))
      sx_memory_fail(memory->arena->memory);
    microbatch->fields[f] = memory->take(memory->context, n_bytes);
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

/* Of whole steps, where the fields of the microbatch in that place are. */
static void place_in_set(const sx_loader *loader, sx_microbatch *slot, const sx_loader_stage *stage, uint64_t place) {
  int64_t m = (int64_t)(place % loader->stride);
  slot->set = (int)(place / loader->stride % N_SETS);
  for (uint32_t f = 0; f < stage->dataset->n_fields; f++)
    slot->fields[f] = loader->sets[slot->set][f] + m * stage->batch * stage->dataset->n_bytes[f];
  if (m == stage->microbatches - 1) slot->advance = loader->stride - (uint64_t)m;
}

/* Fills the slot of a place with the microbatch at the cursor, and moves on unless it failed. */
static bool produce(sx_loader *loader, uint64_t place, const atomic_bool *stop) {
  const sx_loader_stage *stage = &loader->stages[loader->at.stage];
  sx_microbatch *slot = &loader->slots[place % loader->n_slots];
  slot->advance = 1;
  if (loader->stride) place_in_set(loader, slot, stage, place);
  if (!read_until(slot, stage->dataset, loader->at.microbatch * stage->batch, stage->batch, stop)) return false;
  loader->at.microbatch++;
  skip_finished_stages(loader);
  return true;
}

/* Waits until the slot of the next place is one that the consumer neither holds nor has yet to take. False: stopped. */
static bool wait_for_slot(sx_loader *loader) {
  pthread_mutex_lock(&loader->mutex);
  while (!atomic_load(&loader->stop) && loader->filled >= loader->released + loader->n_slots)
    pthread_cond_wait(&loader->changed, &loader->mutex);
  bool stopped = atomic_load(&loader->stop);
  pthread_mutex_unlock(&loader->mutex);
  return !stopped;
}

static void *produce_all(void *context) {
  sx_loader *loader = context;
  bool going = true;
  while (going && !at_end(loader) && wait_for_slot(loader)) {
    const sx_microbatch *slot = &loader->slots[loader->filled % loader->n_slots];
    going = produce(loader, loader->filled, &loader->stop);
    pthread_mutex_lock(&loader->mutex);
    if (going || slot->failed) loader->filled += slot->advance;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->mutex);
  }
  return NULL;
}

/* ---- the consumer's side ---- */

/* Microbatches whose fields are parts of the sets. */
static void take_sets(sx_loader *loader, const sx_dataset *const *datasets, int64_t batch,
                      const sx_host_memory *memory) {
  uint32_t n_fields = most_fields(datasets, loader->n_stages);
  for (uint64_t s = 0; s < loader->n_slots; s++) {
    loader->slots[s].fields = SX_NEW_N(memory->arena, void *, n_fields);
    loader->slots[s].records = SX_NEW_N(memory->arena, int64_t, batch);
  }
  for (int set = 0; set < N_SETS; set++) loader->sets[set] = SX_NEW_N(memory->arena, unsigned char *, n_fields);
  for (uint32_t f = 0; f < n_fields; f++) {
    int64_t most = 0;
    for (uint32_t i = 0; i < loader->n_stages; i++) {
      const sx_loader_stage *stage = &loader->stages[i];
      int64_t n_bytes = largest_field(&stage->dataset, 1, f);
      if (__builtin_mul_overflow(n_bytes, stage->batch, &n_bytes) ||
          __builtin_mul_overflow(n_bytes, stage->microbatches, &n_bytes))
        sx_memory_fail(memory->arena->memory);
      if (n_bytes > most) most = n_bytes;
    }
    for (int set = 0; set < N_SETS; set++) loader->sets[set][f] = memory->take(memory->context, most);
  }
}

sx_loader *sx_loader_new(const sx_loader_stage *stages, uint32_t n_stages, bool whole_steps,
                         const sx_host_memory *memory) {
  sx_loader *loader = SX_NEW(memory->arena, sx_loader);
  const sx_dataset **datasets = SX_NEW_N(memory->arena, const sx_dataset *, n_stages);
  int64_t batch = 0, microbatches = 1;
  loader->stages = SX_NEW_N(memory->arena, sx_loader_stage, n_stages);
  loader->n_stages = n_stages;
  for (uint32_t i = 0; i < n_stages; i++) {
    loader->stages[i] = stages[i];
    datasets[i] = stages[i].dataset;
    if (stages[i].dataset && stages[i].batch > batch) batch = stages[i].batch;
    if (stages[i].dataset && stages[i].microbatches > microbatches) microbatches = stages[i].microbatches;
  }
  loader->stride = whole_steps ? (uint64_t)microbatches : 0;
  loader->n_slots = whole_steps ? N_SETS * loader->stride : SX_LOADER_SLOTS;
  loader->slots = SX_NEW_N(memory->arena, sx_microbatch, loader->n_slots);
  if (whole_steps) take_sets(loader, datasets, batch, memory);
  for (uint64_t s = 0; !whole_steps && s < loader->n_slots; s++)
    sx_microbatch_init(&loader->slots[s], datasets, n_stages, batch, memory);
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

static void give_out(sx_loader *loader) {
  uint64_t place = loader->taken;
  loader->given = &loader->slots[place % loader->n_slots];
  loader->taken += loader->given->advance;
  loader->released = loader->stride ? place - place % loader->stride : place;
}

static const sx_microbatch *next_of_thread(sx_loader *loader) {
  pthread_mutex_lock(&loader->mutex);
  if (!loader->given || !loader->given->failed) {
    while (loader->filled == loader->taken) pthread_cond_wait(&loader->changed, &loader->mutex);
    give_out(loader);
    pthread_cond_broadcast(&loader->changed);
  }
  const sx_microbatch *slot = loader->given;
  pthread_mutex_unlock(&loader->mutex);
  return slot;
}

const sx_microbatch *sx_loader_next(sx_loader *loader) {
  if (loader->threaded) return next_of_thread(loader);
  uint64_t place = loader->taken;
  if (!produce(loader, place, NULL)) return &loader->slots[place % loader->n_slots];
  give_out(loader);
  return loader->given;
}
