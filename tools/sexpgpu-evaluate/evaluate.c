#include "evaluate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/clock.h"
#include "../common/failure.h"
#include "../common/messages.h"
#include "output.h"

int evaluator_open(evaluator *e) {
  ckpt_error error;
  tool_credentials_read(&e->credentials);
  e->subject.files.credentials = &e->credentials;
  if (tool_credentials_client(&e->s3, &e->credentials, TOOL_CHECKPOINT, e->settings->place, &error) != CKPT_OK)
    return tool_fail_ckpt(&error);
  const tool_pinning_options options = {
      .choices = e->settings->choices, .strict = e->settings->strict, .evaluates = true};
  e->subject.pinning = &e->pinning;
  int status = tool_pinning_open(&e->pinning, &options, &e->credentials);
  if (!status) status = tool_engine_open(&e->subject.device, &e->settings->engine);
  if (!status) status = tool_sink_open(&e->sink, e->settings->metrics);
  if (status) return status;
  e->seen = tool_seen_new(&e->sink);
  if (!e->seen) return TOOL_STORAGE;
  e->records = (tool_records){&e->sink, ckpt_json_new(CKPT_JSON_LINE), NULL};
  return e->records.json ? TOOL_DONE : tool_no_memory();
}

void evaluator_close(evaluator *e) {
  subject_free(&e->subject);
  sexp_device_close(e->subject.device);
  ckpt_json_free(e->records.json);
  tool_seen_free(e->seen);
  tool_sink_close(&e->sink);
  tool_pinning_free(&e->pinning);
  tool_credentials_free(&e->credentials);
}

/* ---- what is still to do ---- */

static bool is_recorded(const evaluator *e, const sexp_evaluation *eval, int64_t step) {
  bool all = true;
  for (size_t m = 0; m < eval->n_metrics && all; m++) {
    size_t room = strlen(eval->name) + strlen(eval->metrics[m]) + 8;
    char *name = malloc(room);
    if (name) snprintf(name, room, "eval/%s/%s", eval->name, eval->metrics[m]);
    all = name && tool_seen_has(e->seen, "value", e->subject.slug, name, step);
    free(name);
  }
  return all;
}

static bool is_asked_for(const evaluator *e, const char *name) {
  const tool_list *evals = &e->settings->evals;
  for (size_t i = 0; i < evals->n; i++)
    if (strcmp(evals->items[i], name) == 0) return true;
  return evals->n == 0;
}

/* The evaluations that are asked for and of which the metrics lack a value. */
static size_t list_due(const evaluator *e, const char **names, int64_t step) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  size_t n = 0;
  for (size_t i = 0; i < about->n_evals; i++)
    if (is_asked_for(e, about->evals[i].name) && !is_recorded(e, &about->evals[i], step))
      names[n++] = about->evals[i].name;
  return n;
}

/* ---- one checkpoint ---- */

static void show(evaluator *e, const tool_resume *resume, const char *state) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  memcpy(e->last, resume->name, sizeof e->last);
  e->status.run = e->subject.slug;
  e->status.step = resume->start.step;
  e->status.steps = about->steps;
  e->status.last_checkpoint = e->last;
  tool_status_set(&e->status, state);
}

/* Counters are functions of the step; the checkpoint has to agree. */
static int check_position(const evaluator *e, const ckpt_experiment *then) {
  sexp_position position;
  sexp_run_position(e->subject.run, &position);
  if (e->settings->file || (position.records == then->records && position.stage == then->stage)) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_EVALUATE_POSITION,
                   "step-%" PRId64 ": the checkpoint has %" PRId64 " records and stage %" PRId64 ", the run %" PRId64
                   " and %" PRId64,
                   then->step, then->records, then->stage, position.records, position.stage);
}

static outcome fail_evaluation(evaluator *e, const tool_resume *resume, sexp_status why, int *status) {
  subject *s = &e->subject;
  *status = tool_fail_sexp(why, s->messages);
  fprintf(stderr, "%s: not evaluated\n", resume->name);
  sexp_messages_free(s->messages);
  s->messages = NULL;
  return FAILED;
}

static outcome evaluate(evaluator *e, tool_resume *resume, const char *const *names, size_t n_names, int *status,
                        ckpt_error *error) {
  sexp_evaluated evaluated;
  double begun_s = tool_clock_s();
  show(e, resume, "evaluating");
  output_progress(e, resume->name);
  bool verified = ckpt_checkpoint_verify(resume->checkpoint, error) == CKPT_OK;
  sexp_status why = SEXP_OK;
  if (verified) *status = tool_resume_fill(resume);
  if (verified && !*status)
    why = sexp_run_evaluate(e->subject.run, &evaluated, &resume->start, names, n_names, &e->subject.messages);
  output_progress_end(e);
  if (!verified) return UNVERIFIED;
  if (*status) return FAILED;
  if (why != SEXP_OK) return fail_evaluation(e, resume, why, status);
  if ((*status = check_position(e, ckpt_checkpoint_experiment(resume->checkpoint)))) return FAILED;
  if ((*status = output_records(e, resume, &evaluated))) return FATAL;
  output_row(e, &evaluated, tool_clock_s() - begun_s);
  e->n_evaluated++;
  return EVALUATED;
}

static outcome take(evaluator *e, tool_resume *resume, int *status, ckpt_error *error) {
  bool anew = false;
  if ((*status = subject_prepare(&e->subject, &anew, resume, e->settings))) return FATAL;
  const sexp_description *about = sexp_program_describe(e->subject.program);
  if (anew) output_begin(e);
  if (resume->start.step >= about->steps) e->ended = true;
  const char **names = calloc(about->n_evals + 1, sizeof *names);
  if (!names) {
    *status = tool_no_memory();
    return FATAL;
  }
  size_t n_names = list_due(e, names, resume->start.step);
  outcome result = EVALUATED;
  if (n_names > 0)
    result = evaluate(e, resume, names, n_names, status, error);
  else
    e->n_recorded++;
  if (n_names == 0 && e->settings->verbose) fprintf(stderr, "%s: recorded already\n", resume->name);
  free(names);
  return result;
}

outcome evaluator_take(evaluator *e, ckpt_checkpoint *checkpoint, int *status, ckpt_error *error) {
  tool_resume resume;
  tool_resume_take(&resume, checkpoint);
  outcome result = take(e, &resume, status, error);
  tool_resume_free(&resume);
  return result;
}
