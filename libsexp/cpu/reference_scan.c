/* Reference: scans, folded in order along an axis. The carried value stays in f32 for short floats; each
 * result is rounded by itself. A line starts anew where the segment's id differs from the one before. */
#include <math.h>

#include "reference.h"

static sx_value step_cumsum(const sx_call *call, const int64_t *index, sx_value carried, bool anew) {
  sx_value x = sx_operand_load(&call->inputs[0], index);
  return anew ? x : (sx_value){.f = carried.f + x.f, .i = sx_wrap_add(carried.i, x.i)};
}

static sx_value step_linear(const sx_call *call, const int64_t *index, sx_value carried, bool anew) {
  sx_value a = sx_operand_load(&call->inputs[0], index), b = sx_operand_load(&call->inputs[1], index);
  if (anew) return b;
  return (sx_value){.f = fmaf(a.f, carried.f, b.f), .i = sx_wrap_add(sx_wrap_mul(a.i, carried.i), b.i)};
}

/* One line along the axis, from index, whose entry at the axis is the walk's own. */
static void scan_line(const sx_call *call, int64_t *index, const sx_operand *segments) {
  const sx_operand *out = &call->out;
  bool linear = call->node->op == SX_OP_SCANLINEAR;
  int64_t axis = call->node->ints[0], n = out->dims[axis];
  sx_value carried = {0};
  int32_t last = 0;
  for (int64_t k = 0; k < n; k++) {
    index[axis] = call->node->ints[1] ? n - 1 - k : k;
    bool anew = k == 0;
    if (segments) {
      int32_t id = sx_operand_load(segments, index).i;
      anew = anew || id != last;
      last = id;
    }
    carried = linear ? step_linear(call, index, carried, anew) : step_cumsum(call, index, carried, anew);
    sx_store(out->data, out->dtype, sx_operand_at(out, index), carried);
  }
  index[axis] = 0;
}

void sx_reference_scan(const sx_call *call) {
  const sx_operand *out = &call->out;
  uint32_t n_values = call->node->op == SX_OP_SCANLINEAR ? 2 : 1;
  const sx_operand *segments = call->n_inputs > n_values ? &call->inputs[n_values] : NULL;
  int64_t axis = call->node->ints[0];
  int64_t dims[SX_RANK_MAX], index[SX_RANK_MAX] = {0};
  for (int k = 0; k < out->rank; k++) dims[k] = k == axis ? (out->dims[k] > 0) : out->dims[k];
  int64_t n_lines = sx_count(dims, out->rank);
  for (int64_t k = 0; k < n_lines; k++) {
    scan_line(call, index, segments);
    sx_index_next(index, dims, out->rank);
  }
}
