/* Evaluations: metrics over the batches of a dataset from its first record, each reduced to one value. */
#include <math.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../base/bug.h"
#include "../lang/names.h"
#include "run.h"

static bool resolve(sx_run *run, void *context, const sx_buffer *buffer, sx_binding *binding) {
  const sx_eval_state *state = context;
  const char *field = sx_after(buffer->name, "field/"), *metric = sx_after(buffer->name, "metric/");
  (void)run;
  if (buffer->kind == SX_BUFFER_EXTERNAL) {
    if (!field || !state->dataset) return false;
    binding->kind = SX_BIND_FIELD;
    while (binding->index < state->dataset->n_fields && strcmp(state->dataset->fields[binding->index].name, field))
      binding->index++;
    return binding->index < state->dataset->n_fields;
  }
  for (uint32_t m = 0; metric && m < state->eval->n_metrics; m++) {
    if (strcmp(state->eval->metrics[m], metric)) continue;
    binding->address = state->cells[m];
    return true;
  }
  return false;
}

/* Full batches, then one partial batch where the data end before the batches asked for. Without data: as
 * many as asked for. */
static void count_batches(sx_eval_state *state) {
  const sx_eval *eval = state->eval;
  if (!state->dataset) {
    state->n_full = eval->batches;
    return;
  }
  int64_t n_whole = state->dataset->n / eval->batch, rest = state->dataset->n % eval->batch;
  bool all = !eval->batches || eval->batches > n_whole;
  state->n_full = all ? n_whole : eval->batches;
  state->n_partial = all ? rest : 0;
  SX_ASSERT(!state->n_partial || state->n_partial == eval->partial_batch);
}

static void make_eval(sx_run *run, sx_eval_state *state, size_t i) {
  sx_arena *arena = &run->arena;
  const sx_eval *eval = &run->program->evals.items[i];
  const sx_unit *full = &run->compiled->evals[i], *partial = &run->compiled->partial_evals[i];
  state->eval = eval;
  state->dataset = eval->data < 0 ? NULL : run->datasets[eval->data];
  count_batches(state);
  sx_microbatch_init(&state->batch, &state->dataset, 1, state->n_full ? eval->batch : state->n_partial, arena);
  sx_sum_tree_init(&state->tree, eval->n_metrics, state->n_full + (state->n_partial > 0), arena);
  state->extremes = SX_NEW_N(arena, float, eval->n_metrics);
  state->cells = SX_NEW_N(arena, float *, eval->n_metrics);
  state->names = SX_NEW_N(arena, const char *, eval->n_metrics);
  for (uint32_t m = 0; m < eval->n_metrics; m++) {
    state->cells[m] = sx_new_cell(run);
    state->names[m] = sx_format(arena, "eval/%s/%s", eval->name, eval->metrics[m]);
  }
  if (state->n_full) sx_bind_unit(run, &state->full, full, full->plan, resolve, state, arena);
  if (state->n_partial) sx_bind_unit(run, &state->partial, partial, partial->plan, resolve, state, arena);
}

void sx_make_evals(sx_run *run) {
  size_t n = run->program->evals.n;
  run->evals = SX_NEW_N(&run->arena, sx_eval_state, n);
  for (size_t i = 0; i < n; i++)
    if (run->chosen_evals[i]) make_eval(run, &run->evals[i], i);
}

/* Takes the metrics of batch b; weight: its records over those of a full batch. */
static void take_batch(sx_run *run, sx_eval_state *state, int64_t b, bool last, float weight) {
  const sx_eval *eval = state->eval;
  for (uint32_t m = 0; m < eval->n_metrics; m++) {
    float value = *state->cells[m], *extreme = &state->extremes[m];
    bool mean = eval->reduces[m] == SX_REDUCE_MEAN;
    state->tree.leaf[m] = mean && weight < 1.0f ? value * weight : value;
    if (eval->reduces[m] == SX_REDUCE_MAX) *extreme = b ? sx_max_f32(*extreme, value) : value;
    if (eval->reduces[m] == SX_REDUCE_MIN) *extreme = b ? sx_min_f32(*extreme, value) : value;
  }
  sx_sum_tree_add(&state->tree, b, last, run->cpu.pool);
}

