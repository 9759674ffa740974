/* The checkpoint that a name on the command line means: a directory step-<n>, s3://bucket/prefix/step-<n>, or
 * LOCATION/latest. Names of objects are reached with the credentials of checkpoints. */
#ifndef CHECKPOINT_OPEN_H
#define CHECKPOINT_OPEN_H

#include "../../libckpt/ckpt.h"

/* Says on standard error which newer ones `latest` leaves out as torn. */
ckpt_status checkpoint_open(ckpt_checkpoint **out, const char *name, ckpt_error *error);

/* The same, with the error printed: the exit status. */
int checkpoint_open_or_say(ckpt_checkpoint **out, const char *name);

/* Fetches what will be read whole; prints the error. */
int checkpoint_fetch_or_say(ckpt_checkpoint *checkpoint);

/* "dir/name" into its two parts, slashes at the end left out: "name" has the directory ".", "s3://bucket" itself and no
 * name. Owned. */
void checkpoint_split(char **directory, char **base, const char *name);

/* The n of a name step-<n>, or -1. */
int64_t checkpoint_step_of(const char *base);

/* Opens a location, which is made with `create`; prints its error. */
int checkpoint_open_location(ckpt_location **out, const char *name, bool create);

/* Whether a name is a checkpoint's, by itself or by what is there. */
bool checkpoint_is_one(const char *name);

/* At the end: what names of objects were reached with. */
void checkpoint_forget_credentials(void);

#endif
