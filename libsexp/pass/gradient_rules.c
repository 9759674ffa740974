/* The table of gradient rules, and those of elementwise operations. g is the adjoint, y the node, a and b
 * its inputs; where a gradient is a matter of choice (ties, kinks) it is PyTorch's.
 *
 * Nodes are numbered in the order they are added, and C leaves the order of arguments open: no call may have
 * two arguments that add nodes. */
#include "gradient.h"

#define sx_gradient_none NULL
sx_gradient_rule *const sx_gradient_rules[SX_N_OPS] = {
#define SX_OP(id, name, n_inputs, class, dtype, shape, gradient, attributes, text) \
  [SX_OP_##id] = sx_gradient_##gradient,
#include "../ir/ops.def"
#undef SX_OP
};

static sx_id one(const sx_adjoint *d, sx_op op, sx_id a) { return sx_unary(d->graph, op, a); }
static sx_id two(const sx_adjoint *d, sx_op op, sx_id a, sx_id b) { return sx_binary(d->graph, op, a, b); }
static sx_id mul(const sx_adjoint *d, sx_id a, sx_id b) { return two(d, SX_OP_MUL, a, b); }
static sx_id neg(const sx_adjoint *d, sx_id a) { return one(d, SX_OP_NEG, a); }
/* A constant of the node's shape. */
static sx_id value(const sx_adjoint *d, double x) { return sx_const_like(d->graph, d->g, x); }
static sx_id pick(const sx_adjoint *d, sx_id condition, sx_id a, sx_id b) {
  return sx_where(d->graph, condition, a, b);
}

static const double ln_2 = 0x1.62e42fefa39efp-1, two_over_sqrt_pi = 0x1.20dd750429b6dp+0;

sx_id sx_gradient_zero(const sx_adjoint *d, uint32_t input) {
  (void)d;
  (void)input;
  return SX_NO_NODE;
}

sx_id sx_gradient_add(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return d->g;
}

sx_id sx_gradient_sub(const sx_adjoint *d, uint32_t input) { return input == 0 ? d->g : neg(d, d->g); }

sx_id sx_gradient_mul(const sx_adjoint *d, uint32_t input) { return mul(d, d->g, d->node->inputs[1 - input]); }

/* g / b; -g (y / b) */
sx_id sx_gradient_div(const sx_adjoint *d, uint32_t input) {
  sx_id b = d->node->inputs[1];
  if (input == 0) return two(d, SX_OP_DIV, d->g, b);
  sx_id quotient = two(d, SX_OP_DIV, d->y, b);
  return mul(d, neg(d, d->g), quotient);
}

/* g; -g floor(a / b) */
sx_id sx_gradient_mod(const sx_adjoint *d, uint32_t input) {
  if (input == 0) return d->g;
  sx_id quotient = two(d, SX_OP_IDIV, d->node->inputs[0], d->node->inputs[1]);
  return mul(d, neg(d, d->g), quotient);
}

/* To the input that was taken, half to each where they tie: `loses` says where this input was not. */
static sx_id to_winner(const sx_adjoint *d, uint32_t input, sx_op loses) {
  sx_id own = d->node->inputs[input], other = d->node->inputs[1 - input];
  sx_id ties = two(d, SX_OP_EQ, own, other), half = mul(d, d->g, value(d, 0.5));
  sx_id lost = two(d, loses, own, other), zero = value(d, 0);
  return pick(d, ties, half, pick(d, lost, zero, d->g));
}

sx_id sx_gradient_max(const sx_adjoint *d, uint32_t input) { return to_winner(d, input, SX_OP_LT); }
sx_id sx_gradient_min(const sx_adjoint *d, uint32_t input) { return to_winner(d, input, SX_OP_GT); }

/* g b a^(b-1), 0 where b is 0; g y log(a), 0 where a is 0 and b is not negative */
sx_id sx_gradient_pow(const sx_adjoint *d, uint32_t input) {
  sx_id a = d->node->inputs[0], b = d->node->inputs[1], zero = value(d, 0);
  if (input == 0) {
    sx_id power = two(d, SX_OP_POW, a, two(d, SX_OP_SUB, b, value(d, 1)));
    sx_id flat = two(d, SX_OP_EQ, b, zero);
    return pick(d, flat, zero, mul(d, d->g, mul(d, b, power)));
  }
  sx_id at_zero = two(d, SX_OP_EQ, a, zero), rises = two(d, SX_OP_GE, b, zero);
  sx_id flat = two(d, SX_OP_AND, at_zero, rises);
  return mul(d, d->g, pick(d, flat, zero, mul(d, d->y, one(d, SX_OP_LOG, a))));
}

/* y = atan2(a, b): g b / (a a + b b); -g a / (a a + b b) */
sx_id sx_gradient_atan2(const sx_adjoint *d, uint32_t input) {
  sx_id a = d->node->inputs[0], b = d->node->inputs[1];
  sx_id aa = mul(d, a, a), bb = mul(d, b, b), square = two(d, SX_OP_ADD, aa, bb);
  return mul(d, d->g, two(d, SX_OP_DIV, input == 0 ? b : neg(d, a), square));
}

sx_id sx_gradient_neg(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return neg(d, d->g);
}

sx_id sx_gradient_abs(const sx_adjoint *d, uint32_t input) {
  return mul(d, d->g, one(d, SX_OP_SIGN, d->node->inputs[input]));
}

/* g / (2 y) */
sx_id sx_gradient_sqrt(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return two(d, SX_OP_DIV, d->g, mul(d, d->y, value(d, 2)));
}

/* -g y^3 / 2 */
sx_id sx_gradient_rsqrt(const sx_adjoint *d, uint32_t input) {
  (void)input;
  sx_id half = mul(d, d->g, value(d, -0.5)), cube = mul(d, d->y, mul(d, d->y, d->y));
  return mul(d, half, cube);
}

sx_id sx_gradient_exp(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return mul(d, d->g, d->y);
}

sx_id sx_gradient_exp2(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return mul(d, d->g, mul(d, d->y, value(d, ln_2)));
}

sx_id sx_gradient_expm1(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return mul(d, d->g, two(d, SX_OP_ADD, d->y, value(d, 1)));
}

sx_id sx_gradient_log(const sx_adjoint *d, uint32_t input) { return two(d, SX_OP_DIV, d->g, d->node->inputs[input]); }

sx_id sx_gradient_log2(const sx_adjoint *d, uint32_t input) {
  return two(d, SX_OP_DIV, d->g, mul(d, d->node->inputs[input], value(d, ln_2)));
}

sx_id sx_gradient_log1p(const sx_adjoint *d, uint32_t input) {
  return two(d, SX_OP_DIV, d->g, two(d, SX_OP_ADD, d->node->inputs[input], value(d, 1)));
}

sx_id sx_gradient_sin(const sx_adjoint *d, uint32_t input) {
  return mul(d, d->g, one(d, SX_OP_COS, d->node->inputs[input]));
}

sx_id sx_gradient_cos(const sx_adjoint *d, uint32_t input) {
  sx_id sine = one(d, SX_OP_SIN, d->node->inputs[input]);
  return mul(d, neg(d, d->g), sine);
}

/* g (1 + y y) */
sx_id sx_gradient_tan(const sx_adjoint *d, uint32_t input) {
  (void)input;
  sx_id unit = value(d, 1), square = mul(d, d->y, d->y);
  return mul(d, d->g, two(d, SX_OP_ADD, unit, square));
}

/* g (1 - y y) */
sx_id sx_gradient_tanh(const sx_adjoint *d, uint32_t input) {
  (void)input;
  sx_id unit = value(d, 1), square = mul(d, d->y, d->y);
  return mul(d, d->g, two(d, SX_OP_SUB, unit, square));
}

/* g 2 / sqrt(pi) exp(-a a) */
sx_id sx_gradient_erf(const sx_adjoint *d, uint32_t input) {
  sx_id a = d->node->inputs[input], bell = one(d, SX_OP_EXP, neg(d, mul(d, a, a)));
  return mul(d, d->g, mul(d, value(d, two_over_sqrt_pi), bell));
}

sx_id sx_gradient_where(const sx_adjoint *d, uint32_t input) {
  sx_id zero = value(d, 0);
  return pick(d, d->node->inputs[0], input == 1 ? d->g : zero, input == 1 ? zero : d->g);
}

sx_id sx_gradient_cast(const sx_adjoint *d, uint32_t input) {
  return sx_cast(d->graph, d->g, sx_node_at(d->graph, d->node->inputs[input])->dtype);
}
