/* Short ways to add nodes, for gradient rules, passes and the language. A wrong call is a bug unless the
 * function returns bool; then *id or *why is filled. */
#ifndef SX_IR_BUILD_H
#define SX_IR_BUILD_H

#include "ir.h"

sx_id sx_unary(sx_graph *graph, sx_op op, sx_id a);
sx_id sx_binary(sx_graph *graph, sx_op op, sx_id a, sx_id b); /* equal shapes */
sx_id sx_where(sx_graph *graph, sx_id condition, sx_id a, sx_id b);
sx_id sx_cast(sx_graph *graph, sx_id a, sx_dtype dtype); /* a itself where it has the dtype */
/* Every element is value (rounded to the dtype). */
sx_id sx_const(sx_graph *graph, sx_dtype dtype, int rank, const int64_t *dims, double value);
/* A constant of a's dtype and shape. */
sx_id sx_const_like(sx_graph *graph, sx_id a, double value);
sx_id sx_reshape(sx_graph *graph, sx_id a, int rank, const int64_t *dims);
sx_id sx_broadcast(sx_graph *graph, sx_id a, int rank, const int64_t *dims);
sx_id sx_transpose(sx_graph *graph, sx_id a, const int64_t *perm);
/* Reduction (SUM, REDUCEMAX, ... ARGMAX) over axes; keep: they stay with size 1. */
sx_id sx_reduce(sx_graph *graph, sx_op op, sx_id a, const int64_t *axes, int n_axes, bool keep);
/* Sums a so that it has the shape, undoing NumPy broadcasting. */
sx_id sx_sum_to(sx_graph *graph, sx_id a, int rank, const int64_t *dims);
/* One axis: elements start, start+step, ... below end. */
sx_id sx_slice_axis(sx_graph *graph, sx_id a, int axis, int64_t start, int64_t end, int64_t step);
sx_id sx_pad_axis(sx_graph *graph, sx_id a, int axis, int64_t low, int64_t high, double value);

/* NumPy broadcasting of elementwise inputs to their common shape, then the operation. */
bool sx_try_element(sx_graph *graph, sx_op op, const sx_id *inputs, uint32_t n_inputs, sx_id *id, sx_problem *why);
/* NumPy's matmul for vectors, matrices and batches, as an einsum. */
bool sx_try_matmul(sx_graph *graph, sx_id a, sx_id b, sx_dtype dtype, sx_id *id, sx_problem *why);
/* General einsum of one or more operands, explicit or implicit output, repeated labels (diagonals):
 * lowered to transposes, sums and two-operand EINSUM nodes, from the left. */
bool sx_try_einsum(sx_graph *graph, const char *equation, const sx_id *inputs, uint32_t n_inputs, sx_dtype dtype,
                   sx_id *id, sx_problem *why);

#endif
