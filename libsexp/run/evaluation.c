/* Evaluations: metrics over the batches of a dataset from its first record, each reduced to one value. */
#include <math.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../base/bug.h"
#include "../lang/names.h"
#include "run.h"

static bool resolve(const sx_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding) {
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
    binding->kind = SX_BIND_CELL;
    binding->index = state->first_cell + m;
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
  state->extremes = SX_NEW_N(arena, float, eval->n_metrics);
  state->names = SX_NEW_N(arena, const char *, eval->n_metrics);
  state->first_cell = run->n_cells;
  run->n_cells += eval->n_metrics;
  for (uint32_t m = 0; m < eval->n_metrics; m++)
    state->names[m] = sx_format(arena, "eval/%s/%s", eval->name, eval->metrics[m]);
  if (state->n_full) sx_bind_unit(run, &state->full, full, false, resolve, state);
  if (state->n_partial) sx_bind_unit(run, &state->partial, partial, false, resolve, state);
}

void sx_make_evals(sx_run *run) {
  size_t n = run->program->evals.n;
  run->evals = SX_NEW_N(&run->arena, sx_eval_state, n);
  for (size_t i = 0; i < n; i++)
    if (run->chosen_evals[i]) make_eval(run, &run->evals[i], i);
}

/* Where data fields of these sizes are on a device: one after the other, since one microbatch is computed at a time. */
int64_t *sx_place_fields(sx_run *run, const int64_t *n_bytes, uint32_t n_fields) {
  enum { ALIGNMENT = 256 };
  int64_t *offsets = SX_NEW_N(&run->arena, int64_t, n_fields + 1), at = 0;
  for (uint32_t f = 0; f < n_fields; f++) {
    offsets[f] = at;
    if (__builtin_add_overflow(at, n_bytes[f], &at) || __builtin_add_overflow(at, ALIGNMENT, &at))
      sx_memory_fail(run->memory);
    at -= at % ALIGNMENT;
  }
  if (at > run->field_room) run->field_room = at;
  return offsets;
}

static void take_eval(sx_run *run, sx_eval_state *state) {
  const sx_eval *eval = state->eval;
  int64_t batch = state->n_full ? eval->batch : state->n_partial, n = state->n_full + (state->n_partial > 0);
  int n_batches = run->backend->shares_memory ? 1 : 2;
  for (int i = 0; i < n_batches; i++)
    sx_microbatch_init(&state->batches[i], &state->dataset, 1, batch, &run->host_memory);
  int64_t n_bytes = sx_sum_tree_init(&state->tree, run->engine, eval->n_metrics, sx_sum_tree_levels(n), &run->arena);
  sx_sum_tree_place(&state->tree, sx_take_aligned(&run->arena, n_bytes));
  if (!state->dataset || run->backend->shares_memory) return;
  uint32_t n_fields = state->dataset->n_fields;
  state->field_bytes = SX_NEW_N(&run->arena, int64_t, n_fields);
  for (uint32_t f = 0; f < n_fields; f++)
    if (__builtin_mul_overflow(state->dataset->n_bytes[f], batch, &state->field_bytes[f])) sx_memory_fail(run->memory);
  state->field_offsets = sx_place_fields(run, state->field_bytes, n_fields);
}

void sx_take_evals(sx_run *run) {
  for (size_t i = 0; i < run->program->evals.n; i++)
    if (run->chosen_evals[i]) take_eval(run, &run->evals[i]);
}

/* Takes the metrics of batch b; weight: its records over those of a full batch. */
static void take_batch(sx_run *run, sx_eval_state *state, int64_t b, bool last, float weight) {
  const sx_eval *eval = state->eval;
  for (uint32_t m = 0; m < eval->n_metrics; m++) {
    float value = sx_cell(run, state->first_cell + m), *extreme = &state->extremes[m];
    bool mean = eval->reduces[m] == SX_REDUCE_MEAN;
    state->tree.leaf[m] = mean && weight < 1.0f ? value * weight : value;
    if (eval->reduces[m] == SX_REDUCE_MAX) *extreme = b ? sx_max_f32(*extreme, value) : value;
    if (eval->reduces[m] == SX_REDUCE_MIN) *extreme = b ? sx_min_f32(*extreme, value) : value;
  }
  sx_sum_tree_add(&state->tree, 0, b, last);
}

static int64_t n_batches(const sx_eval_state *state) { return state->n_full + (state->n_partial > 0); }

static sx_microbatch *batch_of(const sx_run *run, sx_eval_state *state, int64_t b) {
  return &state->batches[run->backend->shares_memory ? 0 : b % 2];
}

/* Reads batch b, where there is one. */
static void read_batch(const sx_run *run, sx_eval_state *state, int64_t b) {
  sx_microbatch *batch = batch_of(run, state, b);
  int64_t n_records = b == state->n_full ? state->n_partial : state->eval->batch;
  if (state->dataset && b < n_batches(state))
    sx_microbatch_read(batch, state->dataset, b * state->eval->batch, n_records);
}

static void enqueue_batch(sx_run *run, sx_eval_state *state, int64_t b) {
  bool partial = b == state->n_full;
  sx_bound *bound = partial ? &state->partial : &state->full;
  int64_t n_records = partial ? state->n_partial : state->eval->batch;
  run->row = run->update_row;
  if (state->dataset)
    sx_place_microbatch(run, batch_of(run, state, b), state->dataset, state->field_offsets, n_records);
  sx_upload_part(run, &run->counters, sx_row_offset(run->row), SX_ROW_BYTES);
  sx_execute(run, bound);
  sx_download_part(run, &run->cells, state->first_cell * SX_CELL_BYTES, state->eval->n_metrics * SX_CELL_BYTES);
}

/* The next batch is read while a device computes the one at hand. */
static bool run_batch(sx_run *run, sx_eval_state *state, int64_t b) {
  const sx_bound *bound = b == state->n_full ? &state->partial : &state->full;
  const sx_microbatch *batch = batch_of(run, state, b);
  if (state->dataset && batch->failed) {
    sx_report_read_problem(&run->diags, state->dataset->data->span, &batch->why);
    return false;
  }
  if (!sx_set_counters(run, run->update_row, bound->counters, b, 0)) return false;
  enqueue_batch(run, state, b);
  read_batch(run, state, b + 1);
  return sx_finish(run);
}

bool sx_run_eval(sx_run *run, sx_eval_state *state) {
  const sx_eval *eval = state->eval;
  int64_t n = n_batches(state);
  float part = (float)state->n_partial / (float)eval->batch;
  read_batch(run, state, 0);
  sx_sum_tree_begin(&state->tree);
  for (int64_t b = 0; b < n; b++) {
    if (!run_batch(run, state, b)) return false;
    take_batch(run, state, b, b == n - 1, b == state->n_full ? part : 1.0f);
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
  run->finished = SX_FINISHED;
  if (!sx_choose_evals(run, chosen, run->chosen_evals, names, n_names) || !sx_start(run, start)) return false;
  for (size_t i = 0; i < n; i++)
    if (chosen[i] && !sx_run_eval(run, &run->evals[i])) return false;
  return true;
}
