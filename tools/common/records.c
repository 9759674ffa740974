#include "records.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "failure.h"

static void begin(tool_records *records, const char *record) {
  ckpt_json_reset(records->json);
  ckpt_json_begin_object(records->json);
  ckpt_json_key(records->json, "record");
  ckpt_json_string(records->json, record);
}

static void begin_step(tool_records *records, const char *record, const char *name, int64_t step) {
  begin(records, record);
  ckpt_json_key(records->json, "run");
  ckpt_json_string(records->json, records->run);
  ckpt_json_key(records->json, "name");
  ckpt_json_string(records->json, name);
  ckpt_json_key(records->json, "step");
  ckpt_json_integer(records->json, step);
}

static int end(tool_records *records) {
  ckpt_json_end_object(records->json);
  size_t n_bytes = 0;
  const char *text = ckpt_json_text(records->json, &n_bytes);
  if (!text) return tool_fail(TOOL_STORAGE, TOOL_E_METRIC_WRITE, "a record cannot be written: out of memory");
  return tool_sink_write(records->sink, records->run, text, n_bytes);
}

int tool_record_manifest(tool_records *records, const ckpt_experiment *experiment) {
  begin(records, "manifest");
  ckpt_json_key(records->json, "run");
  ckpt_json_string(records->json, records->run);
  ckpt_experiment_write(records->json, experiment, CKPT_BEFORE_STEP_1);
  return end(records);
}

/* A non-finite value is null, and its canonical bits say which. */
int tool_record_value(tool_records *records, const char *name, int64_t step, float value) {
  begin_step(records, "value", name, step);
  ckpt_json_key(records->json, "value");
  ckpt_json_real32(records->json, value);
  ckpt_json_key(records->json, "bits");
  ckpt_json_bits32(records->json, isnan(value) ? NAN : value);
  return end(records);
}

int tool_record_digest(tool_records *records, const char *name, int64_t step, const char *digest, const char *text) {
  begin_step(records, "digest", name, step);
  ckpt_json_key(records->json, "digest");
  ckpt_json_string(records->json, digest);
  if (text) {
    ckpt_json_key(records->json, "text");
    ckpt_json_string(records->json, text);
  }
  return end(records);
}

int tool_record_annotation(tool_records *records, const char *name, int64_t step, const char *text,
                           const char *metadata) {
  begin_step(records, "annotation", name, step);
  ckpt_json_key(records->json, "text");
  ckpt_json_string(records->json, text);
  if (metadata) {
    ckpt_json_key(records->json, "metadata");
    ckpt_json_raw(records->json, metadata);
  }
  return end(records);
}

int tool_record_checkpoint(tool_records *records, int64_t step, const char *digest) {
  char name[32], metadata[CKPT_SHA256_TEXT + 32];
  snprintf(name, sizeof name, "step-%" PRId64, step);
  snprintf(metadata, sizeof metadata, "{\"digest\": \"%s\"}", digest);
  return tool_record_annotation(records, "checkpoint", step, name, metadata);
}

int tool_record_timing(tool_records *records, const char *name, int64_t step, double value, const char *text) {
  begin_step(records, "timing", name, step);
  ckpt_json_key(records->json, text ? "text" : "value");
  if (text)
    ckpt_json_string(records->json, text);
  else
    ckpt_json_real64(records->json, value);
  return end(records);
}
