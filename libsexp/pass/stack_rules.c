/* The rules of stacking, a row an operation: what its value [d ...] is, and what the sum over d is where that can be
 * had for less than the values. */
#include <string.h>

#include "../base/bug.h"
#include "../ir/infer.h"
#include "stack_parts.h"

static const sx_node *operand(const sx_stacking *s, const sx_node *node, uint32_t k) {
  return sx_node_at(s->from, node->inputs[k]);
}

static bool varies(const sx_stacking *s, const sx_node *node, uint32_t k) { return s->varies[node->inputs[k]]; }

static bool is_narrow(const sx_node *node) { return node->dtype == SX_BF16 || node->dtype == SX_F16; }

/* ---- the operation with one axis more ------------------------------------------------------------- */

/* Attributes of the operation on [d ...]; at most 3 for each of 8 axes. */
static uint32_t shift_ints(sx_stack_shift shift, const sx_node *node, int64_t degree, int64_t *ints) {
  static const uint32_t n_added[] = {[SX_SHIFT_PERM] = 1, [SX_SHIFT_SLICE] = 3, [SX_SHIFT_PAD] = 3};
  uint32_t added = n_added[shift];
  bool axes = shift == SX_SHIFT_AXES || shift == SX_SHIFT_PERM;
  for (uint32_t i = 0; i < added; i++) ints[i] = 0;
  for (uint32_t i = 0; i < node->n_ints; i++)
    ints[added + i] = node->ints[i] + (axes || (shift == SX_SHIFT_AXIS && i == 0));
  if (shift == SX_SHIFT_SLICE) {
    ints[1] = degree;
    ints[2] = 1;
  }
  return added + node->n_ints;
}

static void prefixed(const sx_stacking *s, const sx_node *node, int64_t dims[SX_RANK_MAX]) {
  SX_ASSERT(node->rank < SX_RANK_MAX);
  dims[0] = s->degree;
  if (node->rank) memcpy(dims + 1, node->dims, (size_t)node->rank * sizeof *dims);
}

static sx_spec spec_of(const sx_node *node, const sx_id *inputs) {
  return (sx_spec){.op = node->op,
                   .dtype = node->dtype,
                   .rank = node->rank,
                   .dims = node->dims,
                   .inputs = inputs,
                   .n_inputs = node->n_inputs,
                   .ints = node->ints,
                   .n_ints = node->n_ints,
                   .real = node->real,
                   .text = node->text};
}

sx_id sx_stack_shifted(sx_stacking *s, const sx_node *node, const sx_id *inputs) {
  int64_t dims[SX_RANK_MAX], ints[3 * (SX_RANK_MAX + 1)];
  sx_spec spec = spec_of(node, inputs);
  prefixed(s, node, dims);
  spec.rank = node->rank + 1;
  spec.dims = dims;
  spec.n_ints = shift_ints(sx_stack_rows[node->op].shift, node, s->degree, ints);
  spec.ints = ints;
  return sx_graph_add(s->to, &spec);
}

/* ---- moves ------------------------------------------------------------------------------------------ */

/* Broadcasting aligns the last axes: the axis of microbatches is put before all of the result's. */
static sx_id broadcast_value(sx_stacking *s, const sx_node *node) {
  const sx_node *from = operand(s, node, 0);
  int64_t dims[SX_RANK_MAX], aligned[SX_RANK_MAX];
  int added = node->rank - from->rank;
  prefixed(s, node, dims);
  aligned[0] = s->degree;
  for (int i = 0; i < node->rank; i++) aligned[1 + i] = i < added ? 1 : from->dims[i - added];
  sx_id input = sx_reshape(s->to, s->values[node->inputs[0]], node->rank + 1, aligned);
  return sx_broadcast(s->to, input, node->rank + 1, dims);
}

/* ---- products --------------------------------------------------------------------------------------- */

/* A label that the text has not: it has at most 24 of 52. */
static char free_label(const char *text) {
  char label = 'z';
  while (strchr(text, label)) label = label == 'a' ? 'Z' : (char)(label - 1);
  return label;
}

/* The labels with one for the microbatches, first wherever the part has it. */
static sx_id labelled(sx_stacking *s, const sx_node *node, const bool has[3], sx_dtype dtype) {
  char text[3 * (SX_RANK_MAX + 2)], *at = text, label = free_label(node->text);
  sx_labels labels;
  if (!sx_labels_parse(node->text, &labels)) SX_BUG("labels %s", node->text);
  for (int part = 0; part < 3; part++) {
    const char *before = part == 1 ? "," : part == 2 ? "->" : "";
    while (*before) *at++ = *before++;
    if (has[part]) *at++ = label;
    memcpy(at, labels.parts[part], (size_t)labels.n[part]);
    at += labels.n[part];
  }
  *at = 0;
  sx_id inputs[2] = {s->values[node->inputs[0]], s->values[node->inputs[1]]};
  sx_spec spec = spec_of(node, inputs);
  spec.dtype = dtype;
  spec.text = text;
  return sx_graph_add(s->to, &spec);
}

