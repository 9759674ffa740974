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

/* Whether experiment.json of step-<step> reads, its seal is right, and the files that it lists have their sizes. An
 * error is only that this cannot be found out: storage does not answer, or memory is out. */
ckpt_status ck_checkpoint_judge(bool *complete, const ckpt_location *location, int64_t step, ckpt_error *error);

/* Of an error of opening a checkpoint: whether it says nothing of what is there. */
bool ck_is_unanswered(const ckpt_error *error);

#endif
