/* Stacking: a training loss for d microbatches in one pass.
 *
 * A pass of its own, asked for with a degree: it is no row of compile.c's list, since it changes bits (the order in
 * which the microbatches' contributions are summed) and one experiment may have plans of several degrees. */
#ifndef SX_PASS_STACK_H
#define SX_PASS_STACK_H

#include "pass.h"

/* Why a graph is not stacked: the first node, in the order of the graph, that no rule covers. No error: the run is then
 * unstacked, and its report says why. */
typedef struct sx_stack_refusal {
  sx_id node;       /* of the graph given */
  sx_span span;     /* where the experiment's text has it */
  const char *text; /* operation, model path and reason; in the graph's arena */
} sx_stack_refusal;

enum { SX_STACK_MOST = 1 << 16 }; /* the highest degree */

/* Stacks a READY graph of a microbatch's loss and gradients, `degree` of 2 to SX_STACK_MOST.
 * Does: *out computes d microbatches; it has the name of the loss, so that draws keep their bits, and is READY.
 * Simplify and cse may follow, as after any pass.
 * Shapes: an input field/NAME [batch ...] becomes [d batch ...], microbatch i at index i. Parameters and counters are
 * as they were. Outputs: loss, metric/NAME and grad/PATH, in the order of the loss, are sums over the d microbatches,
 * of their shape. A bf16 or f16 output becomes f32, so that the sum is not rounded to the narrow dtype: each
 * microbatch's value is, or, where one product or sum computes all of them together, none (but for a convolution's
 * weights, whose sum is, once). Other outputs go. Repeats: a function of its arguments; what a node computes for one
 * microbatch keeps its bits, sums over microbatches have an order of their own (docs/stacking.md). False: refused, *why
 * says why. */
bool sx_stack(sx_graph **out, const sx_graph *loss, int64_t degree, sx_stack_refusal *why);

/* Whether a generator's graph (init, trip or emit) lets the run be stacked: the caller executes it for the microbatches
 * of a pass one after the other, into slices of the stacked fields. False where it reads :microbatch, :records or
 * :stage-records or has bf16 nodes. NULL is taken. */
bool sx_stack_allows_generator(const sx_graph *graph, sx_stack_refusal *why);

enum { SX_STACK_CANDIDATES = 18 };
/* The degrees offered to a run whose stages have these counts of microbatches, ascending, from 1: with g the greatest
 * common divisor of the counts, the powers of two that divide g, and g, up to SX_STACK_MOST. Returns their number. */
int sx_stack_candidates(int64_t degrees[SX_STACK_CANDIDATES], const int64_t *microbatches, size_t n_stages);

#endif
