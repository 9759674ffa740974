/* Simplify: exact identities, a table of rules. Needs and gives EXPANDED.
 *
 * A rule holds bit for bit for every input, signed zeros and infinities included; NaNs are one value (what
 * leaves a graph is canonical). So x + 0 stays where x may be -0, x * 0 stays, 0 - x is not neg x. Nodes
 * are taken in order; a rule's result is simplified again. Dead nodes are left to dce.
 *
 *   %1 = const {value 1} : f32 [3]
 *   %2 = mul %0 %1 : f32 [3]
 *   %3 = neg %2 : f32 [3]
 *   %4 = neg %3 : f32 [3]
 *   output "y" %4
 * becomes (after dce)
 *   output "y" %0 */
#include <math.h>
#include <string.h>

#include "../ir/build.h"
#include "fold_constant.h"
#include "rewrite.h"

enum { CONCAT_PIECES = 16 }; /* that are looked at when pieces are joined */

/* A node on simplified operands, in or about to be in the graph. */
typedef struct match {
  sx_graph *graph;
  const sx_node *node;
} match;

/* An equal node, which may be new; SX_NO_NODE: the rule does not apply. */
typedef sx_id rule(const match *m);

/* ---- what rules ask ----------------------------------------------------------------------------- */

static sx_id in(const match *m, uint32_t i) { return m->node->inputs[i]; }
static const sx_node *at(const match *m, uint32_t i) { return sx_node_at(m->graph, m->node->inputs[i]); }
static bool is_op(const match *m, uint32_t i, sx_op op) { return at(m, i)->op == op; }
static bool is_float(const match *m, uint32_t i) { return sx_dtype_is_float(at(m, i)->dtype); }
/* The first operand of operand i. */
static sx_id under(const match *m, uint32_t i) { return at(m, i)->inputs[0]; }

/* Operand i is a constant of this value; zeros by their sign. */
static bool is_value(const match *m, uint32_t i, double value) {
  const sx_node *node = at(m, i);
  return node->op == SX_OP_CONST && node->real == value && !signbit(node->real) == !signbit(value);
}

/* Operand i is what adding changes nothing: -0 among floats. */
static bool is_nothing(const match *m, uint32_t i) { return is_value(m, i, is_float(m, i) ? -0.0 : 0.0); }

static sx_id constant(const match *m, double value) {
  return sx_const(m->graph, m->node->dtype, m->node->rank, m->node->dims, value);
}

/* The constant with the other sign. */
static sx_id negated(const match *m, sx_id id) {
  const sx_node *node = sx_node_at(m->graph, id);
  return constant(m, sx_fold_constant(SX_OP_NEG, node->dtype, node->dtype, (double[3]){node->real}));
}

static sx_id one(const match *m, sx_op op, sx_id a) { return sx_unary(m->graph, op, a); }
static sx_id two(const match *m, sx_op op, sx_id a, sx_id b) { return sx_binary(m->graph, op, a, b); }

/* ---- rules of elementwise operations ------------------------------------------------------------ */

static sx_id fold_constants(const match *m) {
  double values[3] = {0};
  for (uint32_t i = 0; i < m->node->n_inputs; i++) {
    if (!is_op(m, i, SX_OP_CONST)) return SX_NO_NODE;
    values[i] = at(m, i)->real;
  }
  sx_dtype from = at(m, m->node->op == SX_OP_WHERE)->dtype;
  return constant(m, sx_fold_constant(m->node->op, from, m->node->dtype, values));
}

static sx_id add_nothing(const match *m) {
  return is_nothing(m, 1) ? in(m, 0) : is_nothing(m, 0) ? in(m, 1) : SX_NO_NODE;
}

static sx_id add_negated(const match *m) {
  if (is_op(m, 1, SX_OP_NEG)) return two(m, SX_OP_SUB, in(m, 0), under(m, 1));
  return is_op(m, 0, SX_OP_NEG) ? two(m, SX_OP_SUB, in(m, 1), under(m, 0)) : SX_NO_NODE;
}

