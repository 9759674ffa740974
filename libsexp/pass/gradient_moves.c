/* Gradient rules of moves, reductions, products, index operations and scans. */
#include <stdio.h>

#include "../base/bug.h"
#include "../ir/infer.h"
#include "gradient.h"

static const sx_node *input_of(const sx_adjoint *d, uint32_t input) {
  return sx_node_at(d->graph, d->node->inputs[input]);
}

/* ---- moves -------------------------------------------------------------------------------------- */

sx_id sx_gradient_reshape(const sx_adjoint *d, uint32_t input) {
  const sx_node *a = input_of(d, input);
  return sx_reshape(d->graph, d->g, a->rank, a->dims);
}

sx_id sx_gradient_transpose(const sx_adjoint *d, uint32_t input) {
  (void)input;
  int64_t inverse[SX_RANK_MAX];
  for (int i = 0; i < d->node->rank; i++) inverse[d->node->ints[i]] = i;
  return sx_transpose(d->graph, d->g, inverse);
}

sx_id sx_gradient_broadcast(const sx_adjoint *d, uint32_t input) {
  const sx_node *a = input_of(d, input);
  return sx_sum_to(d->graph, d->g, a->rank, a->dims);
}

static sx_id per_axis(const sx_adjoint *d, sx_op op, const int64_t *ints) {
  return sx_graph_add(
      d->graph,
      &(sx_spec){.op = op, .inputs = &d->g, .n_inputs = 1, .ints = ints, .n_ints = 3 * (uint32_t)d->node->rank});
}

/* The elements go back to their places among zeros. */
sx_id sx_gradient_slice(const sx_adjoint *d, uint32_t input) {
  const sx_node *a = input_of(d, input);
  int64_t ints[3 * SX_RANK_MAX];
  for (int i = 0; i < a->rank; i++) {
    int64_t start = d->node->ints[3 * i], step = d->node->ints[3 * i + 2], n = d->node->dims[i];
    int64_t span = n == 0 ? 0 : (n - 1) * step + 1;
    ints[3 * i] = start;
    ints[3 * i + 1] = a->dims[i] - start - span;
    ints[3 * i + 2] = n < 2 ? 0 : step - 1;
  }
  return per_axis(d, SX_OP_PAD, ints);
}

sx_id sx_gradient_pad(const sx_adjoint *d, uint32_t input) {
  const sx_node *a = input_of(d, input);
  int64_t ints[3 * SX_RANK_MAX];
  for (int i = 0; i < a->rank; i++) {
    int64_t low = d->node->ints[3 * i], step = d->node->ints[3 * i + 2] + 1, n = a->dims[i];
    ints[3 * i] = low;
    ints[3 * i + 1] = n == 0 ? low : low + (n - 1) * step + 1;
    ints[3 * i + 2] = n < 2 ? 1 : step;
  }
  return per_axis(d, SX_OP_SLICE, ints);
}

sx_id sx_gradient_concat(const sx_adjoint *d, uint32_t input) {
  int axis = (int)d->node->ints[0];
  int64_t start = 0;
  for (uint32_t i = 0; i < input; i++) start += input_of(d, i)->dims[axis];
  return sx_slice_axis(d->graph, d->g, axis, start, start + input_of(d, input)->dims[axis], 1);
}

static sx_id with_ints(const sx_adjoint *d, sx_op op, const sx_id *inputs, uint32_t n_inputs, const int64_t *ints,
                       uint32_t n_ints) {
  return sx_graph_add(d->graph,
                      &(sx_spec){.op = op, .inputs = inputs, .n_inputs = n_inputs, .ints = ints, .n_ints = n_ints});
}

sx_id sx_gradient_reverse(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return with_ints(d, SX_OP_REVERSE, &d->g, 1, d->node->ints, 1);
}

sx_id sx_gradient_unfold(const sx_adjoint *d, uint32_t input) {
  const int64_t *ints = d->node->ints;
  int64_t length = input_of(d, input)->dims[ints[0]];
  return with_ints(d, SX_OP_FOLD, &d->g, 1, (int64_t[]){ints[0], ints[1], ints[2], length}, 4);
}

sx_id sx_gradient_fold(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return with_ints(d, SX_OP_UNFOLD, &d->g, 1, d->node->ints, 3);
}

/* ---- reductions --------------------------------------------------------------------------------- */

