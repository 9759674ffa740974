/* The status file: one JSON object (docs/schema/status.json), replaced atomically. */
#ifndef TOOL_STATUS_H
#define TOOL_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../libckpt/ckpt.h"

typedef struct tool_status {
  const char *path;  /* NULL: none */
  const char *state; /* "compiling" "loading" "running" "evaluating" "checkpointing" "waiting" "stopping" "done"
                         "failed" */
  const char *run;   /* slug, NULL before it is known */
  int64_t step, steps;
  float loss;
  bool has_loss;
  double records_per_second, eta_seconds; /* 0: unknown */
  const char *last_checkpoint;            /* "step-100", or NULL */
  const char *const *overrides;           /* names of knobs of source override */
  size_t n_overrides;
  const char *error_code, *error_message; /* NULL: none */
  double written_s;                       /* when the file was last written, monotonic */
  bool warned;
} tool_status;

/* Sets the state and writes the file. A failure is said once and does not stop the run (E-METRIC-004). */
void tool_status_set(tool_status *status, const char *state);
/* Writes the file when the last time is a second ago or more. */
void tool_status_tick(tool_status *status);

#endif
