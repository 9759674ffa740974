/* (defeval name :run r :every n :data d :batch b :batches k :metrics (...)) */
#include <string.h>

#include "call.h"
#include "declare.h"
#include "load.h"
#include "names.h"

static const char *const eval_options[] = {"run", "every", "data", "batch", "batches", "metrics", NULL};
enum { OPTION_RUN, OPTION_EVERY, OPTION_DATA, OPTION_BATCH, OPTION_BATCHES, OPTION_METRICS };

static bool fail_run(const sx_options *options, const char *name) {
  sx_evaluator *evaluator = options->evaluator;
  sx_nearest nearest = sx_nearest_begin(name);
  for (size_t i = 0; i < evaluator->declarations[SX_DECLARE_RUN].n; i++)
    sx_nearest_add(&nearest, evaluator->declarations[SX_DECLARE_RUN].items[i].name);
  sx_diag *diag = sx_fail(evaluator, SX_E_RUN_UNKNOWN, options->values[OPTION_RUN]->span, "there is no run %s", name);
  diag->hint = sx_nearest_hint(&nearest, evaluator->arena);
  return false;
}

static sx_declaration *find_run(sx_evaluator *evaluator, const char *name) {
  return sx_find_declaration(evaluator, SX_DECLARE_RUN, name);
}

/* Whether it belongs to the selected run; without :run it belongs to each. */
static bool belongs(const sx_options *options, bool *good) {
  sx_evaluator *evaluator = options->evaluator;
  const sx_datum *datum = options->values[OPTION_RUN];
  const char *name = NULL;
  if (!datum) return true;
  *good = sx_option_name(options, OPTION_RUN, "run", find_run, &name);
  if (*good && !sx_find_declaration(evaluator, SX_DECLARE_RUN, name)) *good = fail_run(options, name);
  return *good && strcmp(name, evaluator->program->run_name) == 0;
}

static bool build_graph(sx_evaluator *evaluator, const char *name, const sx_metric *metrics, uint32_t n,
                        const sx_reading *reading, int64_t batch, sx_graph **graph) {
  sx_context before = sx_enter_context(evaluator, SX_PLACE_EVAL, name, "", false);
  bool good = sx_add_metrics(evaluator, metrics, n, reading, batch);
  *graph = evaluator->context.graph;
  sx_leave_context(evaluator, before);
  return good;
}

/* Graphs of a full batch and of the last, smaller one. An evaluation goes over its data at most once. */
static bool build_graphs(const sx_options *options, sx_eval *eval, const sx_metric *metrics,
                         const sx_reading *reading) {
  sx_evaluator *evaluator = options->evaluator;
  const char *name = sx_format(evaluator->arena, "eval/%s", eval->name);
  int64_t asked;
  if (!build_graph(evaluator, name, metrics, eval->n_metrics, reading, eval->batch, &eval->graph)) return false;
  if (reading->data < 0) return true;
  if (__builtin_mul_overflow(eval->batch, eval->batches, &asked)) asked = INT64_MAX;
  if (eval->batches && asked <= reading->n_records) return true;
  eval->batches = 0;
  eval->partial_batch = reading->n_records % eval->batch;
  if (!eval->partial_batch) return true;
  return build_graph(evaluator, sx_format(evaluator->arena, "%s/partial", name), metrics, eval->n_metrics, reading,
                     eval->partial_batch, &eval->partial);
}

static bool read_eval(const sx_options *options, sx_eval *eval, sx_metric **metrics, sx_reading *reading) {
  sx_evaluator *evaluator = options->evaluator;
  const sx_datum *form = options->form;
  if (!options->values[OPTION_METRICS]) return sx_option_fail(options, form->items[1], "an evaluation needs :metrics");
  if (!sx_read_metrics(options, OPTION_METRICS, true, metrics, &eval->n_metrics)) return false;
  if (!sx_use_data(options, OPTION_DATA, "data", reading)) return false;
  if (reading->generator)
    return sx_option_fail(options, options->values[OPTION_DATA], "an evaluation reads data, not a generator");
  eval->data = reading->data;
  if (eval->data >= 0 && !options->values[OPTION_BATCH])
    return sx_option_fail(options, options->values[OPTION_DATA], "data need a :batch, the records of a batch");
  if (!sx_option_integer(options, OPTION_EVERY, "every", 0, &eval->every) ||
      !sx_option_integer(options, OPTION_BATCH, "batch", 1, &eval->batch) ||
      !sx_option_integer(options, OPTION_BATCHES, "batches", 1, &eval->batches))
    return false;
  if (eval->data < 0 && !eval->batches) eval->batches = 1;
  if (evaluator->selection->eval_every) eval->every = evaluator->selection->eval_every;
  eval->metrics = SX_NEW_N(evaluator->arena, const char *, eval->n_metrics);
  eval->reduces = SX_NEW_N(evaluator->arena, sx_reduce_kind, eval->n_metrics);
  for (uint32_t i = 0; i < eval->n_metrics; i++) {
    eval->metrics[i] = (*metrics)[i].name;
    eval->reduces[i] = (*metrics)[i].reduce;
  }
  return true;
}

void sx_build_evals(sx_evaluator *evaluator) {
  sx_declarations *evals = &evaluator->declarations[SX_DECLARE_EVAL];
  for (size_t i = 0; i < evals->n; i++) {
    sx_options options;
    sx_metric *metrics = NULL;
    sx_reading reading;
    sx_eval eval = {.name = evals->items[i].name, .batch = 1};
    bool good = true;
    evaluator->form = evals->items[i].form;
    evaluator->context = (sx_context){.place = SX_PLACE_FILE, .path = ""};
    if (!sx_read_options(&options, evaluator, evals->items[i].form, 2, SX_E_RUN_FORM, eval_options)) continue;
    if (!belongs(&options, &good)) continue;
    if (!read_eval(&options, &eval, &metrics, &reading)) continue;
    if (build_graphs(&options, &eval, metrics, &reading)) SX_PUSH(evaluator->arena, evaluator->program->evals, eval);
  }
}

void sx_check_evals(sx_evaluator *evaluator) {
  sx_check_options(evaluator, SX_DECLARE_EVAL, SX_E_RUN_FORM, eval_options);
}
