/* Inside of checkpoints. */
#ifndef CK_CHECKPOINT_H
#define CK_CHECKPOINT_H

#include "experiment.h"
#include "folder.h"

struct ckpt_checkpoint {
  ck_folder *folder;
  ck_experiment *experiment;
  ckpt_tensors *parameters, *states;
};

/* Whether experiment.json of step-<step> reads, its seal is right, and the files that it lists have their sizes. */
bool ck_checkpoint_is_complete(const ckpt_location *location, int64_t step);

#endif