static sx_id subtract_nothing(const match *m) { return is_value(m, 1, 0.0) ? in(m, 0) : SX_NO_NODE; }

static sx_id subtract_negated(const match *m) {
  return is_op(m, 1, SX_OP_NEG) ? two(m, SX_OP_ADD, in(m, 0), under(m, 1)) : SX_NO_NODE;
}

static sx_id subtract_from_nothing(const match *m) {
  return is_nothing(m, 0) ? one(m, SX_OP_NEG, in(m, 1)) : SX_NO_NODE;
}

static sx_id multiply_by_one(const match *m) {
  return is_value(m, 1, 1) ? in(m, 0) : is_value(m, 0, 1) ? in(m, 1) : SX_NO_NODE;
}

static sx_id multiply_by_minus_one(const match *m) {
  if (is_value(m, 1, -1)) return one(m, SX_OP_NEG, in(m, 0));
  return is_value(m, 0, -1) ? one(m, SX_OP_NEG, in(m, 1)) : SX_NO_NODE;
}

static sx_id multiply_integer_by_zero(const match *m) {
  return !is_float(m, 0) && (is_value(m, 0, 0) || is_value(m, 1, 0)) ? constant(m, 0) : SX_NO_NODE;
}

/* Of products and quotients: the signs go, or into the constant. */
static sx_id cancel_signs(const match *m) {
  bool left = is_op(m, 0, SX_OP_NEG), right = is_op(m, 1, SX_OP_NEG);
  if (left && right) return two(m, m->node->op, under(m, 0), under(m, 1));
  if (left && is_op(m, 1, SX_OP_CONST)) return two(m, m->node->op, under(m, 0), negated(m, in(m, 1)));
  if (right && is_op(m, 0, SX_OP_CONST)) return two(m, m->node->op, negated(m, in(m, 0)), under(m, 1));
  return SX_NO_NODE;
}

static sx_id divide_by_one(const match *m) { return is_value(m, 1, 1) ? in(m, 0) : SX_NO_NODE; }

static sx_id divide_by_power_of_two(const match *m) {
  const sx_node *divisor = at(m, 1);
  int exponent;
  if (divisor->op != SX_OP_CONST || fabs(frexp(divisor->real, &exponent)) != 0.5) return SX_NO_NODE;
  double inverse = 1 / divisor->real;
  if (sx_dtype_round(divisor->dtype, inverse) != inverse) return SX_NO_NODE;
  return two(m, SX_OP_MUL, in(m, 0), constant(m, inverse));
}

static sx_id divide_integer_by_one(const match *m) {
  return !is_float(m, 0) && is_value(m, 1, 1) ? in(m, 0) : SX_NO_NODE;
}

static sx_id same_operands(const match *m) { return in(m, 0) == in(m, 1) ? in(m, 0) : SX_NO_NODE; }

static sx_id power_of_one(const match *m) {
  if (is_value(m, 1, 1)) return in(m, 0);
  bool one_only = is_value(m, 0, 1) || is_value(m, 1, 0.0) || is_value(m, 1, -0.0);
  return one_only ? constant(m, 1) : SX_NO_NODE;
}

static sx_id undo(const match *m) { return is_op(m, 0, m->node->op) ? under(m, 0) : SX_NO_NODE; }
static sx_id repeat(const match *m) { return is_op(m, 0, m->node->op) ? in(m, 0) : SX_NO_NODE; }

/* -(x c) = x (-c) */
static sx_id negate_product(const match *m) {
  const sx_node *product = at(m, 0);
  if (product->op != SX_OP_MUL) return SX_NO_NODE;
  for (uint32_t i = 0; i < 2; i++)
    if (sx_node_at(m->graph, product->inputs[i])->op == SX_OP_CONST)
      return two(m, SX_OP_MUL, product->inputs[1 - i], negated(m, product->inputs[i]));
  return SX_NO_NODE;
}

