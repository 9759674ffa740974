#include "checkpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/failure.h"

enum { MOST_FAILURES = 3 };            /* in a row */
static const double long_wait_s = 0.1; /* a wait that is worth words */

static bool writes_beside(const training *t) {
  const sexp_description *about = sexp_program_describe(t->program);
  return t->location && about->checkpoint_every > 0 && about->checkpoint_every < about->steps;
}

int64_t checkpoints_copy_bytes(const training *t) {
  const sexp_description *about = sexp_program_describe(t->program);
  return writes_beside(t) ? about->parameter_bytes + about->state_bytes : 0;
}

int checkpoints_prepare(training *t) {
  t->writer.experiment = &t->experiment;
  t->writer.sink = &t->sink;
  t->writer.keep = sexp_program_describe(t->program)->checkpoint_keep;
  return writes_beside(t) ? run_writer_take_snapshot(&t->writer, t->run) : TOOL_DONE;
}

/* ---- What a checkpoint's end shows at once ---- */

/* An older checkpoint that could not be removed is a warning: the new one is whole. */
static void show_good(training *t, const run_written *result) {
  const ckpt_error *prune = &result->written.prune;
  if (prune->code[0]) fprintf(stderr, "warning: %s: %s\n", prune->code, prune->message);
  snprintf(t->last_checkpoint, sizeof t->last_checkpoint, "step-%" PRId64, result->step);
  memcpy(t->last_digest, result->written.digest, sizeof t->last_digest);
  t->last_checkpoint_step = result->step;
  t->progress.last_checkpoint = t->status.last_checkpoint = t->last_checkpoint;
  t->n_failed_checkpoints = 0;
  if (t->status.error_code == t->checkpoint_error.code) t->status.error_code = NULL;
}

static void show_failed(training *t, const run_written *result) {
  tool_progress_clear(&t->progress);
  t->checkpoint_error = result->error;
  t->status.error_code = t->checkpoint_error.code;
  t->status.error_message = t->checkpoint_error.message;
  t->n_failed_checkpoints++;
  tool_fail_ckpt(&result->error);
  fprintf(stderr, "step-%" PRId64 " was not written; the last checkpoint is %s\n", result->step,
          t->last_checkpoint[0] ? t->last_checkpoint : "none");
}

static void show(training *t) {
  const run_written *result = &t->writer.result;
  if (result->good)
    show_good(t, result);
  else
    show_failed(t, result);
  t->has_unrecorded = true;
  t->status.written_s = 0; /* the next tick writes the file */
}

static void join(training *t) {
  if (!t->writer.running) return;
  run_writer_join(&t->writer);
  show(t);
}

static int judge(const training *t, int64_t step) {
  if (t->n_failed_checkpoints < MOST_FAILURES) return TOOL_DONE;
  return tool_fail(TOOL_STORAGE, TOOL_E_CHECKPOINTS_FAIL,
                   "%d checkpoints in a row were not written; the run ends after step %" PRId64, MOST_FAILURES, step);
}

int checkpoints_poll(training *t, int64_t step) {
  if (!t->writer.running || !run_writer_ended(&t->writer)) return TOOL_DONE;
  join(t);
  return judge(t, step);
}

/* ---- What is recorded, at places that do not depend on time ---- */

static int record_failed(training *t, const run_written *result) {
  char name[32], metadata[8 * sizeof result->error.message];
  size_t n = 0;
  snprintf(name, sizeof name, "step-%" PRId64, result->step);
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (!json) return tool_no_memory();
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "code");
  ckpt_json_string(json, result->error.code);
  ckpt_json_key(json, "message");
  ckpt_json_string(json, result->error.message);
  ckpt_json_end_object(json);
  const char *text = ckpt_json_text(json, &n);
  if (text) snprintf(metadata, sizeof metadata, "%.*s", (int)n - 1, text); /* without its line end */
  int status =
      text ? tool_record_annotation(&t->records, "checkpoint failed", result->step, name, metadata) : tool_no_memory();
  ckpt_json_free(json);
  return status;
}

/* The checkpoint under way, or the last one that no record tells of yet. */
static int settle(training *t) {
  const run_written *result = &t->writer.result;
  join(t);
  if (!t->has_unrecorded) return TOOL_DONE;
  t->has_unrecorded = false;
  if (!result->good) return record_failed(t, result);
  int status = tool_record_checkpoint(&t->records, result->step, result->written.digest);
  if (!status && result->copy_s > 0)
    status = tool_record_timing(&t->records, "perf/checkpoint_copy", result->step, result->copy_s, NULL);
  if (!status) status = tool_record_timing(&t->records, "perf/checkpoint_write", result->step, result->write_s, NULL);
  return status;
}

/* ---- Writing ---- */

/* Of a directory that was removed nothing is written any more, and the run does not make it again: what stands at that
 * path then may hide a disk. Where a person has made it again, it is used. */
static void find_place(training *t) {
  ckpt_location *found = NULL;
  if (t->n_failed_checkpoints == 0 || strcmp(t->checkpoint_error.code, "E-CKPT-003") != 0) return;
  if (ckpt_location_open(&found, t->settings->checkpoint_dir, false, NULL, NULL) != CKPT_OK) return;
  ckpt_location_close(t->location);
  t->location = found;
}

static int wait_for_last(training *t, int64_t step) {
  double began_s = tool_clock_s();
  tool_status_set(&t->status, "checkpointing");
  join(t);
  t->status.state = "running";
  double waited_s = tool_clock_s() - began_s;
  if (waited_s >= long_wait_s && !t->has_said_wait) {
    t->has_said_wait = true;
    tool_progress_clear(&t->progress);
    fprintf(stderr,
            "step %" PRId64
            " waited %.1f s for the checkpoint before to be written; perf/checkpoint_wait has all "
            "waits, a larger :checkpoint-every has fewer\n",
            step, waited_s);
  }
  return tool_record_timing(&t->records, "perf/checkpoint_wait", step, waited_s, NULL);
}

/* A device that failed does not give back what it holds. */
static bool can_be_read(const training *t, int64_t step) {
  const sexp_description *about = sexp_program_describe(t->program);
  const sexp_tensor *tensors = NULL;
  if (sexp_run_tensors(t->run, &tensors) == about->n_parameters + about->n_states) return true;
  fprintf(stderr,
          "step-%" PRId64 " was not written: its tensors cannot be read from the device; the last checkpoint is %s\n",
          step, t->last_checkpoint[0] ? t->last_checkpoint : "none");
  return false;
}

int checkpoints_begin(training *t, int64_t step) {
  int status = TOOL_DONE;
  if (t->writer.running && !run_writer_ended(&t->writer)) status = wait_for_last(t, step);
  if (!status) status = settle(t);
  if (!status) status = judge(t, step);
  if (status) return status;
  if (!can_be_read(t, step)) return TOOL_DEVICE;
  find_place(t);
  run_writer_start(&t->writer, t->run, t->location);
  if (!t->writer.running) show(t);
  return TOOL_DONE;
}

int checkpoints_end(training *t, int64_t step) {
  int status = settle(t);
  if (!t->location || t->last_checkpoint_step == step) return status;
  if (!can_be_read(t, step)) return status ? status : TOOL_DEVICE;
  tool_status_set(&t->status, "checkpointing");
  find_place(t);
  run_writer_write(&t->writer, t->run, t->location);
  show(t);
  int recorded = settle(t);
  if (!t->writer.result.good) return TOOL_STORAGE;
  return status ? status : recorded;
}
