/* The training loop of sexpgpu-run: steps, records, checkpoints, signals. */
#ifndef RUN_TRAIN_H
#define RUN_TRAIN_H

#include "../common/chooser.h"
#include "../common/credentials.h"
#include "../common/experiment.h"
#include "../common/host.h"
#include "../common/kept.h"
#include "../common/pinning.h"
#include "../common/progress.h"
#include "../common/records.h"
#include "../common/report.h"
#include "../common/resume.h"
#include "../common/sink.h"
#include "../common/status.h"
#include "settings.h"
#include "writer.h"

typedef struct training {
  const run_settings *settings;
  tool_mode mode;
  tool_pinning pinning;
  sexp_device *device; /* NULL: the CPU */
  tool_chooser chooser;
  char store[TOOL_LEVEL_TEXT]; /* what the report says of the store of choices */
  tool_credentials credentials;
  tool_files files;
  tool_kept *kept;
  sexp_host host; /* that keeps files */
  sexp_messages *messages;
  sexp_program *program;
  sexp_run *run;
  ckpt_location *location; /* NULL: no checkpoints */
  run_writer writer;
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
  int n_failed_checkpoints;     /* in a row */
  ckpt_error checkpoint_error;  /* of the last that failed; its text is in the status */
  bool has_unrecorded;          /* no record tells of the writer's result yet */
  bool has_said_wait;
} training;

/* Trains to the end, or to a signal. The exit status. */
int train(training *t);

#endif
