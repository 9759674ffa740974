/* One training step: the microbatches' losses and gradients, their mean, the update, and what is reported.
 *
 * What a step enqueues is the same every time, so it is kept as sequences that a device replays: the gradients of all
 * microbatches, once for each of the two sets of memory that data are read into; the update; and, where the update does
 * not write in place, the copies that complete it. Only between them the host looks whether something stopped, so that
 * a failure leaves parameters and states as after the last whole step. Steps that are sampled are enqueued anew. */
#include "../../kernels/math.h"
#include "run.h"

enum { SEQUENCE_GRADIENTS, SEQUENCE_UPDATE = 2, SEQUENCE_SETTLE, N_SEQUENCES };

void sx_add_value(sx_run *run, const char *name, float value) {
  run->values[run->n_values++] = (sexp_value){name, sx_canonical_f32(value)};
}

/* `every` of 0: never. */
static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static void add_reports(sx_run *run, const sx_reports *reports) {
  for (uint32_t i = 0; i < reports->n; i++)
    sx_add_value(run, reports->items[i].name, sx_cell(run, reports->items[i].cell));
}

/* The step at hand. */
typedef struct stepping {
  sx_stage_state *state;
  bool sampled; /* gives statistics */
  bool repeats; /* is enqueued as others are */
  bool updates; /* its gradients are there */
} stepping;

/* ---- sequences ---- */

static uint32_t sequence_of(const sx_run *run, int number) {
  return (uint32_t)run->position.stage * N_SEQUENCES + (uint32_t)number;
}

static bool replay(sx_run *run, const stepping *step, int number) {
  const sx_backend_calls *calls = run->backend->calls;
  return step->repeats && calls->replay(run->backend, sequence_of(run, number));
}

static void record(sx_run *run, const stepping *step, int number) {
  if (step->repeats) run->backend->calls->record(run->backend, sequence_of(run, number));
}

static void recorded(sx_run *run, const stepping *step) {
  if (step->repeats) run->backend->calls->recorded(run->backend);
}

/* ---- microbatches ---- */

/* The loader's next microbatch. What went wrong before comes first. */
static bool fetch(sx_run *run, const sx_stage_state *state, int64_t m) {
  if (!state->dataset) return true;
  const sx_microbatch *microbatch = run->fetched[m] = sx_loader_next(run->loader);
  if (!microbatch->failed) return true;
  if (sx_finish(run)) sx_report_read_problem(&run->diags, state->dataset->data->span, &microbatch->why);
  return false;
}

void sx_place_microbatch(sx_run *run, const sx_microbatch *microbatch, const sx_dataset *dataset,
                         const int64_t *offsets, int64_t n_records) {
  run->fields = run->backend->shares_memory ? microbatch->fields : run->placed;
  if (run->backend->shares_memory) return;
  for (uint32_t f = 0; f < dataset->n_fields; f++) {
    run->placed[f] = run->field_memory + offsets[f];
    sx_upload(run, run->placed[f], microbatch->fields[f], n_records * dataset->n_bytes[f]);
  }
}

/* Gradients of narrow dtypes into the sum's leaf (widen), or the mean back out of it. */
static void move_narrow(sx_run *run, bool widen) {
  for (size_t p = 0; p < run->n_params; p++) {
    if (!run->narrow_grads[p]) continue;
    const sx_slot *slot = &run->slots[p];
    float *leaf = run->sum.leaf + run->grad_offsets[p];
    if (widen)
      run->backend->calls->widen(run->backend, leaf, run->narrow_grads[p], slot->dtype, slot->n_elements);
    else
      run->backend->calls->narrow(run->backend, run->narrow_grads[p], slot->dtype, leaf, slot->n_elements);
  }
}

/* The loss is executed observed first where its nodes are digested: the same bits, then overwritten. */
static void enqueue_microbatch(sx_run *run, const stepping *step, int64_t m) {
  sx_stage_state *state = step->state;
  bool diagnosed = step->sampled && !m && state->diagnosed.unit;
  run->microbatch = run->row = m;
  if (state->generator) sx_generate(run, state->generator);
  if (state->dataset)
    sx_place_microbatch(run, run->fetched[m], state->dataset, state->field_offsets, state->stage->batch);
  sx_digest_microbatch(run, state, state->dataset ? run->fetched[m] : NULL);
  if (sx_observes(run)) sx_execute_observed(run, &state->observed, "loss");
  sx_execute(run, diagnosed ? &state->diagnosed : &state->loss);
  move_narrow(run, true);
}

/* What a generator emits for one microbatch after the other, into slices of the stacked fields. */
static void emit_stacked(sx_run *run, const sx_stage_state *state, int64_t first) {
  sx_generating *generator = state->generator;
  for (int64_t i = 0; i < run->degree; i++) {
    run->microbatch = run->row = first + i;
    sx_generate(run, generator);
    sx_digest_microbatch(run, state, NULL);
    for (uint32_t f = 0; f < state->n_fields; f++) {
      int64_t n = generator->field_bytes[f];
      run->placed[f] = run->field_memory + state->field_offsets[f];
      if (n) run->backend->calls->copy(run->backend, (char *)run->placed[f] + i * n, generator->fields[f], n);
    }
  }
  run->fields = run->placed;
}

