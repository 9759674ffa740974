/* The checkpoint that a name on the command line means: a directory step-<n>, or LOCATION/latest. */
#ifndef CHECKPOINT_OPEN_H
#define CHECKPOINT_OPEN_H

#include "../../libckpt/ckpt.h"

/* Says on standard error which newer ones `latest` leaves out as torn. */
ckpt_status checkpoint_open(ckpt_checkpoint **out, const char *name, ckpt_error *error);

/* The same, with the error printed: the exit status. */
int checkpoint_open_or_say(ckpt_checkpoint **out, const char *name);

/* "dir/name" into its two parts, slashes at the end left out: "" has the directory ".". Owned. */
void checkpoint_split(char **directory, char **base, const char *name);

/* The n of a name step-<n>, or -1. */
int64_t checkpoint_step_of(const char *base);

/* Opens a location that is there; prints its error. */
int checkpoint_open_location(ckpt_location **out, const char *name);

#endif
