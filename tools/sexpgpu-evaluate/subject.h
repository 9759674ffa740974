/* The experiment of a checkpoint, compiled and made ready to be evaluated: kept for the checkpoints that follow as long
 * as their experiments are the same. */
#ifndef EVALUATE_SUBJECT_H
#define EVALUATE_SUBJECT_H

#include "../common/chooser.h"
#include "../common/experiment.h"
#include "../common/host.h"
#include "../common/kept.h"
#include "../common/pinning.h"
#include "../common/recorded.h"
#include "../common/resume.h"
#include "settings.h"

typedef struct subject {
  char key[CKPT_SHA256_TEXT]; /* of what experiment.json knows before step 1; "": none is ready */
  char *path;                 /* of the experiment file */
  char **sets;                /* of the recorded knobs */
  size_t n_sets;
  int64_t steps, eval_every; /* recorded overrides; 0: none */
  tool_pinning *pinning;     /* borrowed; stays, as the credentials do */
  sexp_device *device;       /* borrowed; stays; NULL: the CPU */
  tool_files files;          /* its credentials stay from one experiment to the next */
  tool_recorded *recorded;
  tool_kept *kept;
  sexp_messages *messages;
  sexp_program *program;
  sexp_run *run;
  tool_experiment experiment;
  char slug[256];
  tool_chooser chooser; /* of the device */
  tool_mode mode;
  char determinism[TOOL_LEVEL_TEXT]; /* the level and why */
  char store[TOOL_LEVEL_TEXT];       /* what the report says of the store of choices */
} subject;

/* Makes it that of the checkpoint at hand, if it is not. *anew: it was made now. The exit status of a failure, printed:
 * what the experiment or its data have wrong, which holds for every checkpoint of it. */
int subject_prepare(subject *s, bool *anew, const tool_resume *resume, const evaluate_settings *settings);
void subject_free(subject *s);

#endif