static sx_id absolute_of_negated(const match *m) {
  return is_op(m, 0, SX_OP_NEG) ? one(m, SX_OP_ABS, under(m, 0)) : SX_NO_NODE;
}

static sx_id compare_with_itself(const match *m) {
  if (in(m, 0) != in(m, 1)) return SX_NO_NODE;
  switch (m->node->op) {
    case SX_OP_LT:
    case SX_OP_GT:
      return constant(m, 0);
    case SX_OP_NE:
      return is_float(m, 0) ? SX_NO_NODE : constant(m, 0);
    default:
      return is_float(m, 0) ? SX_NO_NODE : constant(m, 1);
  }
}

/* A constant beside and, or: the neutral one goes, the other one is the result. */
static sx_id logic_with_constant(const match *m) {
  double neutral = m->node->op == SX_OP_AND ? 1 : 0;
  for (uint32_t i = 0; i < 2; i++) {
    if (is_value(m, i, neutral)) return in(m, 1 - i);
    if (is_op(m, i, SX_OP_CONST)) return in(m, i);
  }
  return SX_NO_NODE;
}

static sx_id not_of_equal(const match *m) {
  sx_op op = at(m, 0)->op;
  if (op != SX_OP_EQ && op != SX_OP_NE) return SX_NO_NODE;
  return two(m, op == SX_OP_EQ ? SX_OP_NE : SX_OP_EQ, at(m, 0)->inputs[0], at(m, 0)->inputs[1]);
}

static sx_id choose_known(const match *m) {
  if (in(m, 1) == in(m, 2)) return in(m, 1);
  return is_op(m, 0, SX_OP_CONST) ? in(m, at(m, 0)->real != 0 ? 1 : 2) : SX_NO_NODE;
}

static sx_id choose_by_not(const match *m) {
  return is_op(m, 0, SX_OP_NOT) ? sx_where(m->graph, under(m, 0), in(m, 2), in(m, 1)) : SX_NO_NODE;
}

static sx_id cast_to_own(const match *m) { return at(m, 0)->dtype == m->node->dtype ? in(m, 0) : SX_NO_NODE; }

/* Whether every value of a dtype is one of the other. */
static bool widens(sx_dtype from, sx_dtype to) {
  static const bool exact[SX_N_DTYPES][SX_N_DTYPES] = {
      [SX_BF16] = {[SX_F32] = true},
      [SX_F16] = {[SX_F32] = true},
      [SX_U8] = {[SX_F32] = true, [SX_BF16] = true, [SX_F16] = true, [SX_I32] = true},
      [SX_BOOL] = {[SX_F32] = true, [SX_BF16] = true, [SX_F16] = true, [SX_I32] = true, [SX_U8] = true},
  };
  return exact[from][to];
}

static sx_id cast_after_widening(const match *m) {
  if (!is_op(m, 0, SX_OP_CAST) || !widens(sx_node_at(m->graph, under(m, 0))->dtype, at(m, 0)->dtype)) return SX_NO_NODE;
  return sx_cast(m->graph, under(m, 0), m->node->dtype);
}

/* ---- rules of moves and reductions --------------------------------------------------------------- */

static sx_id move_to_own_shape(const match *m) { return sx_shape_equal(at(m, 0), m->node) ? in(m, 0) : SX_NO_NODE; }
static sx_id move_constant(const match *m) {
  return is_op(m, 0, SX_OP_CONST) ? constant(m, at(m, 0)->real) : SX_NO_NODE;
}

static sx_id reshape_twice(const match *m) {
  if (!is_op(m, 0, SX_OP_RESHAPE)) return SX_NO_NODE;
  return sx_reshape(m->graph, under(m, 0), m->node->rank, m->node->dims);
}

static sx_id broadcast_twice(const match *m) {
  if (!is_op(m, 0, SX_OP_BROADCAST)) return SX_NO_NODE;
  return sx_broadcast(m->graph, under(m, 0), m->node->rank, m->node->dims);
}

static sx_id transpose_by_nothing(const match *m) {
  for (int i = 0; i < m->node->rank; i++)
    if (m->node->ints[i] != i) return SX_NO_NODE;
  return in(m, 0);
}