/* All microbatches of a group at once. */
static void enqueue_stacked(sx_run *run, const stepping *step, int64_t first) {
  sx_stage_state *state = step->state;
  if (state->generator) emit_stacked(run, state, first);
  if (state->dataset)
    sx_place_microbatch(run, run->fetched[first], state->dataset, state->field_offsets,
                        run->degree * state->stage->batch);
  for (int64_t i = 0; state->dataset && i < run->degree; i++) sx_digest_microbatch(run, state, run->fetched[first + i]);
  run->microbatch = run->row = first;
  sx_execute(run, &state->stacked);
}

/* Those of a sampled group are computed one by one, and summed as a tree of their own. Where memory is shared nothing
 * waits, and a microbatch is fetched when it is computed. */
static bool enqueue_group(sx_run *run, const stepping *step, int64_t first) {
  sx_stage_state *state = step->state;
  bool diagnosed = step->sampled && !first && state->diagnosed.unit;
  if (run->degree > 1 && !diagnosed && !sx_observes(run)) {
    enqueue_stacked(run, step, first);
    return true;
  }
  for (int64_t i = 0; i < run->degree; i++) {
    if (run->backend->shares_memory && !fetch(run, state, first + i)) return false;
    enqueue_microbatch(run, step, first + i);
    sx_sum_tree_add(&run->sum, 0, i, i == run->degree - 1);
  }
  return true;
}

static bool enqueue_gradients(sx_run *run, const stepping *step) {
  sx_stage_state *state = step->state;
  int64_t n = state->stage->microbatches, n_groups = n / run->degree;
  int levels = sx_sum_tree_levels(run->degree);
  sx_upload_part(run, &run->counters, 0, n * SX_ROW_BYTES);
  sx_sum_tree_begin(&run->sum);
  for (int64_t g = 0; g < n_groups; g++) {
    if (!enqueue_group(run, step, g * run->degree)) return false;
    sx_sum_tree_add(&run->sum, levels, g, g == n_groups - 1);
  }
  sx_sum_tree_divide(&run->sum, n);
  move_narrow(run, false);
  if (!run->backend->shares_memory)
    run->backend->calls->download(run->backend, run->scalars, run->sum.leaf + run->scalar_offset,
                                  state->n_values * SX_CELL_BYTES);
  if (step->repeats) state->summed = run->sum.leaf;
  return true;
}

static bool set_counters(sx_run *run, const stepping *step) {
  const sx_stage_state *state = step->state;
  uint32_t used = state->loss.counters | state->stacked.counters | (step->sampled ? state->diagnosed.counters : 0) |
                  (sx_observes(run) ? state->observed.counters : 0) |
                  (state->generator ? sx_generator_counters(state->generator) : 0);
  for (int64_t m = 0; m < state->stage->microbatches; m++)
    if (!sx_set_counters(run, m, used, m, m * state->stage->batch)) return false;
  used = run->update.counters | (step->sampled ? run->diagnosed_update.counters : 0) |
         (sx_observes(run) ? run->observed_update.counters : 0);
  return sx_set_counters(run, run->update_row, used, 0, 0);
}

/* All microbatches of the step, where work is enqueued ahead. They stay until the step is done. */
static bool fetch_step(sx_run *run, const sx_stage_state *state) {
  if (run->backend->shares_memory || run->has_fetched) return true;
  for (int64_t m = 0; m < state->stage->microbatches; m++)
    if (!fetch(run, state, m)) return false;
  return run->has_fetched = true;
}

static bool compute_gradients(sx_run *run, const stepping *step) {
  sx_stage_state *state = step->state;
  if (!set_counters(run, step) || !fetch_step(run, state)) return false;
  int number = SEQUENCE_GRADIENTS + (state->dataset && step->repeats ? run->fetched[0]->set : 0);
  if (replay(run, step, number)) {
    run->sum.leaf = state->summed;
  } else {
    record(run, step, number);
    if (!enqueue_gradients(run, step)) return false;
    recorded(run, step);
  }
  return sx_finish(run);
}

/* ---- update ---- */

static void enqueue_update(sx_run *run, const stepping *step) {
  bool diagnosed = step->sampled && run->diagnosed_update.unit;
  run->row = run->update_row;
  run->microbatch = 0;
  sx_upload_part(run, &run->counters, sx_row_offset(run->row), SX_ROW_BYTES);
  if (sx_observes(run)) sx_execute_observed(run, &run->observed_update, "update");
  sx_execute(run, diagnosed ? &run->diagnosed_update : &run->update);
  sx_download_part(run, &run->cells, 0, run->n_step_cells * SX_CELL_BYTES);
}

