/* Where metrics go: lines of JSON, one write a line; or a service, in batches. */
#ifndef TOOL_SINK_H
#define TOOL_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "syvain.h"

typedef struct tool_sink {
  int fd;              /* -1: nowhere, or to the service */
  tool_syvain *syvain; /* NULL: not to it */
  const char *path;
  bool failed; /* a write did, and that was said: nothing more is written */
} tool_sink;

/* target: "jsonl:PATH" (appended; a torn last line is cut off first), "stdout", "syvain" or "syvain:FOLDER", or NULL
 * for nowhere. The exit status of a failure, printed: E-METRIC-001, E-METRIC-002, E-METRIC-005, E-ENV-001. */
int tool_sink_open(tool_sink *sink, const char *target);
/* What a file has of a run that goes on in it. */
typedef struct tool_held {
  bool manifest;
  bool checkpoint; /* the annotation of the checkpoint that it goes on from */
} tool_held;
/* For a run that goes on after `step`: takes its records of later steps, and its timings, out of a file (which is
 * replaced). Nothing to do for a stream. E-METRIC-002. */
int tool_sink_rewind(tool_sink *sink, const char *run, int64_t step, tool_held *held);
/* Makes what was written durable; where that cannot be had, it is not. */
void tool_sink_sync(const tool_sink *sink);
/* One whole line, with its \n, of the run with that slug. TOOL_STORAGE and E-METRIC-003, printed, when it cannot be
 * written whole. */
int tool_sink_write(tool_sink *sink, const char *run, const char *line, size_t n_bytes);
void tool_sink_close(tool_sink *sink);

#endif
