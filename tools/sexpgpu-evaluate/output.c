#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/failure.h"
#include "../common/report.h"

enum { COLUMN = 10 };

/* ---- for people ---- */

static bool is_on_stdout(const evaluator *e) { return e->sink.fd == STDOUT_FILENO; }

static bool has_table(const evaluator *e) { return !is_on_stdout(e) && !(e->settings->quiet && e->settings->metrics); }

static bool is_chosen(const evaluator *e, const char *name) {
  const tool_list *evals = &e->settings->evals;
  for (size_t i = 0; i < evals->n; i++)
    if (strcmp(evals->items[i], name) == 0) return true;
  return evals->n == 0;
}

static int width_of(const sexp_evaluation *eval, const char *metric) {
  int n = (int)(strlen(eval->name) + 1 + strlen(metric));
  return n < COLUMN ? COLUMN : n;
}

static void say_head(const evaluator *e) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  printf("%*s", COLUMN, "step");
  for (size_t i = 0; i < about->n_evals; i++) {
    const sexp_evaluation *eval = &about->evals[i];
    for (size_t m = 0; is_chosen(e, eval->name) && m < eval->n_metrics; m++)
      printf("  %*s/%s", width_of(eval, eval->metrics[m]) - (int)strlen(eval->metrics[m]) - 1, eval->name,
             eval->metrics[m]);
  }
  printf("  %*s\n", COLUMN, "seconds");
  fflush(stdout);
}

void output_begin(const evaluator *e) {
  const evaluate_settings *s = e->settings;
  if (!s->quiet)
    tool_report_evaluation(stderr, e->subject.path, e->subject.program, e->subject.run, &e->subject.experiment,
                           s->evals.n ? s->evals.items : NULL, s->evals.n, &e->subject.mode);
  if (has_table(e)) say_head(e);
}

/* Whether a value is of that evaluation and metric. */
static bool is_named(const char *name, const sexp_evaluation *eval, const char *metric) {
  size_t n = strlen(eval->name);
  return strncmp(name, "eval/", 5) == 0 && strncmp(name + 5, eval->name, n) == 0 && name[5 + n] == '/' &&
         strcmp(name + 6 + n, metric) == 0;
}

static void say_cell(const sexp_evaluated *evaluated, const sexp_evaluation *eval, const char *metric) {
  int width = width_of(eval, metric);
  for (size_t i = 0; i < evaluated->n_values; i++)
    if (is_named(evaluated->values[i].name, eval, metric)) {
      printf("  %*.6g", width, (double)evaluated->values[i].value);
      return;
    }
  printf("  %*s", width, "-");
}

static void say_row(const evaluator *e, const sexp_evaluated *evaluated, double seconds) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  printf("%*" PRId64, COLUMN, evaluated->step);
  for (size_t i = 0; i < about->n_evals; i++)
    for (size_t m = 0; is_chosen(e, about->evals[i].name) && m < about->evals[i].n_metrics; m++)
      say_cell(evaluated, &about->evals[i], about->evals[i].metrics[m]);
  printf("  %*.2f\n", COLUMN, seconds);
  fflush(stdout);
}

static void say_line(const sexp_evaluated *evaluated, double seconds) {
  fprintf(stderr, "step-%" PRId64, evaluated->step);
  for (size_t i = 0; i < evaluated->n_values; i++)
    fprintf(stderr, "   %s %.6g", evaluated->values[i].name + strlen("eval/"), (double)evaluated->values[i].value);
  fprintf(stderr, "   %.2f s\n", seconds);
}

void output_progress(const evaluator *e, const char *name) {
  if (e->is_on_terminal) fprintf(stderr, "\r\033[Kevaluating %s", name);
}

void output_progress_end(const evaluator *e) {
  if (e->is_on_terminal) fputs("\r\033[K", stderr);
}

void output_row(const evaluator *e, const sexp_evaluated *evaluated, double seconds) {
  if (has_table(e))
    say_row(e, evaluated, seconds);
  else if (is_on_stdout(e) && !e->settings->quiet)
    say_line(evaluated, seconds);
}

/* ---- records ---- */

