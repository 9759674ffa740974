/* When the run's checkpoints are written, what is said and recorded of them, and what a failure means. */
#ifndef RUN_CHECKPOINTS_H
#define RUN_CHECKPOINTS_H

#include "train.h"

/* What the copy of a background write takes; 0: the run has none. */
int64_t checkpoints_copy_bytes(const training *t);
/* Takes all memory, before the first step. The exit status of a failure, printed. */
int checkpoints_prepare(training *t);

/* Starts the checkpoint of this step; waits for the one before, and records it, first. Exit statuses as of a poll. */
int checkpoints_begin(training *t, int64_t step);
/* Shows a checkpoint that has come to its end. TOOL_STORAGE, said, where too many in a row have failed. */
int checkpoints_poll(training *t, int64_t step);
/* Waits for the checkpoint under way and records it, then writes the one that the run leaves behind at this step, where
 * there is a place for one and it is not there yet. TOOL_STORAGE, said, where that fails. */
int checkpoints_end(training *t, int64_t step);

#endif