static sx_id einsum_value(sx_stacking *s, const sx_node *node) {
  return labelled(s, node, (bool[3]){varies(s, node, 0), varies(s, node, 1), true}, node->dtype);
}

/* Both vary: contracted. One varies: the product of its sum, unless that has another dtype than the other operand. */
static bool einsum_demand(sx_stacking *s, const sx_node *node) {
  bool both = varies(s, node, 0) && varies(s, node, 1);
  if (!both && is_narrow(operand(s, node, 0))) return false;
  for (uint32_t k = 0; k < 2; k++)
    sx_want(s, node->inputs[k], both || !varies(s, node, k) ? SX_WANT_VALUE : SX_WANT_SUM);
  return true;
}

static sx_id einsum_sum(sx_stacking *s, const sx_node *node) {
  if (varies(s, node, 0) && varies(s, node, 1)) return labelled(s, node, (bool[3]){true, true, false}, SX_F32);
  sx_id inputs[2];
  for (uint32_t k = 0; k < 2; k++)
    inputs[k] = varies(s, node, k) ? s->sums[node->inputs[k]] : s->values[node->inputs[k]];
  sx_spec spec = spec_of(node, inputs);
  spec.dtype = SX_F32;
  return sx_graph_add(s->to, &spec);
}

/* [d n ...] as [d*n ...]. */
static sx_id merged(sx_stacking *s, sx_id stacked) {
  const sx_node *node = sx_node_at(s->to, stacked);
  int64_t dims[SX_RANK_MAX] = {node->dims[0] * node->dims[1]};
  memcpy(dims + 1, node->dims + 2, (size_t)(node->rank - 2) * sizeof *dims);
  return sx_reshape(s->to, stacked, node->rank - 1, dims);
}

/* CONV and CONVDATA: images of all microbatches are images of one batch. */
static sx_id convolution_value(sx_stacking *s, const sx_node *node) {
  int64_t dims[SX_RANK_MAX];
  sx_id inputs[2] = {merged(s, s->values[node->inputs[0]]), s->values[node->inputs[1]]};
  sx_spec spec = spec_of(node, inputs);
  prefixed(s, node, dims);
  return sx_reshape(s->to, sx_graph_add(s->to, &spec), node->rank + 1, dims);
}

static const char *convolution_refuses(sx_stacking *s, const sx_node *node) {
  return varies(s, node, 1) ? "the weights of the convolution depend on the data" : NULL;
}

static const char *conv_weight_refuses(sx_stacking *s, const sx_node *node) {
  (void)s;
  (void)node;
  return "the gradient of a convolution's weights is used for more than its sum over the microbatches";
}

static bool conv_weight_demand(sx_stacking *s, const sx_node *node) {
  for (uint32_t k = 0; k < 2; k++) sx_want_stacked(s, node->inputs[k]);
  return true;
}

static sx_id conv_weight_sum(sx_stacking *s, const sx_node *node) {
  sx_id inputs[2] = {merged(s, sx_stacked(s, node->inputs[0])), merged(s, sx_stacked(s, node->inputs[1]))};
  sx_spec spec = spec_of(node, inputs);
  return sx_cast(s->to, sx_graph_add(s->to, &spec), SX_F32);
}

/* ---- tables ------------------------------------------------------------------------------------------ */

/* Exchanges axis 0 with the `before` axes behind it, or back. */
static sx_id carry(sx_stacking *s, sx_id id, int before, bool back) {
  int64_t perm[SX_RANK_MAX];
  int rank = sx_node_at(s->to, id)->rank;
  for (int i = 0; i < rank; i++) perm[i] = i;
  for (int i = 0; i < before; i++) perm[back ? i + 1 : i] = back ? i : i + 1;
  perm[back ? 0 : before] = back ? before : 0;
  return sx_transpose(s->to, id, perm);
}

static const char *gather_refuses(sx_stacking *s, const sx_node *node) {
  return varies(s, node, 0) && varies(s, node, 1) ? "table and ids both depend on the data" : NULL;
}