static sx_id transpose_twice(const match *m) {
  int64_t perm[SX_RANK_MAX];
  if (!is_op(m, 0, SX_OP_TRANSPOSE)) return SX_NO_NODE;
  for (int i = 0; i < m->node->rank; i++) perm[i] = at(m, 0)->ints[m->node->ints[i]];
  return sx_transpose(m->graph, under(m, 0), perm);
}

static sx_id slice_twice(const match *m) {
  int64_t ints[3 * SX_RANK_MAX];
  if (!is_op(m, 0, SX_OP_SLICE)) return SX_NO_NODE;
  for (int i = 0; i < m->node->rank; i++) {
    const int64_t *inner = &at(m, 0)->ints[3 * i], *outer = &m->node->ints[3 * i];
    int64_t n = m->node->dims[i], step = n < 2 ? 1 : inner[2] * outer[2];
    ints[3 * i] = n == 0 ? 0 : inner[0] + inner[2] * outer[0];
    ints[3 * i + 1] = n == 0 ? 0 : ints[3 * i] + (n - 1) * step + 1;
    ints[3 * i + 2] = step;
  }
  sx_id inside = under(m, 0);
  return sx_graph_add(
      m->graph,
      &(sx_spec){
          .op = SX_OP_SLICE, .inputs = &inside, .n_inputs = 1, .ints = ints, .n_ints = 3 * (uint32_t)m->node->rank});
}

/* Padding of a constant with its own value. */
static sx_id pad_alike(const match *m) {
  return is_value(m, 0, m->node->real) ? constant(m, m->node->real) : SX_NO_NODE;
}

static sx_id concat_one(const match *m) { return m->node->n_inputs == 1 ? in(m, 0) : SX_NO_NODE; }

static sx_id reverse_twice(const match *m) {
  return is_op(m, 0, SX_OP_REVERSE) && at(m, 0)->ints[0] == m->node->ints[0] ? under(m, 0) : SX_NO_NODE;
}

/* Along an axis of one element, or none, nothing is moved or added. */
static sx_id along_one(const match *m) {
  bool one_only = m->node->dims[m->node->ints[0]] <= 1;
  return one_only ? in(m, m->node->op == SX_OP_SCANLINEAR ? 1 : 0) : SX_NO_NODE;
}

/* A reduction over axes of one element, or over no axis. */
static sx_id reduce_one(const match *m) {
  for (uint32_t i = 0; i < m->node->n_ints; i++)
    if (at(m, 0)->dims[m->node->ints[i]] != 1) return SX_NO_NODE;
  return sx_reshape(m->graph, in(m, 0), m->node->rank, m->node->dims);
}

/* ---- sums of padded pieces ----------------------------------------------------------------------- */

/* The only axis along which the node adds zeros, on either side; -1: it is no such node. */
static int zero_padded_axis(const sx_node *node) {
  int found = -1;
  if (node->op != SX_OP_PAD || !sx_dtype_is_float(node->dtype) || node->real != 0 || signbit(node->real)) return -1;
  for (int axis = 0; axis < node->rank; axis++) {
    const int64_t *ints = &node->ints[3 * axis];
    if (ints[0] < 0 || ints[1] < 0 || ints[2] != 0 || ((ints[0] || ints[1]) && found >= 0)) return -1;
    if (ints[0] || ints[1]) found = axis;
  }
  return found;
}

static bool is_plus_zero(const sx_graph *graph, const sx_node *node) {
  if (node->op != SX_OP_ADD) return false;
  const sx_node *added = sx_node_at(graph, node->inputs[1]);
  return added->op == SX_OP_CONST && added->real == 0 && !signbit(added->real);
}

