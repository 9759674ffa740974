/* Records of a run's metrics stream (docs/schema/metrics.json): one JSON object a line. Only `timing`
 * records are volatile; the rest is a function of the experiment, its data and its seed. */
#ifndef TOOL_RECORDS_H
#define TOOL_RECORDS_H

#include <stdint.h>

#include "../../libckpt/ckpt.h"
#include "sink.h"

typedef struct tool_records {
  tool_sink *sink;
  ckpt_json *json;
  const char *run; /* the slug; borrowed */
} tool_records;

/* Each writes one line and gives the exit status of a failure, printed. */
int tool_record_manifest(tool_records *records, const ckpt_experiment *experiment);
int tool_record_value(tool_records *records, const char *name, int64_t step, float value);
int tool_record_digest(tool_records *records, const char *name, int64_t step, const char *digest, const char *text);
/* metadata: JSON text of an object, or NULL. */
int tool_record_annotation(tool_records *records, const char *name, int64_t step, const char *text,
                           const char *metadata);
int tool_record_checkpoint(tool_records *records, int64_t step, const char *digest);
/* A rate or time (value), or a fact of this machine (text; then value is not written). */
int tool_record_timing(tool_records *records, const char *name, int64_t step, double value, const char *text);

#endif
