/* Places of checkpoints: one table of functions a kind of place. */
#ifndef CK_LOCATION_H
#define CK_LOCATION_H

#include "ckpt.h"
#include "output.h"

typedef struct ck_location_ops {
  void (*close)(ckpt_location *location);
  /* The numbers n of the step-<n> that are there, complete or not, ascending; freed with free(). */
  ckpt_status (*list)(int64_t **steps, size_t *n_steps, ckpt_location *location, ckpt_error *error);
  /* Begins step-<step>: its files are written through *stage, and seen by no reader until publish. Removes what
   * killed writers left. */
  ckpt_status (*stage)(ck_output **stage, ckpt_location *location, int64_t step, ckpt_error *error);
  /* The same for a copy, which goes on where an earlier one ended: of what that one left, those files that have the
   * size and SHA-256 of one of `files` are finished files of the stage, and all else is removed. */
  ckpt_status (*take_up)(ck_output **stage, ckpt_location *location, int64_t step, const ckpt_file_entry *files,
                         size_t n_files, ckpt_error *error);
  /* Makes the files durable and shows them at once, in place of what step-<step> held. */
  ckpt_status (*publish)(ckpt_location *location, ck_output *stage, ckpt_error *error);
  /* Ends a stage; one that was not published leaves nothing, or its finished files with `leave`. */
  void (*end)(ckpt_location *location, ck_output *stage);
  /* Removes step-<step>; a torn one only if nothing but files of checkpoints is in it. */
  ckpt_status (*remove)(ckpt_location *location, int64_t step, bool complete, ckpt_error *error);
  /* Ends what killed writers left; how many of it. */
  ckpt_status (*clean)(int64_t *n_out, ckpt_location *location, ckpt_error *error);
} ck_location_ops;

/* The first member of every place's own struct. */
struct ckpt_location {
  const ck_location_ops *ops;
  char *name;
  ckpt_s3 *s3; /* NULL: a local directory; borrowed */
};

ckpt_status ck_directory_open(ckpt_location **out, const char *name, bool create, ckpt_error *error);
ckpt_status ck_s3_location_open(ckpt_location **out, const char *name, bool create, ckpt_s3 *s3, ckpt_error *error);

/* The n of "<prefix><n>" with nothing after it but, where `more`, "-…". */
bool ck_parse_step(int64_t *out, const char *name, const char *prefix, bool more);
int ck_by_step(const void *left, const void *right); /* for qsort */

#endif
