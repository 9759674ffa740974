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

/* Clones ELEMENT nodes for groups of the graph's plan that read them from memory, alone or with what they are computed
 * from, where their arithmetic (sx_op_flops) is below budget times the bytes that are then not read and written. Only
 * what is alive at the reader anyway is read in its place. Budget: f32 operations a byte; 0 gives the graph as it is.
 * Repeats: a function of graph, options and budget. Bits do not change: each clone rounds as its original. */
sx_recomputed sx_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena);

/* The plan of the recomputed graph, or of the graph itself where that has the smaller block. plan->graph says which. */
sx_plan *sx_plan_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena);

#endif