/* One table for all ids; or one list of ids for all tables, whose microbatches are then among the axes of an entry. */
static sx_id gather_value(sx_stacking *s, const sx_node *node) {
  bool tables = varies(s, node, 0);
  sx_id inputs[2] = {s->values[node->inputs[0]], s->values[node->inputs[1]]};
  if (tables) inputs[0] = carry(s, inputs[0], 1, false);
  sx_spec spec = spec_of(node, inputs);
  sx_id gathered = sx_graph_add(s->to, &spec);
  return tables ? carry(s, gathered, operand(s, node, 1)->rank, true) : gathered;
}

static const char *scatter_refuses(sx_stacking *s, const sx_node *node) {
  return varies(s, node, 0) ? "each microbatch has a table of its own" : NULL;
}

static sx_id scatter_value(sx_stacking *s, const sx_node *node) {
  sx_id values = carry(s, s->values[node->inputs[1]], operand(s, node, 0)->rank, false);
  sx_id inputs[2] = {s->values[node->inputs[0]], values};
  sx_spec spec = spec_of(node, inputs);
  return carry(s, sx_graph_add(s->to, &spec), 1, true);
}

/* Ids of all microbatches scatter into one table. Where they are the same for all, their sums do. */
static bool scatter_demand(sx_stacking *s, const sx_node *node) {
  sx_want(s, node->inputs[0], SX_WANT_VALUE);
  if (varies(s, node, 0))
    sx_want_stacked(s, node->inputs[1]);
  else
    sx_want(s, node->inputs[1], SX_WANT_SUM);
  return true;
}

static sx_id scatter_sum(sx_stacking *s, const sx_node *node) {
  sx_id added = node->inputs[1];
  sx_id inputs[2] = {s->values[node->inputs[0]], varies(s, node, 0) ? sx_stacked(s, added) : s->sums[added]};
  if (is_narrow(sx_node_at(s->to, inputs[1]))) inputs[1] = sx_cast(s->to, inputs[1], SX_F32);
  sx_spec spec = spec_of(node, inputs);
  return sx_graph_add(s->to, &spec);
}

/* ---- draws ------------------------------------------------------------------------------------------- */

static const char *draw_refuses(sx_stacking *s, const sx_node *node) {
  (void)s;
  (void)node;
  return "its salt depends on the data, so that each microbatch draws from a stream of its own";
}

/* ---- sums -------------------------------------------------------------------------------------------- */

/* Linear in all operands together: the operation on their sums. */
static bool through_demand(sx_stacking *s, const sx_node *node) {
  if (node->op == SX_OP_PAD && node->real != 0) return false;
  for (uint32_t k = 0; k < node->n_inputs; k++) sx_want(s, node->inputs[k], SX_WANT_SUM);
  return true;
}

static sx_id through_sum(sx_stacking *s, const sx_node *node) {
  sx_id *inputs = SX_NEW_N(s->to->arena, sx_id, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = s->sums[node->inputs[k]];
  sx_spec spec = spec_of(node, inputs);
  return sx_graph_add(s->to, &spec);
}

/* Linear in the operands that vary while the others stay: a factor, a divisor, a condition. A branch is one of a
 * WHERE, whose sum is wanted whether it varies or not. */
static bool is_branch(const sx_node *node, uint32_t k) { return node->op == SX_OP_WHERE && k > 0; }

static bool is_linear(const sx_stacking *s, const sx_node *node) {
  if (node->op == SX_OP_WHERE) return !varies(s, node, 0);
  return !varies(s, node, 1) || (node->op == SX_OP_MUL && !varies(s, node, 0));
}

static bool scaled_demand(sx_stacking *s, const sx_node *node) {
  if (node->dtype != SX_F32 || !is_linear(s, node)) return false;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    sx_want(s, node->inputs[k], is_branch(node, k) || varies(s, node, k) ? SX_WANT_SUM : SX_WANT_VALUE);
  return true;
}

static sx_id scaled_sum(sx_stacking *s, const sx_node *node) {
  sx_id inputs[3];
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    bool summed = is_branch(node, k) || varies(s, node, k);
    inputs[k] = summed ? s->sums[node->inputs[k]] : s->values[node->inputs[k]];
  }
  sx_spec spec = spec_of(node, inputs);
  return sx_graph_add(s->to, &spec);
}

/* A narrow float widened: its sum is f32 already. */
static bool cast_demand(sx_stacking *s, const sx_node *node) {
  const sx_node *from = operand(s, node, 0);
  if (node->dtype != SX_F32 || !is_narrow(from)) return false;
  sx_want(s, node->inputs[0], SX_WANT_SUM);
  return true;
}