static bool run_batch(sx_run *run, sx_eval_state *state, int64_t b, sx_bound *bound, int64_t n_records) {
  run->microbatch = b;
  run->fields = state->batch.fields;
  if (!state->dataset || sx_microbatch_read(&state->batch, state->dataset, b * state->eval->batch, n_records))
    return sx_execute(run, bound);
  sx_report_read_problem(&run->diags, state->dataset->data->span, &state->batch.why);
  return false;
}

bool sx_run_eval(sx_run *run, sx_eval_state *state) {
  const sx_eval *eval = state->eval;
  int64_t n = state->n_full + (state->n_partial > 0);
  float part = (float)state->n_partial / (float)eval->batch;
  run->records = run->position.records;
  run->stage_records = run->position.stage_records;
  for (int64_t b = 0; b < n; b++) {
    bool partial = b == state->n_full;
    if (!run_batch(run, state, b, partial ? &state->partial : &state->full, partial ? state->n_partial : eval->batch))
      return false;
    take_batch(run, state, b, b == n - 1, partial ? part : 1.0f);
  }
  float weights = (float)state->n_full + part;
  for (uint32_t m = 0; m < eval->n_metrics; m++) {
    bool extreme = eval->reduces[m] == SX_REDUCE_MAX || eval->reduces[m] == SX_REDUCE_MIN;
    float value = extreme ? state->extremes[m] : state->tree.leaf[m];
    if (eval->reduces[m] == SX_REDUCE_MEAN && weights != 1.0f) value = value / weights;
    sx_add_value(run, state->names[m], value);
  }
  return true;
}

/* ---- evaluations without training ---- */

static bool fail_name(sx_run *run, const bool *among, const char *name) {
  const sx_program *program = run->program;
  sx_nearest nearest = sx_nearest_begin(name);
  sx_text list;
  sx_text_init(&list, run->diags.arena);
  for (size_t i = 0; i < program->evals.n; i++) {
    if (among && !among[i]) continue;
    sx_text_addf(&list, "%s%s", list.n ? ", " : "", program->evals.items[i].name);
    sx_nearest_add(&nearest, program->evals.items[i].name);
  }
  sx_diag *diag =
      sx_error(&run->diags, SX_E_RUN_EVALUATION, (sx_span){0}, "unknown evaluation %s; %s%s", name,
               list.n ? "the evaluations are " : "there is no evaluation", list.n ? sx_text_get(&list) : "");
  const char *hint = sx_nearest_hint(&nearest, run->diags.arena);
  if (hint) diag->hint = hint;
  return false;
}

bool sx_choose_evals(sx_run *run, bool *chosen, const bool *among, const char *const *names, size_t n_names) {
  const sx_program *program = run->program;
  size_t n = program->evals.n;
  for (size_t i = 0; i < n; i++) chosen[i] = !names && (!among || among[i]);
  for (size_t k = 0; names && k < n_names; k++) {
    size_t i = 0;
    while (i < n && ((among && !among[i]) || strcmp(program->evals.items[i].name, names[k]))) i++;
    if (i == n) return fail_name(run, among, names[k]);
    chosen[i] = true;
  }
  return true;
}

bool sx_run_evaluate(sx_run *run, const sexp_start *start, const char *const *names, size_t n_names) {
  size_t n = run->program->evals.n;
  bool *chosen = SX_NEW_N(&run->scratch, bool, n);
  if (!run->options.evaluations_only) {
    sx_error(&run->diags, SX_E_RUN_EVALUATION, (sx_span){0}, "the run was made for training, not for evaluations only");
    return false;
  }
  run->n_values = 0;
  if (!sx_choose_evals(run, chosen, run->chosen_evals, names, n_names) || !sx_start(run, start)) return false;
  for (size_t i = 0; i < n; i++)
    if (chosen[i] && !sx_run_eval(run, &run->evals[i])) return false;
  return true;
}
