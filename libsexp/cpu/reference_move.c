/* Reference: constants and movements of elements. Each movement is a map from an index of the result to
 * an index of the input, or to none where a padding value stands. */
#include "reference.h"

void sx_reference_const(const sx_call *call) {
  int64_t n = sx_operand_count(&call->out);
  double real = call->node->real;
  sx_value value = sx_is_float(call->out.dtype) ? (sx_value){.f = (float)real} : (sx_value){.i = (int32_t)real};
  for (int64_t k = 0; k < n; k++) sx_store(call->out.data, call->out.dtype, k, value);
}

void sx_reference_iota(const sx_call *call) {
  int64_t axis = call->node->ints[0];
  int64_t index[SX_RANK_MAX] = {0};
  int64_t n = sx_operand_count(&call->out);
  for (int64_t k = 0; k < n; k++) {
    sx_store(call->out.data, call->out.dtype, k, (sx_value){.i = (int32_t)index[axis]});
    sx_index_next(index, call->out.dims, call->out.rank);
  }
}

/* Reads nothing of the node: it also serves as the copy of a strided view. */
void sx_reference_reshape(const sx_call *call) {
  const sx_operand *in = &call->inputs[0];
  int64_t bytes = sx_element_bytes(in->dtype);
  int64_t index[SX_RANK_MAX] = {0};
  int64_t n = sx_operand_count(in);
  for (int64_t k = 0; k < n; k++) {
    sx_move_element(call->out.data, k, in->data, sx_operand_at(in, index), bytes);
    sx_index_next(index, in->dims, in->rank);
  }
}

static void map_transpose(const sx_call *call, const int64_t *out, int64_t *in) {
  for (int axis = 0; axis < call->out.rank; axis++) in[call->node->ints[axis]] = out[axis];
}

static void map_broadcast(const sx_call *call, const int64_t *out, int64_t *in) {
  const sx_operand *from = &call->inputs[0];
  int added = call->out.rank - from->rank;
  for (int axis = 0; axis < from->rank; axis++) in[axis] = from->dims[axis] == 1 ? 0 : out[axis + added];
}

static void map_slice(const sx_call *call, const int64_t *out, int64_t *in) {
  const int64_t *ints = call->node->ints; /* start, end, step of each axis */
  for (int axis = 0; axis < call->out.rank; axis++) in[axis] = ints[3 * axis] + out[axis] * ints[3 * axis + 2];
}

static void map_reverse(const sx_call *call, const int64_t *out, int64_t *in) {
  for (int axis = 0; axis < call->out.rank; axis++) in[axis] = out[axis];
  int64_t axis = call->node->ints[0];
  in[axis] = call->out.dims[axis] - 1 - out[axis];
}

static void map_unfold(const sx_call *call, const int64_t *out, int64_t *in) {
  int64_t axis = call->node->ints[0], step = call->node->ints[2];
  int last = call->out.rank - 1;
  for (int k = 0; k < last; k++) in[k] = out[k];
  in[axis] = out[axis] * step + out[last];
}

/* False: the element is padding. */
static bool map_pad(const sx_call *call, const int64_t *out, int64_t *in) {
  const int64_t *ints = call->node->ints; /* low, high, inner of each axis */
  for (int axis = 0; axis < call->out.rank; axis++) {
    int64_t place = out[axis] - ints[3 * axis], step = ints[3 * axis + 2] + 1;
    if (place < 0 || place % step != 0 || place / step >= call->inputs[0].dims[axis]) return false;
    in[axis] = place / step;
  }
  return true;
}

static bool map_index(const sx_call *call, const int64_t *out, int64_t *in) {
  switch (call->node->op) {
    case SX_OP_TRANSPOSE:
      map_transpose(call, out, in);
      return true;
    case SX_OP_BROADCAST:
      map_broadcast(call, out, in);
      return true;
    case SX_OP_SLICE:
      map_slice(call, out, in);
      return true;
    case SX_OP_REVERSE:
      map_reverse(call, out, in);
      return true;
    case SX_OP_UNFOLD:
      map_unfold(call, out, in);
      return true;
    case SX_OP_PAD:
      return map_pad(call, out, in);
    default:
      SX_BUG("no movement: %d", (int)call->node->op);
  }
}

void sx_reference_move(const sx_call *call) {
  const sx_operand *from = &call->inputs[0], *out = &call->out;
  double real = call->node->real;
  sx_value padding = sx_is_float(out->dtype) ? (sx_value){.f = (float)real} : (sx_value){.i = (int32_t)real};
  int64_t bytes = sx_element_bytes(out->dtype);
  int64_t index[SX_RANK_MAX] = {0}, in[SX_RANK_MAX] = {0};
  int64_t n = sx_operand_count(out);
  for (int64_t k = 0; k < n; k++) {
    if (map_index(call, index, in))
      sx_move_element(out->data, k, from->data, sx_operand_at(from, in), bytes);
    else
      sx_store(out->data, out->dtype, k, padding);
    sx_index_next(index, out->dims, out->rank);
  }
}

void sx_reference_concat(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t axis = call->node->ints[0], bytes = sx_element_bytes(out->dtype);
  int64_t index[SX_RANK_MAX] = {0};
  int64_t n = sx_operand_count(out);
  for (int64_t k = 0; k < n; k++) {
    int64_t in[SX_RANK_MAX];
    memcpy(in, index, sizeof in);
    const sx_operand *from = call->inputs;
    while (in[axis] >= from->dims[axis]) in[axis] -= (from++)->dims[axis];
    sx_move_element(out->data, k, from->data, sx_operand_at(from, in), bytes);
    sx_index_next(index, out->dims, out->rank);
  }
}
