/* Recomputation: elementwise values computed again where they are read, where that is cheaper than memory. */
#ifndef SX_PASS_RECOMPUTE_H
#define SX_PASS_RECOMPUTE_H

#include "plan.h"

/* A graph with nodes to be computed again. */
typedef struct sx_recomputed {
  const sx_graph *graph;
  const bool *again; /* per node: a copy, read by one group alone and evaluated in it; NULL: there are none */
  size_t n_again;
} sx_recomputed;

/* Clones ELEMENT nodes for groups of the graph's plan that read them from memory, with what they are computed from down
 * to values that are read in their place, so that operations (sx_op_flops), and budget times the bytes read, and written
 * for that, are least. What is read in their place may live longer than it did, or be written though it was not, where
 * the plan's peak has room for it. Budget: f32 operations a byte; 0 gives the graph as it is.
 * Repeats: a function of graph, options and budget. Bits do not change: each clone rounds as its original. */
sx_recomputed sx_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena);

/* The plan of the recomputed graph; where its block would be larger than without, of that in which nothing is kept that
 * was not; where that is larger too, of the graph itself. plan->graph says which. */
sx_plan *sx_plan_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena);

#endif
