/* The progress line: on a terminal, redrawn in place at most ten times a second. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../libsexp/sexp.h"

typedef struct tool_progress {
  bool shown; /* standard error is a terminal and the run is not quiet */
  bool drawn; /* the line is on the screen */
  double started_s, drawn_s;
  int64_t first_step, steps, first_records;
  const char *last_checkpoint;
} tool_progress;

void tool_progress_start(tool_progress *progress, bool shown, int64_t steps);
/* Records a second since the start, and seconds left. */
void tool_progress_rates(const tool_progress *progress, int64_t step, int64_t records, double *per_second,
                         double *left_s);
void tool_progress_draw(tool_progress *progress, const sexp_step *step, int64_t records);
/* Takes the line off the screen, so that words can be printed. */
void tool_progress_clear(tool_progress *progress);

#endif