/* A value of the reduced shape, seen in the shape of the node's input. */
static sx_id spread(const sx_adjoint *d, sx_id reduced) {
  const sx_node *a = input_of(d, 0);
  int64_t kept[SX_RANK_MAX];
  for (int i = 0; i < a->rank; i++) kept[i] = a->dims[i];
  for (uint32_t i = 0; i < d->node->n_ints; i++) kept[d->node->ints[i]] = 1;
  return sx_broadcast(d->graph, sx_reshape(d->graph, reduced, a->rank, kept), a->rank, a->dims);
}

sx_id sx_gradient_sum(const sx_adjoint *d, uint32_t input) {
  (void)input;
  return spread(d, d->g);
}

/* Evenly to the elements that equal the extreme. */
sx_id sx_gradient_reduce_extreme(const sx_adjoint *d, uint32_t input) {
  sx_id a = d->node->inputs[input], ties = sx_binary(d->graph, SX_OP_EQ, a, spread(d, d->y));
  sx_id count = sx_graph_add(d->graph, &(sx_spec){.op = SX_OP_SUM,
                                                  .inputs = (sx_id[]){sx_cast(d->graph, ties, SX_F32)},
                                                  .n_inputs = 1,
                                                  .ints = d->node->ints,
                                                  .n_ints = d->node->n_ints});
  sx_id share = sx_binary(d->graph, SX_OP_DIV, d->g, sx_cast(d->graph, count, d->node->dtype));
  sx_id zero = sx_const_like(d->graph, a, 0);
  return sx_where(d->graph, ties, spread(d, share), zero);
}

/* ---- products ----------------------------------------------------------------------------------- */

/* The product of the adjoint with the other operand: of a in ab,bc->ac it is ac,bc->ab, of b ab,ac->bc.
 * Labels that stand in the operand alone were summed: the result is the same along them. Where dtypes
 * differ the product is one of f32. */
sx_id sx_gradient_einsum(const sx_adjoint *d, uint32_t input) {
  const sx_node *own = input_of(d, input), *other = input_of(d, 1 - input);
  sx_labels labels;
  SX_ASSERT(sx_labels_parse(d->node->text, &labels));
  char kept[SX_RANK_MAX + 1], text[3 * SX_RANK_MAX + 4];
  int64_t dims[SX_RANK_MAX];
  int n = 0, rank = own->rank, other_part = 1 - (int)input;
  for (int i = 0; i < rank; i++) {
    char label = labels.parts[input][i];
    bool stays = sx_labels_find(&labels, 2, label) >= 0 || sx_labels_find(&labels, other_part, label) >= 0;
    if (stays) kept[n++] = label;
    dims[i] = stays ? own->dims[i] : 1;
  }
  int first = input == 0 ? 2 : 0, second = input == 0 ? 1 : 2;
  snprintf(text, sizeof text, "%.*s,%.*s->%.*s", labels.n[first], labels.parts[first], labels.n[second],
           labels.parts[second], n, kept);
  sx_dtype dtype = d->node->dtype == other->dtype ? other->dtype : SX_F32;
  sx_id g = sx_cast(d->graph, d->g, dtype), b = sx_cast(d->graph, d->node->inputs[1 - input], dtype);
  sx_id product = sx_graph_add(d->graph, &(sx_spec){.op = SX_OP_EINSUM,
                                                    .dtype = own->dtype,
                                                    .inputs = (sx_id[]){input == 0 ? g : b, input == 0 ? b : g},
                                                    .n_inputs = 2,
                                                    .text = text});
  return sx_broadcast(d->graph, sx_reshape(d->graph, product, rank, dims), rank, own->dims);
}

/* A convolution with the node's stride and padding, and a height and width where the operation has them. */
static sx_id conv(const sx_adjoint *d, sx_op op, sx_id a, sx_id b, const int64_t *size) {
  int64_t ints[4] = {d->node->ints[0], d->node->ints[1], size ? size[0] : 0, size ? size[1] : 0};
  return with_ints(d, op, (sx_id[]){a, b}, 2, ints, size ? 4 : 2);
}

/* y = conv(x, w) */
sx_id sx_gradient_conv(const sx_adjoint *d, uint32_t input) {
  sx_id x = d->node->inputs[0], w = d->node->inputs[1];
  const int64_t *size = &input_of(d, input)->dims[1];
  return input == 0 ? conv(d, SX_OP_CONVDATA, d->g, w, size) : conv(d, SX_OP_CONVWEIGHT, d->g, x, size);
}

