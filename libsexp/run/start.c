/* Going on, or evaluating, where a checkpoint left a run. Everything but the tensors is a function of the step: draws
 * are keyed by counters, the shuffle by the position, a generator by its microbatch. */
#include <inttypes.h>
#include <string.h>

#include "run.h"

static bool fail(sx_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(sx_run *run, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  sx_verror(&run->diags, SX_E_RUN_START, (sx_span){0}, format, arguments);
  va_end(arguments);
  return false;
}

static bool same_type(const sexp_tensor *a, const sexp_tensor *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->n_bytes != b->n_bytes) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

static const char *kind(const sexp_tensor *tensor) { return tensor->state ? "state" : "parameter"; }

static bool take_tensor(sx_run *run, const sexp_tensor *tensor, bool *taken) {
  size_t i = sx_find_slot(run, tensor->path, tensor->state);
  if (i == run->n_slots)
    return fail(run, "%s %s of the checkpoint is not in the experiment", kind(tensor), tensor->path);
  if (taken[i]) return fail(run, "%s %s is twice in the checkpoint", kind(tensor), tensor->path);
  if (!same_type(tensor, &run->tensors[i])) {
    sx_text text;
    sx_text_init(&text, run->diags.arena);
    sx_text_add_shape(&text, tensor->dims, tensor->rank);
    sx_text_add(&text, " in the checkpoint and ");
    sx_text_add_shape(&text, run->tensors[i].dims, run->tensors[i].rank);
    return fail(run, "%s %s is %s in the experiment, or of another dtype", kind(tensor), tensor->path,
                sx_text_get(&text));
  }
  taken[i] = true;
  return sx_write(run, run->slots[i].now, tensor->bytes, (int64_t)tensor->n_bytes);
}

static bool take_tensors(sx_run *run, const sexp_start *start) {
  bool *taken = SX_NEW_N(&run->scratch, bool, run->n_slots);
  for (size_t i = 0; i < start->n_tensors; i++) {
    const sexp_tensor *tensor = &start->tensors[i];
    if (tensor->state && run->options.evaluations_only) continue;
    if (!take_tensor(run, tensor, taken)) return false;
  }
  for (size_t i = 0; i < run->n_slots; i++)
    if (!taken[i]) return fail(run, "%s %s is not in the checkpoint", kind(&run->tensors[i]), run->slots[i].path);
  return true;
}

/* The stage that the step lies in; a step on the border belongs to the stage it ends. */
static bool take_position(sx_run *run, int64_t step) {
  if (step < 0 || step > run->position.stages_steps)
    return fail(run, "the checkpoint is of step %" PRId64 ", the run has %" PRId64 " steps", step,
                run->position.stages_steps);
  int64_t left = step;
  run->position.records = 0;
  for (uint32_t s = 0; s < run->program->n_stages; s++) {
    const sx_stage_state *state = &run->stages[s];
    int64_t steps = left < state->steps ? left : state->steps;
    int64_t records = steps * state->stage->batch * state->stage->microbatches;
    run->position.stage = s;
    run->position.records += records;
    run->position.stage_records = records;
    run->stage_step = steps;
    left -= steps;
    if (!left) break;
  }
  run->position.step = step;
  return true;
}

bool sx_start(sx_run *run, const sexp_start *start) {
  run->shown = false;
  return take_tensors(run, start) && take_position(run, start->step);
}
