/* For tests: an experiment with a few tensors, to be written as a checkpoint. */
#ifndef TEST_CHECKPOINT_H
#define TEST_CHECKPOINT_H

#include "../../libckpt/ckpt.h"

/* A complete one; `value` fills its tensors, so that two values are two checkpoints. Static memory: one at a time. */
ckpt_experiment checkpoint_sample(int64_t step, float value);

#endif
