/* Going on from a checkpoint: opened and verified whole, compared with the experiment at hand, and taken. */
#ifndef TOOL_RESUME_H
#define TOOL_RESUME_H

#include "../../libsexp/sexp.h"
#include "credentials.h"
#include "experiment.h"

typedef struct tool_resume {
  ckpt_checkpoint *checkpoint; /* NULL: no resume */
  char name[32];               /* "step-100" */
  sexp_tensor *tensors;
  sexp_start start;
  char *metadata; /* of the `resumed from` annotation */
} tool_resume;

/* Opens `what`, a checkpoint's path or "latest" of location (then not NULL; torn ones are skipped with a word), and
 * verifies every hash and the digest; one on S3 is fetched, with the credentials of checkpoints. All return the exit
 * status of a failure, printed. */
int tool_resume_open(tool_resume *resume, const char *what, ckpt_location *location, tool_credentials *credentials);
/* Refuses another file, run, knob, seed or identity: E-CKPT-040 to -042. */
int tool_resume_check_program(const tool_resume *resume, const sexp_program *program, const char *path);
/* Says which checkpoints beyond the chosen step are torn. */
void tool_say_torn(ckpt_location *location, int64_t chosen);
/* Takes over an open checkpoint; `start` has its step alone. */
void tool_resume_take(tool_resume *resume, ckpt_checkpoint *checkpoint);
/* Fills `start` with the tensors of one that was verified; one on S3 is here from then on. */
int tool_resume_fill(tool_resume *resume);
/* Refuses other data: E-CKPT-043. */
int tool_resume_check_data(const tool_resume *resume, const tool_experiment *experiment);
/* Refuses other data or weights: E-CKPT-043, E-LOAD-001. */
int tool_resume_check_files(tool_resume *resume, const tool_experiment *experiment);
void tool_resume_free(tool_resume *resume);

#endif