/* What lies side by side along the axis: pieces to which a zero has been added, or the node with one added now. */
static uint32_t add_pieces(sx_graph *graph, sx_id id, int axis, sx_id *pieces, uint32_t n) {
  const sx_node *node = sx_node_at(graph, id);
  bool joined = node->op == SX_OP_CONCAT && node->ints[0] == axis && node->n_inputs <= CONCAT_PIECES - n;
  for (uint32_t i = 0; i < node->n_inputs && joined; i++)
    joined = is_plus_zero(graph, sx_node_at(graph, node->inputs[i]));
  for (uint32_t i = 0; i < node->n_inputs && joined; i++) pieces[n++] = node->inputs[i];
  if (!joined) pieces[n++] = sx_binary(graph, SX_OP_ADD, id, sx_const_like(graph, id, 0.0));
  return n;
}

/* Zeros are added where a piece is not: -0 becomes +0, else nothing changes. */
static sx_id add_side_by_side(const match *m) {
  int axis = zero_padded_axis(at(m, 0));
  if (axis < 0 || axis != zero_padded_axis(at(m, 1))) return SX_NO_NODE;
  int rank = m->node->rank;
  bool swapped = at(m, 1)->ints[3 * axis] < at(m, 0)->ints[3 * axis];
  sx_id low = under(m, swapped), high = under(m, !swapped), pieces[2 * CONCAT_PIECES];
  int64_t begin = at(m, swapped)->ints[3 * axis], middle = at(m, !swapped)->ints[3 * axis];
  int64_t rest = at(m, !swapped)->ints[3 * axis + 1], ints[3 * SX_RANK_MAX] = {0}, joined_axis = axis;
  if (begin + sx_node_at(m->graph, low)->dims[axis] != middle) return SX_NO_NODE;
  uint32_t n = add_pieces(m->graph, low, axis, pieces, 0);
  n = add_pieces(m->graph, high, axis, pieces, n);
  sx_spec concat = {.op = SX_OP_CONCAT, .inputs = pieces, .n_inputs = n, .ints = &joined_axis, .n_ints = 1};
  sx_id joined = sx_graph_add(m->graph, &concat);
  ints[3 * axis] = begin;
  ints[3 * axis + 1] = rest;
  sx_spec pad = {.op = SX_OP_PAD, .inputs = &joined, .n_inputs = 1, .ints = ints};
  pad.n_ints = 3 * (uint32_t)rank;
  return sx_graph_add(m->graph, &pad);
}