/* y = conv_data(dy, w), linear in both */
sx_id sx_gradient_conv_data(const sx_adjoint *d, uint32_t input) {
  sx_id dy = d->node->inputs[0], w = d->node->inputs[1];
  return input == 0 ? conv(d, SX_OP_CONV, d->g, w, NULL)
                    : conv(d, SX_OP_CONVWEIGHT, dy, d->g, &input_of(d, 1)->dims[1]);
}

/* y = conv_weight(dy, x), linear in both */
sx_id sx_gradient_conv_weight(const sx_adjoint *d, uint32_t input) {
  sx_id dy = d->node->inputs[0], x = d->node->inputs[1];
  return input == 0 ? conv(d, SX_OP_CONV, x, d->g, NULL) : conv(d, SX_OP_CONVDATA, dy, d->g, &input_of(d, 1)->dims[1]);
}

/* ---- index operations --------------------------------------------------------------------------- */

sx_id sx_gradient_gather(const sx_adjoint *d, uint32_t input) {
  int64_t n = input_of(d, input)->dims[0];
  return with_ints(d, SX_OP_SCATTER, (sx_id[]){d->node->inputs[1], d->g}, 2, &n, 1);
}

sx_id sx_gradient_scatter(const sx_adjoint *d, uint32_t input) {
  return with_ints(d, SX_OP_GATHER, (sx_id[]){d->g, d->node->inputs[1 - input]}, 2, NULL, 0);
}

sx_id sx_gradient_take(const sx_adjoint *d, uint32_t input) {
  int64_t axis = d->node->ints[0];
  const int64_t ints[2] = {axis, input_of(d, input)->dims[axis]};
  return with_ints(d, SX_OP_PUT, (sx_id[]){d->node->inputs[1], d->g}, 2, ints, 2);
}

sx_id sx_gradient_put(const sx_adjoint *d, uint32_t input) {
  return with_ints(d, SX_OP_TAKE, (sx_id[]){d->g, d->node->inputs[1 - input]}, 2, d->node->ints, 1);
}

/* ---- scans -------------------------------------------------------------------------------------- */

sx_id sx_gradient_cumsum(const sx_adjoint *d, uint32_t input) {
  const int64_t ints[2] = {d->node->ints[0], !d->node->ints[1]};
  sx_id inputs[2] = {d->g, d->node->n_inputs > 1 ? d->node->inputs[1] : d->g};
  (void)input;
  return with_ints(d, SX_OP_CUMSUM, inputs, d->node->n_inputs, ints, 2);
}

/* Along the axis without its first element (in the order of the scan), or without its last. */
static sx_id later(const sx_adjoint *d, sx_id a, bool later_ones) {
  int axis = (int)d->node->ints[0];
  int64_t n = d->node->dims[axis], less = n > 0 ? 1 : 0;
  bool from_front = later_ones == !d->node->ints[1];
  return sx_slice_axis(d->graph, a, axis, from_front ? less : 0, from_front ? n : n - less, 1);
}

/* A value without the first element, or the last, of the scan gets a zero in its place. */
static sx_id fill(const sx_adjoint *d, sx_id a, bool first) {
  int axis = (int)d->node->ints[0];
  int64_t n = d->node->dims[axis], less = n > 0 ? 1 : 0;
  bool front = first == !d->node->ints[1];
  return sx_pad_axis(d->graph, a, axis, front ? less : 0, front ? 0 : less, 0);
}

/* h_t = a_t h_(t-1) + b_t. The adjoint of b is the scan in the other direction l_t = a_(t+1) l_(t+1) + g_t,
 * that of a is l_t h_(t-1), and 0 where the scan starts: at the first t and where the segment changes. */
sx_id sx_gradient_linear_scan(const sx_adjoint *d, uint32_t input) {
  bool segmented = d->node->n_inputs > 2;
  const int64_t ints[2] = {d->node->ints[0], !d->node->ints[1]};
  sx_id segments = segmented ? d->node->inputs[2] : d->g;
  sx_id next_a = fill(d, later(d, d->node->inputs[0], true), false);
  sx_id l = with_ints(d, SX_OP_SCANLINEAR, (sx_id[]){next_a, d->g, segments}, d->node->n_inputs, ints, 2);
  if (input == 1) return l;
  sx_id after = later(d, l, true), before = later(d, d->y, false);
  sx_id product = sx_binary(d->graph, SX_OP_MUL, after, before);
  if (segmented) {
    sx_id own = later(d, segments, true), last = later(d, segments, false);
    sx_id goes_on = sx_binary(d->graph, SX_OP_EQ, own, last);
    product = sx_where(d->graph, goes_on, product, sx_const_like(d->graph, product, 0));
  }
  return fill(d, product, true);
}
