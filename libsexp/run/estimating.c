/* What a step's gradients are estimated to take at a degree of stacking: the passes, and what a run does around them as
 * one recorded sequence. The update is no part of it, as of what is measured where the model is not sure. */
#include "../pass/degrees.h"
#include "../sexp.h"
#include "run.h"

typedef struct estimating {
  const sx_run *run;
  sx_cost_rates rates;
  sx_arena *arena;
} estimating;

static const sx_plan *plan_of(const sx_bound *bound) { return bound->plan ? bound->plan : bound->unit->plan; }

static const sx_plan *stage_plan(const sx_run *run, const sx_offered *offered, uint32_t stage) {
  return offered->units ? offered->units[stage].plan : plan_of(&run->stages[stage].loss);
}

/* A launch that reads and writes so many bytes. */
static double move_ns(const estimating *e, double n_bytes) { return e->rates.launch_ns + n_bytes / e->rates.bytes_ns; }

/* ---- where fields come from ---- */

/* An upload a field and pass. */
static double upload_ns(const estimating *e, const sx_stage_state *state, int64_t n_passes) {
  double n_bytes = 0;
  for (uint32_t f = 0; f < state->n_fields; f++) n_bytes += (double)state->dataset->n_bytes[f];
  n_bytes *= (double)(state->stage->batch * state->stage->microbatches);
  return (double)(n_passes * state->n_fields) * e->rates.launch_ns + n_bytes / e->rates.upload_ns;
}

/* One microbatch after the other, whatever the degree; stacked, each field is copied into its slice. */
static double generate_ns(const estimating *e, const sx_stage_state *state, int64_t degree) {
  const sx_generating *g = state->generator;
  double ns = sx_cost_ns(plan_of(&g->init), &e->rates, e->arena) + sx_cost_ns(plan_of(&g->emit), &e->rates, e->arena);
  ns += (double)g->generator->trips * sx_cost_ns(plan_of(&g->trip), &e->rates, e->arena);
  for (uint32_t f = 0; degree > 1 && f < state->n_fields; f++) ns += move_ns(e, 2 * (double)g->field_bytes[f]);
  return ns * (double)state->stage->microbatches;
}

/* ---- a step ---- */

/* Narrow gradients are widened after each pass that is not stacked, and the mean is narrowed once. */
static double narrow_ns(const estimating *e, int64_t n_widened) {
  const sx_run *run = e->run;
  double ns = 0;
  for (size_t i = 0; i < run->n_params; i++)
    if (run->narrow_grads[i])
      ns += (double)(n_widened + 1) * move_ns(e, (double)run->slots[i].n_elements * (2 + sizeof(float)));
  return ns;
}

/* Counters are uploaded, the sum is divided, the loss and metrics are downloaded. */
static double stage_ns(const estimating *e, const sx_offered *offered, uint32_t stage) {
  const sx_stage_state *state = &e->run->stages[stage];
  int64_t n = state->stage->microbatches, n_passes = n / offered->degree;
  double ns = e->rates.sequence_ns + 2 * e->rates.launch_ns;
  if (state->dataset) ns += upload_ns(e, state, n_passes);
  if (state->generator) ns += generate_ns(e, state, offered->degree);
  ns += sx_passes_ns(stage_plan(e->run, offered, stage), n_passes, &e->rates, e->arena);
  if (n > 1) ns += move_ns(e, 2 * (double)e->run->sum.n * sizeof(float));
  return ns + narrow_ns(e, offered->degree > 1 ? 0 : n);
}

static unsigned dtypes_of(const estimating *e, sx_offered *const *candidates, size_t n) {
  unsigned dtypes = 0;
  for (size_t i = 0; i < n; i++)
    for (uint32_t s = 0; s < e->run->program->n_stages; s++)
      dtypes |= sx_cost_dtypes(stage_plan(e->run, candidates[i], s), e->arena);
  for (uint32_t s = 0; s < e->run->program->n_stages; s++) {
    const sx_generating *g = e->run->stages[s].generator;
    if (!g) continue;
    dtypes |= sx_cost_dtypes(plan_of(&g->init), e->arena) | sx_cost_dtypes(plan_of(&g->trip), e->arena) |
              sx_cost_dtypes(plan_of(&g->emit), e->arena);
  }
  return dtypes;
}

bool sx_estimate_stacking(sx_run *run, sx_offered *const *candidates, size_t n, double *estimated_ns) {
  const sexp_chooser *chooser = run->options.chooser;
  const sx_backend_calls *calls = run->backend->calls;
  estimating e = {.run = run, .arena = &run->arena};
  if (!chooser || !chooser->cost || !calls->rates) return false;
  sx_diag_mark mark = sx_diags_mark(&run->diags);
  bool rated = calls->rates(run->backend, &e.rates, dtypes_of(&e, candidates, n), chooser, &run->diags);
  sx_diags_forget(&run->diags, mark); /* what was not to be measured; a device that failed says so again */
  for (size_t i = 0; rated && i < n; i++) {
    estimated_ns[i] = 0;
    for (uint32_t s = 0; s < run->program->n_stages; s++) estimated_ns[i] += stage_ns(&e, candidates[i], s);
    candidates[i]->estimated_ns = estimated_ns[i];
  }
  return rated;
}
