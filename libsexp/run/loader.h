/* The loader: the microbatches of a run in their order, prepared ahead by a thread of its own, or on
 * demand. What they hold is a function of the datasets and the position alone. */
#ifndef SX_RUN_LOADER_H
#define SX_RUN_LOADER_H

#include "dataset.h"

/* What the loader reads in one stage; dataset NULL: nothing. */
typedef struct sx_loader_stage {
  const sx_dataset *dataset;
  int64_t batch, microbatches, steps;
} sx_loader_stage;

typedef struct sx_microbatch {
  void **fields;    /* one a field of the dataset: [batch record...], 64-aligned */
  int64_t *records; /* numbers of the records */
  bool failed;
  sx_read_problem why;
} sx_microbatch;

/* Fills a microbatch with the records at position, position + 1, ... False: failed, with why. */
bool sx_microbatch_read(sx_microbatch *to, const sx_dataset *dataset, int64_t position, int64_t n_records);
/* Takes the memory of a microbatch that holds `batch` records of any of the datasets (NULLs are skipped). */
void sx_microbatch_init(sx_microbatch *microbatch, const sx_dataset *const *datasets, size_t n_datasets, int64_t batch,
                        sx_arena *arena);

typedef struct sx_loader sx_loader;

/* Everything is in the arena but the thread, which sx_loader_start starts. */
sx_loader *sx_loader_new(const sx_loader_stage *stages, uint32_t n_stages, sx_arena *arena);
/* Begins after `steps` steps of a stage. Before the start, and before the first microbatch. */
void sx_loader_skip(sx_loader *loader, uint32_t stage, int64_t steps);
/* False: no thread could be started; the loader then works on demand. */
bool sx_loader_start(sx_loader *loader);
/* Stops the thread, after the record it is reading at most. */
void sx_loader_stop(sx_loader *loader);
/* The next microbatch, valid until the call after. One that failed comes again and again. Not called more often
 * than there are microbatches. */
const sx_microbatch *sx_loader_next(sx_loader *loader);

#endif