/* A product's result is written transposed for nothing. */
static sx_id transpose_before_scaling(const match *m) {
  const sx_node *scaled = at(m, 0);
  if (scaled->op != SX_OP_MUL) return SX_NO_NODE;
  for (uint32_t i = 0; i < 2; i++) {
    const sx_node *factor = sx_node_at(m->graph, scaled->inputs[i]);
    if (factor->op != SX_OP_CONST || sx_node_at(m->graph, scaled->inputs[1 - i])->op != SX_OP_EINSUM) continue;
    double value = factor->real;
    sx_id moved = sx_transpose(m->graph, scaled->inputs[1 - i], m->node->ints);
    return two(m, SX_OP_MUL, moved, sx_const_like(m->graph, moved, value));
  }
  return SX_NO_NODE;
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* The first rule of a node's operation that applies is taken. */
static const struct {
  sx_op op;
  rule *apply;
} rules[] = {
    {SX_OP_ADD, add_nothing},                    /* x + (-0) -> x; i32 x + 0 -> x */
    {SX_OP_ADD, add_negated},                    /* x + neg y -> x - y */
    {SX_OP_ADD, add_side_by_side},               /* pad x + pad y, the pieces side by side -> concat (x + 0) (y + 0) */
    {SX_OP_SUB, subtract_nothing},               /* x - (+0) -> x */
    {SX_OP_SUB, subtract_negated},               /* x - neg y -> x + y */
    {SX_OP_SUB, subtract_from_nothing},          /* (-0) - x -> neg x; i32 0 - x -> neg x */
    {SX_OP_MUL, multiply_by_one},                /* x * 1 -> x */
    {SX_OP_MUL, multiply_by_minus_one},          /* x * -1 -> neg x */
    {SX_OP_MUL, multiply_integer_by_zero},       /* i32 x * 0 -> 0 */
    {SX_OP_MUL, cancel_signs},                   /* neg x * neg y -> x * y; neg x * c -> x * (-c) */
    {SX_OP_DIV, divide_by_one},                  /* x / 1 -> x */
    {SX_OP_DIV, divide_by_power_of_two},         /* x / 2^k -> x * 2^-k, where the dtype holds 2^-k */
    {SX_OP_DIV, cancel_signs},                   /* neg x / neg y -> x / y; neg x / c -> x / (-c) */
    {SX_OP_IDIV, divide_integer_by_one},         /* i32 x div 1 -> x */
    {SX_OP_MAX, same_operands},                  /* max x x -> x */
    {SX_OP_MIN, same_operands},                  /* min x x -> x */
    {SX_OP_POW, power_of_one},                   /* x ^ 1 -> x; x ^ 0 -> 1; 1 ^ x -> 1 */
    {SX_OP_NEG, undo},                           /* neg neg x -> x */
    {SX_OP_NEG, negate_product},                 /* neg (x * c) -> x * (-c) */
    {SX_OP_ABS, repeat},                         /* abs abs x -> abs x */
    {SX_OP_ABS, absolute_of_negated},            /* abs neg x -> abs x */
    {SX_OP_FLOOR, repeat},                       /* floor floor x -> floor x */
    {SX_OP_CEIL, repeat},                        /* ceil ceil x -> ceil x */
    {SX_OP_ROUND, repeat},                       /* round round x -> round x */
    {SX_OP_EQ, compare_with_itself},             /* x = x -> true, not of floats */
    {SX_OP_NE, compare_with_itself},             /* x != x -> false, not of floats */
    {SX_OP_LT, compare_with_itself},             /* x < x -> false */
    {SX_OP_LE, compare_with_itself},             /* x <= x -> true, not of floats */
    {SX_OP_GT, compare_with_itself},             /* x > x -> false */
    {SX_OP_GE, compare_with_itself},             /* x >= x -> true, not of floats */
    {SX_OP_AND, same_operands},                  /* x and x -> x */
    {SX_OP_AND, logic_with_constant},            /* x and true -> x; x and false -> false */
    {SX_OP_OR, same_operands},                   /* x or x -> x */
    {SX_OP_OR, logic_with_constant},             /* x or false -> x; x or true -> true */
    {SX_OP_NOT, undo},                           /* not not x -> x */
    {SX_OP_NOT, not_of_equal},                   /* not (x = y) -> x != y, and back */
    {SX_OP_WHERE, choose_known},                 /* where true x y -> x; where c x x -> x */
    {SX_OP_WHERE, choose_by_not},                /* where (not c) x y -> where c y x */
    {SX_OP_CAST, cast_to_own},                   /* cast to x's own dtype -> x */
    {SX_OP_CAST, cast_after_widening},           /* bf16 x: cast (cast x f32) d -> cast x d */
    {SX_OP_RESHAPE, move_to_own_shape},          /* reshape to x's own shape -> x */
    {SX_OP_RESHAPE, reshape_twice},              /* reshape reshape x -> reshape x */
    {SX_OP_RESHAPE, move_constant},              /* of a constant: a constant of the shape */
    {SX_OP_TRANSPOSE, transpose_by_nothing},     /* transpose x [0 1 2] -> x */
    {SX_OP_TRANSPOSE, transpose_twice},          /* transpose (transpose x p) q -> transpose x p[q] */
    {SX_OP_TRANSPOSE, move_constant},            /* of a constant */
    {SX_OP_TRANSPOSE, transpose_before_scaling}, /* transpose (einsum * c) -> (transpose einsum) * c */
    {SX_OP_BROADCAST, move_to_own_shape},        /* broadcast to x's own shape -> x */
    {SX_OP_BROADCAST, broadcast_twice},          /* broadcast broadcast x -> broadcast x */
    {SX_OP_BROADCAST, move_constant},            /* of a constant */
    {SX_OP_SLICE, move_to_own_shape},            /* slice of all of x -> x */
    {SX_OP_SLICE, slice_twice},                  /* slice slice x -> slice x */
    {SX_OP_SLICE, move_constant},                /* of a constant */
    {SX_OP_PAD, move_to_own_shape},              /* pad by nothing -> x */
    {SX_OP_PAD, pad_alike},                      /* of a constant with its value */
    {SX_OP_CONCAT, concat_one},                  /* concat of x alone -> x */
    {SX_OP_REVERSE, reverse_twice},              /* reverse reverse x -> x */
    {SX_OP_REVERSE, along_one},                  /* reverse of an axis of 1 -> x */
    {SX_OP_REVERSE, move_constant},              /* of a constant */
    {SX_OP_UNFOLD, move_constant},               /* of a constant */
    {SX_OP_SUM, reduce_one},                     /* over axes of 1, or none -> reshape x */
    {SX_OP_REDUCEMAX, reduce_one},               /* likewise */
    {SX_OP_REDUCEMAX, move_constant},            /* of a constant */
    {SX_OP_REDUCEMIN, reduce_one},               /* over axes of 1, or none -> reshape x */
    {SX_OP_REDUCEMIN, move_constant},            /* of a constant */
    {SX_OP_ANY, reduce_one},                     /* over axes of 1, or none -> reshape x */
    {SX_OP_ALL, reduce_one},                     /* likewise */
    {SX_OP_CUMSUM, along_one},                   /* along an axis of 1 -> x */
    {SX_OP_SCANLINEAR, along_one},               /* along an axis of 1 -> b */
};
enum { N_RULES = sizeof rules / sizeof *rules };

/* Where the rules of each operation begin: they stand together in the table. */
typedef struct index {
  uint16_t first[SX_N_OPS], n[SX_N_OPS];
} index;

static index index_rules(void) {
  index starts = {0};
  for (uint16_t i = N_RULES; i-- > 0;) {
    starts.first[rules[i].op] = i;
    starts.n[rules[i].op]++;
  }
  return starts;
}

static sx_id apply_rules(const index *starts, const match *m) {
  sx_op op = m->node->op;
  sx_id result = SX_NO_NODE;
  if (sx_op_describe(op)->class == SX_CLASS_ELEMENT) result = fold_constants(m);
  for (uint16_t i = 0; i < starts->n[op] && result == SX_NO_NODE; i++) result = rules[starts->first[op] + i].apply(m);
  return result;
}

/* Every rule makes the expression smaller or moves it towards a form that no rule leaves, so few rounds are
 * ever taken; the limit keeps the pass linear whatever the rules. */
enum { ROUNDS_MAX = 32 };

static sx_id simplify(const index *starts, sx_graph *graph, const sx_node *node) {
  size_t n_before = graph->nodes.n;
  sx_id result = SX_NO_NODE;
  graph->span = node->span;
  graph->path = node->path;
  for (int round = 0; round < ROUNDS_MAX; round++) {
    sx_id next = apply_rules(starts, &(match){graph, node});
    if (next == SX_NO_NODE) break;
    result = next;
    if (result < n_before) break;
    node = sx_node_at(graph, result);
  }
  return result == SX_NO_NODE ? sx_graph_copy(graph, node, node->inputs) : result;
}

sx_graph *sx_pass_simplify(sx_graph *graph, sx_diags *diags) {
  (void)diags;
  sx_rewrite rewrite = sx_rewrite_begin(graph);
  index starts = index_rules();
  for (size_t i = 0; i < graph->nodes.n; i++) {
    sx_node node = graph->nodes.items[i];
    node.inputs = SX_NEW_N(graph->arena, sx_id, node.n_inputs);
    for (uint32_t k = 0; k < node.n_inputs; k++) node.inputs[k] = rewrite.map[graph->nodes.items[i].inputs[k]];
    rewrite.map[i] = simplify(&starts, rewrite.to, &node);
  }
  return sx_rewrite_end(&rewrite);
}
