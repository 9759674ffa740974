/* The stacking degrees offered to a run, a plan of each, and what its passes are estimated to take. */
#ifndef SX_PASS_DEGREES_H
#define SX_PASS_DEGREES_H

#include "cost.h"
#include "stack.h"

typedef struct sx_degrees_request {
  const sx_graph *const *losses; /* READY, one a stage, in one arena */
  const int64_t *microbatches;   /* of a step, one a stage */
  size_t n_stages;
  const sx_graph *const *generators; /* init, trip and emit of those the stages use; NULL among them are passed over */
  size_t n_generators;
  bool optimize;    /* simplify, cse, fusion and reuse, as compile.c does them */
  double recompute; /* budget of sx_plan_recompute; 0: none */
} sx_degrees_request;

typedef struct sx_degree {
  int64_t degree;
  const sx_plan **plans; /* one a stage */
  int64_t field_bytes;   /* of field/NAME, of the stage that has most */
} sx_degree;

/* Fills `degrees` with the candidates (sx_stack_candidates) that can be stacked, ascending; returns their number, at
 * least 1: the first is degree 1, unstacked, whose plans compute the losses as they are. Where only that is offered
 * because a graph refuses, why->text says why, else it is NULL.
 * Repeats: a function of the request. Everything is in the arena of the losses. */
int sx_degrees(sx_degree degrees[SX_STACK_CANDIDATES], const sx_degrees_request *request, sx_stack_refusal *why);

/* A step's passes of a stage, and an addition of gradients between any two. */
double sx_passes_ns(const sx_plan *plan, int64_t n_passes, const sx_cost_rates *rates, sx_arena *arena);

#endif
