/* Gradient rules: how the adjoint of a node becomes adjoints of its inputs. */
#ifndef SX_PASS_GRADIENT_H
#define SX_PASS_GRADIENT_H

#include "../ir/build.h"
#include "pass.h"

/* A node whose adjoint is known. */
typedef struct sx_adjoint {
  sx_graph *graph;
  const sx_node *node;
  sx_id y, g; /* the node and its adjoint, of its dtype and shape */
} sx_adjoint;

/* Adds the nodes of one input's part of the adjoint, of the input's dtype and shape. Called for inputs
 * that are floats. */
typedef sx_id sx_gradient_rule(const sx_adjoint *adjoint, uint32_t input);

/* By operation, as ops.def names them. sx_gradient_zero stops the flow; NULL: there is no gradient. */
extern sx_gradient_rule *const sx_gradient_rules[SX_N_OPS];

sx_gradient_rule sx_gradient_zero;
sx_gradient_rule sx_gradient_add, sx_gradient_sub, sx_gradient_mul, sx_gradient_div, sx_gradient_mod, sx_gradient_max,
    sx_gradient_min, sx_gradient_pow, sx_gradient_atan2, sx_gradient_neg, sx_gradient_abs, sx_gradient_sqrt,
    sx_gradient_rsqrt, sx_gradient_exp, sx_gradient_exp2, sx_gradient_expm1, sx_gradient_log, sx_gradient_log2,
    sx_gradient_log1p, sx_gradient_sin, sx_gradient_cos, sx_gradient_tan, sx_gradient_tanh, sx_gradient_erf,
    sx_gradient_where, sx_gradient_cast;
sx_gradient_rule sx_gradient_reshape, sx_gradient_transpose, sx_gradient_broadcast, sx_gradient_slice, sx_gradient_pad,
    sx_gradient_concat, sx_gradient_reverse, sx_gradient_unfold, sx_gradient_fold, sx_gradient_sum,
    sx_gradient_reduce_extreme, sx_gradient_einsum, sx_gradient_conv, sx_gradient_conv_data, sx_gradient_conv_weight,
    sx_gradient_gather, sx_gradient_scatter, sx_gradient_take, sx_gradient_put, sx_gradient_cumsum,
    sx_gradient_linear_scan;

/* sx_pass_gradient with other rules. */
sx_graph *sx_gradient_expand(const sx_graph *graph, sx_gradient_rule *const *rules, sx_diags *diags);

#endif
