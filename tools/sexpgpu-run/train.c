#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/failure.h"
#include "../common/format.h"
#include "../common/messages.h"
#include "../common/stop.h"
#include "checkpoints.h"

static int64_t records_done(const training *t) {
  sexp_position position;
  sexp_run_position(t->run, &position);
  return position.records;
}

static int record_step(training *t, const sexp_step *step) {
  int status = TOOL_DONE;
  for (size_t i = 0; i < step->n_values && !status; i++)
    status = tool_record_value(&t->records, step->values[i].name, step->step, step->values[i].value);
  for (size_t i = 0; i < step->n_digests && !status; i++)
    status = tool_record_digest(&t->records, step->digests[i].name, step->step, step->digests[i].digest,
                                step->digests[i].text);
  return status;
}

/* In the words of the line that a person or a script looks for. */
static void say_memory(training *t, const sexp_step *step) {
  if (!step->memory_failed) return;
  tool_progress_clear(&t->progress);
  fprintf(stderr, "memory: allocation failed (%s); unstacked from step %" PRId64 "\n", step->memory_failed, step->step);
}

static void show_step(training *t, const sexp_step *step) {
  int64_t records = records_done(t);
  t->status.step = step->step;
  t->status.loss = step->loss;
  t->status.has_loss = true;
  tool_progress_rates(&t->progress, step->step, records, &t->status.records_per_second, &t->status.eta_seconds);
  tool_status_tick(&t->status);
  tool_progress_draw(&t->progress, step, records);
}

static int stop(training *t, int64_t step) {
  int number = tool_stop_signal();
  const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
  tool_progress_clear(&t->progress);
  tool_status_set(&t->status, "stopping");
  int status = checkpoints_end(t, step);
  int recorded = tool_record_annotation(&t->records, "stopped", step, name, NULL);
  fprintf(stderr, "stopped by %s after step %" PRId64 "%s%s\n", name, step,
          t->last_checkpoint[0] ? ", checkpoint " : "", t->last_checkpoint);
  if (!status) status = recorded;
  return status ? status : 128 + number;
}

/* The last values of each name stand in the final line. */
static void say_end(training *t, const sexp_step *step, double seconds) {
  char steps[32], rate[32];
  double per_second = seconds > 0 ? (double)(records_done(t) - t->progress.first_records) / seconds : 0;
  tool_progress_clear(&t->progress);
  fprintf(stderr, "%s steps", tool_grouped(steps, step->step));
  if (step->n_values) fprintf(stderr, "   loss %.6g", (double)step->loss);
  for (size_t i = 0; i < step->n_values; i++)
    if (strcmp(step->values[i].name, "train/loss") != 0 && strncmp(step->values[i].name, "diagnostics/", 12) != 0)
      fprintf(stderr, "   %s %.6g", step->values[i].name, (double)step->values[i].value);
  fprintf(stderr, "   %.1f s", seconds);
  if (per_second > 0) fprintf(stderr, ", %s records/s", tool_grouped(rate, (int64_t)per_second));
  if (t->last_checkpoint[0]) fprintf(stderr, "   %s %s", t->last_checkpoint, t->last_digest);
  fputc('\n', stderr);
}

static int end(training *t, const sexp_step *step, double seconds) {
  int64_t records = records_done(t) - t->progress.first_records;
  int status = tool_record_timing(&t->records, "perf/seconds", step->step, seconds, NULL);
  if (!status && seconds > 0)
    status = tool_record_timing(&t->records, "perf/records_per_second", step->step, (double)records / seconds, NULL);
  if (!t->settings->quiet) say_end(t, step, seconds);
  if (!status) status = tool_pinning_audit(&t->pinning);
  tool_status_set(&t->status, status ? "failed" : "done");
  return status;
}

/* A step that failed leaves the state after the one before: worth keeping. */
static int fail_step(training *t, sexp_status why) {
  sexp_position position;
  tool_progress_clear(&t->progress);
  int status = tool_fail_sexp(why, t->messages);
  const sexp_message *first = sexp_messages_count(t->messages) ? sexp_messages_get(t->messages, 0) : NULL;
  t->status.error_code = first ? first->code : NULL;
  t->status.error_message = first ? first->message : NULL;
  sexp_run_position(t->run, &position);
  if (position.step > 0) checkpoints_end(t, position.step);
  return status;
}

/* The last step's checkpoint is the one that the run leaves behind: nothing goes on beside it. */
static int after_step(training *t, const sexp_step *step) {
  say_memory(t, step);
  bool due = step->checkpoint && t->location && step->step < sexp_program_describe(t->program)->steps;
  int status = record_step(t, step);
  if (!status) status = checkpoints_poll(t, step->step);
  if (!status && due) status = checkpoints_begin(t, step->step);
  if (status) checkpoints_end(t, step->step);
  show_step(t, step);
  return status;
}

/* The checkpoint that the run goes on from is its last one so far, where it lies in the run's own place. */
static void take_resumed(training *t) {
  if (!t->resume.checkpoint || !t->settings->resume || strcmp(t->settings->resume, "latest") != 0) return;
  t->last_checkpoint_step = t->resume.start.step;
  snprintf(t->last_checkpoint, sizeof t->last_checkpoint, "%s", t->resume.name);
  memcpy(t->last_digest, ckpt_checkpoint_experiment(t->resume.checkpoint)->digest, sizeof t->last_digest);
  t->progress.last_checkpoint = t->status.last_checkpoint = t->last_checkpoint;
}

int train(training *t) {
  const sexp_description *about = sexp_program_describe(t->program);
  sexp_step step = {.step = t->resume.start.step};
  double started_s = tool_clock_s();
  tool_stop_catch();
  tool_progress_start(&t->progress, t->progress.shown, about->steps);
  t->progress.first_step = step.step;
  t->progress.first_records = records_done(t);
  take_resumed(t);
  tool_status_set(&t->status, "running");
  for (;;) {
    sexp_step next;
    sexp_status why = sexp_run_step(t->run, &next, &t->messages);
    if (why == SEXP_END) break;
    if (why != SEXP_OK) return fail_step(t, why);
    step = next;
    int status = after_step(t, &step);
    if (status) return status;
    if (tool_stop_signal() && step.step < about->steps) return stop(t, step.step);
  }
  int status = checkpoints_end(t, step.step);
  return status ? status : end(t, &step, tool_clock_s() - started_s);
}
