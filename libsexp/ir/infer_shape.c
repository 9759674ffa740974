/* Shape rules of leaves, elementwise operations, moves, reductions and META: ops.def names them. */
#include <string.h>

#include "infer.h"

static void take_shape(sx_inference *f, const sx_node *node) {
  f->rank = node->rank;
  if (node->rank) memcpy(f->dims, node->dims, (size_t)node->rank * sizeof *f->dims);
}

bool sx_shape_given(sx_inference *f) {
  const sx_spec *spec = f->spec;
  if (spec->rank < 0 || spec->rank > SX_RANK_MAX)
    return sx_problem_set(f->why, SX_E_SHAPE_RANK, "a tensor has at most %d axes, not %d", SX_RANK_MAX, spec->rank);
  f->rank = spec->rank;
  if (spec->rank) memcpy(f->dims, spec->dims, (size_t)spec->rank * sizeof *f->dims);
  for (int i = 0; i < spec->rank; i++)
    if (spec->dims[i] < 0)
      return sx_problem_set(f->why, SX_E_SHAPE_SIZE, "a size is negative in shape %s",
                            sx_shape_text_of_dims(spec->dims, spec->rank).text);
  return true;
}

bool sx_shape_iota(sx_inference *f) {
  if (!sx_shape_given(f)) return false;
  int64_t axis = f->spec->ints[0];
  if (axis < 0 || axis >= f->rank)
    return sx_problem_set(f->why, SX_E_SHAPE_AXIS, "axis %lld does not exist in shape %s", (long long)axis,
                          sx_shape_text_of_dims(f->dims, f->rank).text);
  if (f->dims[axis] <= (int64_t)INT32_MAX + 1) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "indices up to %lld do not fit i32", (long long)f->dims[axis] - 1);
}

bool sx_shape_draw(sx_inference *f) {
  for (uint32_t i = 0; i < f->spec->n_inputs; i++)
    if (sx_inference_input(f, i)->rank != 0) return sx_infer_no_rank(f, "scalars as salts", sx_inference_input(f, i));
  if (f->spec->ints[0] < 0) return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "the number of a draw is negative");
  return sx_shape_given(f);
}

bool sx_shape_same(sx_inference *f) {
  take_shape(f, sx_inference_input(f, 0));
  for (uint32_t i = 1; i < f->spec->n_inputs; i++) {
    const sx_node *first = sx_inference_input(f, 0), *other = sx_inference_input(f, i);
    if (!sx_shape_equal(first, other))
      return sx_problem_set(f->why, SX_E_SHAPE_DIFFER, "shapes %s and %s differ", sx_shape_text_of(first).text,
                            sx_shape_text_of(other).text);
  }
  return true;
}

bool sx_shape_along(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  take_shape(f, a);
  if (!sx_infer_axis(f, a, f->spec->ints[0])) return false;
  if (f->spec->n_ints == 1 || f->spec->ints[1] == 0 || f->spec->ints[1] == 1) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "a direction is 0 or 1, not %lld", (long long)f->spec->ints[1]);
}

bool sx_shape_reshape(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  int64_t n = 0;
  if (!sx_shape_given(f)) return false;
  if (sx_shape_elements(f->dims, f->rank, &n) && n == sx_node_elements(a)) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_ELEMENTS, "shape %s has not as many elements as %s",
                        sx_shape_text_of_dims(f->dims, f->rank).text, sx_shape_text_of(a).text);
}

bool sx_shape_broadcast(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  if (!sx_shape_given(f)) return false;
  bool fits = a->rank <= f->rank;
  for (int i = 1; fits && i <= a->rank; i++)
    fits = a->dims[a->rank - i] == f->dims[f->rank - i] || a->dims[a->rank - i] == 1;
  if (fits) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_BROADCAST, "shape %s does not broadcast to %s", sx_shape_text_of(a).text,
                        sx_shape_text_of_dims(f->dims, f->rank).text);
}

/* As many integers as the node has axes, times each. */
static bool check_per_axis(sx_inference *f, const sx_node *node, uint32_t each) {
  if (f->spec->n_ints == each * (uint32_t)node->rank) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANK, "takes an entry an axis, got %u for shape %s", f->spec->n_ints / each,
                        sx_shape_text_of(node).text);
}

bool sx_shape_transpose(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  bool seen[SX_RANK_MAX] = {false};
  if (!check_per_axis(f, a, 1)) return false;
  f->rank = a->rank;
  for (int i = 0; i < a->rank; i++) {
    int64_t axis = f->spec->ints[i];
    if (!sx_infer_axis(f, a, axis)) return false;
    if (seen[axis]) return sx_problem_set(f->why, SX_E_SHAPE_AXIS, "axis %lld is named twice", (long long)axis);
    seen[axis] = true;
    f->dims[i] = a->dims[axis];
  }
  return true;
}

bool sx_shape_slice(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  if (!check_per_axis(f, a, 3)) return false;
  f->rank = a->rank;
  for (int i = 0; i < a->rank; i++) {
    int64_t start = f->spec->ints[3 * i], end = f->spec->ints[3 * i + 1], step = f->spec->ints[3 * i + 2];
    if (start < 0 || end < start || end > a->dims[i] || step < 1)
      return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "%lld up to %lld by %lld is no part of axis %d of shape %s",
                            (long long)start, (long long)end, (long long)step, i, sx_shape_text_of(a).text);
    f->dims[i] = end == start ? 0 : (end - start - 1) / step + 1;
  }
  return true;
}

