/* The loader: the microbatches of a run in their order, prepared ahead by a thread of its own, or on
 * demand. What they hold is a function of the datasets and the position alone. */
#ifndef SX_RUN_LOADER_H
#define SX_RUN_LOADER_H

#include "dataset.h"

/* Where memory for data comes from: take never gives NULL. */
typedef struct sx_host_memory {
  void *(*take)(void *context, int64_t n_bytes);
  void *context;
  sx_arena *arena; /* for everything else */
} sx_host_memory;

/* 64-aligned memory of an arena. */
void *sx_take_aligned(sx_arena *arena, int64_t n_bytes);

/* What the loader reads in one stage; dataset NULL: nothing. */
typedef struct sx_loader_stage {
  const sx_dataset *dataset;
  int64_t batch, microbatches, steps;
} sx_loader_stage;

typedef struct sx_microbatch {
  void **fields;    /* one a field of the dataset: [batch record...], 64-aligned */
  int64_t *records; /* numbers of the records */
  int set;          /* of a loader of whole steps: which half of its memory they are in */
  uint64_t advance; /* the loader's own */
  bool failed;
  sx_read_problem why;
} sx_microbatch;

/* Fills a microbatch with the records at position, position + 1, ... False: failed, with why. */
bool sx_microbatch_read(sx_microbatch *to, const sx_dataset *dataset, int64_t position, int64_t n_records);
/* Takes the memory of a microbatch that holds `batch` records of any of the datasets (NULLs are skipped). */
void sx_microbatch_init(sx_microbatch *microbatch, const sx_dataset *const *datasets, size_t n_datasets, int64_t batch,
                        const sx_host_memory *memory);

enum { SX_LOADER_SLOTS = 4 }; /* microbatches, where memory is shared */

typedef struct sx_loader sx_loader;

/* Everything is in the memory but the thread, which sx_loader_start starts.
 * Of whole steps: a microbatch stays valid until the first one of the next step is asked for; the microbatches of a
 * step lie one behind the other, each field for itself and without gaps; memory is two such sets, taken in turn, so
 * that a step has the addresses of the one before the last. */
sx_loader *sx_loader_new(const sx_loader_stage *stages, uint32_t n_stages, bool whole_steps,
                         const sx_host_memory *memory);
/* Begins after `steps` steps of a stage. Before the start, and before the first microbatch. */
void sx_loader_skip(sx_loader *loader, uint32_t stage, int64_t steps);
/* False: no thread could be started; the loader then works on demand. */
bool sx_loader_start(sx_loader *loader);
/* Stops the thread, after the record it is reading at most. */
void sx_loader_stop(sx_loader *loader);
/* The next microbatch, valid until the call after, or as whole steps say. One that failed comes again and again. Not
 * called more often than there are microbatches. */
const sx_microbatch *sx_loader_next(sx_loader *loader);

#endif