static int record_manifest(evaluator *e, const ckpt_experiment *then) {
  const char *run = e->records.run;
  if (tool_seen_has(e->seen, "manifest", run, NULL, 0)) return TOOL_DONE;
  int status = tool_record_manifest(&e->records, e->settings->file ? &e->subject.experiment.record : then);
  if (status) return status;
  return tool_seen_add(e->seen, "manifest", run, NULL, 0) ? TOOL_DONE : tool_no_memory();
}

static int record_values(evaluator *e, const sexp_evaluated *evaluated) {
  for (size_t i = 0; i < evaluated->n_values; i++) {
    const sexp_value *value = &evaluated->values[i];
    if (tool_seen_has(e->seen, "value", e->records.run, value->name, evaluated->step)) continue;
    int status = tool_record_value(&e->records, value->name, evaluated->step, value->value);
    if (status) return status;
    if (!tool_seen_add(e->seen, "value", e->records.run, value->name, evaluated->step)) return tool_no_memory();
  }
  return TOOL_DONE;
}

static void write_evals(ckpt_json *json, const evaluator *e, const sexp_evaluated *evaluated) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  ckpt_json_key(json, "evals");
  ckpt_json_begin_array(json);
  for (size_t i = 0; i < about->n_evals; i++)
    for (size_t v = 0; v < evaluated->n_values; v++)
      if (is_named(evaluated->values[v].name, &about->evals[i], about->evals[i].metrics[0])) {
        ckpt_json_string(json, about->evals[i].name);
        break;
      }
  ckpt_json_end_array(json);
}

/* The file that took the place of the checkpoint's own. */
static void write_file(ckpt_json *json, const evaluator *e, const ckpt_experiment *then) {
  const sexp_description *about = sexp_program_describe(e->subject.program);
  char digest[CKPT_SHA256_TEXT] = "";
  ckpt_sha256_bytes(digest, about->sources[0].bytes, about->sources[0].n_bytes, NULL);
  ckpt_json_key(json, "file");
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "identity");
  ckpt_json_string(json, about->identity);
  ckpt_json_key(json, "name");
  ckpt_json_string(json, e->subject.experiment.sources[0].name);
  ckpt_json_key(json, "sha256");
  ckpt_json_string(json, digest);
  ckpt_json_end_object(json);
  ckpt_json_key(json, "identity");
  ckpt_json_string(json, then->identity);
}

static void write_metadata(ckpt_json *json, const evaluator *e, const tool_resume *resume,
                           const sexp_evaluated *evaluated) {
  const ckpt_experiment *then = ckpt_checkpoint_experiment(resume->checkpoint);
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "checkpoint");
  ckpt_json_string(json, resume->name);
  ckpt_json_key(json, "choices");
  ckpt_json_raw(json, e->subject.experiment.choices);
  ckpt_json_key(json, "device");
  ckpt_json_string(json, e->subject.mode.device);
  ckpt_json_key(json, "digest");
  ckpt_json_string(json, then->digest);
  write_evals(json, e, evaluated);
  if (e->settings->file) write_file(json, e, then);
  ckpt_json_key(json, "run");
  ckpt_json_string(json, then->slug);
  ckpt_json_end_object(json);
}

static int record_annotation(evaluator *e, const tool_resume *resume, const sexp_evaluated *evaluated) {
  char name[TOOL_LEVEL_TEXT], text[sizeof e->subject.determinism + 16];
  size_t n_bytes = 0;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  snprintf(name, sizeof name, "evaluated offline on %s", e->subject.mode.device);
  snprintf(text, sizeof text, "determinism %s", e->subject.determinism);
  if (json) write_metadata(json, e, resume, evaluated);
  const char *written = json ? ckpt_json_text(json, &n_bytes) : NULL;
  char *metadata = written ? strndup(written, n_bytes - 1) : NULL;
  int status = metadata ? tool_record_annotation(&e->records, name, evaluated->step, text, metadata) : tool_no_memory();
  free(metadata);
  ckpt_json_free(json);
  return status;
}

int output_records(evaluator *e, const tool_resume *resume, const sexp_evaluated *evaluated) {
  e->records.run = e->subject.slug;
  int status = record_manifest(e, ckpt_checkpoint_experiment(resume->checkpoint));
  if (!status) status = record_values(e, evaluated);
  return status ? status : record_annotation(e, resume, evaluated);
}
