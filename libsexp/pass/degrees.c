/* Plans of the stacking degrees, and the estimated time of their passes. */
#include "degrees.h"

#include <string.h>

#include "plan_parts.h"
#include "recompute.h"

typedef struct offering {
  const sx_degrees_request *request;
  sx_arena *arena;
  sx_diags diags;
} offering;

/* ---- plans ------------------------------------------------------------------------------------------ */

/* The loss of d microbatches, through the passes that follow an expansion; NULL: refused. */
static const sx_graph *stage_graph(offering *o, size_t stage, int64_t degree, sx_stack_refusal *why) {
  sx_graph *graph = NULL;
  if (degree == 1) return o->request->losses[stage];
  if (!sx_stack(&graph, o->request->losses[stage], degree, why)) return NULL;
  if (!o->request->optimize) return graph;
  return sx_pass_dce(sx_pass_cse(sx_pass_simplify(graph, &o->diags), &o->diags), &o->diags);
}

static bool make_plans(offering *o, sx_degree *degree, sx_stack_refusal *why) {
  const sx_degrees_request *r = o->request;
  sx_plan_options options = {.fuse = r->optimize, .reuse = r->optimize};
  degree->plans = SX_NEW_N(o->arena, const sx_plan *, r->n_stages);
  for (size_t s = 0; s < r->n_stages; s++) {
    const sx_graph *graph = stage_graph(o, s, degree->degree, why);
    if (!graph) return false;
    degree->plans[s] = sx_plan_recompute(graph, &options, r->optimize ? r->recompute : 0, o->arena);
  }
  return true;
}

/* ---- fields ----------------------------------------------------------------------------------------- */

static bool is_field(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL && !strncmp(buffer->name, "field/", strlen("field/"));
}

static int64_t field_bytes(const sx_plan *plan) {
  int64_t n_bytes = 0;
  for (uint32_t b = 0; b < plan->buffers.n; b++)
    if (is_field(&plan->buffers.items[b])) n_bytes += sx_aligned(plan->buffers.items[b].n_bytes);
  return n_bytes;
}

static void add_fields(sx_degree *degree, size_t n_stages) {
  for (size_t s = 0; s < n_stages; s++) {
    int64_t n_bytes = field_bytes(degree->plans[s]);
    if (n_bytes > degree->field_bytes) degree->field_bytes = n_bytes;
  }
}

/* ---- time ------------------------------------------------------------------------------------------- */

/* What a pass adds to the sum: f32 values, each output aligned. */
static double leaf_bytes(const sx_plan *plan) {
  double n_bytes = 0;
  for (size_t i = 0; i < plan->graph->outputs.n; i++) {
    const sx_node *node = sx_node_at(plan->graph, plan->graph->outputs.items[i].node);
    n_bytes += (double)sx_aligned(sx_node_elements(node) * (int64_t)sizeof(float));
  }
  return n_bytes;
}

double sx_passes_ns(const sx_plan *plan, int64_t n_passes, const sx_cost_rates *rates, sx_arena *arena) {
  double addition = rates->launch_ns + 3 * leaf_bytes(plan) / rates->bytes_ns;
  return (double)n_passes * sx_cost_ns(plan, rates, arena) + (double)(n_passes - 1) * addition;
}

/* ---- all of them ------------------------------------------------------------------------------------ */

static bool allow_generators(const sx_degrees_request *r, sx_stack_refusal *why) {
  for (size_t i = 0; i < r->n_generators; i++)
    if (!sx_stack_allows_generator(r->generators[i], why)) return false;
  return true;
}

int sx_degrees(sx_degree degrees[SX_STACK_CANDIDATES], const sx_degrees_request *request, sx_stack_refusal *why) {
  offering o = {.request = request, .arena = request->losses[0]->arena};
  int64_t candidates[SX_STACK_CANDIDATES];
  int n_candidates = sx_stack_candidates(candidates, request->microbatches, request->n_stages), n = 0;
  sx_diags_init(&o.diags, o.arena);
  *why = (sx_stack_refusal){0};
  if (n_candidates > 1 && !allow_generators(request, why)) n_candidates = 1;
  for (int i = 0; i < n_candidates; i++) {
    sx_degree *degree = &degrees[n];
    *degree = (sx_degree){.degree = candidates[i]};
    if (!make_plans(&o, degree, why)) break; /* what a degree refuses, a higher one does too */
    add_fields(degree, request->n_stages);
    n++;
  }
  if (n > 1) *why = (sx_stack_refusal){0};
  return n;
}
