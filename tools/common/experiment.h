/* What a run is, as checkpoints and the manifest record tell it: libsexp's description in libckpt's terms,
 * the slug, and the choices object. */
#ifndef TOOL_EXPERIMENT_H
#define TOOL_EXPERIMENT_H

#include "../../libchoices/choices.h"
#include "../../libckpt/ckpt.h"
#include "../../libsexp/sexp.h"

typedef struct tool_experiment {
  ckpt_experiment record;
  const char *path;     /* of the experiment file; borrowed */
  char *slug, *choices; /* owned */
  char choices_digest[CKPT_SHA256_TEXT];
  ckpt_text_file *sources;
  ckpt_knob *knobs;
  ckpt_data_source *data;
  ckpt_array *parameters, *states;
  ckpt_load *loads;
  char **paths; /* as recorded; owned */
  size_t n_paths;
} tool_experiment;

/* How a run is computed, for records and reports; all borrowed. */
typedef struct tool_mode {
  bool strict;                   /* --deterministic */
  bool portable;                 /* --portable */
  const char *device;            /* the facts that its bits rest on */
  const char *determinism;       /* the level and why */
  const char *store;             /* of choices: what was remembered and measured; "" or NULL: none was asked */
  const sexp_device_facts *cuda; /* NULL: the CPU */
  const sexp_decision *decisions;
  size_t n_decisions;
  const choices_probe *probes;
  size_t n_probes;
} tool_mode;

ckpt_dtype tool_dtype(sexp_dtype dtype); /* of a parameter or state */

/* The choices object of a run, owned, and its digest. NULL: out of memory. */
char *tool_choices_make(char digest_out[CKPT_SHA256_TEXT], const char *identity, const tool_mode *mode);
/* What the run chose, in one line. */
void tool_choices_line(char *line, size_t n_line, const char *digest, const tool_mode *mode);

/* Fills everything but the position and the tensors' bytes. slug_base NULL: the stem of the file's name; slug:
 * of the run that goes on, NULL: a new one.
 * The exit status of a failure (memory), printed. */
int tool_experiment_init(tool_experiment *experiment, const sexp_program *program, const sexp_run *run,
                         const char *path, const char *slug_base, const char *slug, const tool_mode *mode);
/* Takes the run's position, and pointers to its tensors (valid until the next step). */
void tool_experiment_update(tool_experiment *experiment, const sexp_run *run);
void tool_experiment_free(tool_experiment *experiment);

#endif