static sx_id cast_sum(sx_stacking *s, const sx_node *node) { return s->sums[node->inputs[0]]; }

/* One sum over the microbatches and the axes. */
static bool axes_demand(sx_stacking *s, const sx_node *node) {
  sx_want(s, node->inputs[0], SX_WANT_VALUE);
  return true;
}

static sx_id axes_sum(sx_stacking *s, const sx_node *node) {
  int64_t axes[SX_RANK_MAX] = {0};
  for (uint32_t i = 0; i < node->n_ints; i++) axes[i + 1] = node->ints[i] + 1;
  sx_id value = s->values[node->inputs[0]];
  if (is_narrow(node)) value = sx_cast(s->to, value, SX_F32);
  return sx_reduce(s->to, SX_OP_SUM, value, axes, (int)node->n_ints + 1, false);
}

static const sx_stack_sum through = {through_demand, through_sum}, scaled = {scaled_demand, scaled_sum},
                          widening = {cast_demand, cast_sum}, over_axes = {axes_demand, axes_sum},
                          contracted = {einsum_demand, einsum_sum}, scattered = {scatter_demand, scatter_sum},
                          convolved = {conv_weight_demand, conv_weight_sum};

/* Operations without a row take [d ...] as they take [...], element by element or along the last axis. */
const sx_stack_row sx_stack_rows[SX_N_OPS] = {
    [SX_OP_ADD] = {.sum = &through},
    [SX_OP_SUB] = {.sum = &through},
    [SX_OP_NEG] = {.sum = &through},
    [SX_OP_MUL] = {.sum = &scaled},
    [SX_OP_DIV] = {.sum = &scaled},
    [SX_OP_WHERE] = {.sum = &scaled},
    [SX_OP_CAST] = {.sum = &widening},
    [SX_OP_RESHAPE] = {.sum = &through},
    [SX_OP_TRANSPOSE] = {.shift = SX_SHIFT_PERM, .sum = &through},
    [SX_OP_BROADCAST] = {.value = broadcast_value, .sum = &through},
    [SX_OP_SLICE] = {.shift = SX_SHIFT_SLICE, .sum = &through},
    [SX_OP_PAD] = {.shift = SX_SHIFT_PAD, .sum = &through},
    [SX_OP_CONCAT] = {.shift = SX_SHIFT_AXIS, .sum = &through},
    [SX_OP_REVERSE] = {.shift = SX_SHIFT_AXIS, .sum = &through},
    [SX_OP_UNFOLD] = {.shift = SX_SHIFT_AXIS, .sum = &through},
    [SX_OP_FOLD] = {.shift = SX_SHIFT_AXIS, .sum = &through},
    [SX_OP_SUM] = {.shift = SX_SHIFT_AXES, .sum = &over_axes},
    [SX_OP_REDUCEMAX] = {.shift = SX_SHIFT_AXES},
    [SX_OP_REDUCEMIN] = {.shift = SX_SHIFT_AXES},
    [SX_OP_ANY] = {.shift = SX_SHIFT_AXES},
    [SX_OP_ALL] = {.shift = SX_SHIFT_AXES},
    [SX_OP_ARGMAX] = {.shift = SX_SHIFT_AXES},
    [SX_OP_ARGMIN] = {.shift = SX_SHIFT_AXES},
    [SX_OP_EINSUM] = {.takes_same = true, .value = einsum_value, .sum = &contracted},
    [SX_OP_CONV] = {.takes_same = true, .refuses = convolution_refuses, .value = convolution_value},
    [SX_OP_CONVDATA] = {.takes_same = true, .refuses = convolution_refuses, .value = convolution_value},
    [SX_OP_CONVWEIGHT] = {.refuses = conv_weight_refuses, .sum = &convolved},
    [SX_OP_GATHER] = {.takes_same = true, .refuses = gather_refuses, .value = gather_value},
    [SX_OP_SCATTER] = {.takes_same = true, .refuses = scatter_refuses, .value = scatter_value, .sum = &scattered},
    [SX_OP_TAKE] = {.shift = SX_SHIFT_AXIS},
    [SX_OP_PUT] = {.shift = SX_SHIFT_AXIS},
    [SX_OP_CUMSUM] = {.shift = SX_SHIFT_AXIS},
    [SX_OP_SCANLINEAR] = {.shift = SX_SHIFT_AXIS},
    [SX_OP_ARGSORT] = {.shift = SX_SHIFT_AXIS},
    [SX_OP_UNIFORM] = {.refuses = draw_refuses},
    [SX_OP_NORMAL] = {.refuses = draw_refuses},
};