bool sx_shape_pad(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  const int64_t limit = (int64_t)1 << 60;
  if (!check_per_axis(f, a, 3)) return false;
  f->rank = a->rank;
  for (int i = 0; i < a->rank; i++) {
    int64_t low = f->spec->ints[3 * i], high = f->spec->ints[3 * i + 1], inner = f->spec->ints[3 * i + 2];
    if (low < 0 || high < 0 || inner < 0)
      return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "padding of axis %d is negative", i);
    int64_t gaps = a->dims[i] > 0 ? a->dims[i] - 1 : 0;
    if (low > limit || high > limit || (gaps > 0 && inner > limit / gaps))
      return sx_problem_set(f->why, SX_E_SHAPE_SIZE, "padding of axis %d is too large", i);
    f->dims[i] = low + high + a->dims[i] + gaps * inner;
  }
  return true;
}

bool sx_shape_concat(sx_inference *f) {
  const sx_spec *spec = f->spec;
  if (spec->n_inputs == 0) return sx_problem_set(f->why, SX_E_TYPE_OPERANDS, "takes at least one operand");
  const sx_node *first = sx_inference_input(f, 0);
  int64_t axis = spec->ints[0], length = 0;
  if (!sx_infer_axis(f, first, axis)) return false;
  take_shape(f, first);
  for (uint32_t i = 0; i < spec->n_inputs; i++) {
    const sx_node *other = sx_inference_input(f, i);
    bool fits = other->rank == first->rank;
    for (int k = 0; fits && k < first->rank; k++) fits = k == axis || other->dims[k] == first->dims[k];
    if (!fits)
      return sx_problem_set(f->why, SX_E_SHAPE_DIFFER, "shapes %s and %s differ in another axis than %lld",
                            sx_shape_text_of(first).text, sx_shape_text_of(other).text, (long long)axis);
    if (other->dims[axis] > INT64_MAX - length)
      return sx_problem_set(f->why, SX_E_SHAPE_SIZE, "the operands together are too large");
    length += other->dims[axis];
  }
  f->dims[axis] = length;
  return true;
}

static bool check_window(sx_inference *f, int64_t size, int64_t step, int64_t length) {
  if (size >= 1 && step >= 1 && size <= length) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "windows of %lld by steps of %lld do not fit an axis of %lld",
                        (long long)size, (long long)step, (long long)length);
}

bool sx_shape_unfold(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  int64_t axis = f->spec->ints[0], size = f->spec->ints[1], step = f->spec->ints[2];
  if (!sx_infer_axis(f, a, axis) || !check_window(f, size, step, a->dims[axis])) return false;
  if (a->rank == SX_RANK_MAX) return sx_infer_no_rank(f, "fewer than 8 axes", a);
  take_shape(f, a);
  f->dims[axis] = (a->dims[axis] - size) / step + 1;
  f->dims[f->rank++] = size;
  return true;
}

bool sx_shape_fold(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  int64_t axis = f->spec->ints[0], size = f->spec->ints[1], step = f->spec->ints[2], length = f->spec->ints[3];
  if (!sx_infer_axis(f, a, axis) || !check_window(f, size, step, length)) return false;
  if (axis == a->rank - 1 || a->dims[a->rank - 1] != size || a->dims[axis] != (length - size) / step + 1)
    return sx_problem_set(f->why, SX_E_SHAPE_DIFFER, "shape %s does not hold the windows of %lld by %lld of %lld",
                          sx_shape_text_of(a).text, (long long)size, (long long)step, (long long)length);
  take_shape(f, a);
  f->rank--;
  f->dims[axis] = length;
  return true;
}

/* Axes ascend, so that equal reductions are equal nodes. */
bool sx_shape_reduce(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  bool reduced[SX_RANK_MAX] = {false};
  for (uint32_t i = 0; i < f->spec->n_ints; i++) {
    int64_t axis = f->spec->ints[i];
    if (!sx_infer_axis(f, a, axis)) return false;
    if (i > 0 && axis <= f->spec->ints[i - 1])
      return sx_problem_set(f->why, SX_E_SHAPE_AXIS, "axis %lld is named twice or out of order", (long long)axis);
    reduced[axis] = true;
  }
  f->rank = 0;
  for (int i = 0; i < a->rank; i++)
    if (!reduced[i]) f->dims[f->rank++] = a->dims[i];
  return true;
}

bool sx_shape_extreme(sx_inference *f) {
  const sx_node *a = sx_inference_input(f, 0);
  if (!sx_shape_reduce(f)) return false;
  for (uint32_t i = 0; i < f->spec->n_ints; i++)
    if (a->dims[f->spec->ints[i]] == 0)
      return sx_problem_set(f->why, SX_E_SHAPE_EMPTY, "axis %lld of shape %s has no elements",
                            (long long)f->spec->ints[i], sx_shape_text_of(a).text);
  return true;
}

bool sx_shape_arg(sx_inference *f) {
  if (f->spec->n_ints != 1) return sx_problem_set(f->why, SX_E_SHAPE_AXIS, "takes one axis, got %u", f->spec->n_ints);
  return sx_shape_extreme(f);
}

bool sx_shape_of_second(sx_inference *f) {
  take_shape(f, sx_inference_input(f, 1));
  return true;
}
