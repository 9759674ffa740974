/* The training loop of sexpgpu-run: steps, records, checkpoints, signals. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "../common/experiment.h"
#include "../common/progress.h"
#include "../common/records.h"
#include "../common/report.h"
#include "../common/resume.h"
#include "../common/sink.h"
#include "../common/status.h"
#include "settings.h"

typedef struct training {
  const run_settings *settings;
  tool_mode mode;
  sexp_host host;
  sexp_messages *messages;
  sexp_program *program;
  sexp_run *run;
  ckpt_location *location; /* NULL: no checkpoints */
  tool_resume resume;
  tool_experiment experiment;
  tool_report report;
  tool_sink sink;
  tool_records records;
  tool_status status;
  tool_progress progress;
  const char **overrides; /* owned */
  char last_checkpoint[32], last_digest[CKPT_SHA256_TEXT];
  int64_t last_checkpoint_step; /* -1: none yet */
} training;

/* Trains to the end, or to a signal. The exit status. */
int train(training *t);

#endif
