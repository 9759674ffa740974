/* One training step: the microbatches' losses and gradients, their mean, the update, and what is reported. */
#include "../../kernels/math.h"
#include "../cpu/operand.h"
#include "run.h"

void sx_add_value(sx_run *run, const char *name, float value) {
  run->values[run->n_values++] = (sexp_value){name, sx_canonical_f32(value)};
}

/* `every` of 0: never. */
static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static void add_reports(sx_run *run, const sx_reports *reports) {
  for (uint32_t i = 0; i < reports->n; i++) sx_add_value(run, reports->items[i].name, *reports->items[i].cell);
}

/* ---- microbatches ---- */

static bool fetch(sx_run *run, sx_stage_state *state) {
  if (state->generator) {
    if (!sx_generate(run, state->generator)) return false;
    sx_digest_microbatch(run, state, NULL);
  }
  if (!state->dataset) return true;
  const sx_microbatch *microbatch = sx_loader_next(run->loader);
  if (microbatch->failed) {
    sx_report_read_problem(&run->diags, state->dataset->data->span, &microbatch->why);
    return false;
  }
  run->fields = microbatch->fields;
  sx_digest_microbatch(run, state, microbatch);
  return true;
}

/* Gradients of narrow dtypes into the sum's leaf (widen), or the mean back out of it. */
static void move_narrow(sx_run *run, bool widen) {
  for (size_t p = 0; p < run->n_params; p++) {
    if (!run->narrow_grads[p]) continue;
    const sx_slot *slot = &run->slots[p];
    float *leaf = run->sum.leaf + run->grad_offsets[p];
    for (int64_t i = 0; i < slot->n_elements; i++) {
      if (widen)
        leaf[i] = sx_load(run->narrow_grads[p], slot->dtype, i).f;
      else
        sx_store(run->narrow_grads[p], slot->dtype, i, (sx_value){.f = leaf[i]});
    }
  }
}

/* The loss is executed observed first where its nodes are digested: the same bits, then overwritten. */
static bool run_microbatch(sx_run *run, sx_stage_state *state, int64_t m, bool diagnosed) {
  run->microbatch = m;
  run->records = run->position.records + m * state->stage->batch;
  run->stage_records = run->position.stage_records + m * state->stage->batch;
  if (!fetch(run, state)) return false;
  if (sx_observes(run) && !sx_execute_observed(run, &state->observed, "loss")) return false;
  if (!sx_execute(run, diagnosed ? &state->diagnosed : &state->loss)) return false;
  move_narrow(run, true);
  sx_sum_tree_add(&run->sum, m, m == state->stage->microbatches - 1, run->cpu.pool);
  return true;
}

static bool sum_microbatches(sx_run *run, sx_stage_state *state, bool sampled) {
  int64_t n = state->stage->microbatches;
  for (int64_t m = 0; m < n; m++)
    if (!run_microbatch(run, state, m, sampled && !m && state->diagnosed.executable)) return false;
  sx_sum_tree_divide(&run->sum, n, run->cpu.pool);
  move_narrow(run, false);
  return true;
}

/* ---- update ---- */

static void swap_slots(sx_run *run) {
  for (size_t i = 0; i < run->n_slots; i++) {
    sx_slot *slot = &run->slots[i];
    if (!slot->next) continue;
    void *written = slot->next;
    slot->next = slot->now;
    slot->now = written;
    run->tensors[i].bytes = written;
  }
}

static bool update(sx_run *run, sx_stage_state *state, bool sampled) {
  run->microbatch = 0;
  run->records = run->position.records;
  run->stage_records = run->position.stage_records;
  if (sx_observes(run) && !sx_execute_observed(run, &run->observed_update, "update")) return false;
  bool diagnosed = sampled && run->diagnosed_update.executable;
  if (!sx_execute(run, diagnosed ? &run->diagnosed_update : &run->update)) return false;
  swap_slots(run);
  int64_t n_records = state->stage->batch * state->stage->microbatches;
  run->position.step++;
  run->position.records += n_records;
  run->position.stage_records += n_records;
  run->stage_step++;
  return true;
}

/* ---- what is reported ---- */

static void add_training_values(sx_run *run, const sx_stage_state *state, bool sampled) {
  for (uint32_t i = 0; i < state->n_values; i++) sx_add_value(run, state->value_names[i], *sx_scalar(run, i));
  if (run->grad_norm) sx_add_value(run, "train/grad-norm", *run->grad_norm);
  if (!sampled) return;
  add_reports(run, &state->statistics);
  add_reports(run, &run->statistics);
}

static bool is_last(const sx_run *run) { return run->position.step == run->position.stages_steps; }

static bool evaluate_due(sx_run *run) {
  for (size_t i = 0; i < run->program->evals.n; i++) {
    bool due = is_due(run->position.step, run->evals[i].eval->every) || is_last(run);
    if (due && !sx_run_eval(run, &run->evals[i])) return false;
  }
  return true;
}

static void enter_next_stage(sx_run *run) {
  while (run->stage_step == run->stages[run->position.stage].steps && !is_last(run)) {
    run->position.stage++;
    run->position.stage_records = run->stage_step = 0;
  }
}

static void report(sx_run *run, const sx_stage_state *state, bool began, sexp_step *step) {
  *step = (sexp_step){.step = run->position.step,
                      .loss = run->values[0].value,
                      .values = run->values,
                      .n_values = run->n_values,
                      .checkpoint = is_due(run->position.step, run->program->checkpoint_every) || is_last(run),
                      .stage_began = began,
                      .stage = state->stage->name};
  sx_digests_end(run, step);
}

static bool take_step(sx_run *run, sexp_step *step) {
  enter_next_stage(run);
  sx_stage_state *state = &run->stages[run->position.stage];
  bool began = !run->stage_step && state->stage->name[0];
  bool sampled = run->program->n_diagnostics && is_due(run->position.step + 1, run->program->diagnostics_every);
  run->n_values = 0;
  sx_digests_begin(run);
  if (!sum_microbatches(run, state, sampled)) return false;
  sx_digest_sums(run);
  if (!update(run, state, sampled)) return false;
  sx_digest_state(run);
  add_training_values(run, state, sampled);
  if (!evaluate_due(run)) return false;
  report(run, state, began, step);
  return true;
}

sexp_status sx_run_step(sx_run *run, sexp_step *step) {
  if (run->options.evaluations_only || (!run->failed && is_last(run))) return SEXP_END;
  if (!run->failed) run->failed = !take_step(run, step);
  return run->failed ? SEXP_INPUT : SEXP_OK;
}