static void swap_slots(sx_run *run) {
  for (size_t i = 0; i < run->n_slots; i++) {
    sx_slot *slot = &run->slots[i];
    if (slot->written != SX_WRITTEN_BESIDE) continue;
    void *written = slot->next;
    slot->next = slot->now;
    slot->now = written;
    run->tensors[i].bytes = written;
  }
}

static void enqueue_copies(sx_run *run) {
  for (size_t i = 0; i < run->n_slots; i++) {
    const sx_slot *slot = &run->slots[i];
    if (slot->written == SX_WRITTEN_BESIDE)
      run->backend->calls->copy(run->backend, slot->now, slot->next, slot->n_bytes);
  }
}

/* What the update wrote beside the old values takes their place. */
static bool settle(sx_run *run, const stepping *step) {
  if (!run->writes_beside) return true;
  if (run->backend->shares_memory) {
    swap_slots(run);
    return true;
  }
  if (!replay(run, step, SEQUENCE_SETTLE)) {
    record(run, step, SEQUENCE_SETTLE);
    enqueue_copies(run);
    recorded(run, step);
  }
  return sx_finish(run);
}

static bool writes_in_place(const sx_run *run) {
  for (size_t i = 0; i < run->n_slots; i++)
    if (run->slots[i].written == SX_WRITTEN_IN_PLACE) return true;
  return false;
}

/* One that memory lacked for may be done in part, and so the tensors that it writes in place be of no step. */
static bool execute_update(sx_run *run, const stepping *step) {
  if (!replay(run, step, SEQUENCE_UPDATE)) {
    record(run, step, SEQUENCE_UPDATE);
    enqueue_update(run, step);
    recorded(run, step);
  }
  if (sx_finish(run) && settle(run, step)) return true;
  run->lost |= run->finished == SX_FINISHED_MEMORY && writes_in_place(run);
  return false;
}

static bool update(sx_run *run, const stepping *step) {
  if (!execute_update(run, step)) return false;
  int64_t n_records = step->state->stage->batch * step->state->stage->microbatches;
  run->has_fetched = false;
  run->position.step++;
  run->position.records += n_records;
  run->position.stage_records += n_records;
  run->stage_step++;
  return true;
}

/* ---- what is reported ---- */

static void add_training_values(sx_run *run, const sx_stage_state *state, bool sampled) {
  for (uint32_t i = 0; i < state->n_values; i++) sx_add_value(run, state->value_names[i], sx_scalar(run, i));
  if (run->grad_norm >= 0) sx_add_value(run, "train/grad-norm", sx_cell(run, run->grad_norm));
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
                      .stage = state->stage->name,
                      .memory_failed = run->memory_failed};
  sx_digests_end(run, step);
}

static stepping begin_step(sx_run *run) {
  enter_next_stage(run);
  stepping step = {.state = &run->stages[run->position.stage]};
  step.sampled = run->program->n_diagnostics && is_due(run->position.step + 1, run->program->diagnostics_every);
  run->n_values = 0;
  run->finished = SX_FINISHED;
  run->shown = false;
  return step;
}

static bool compute_step(sx_run *run, stepping *step) {
  sx_digests_begin(run);
  step->repeats = run->backend->calls->replay && !step->sampled && !sx_digests_active(run);
  if (!compute_gradients(run, step)) return false;
  sx_digest_sums(run);
  step->updates = true;
  return update(run, step);
}

/* An allocation that failed for the gradients ends the stacking, not the run, unless a record asks for it: the step has
 * left no trace, and is computed unstacked, as are those after it. */
static bool falls_back(sx_run *run, const stepping *step, sx_diag_mark mark) {
  if (run->finished != SX_FINISHED_MEMORY || step->updates || run->degree == 1 || run->stacking.pinned) return false;
  run->memory_failed = run->diags.list.n > mark.n ? run->diags.list.items[mark.n].message : "";
  sx_diags_forget(&run->diags, mark);
  run->degree = 1;
  run->finished = SX_FINISHED;
  run->backend->calls->forget(run->backend);
  return true;
}

static bool take_step(sx_run *run, sexp_step *report_to) {
  stepping step = begin_step(run);
  sx_diag_mark mark = sx_diags_mark(&run->diags);
  bool began = !run->stage_step && step.state->stage->name[0];
  run->memory_failed = NULL;
  if (!compute_step(run, &step) && !(falls_back(run, &step, mark) && compute_step(run, &step))) return false;
  sx_digest_state(run);
  add_training_values(run, step.state, step.sampled);
  if (!evaluate_due(run)) return false;
  report(run, step.state, began, report_to);
  return true;
}

bool sx_try_gradients(sx_run *run) {
  stepping step = begin_step(run);
  step.sampled = false;
  return set_counters(run, &step) && fetch_step(run, step.state) && enqueue_gradients(run, &step) && sx_finish(run);
}

sexp_status sx_run_step(sx_run *run, sexp_step *step) {
  if (run->options.evaluations_only || (!run->failed && is_last(run))) return SEXP_END;
  if (!run->failed) run->failed = !take_step(run, step);
  return run->failed ? SEXP_INPUT : SEXP_OK;
}
