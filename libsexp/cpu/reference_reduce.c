/* Reference: reductions. The reduced axes are walked in row-major order, axes ascending. Sums of floats
 * follow numerics 1 (see summer_add); integers wrap. */
#include <limits.h>
#include <math.h>

#include "reference.h"

enum { SUM_LANES = 32, SUM_CHUNK = 4096, SUM_LEVELS = 6 };

/* A sum in the order of numerics 1. Level 0 takes the elements; each level hands the result of every
 * full chunk to the next, which sums them by the same rule. 4096^6 elements are out of reach. */
typedef struct summer {
  float lanes[SUM_LEVELS][SUM_LANES];
  int n[SUM_LEVELS];
} summer;

static float fold_lanes(float lanes[SUM_LANES], int n) {
  for (int h = SUM_LANES / 2; h > 0; h /= 2)
    for (int j = 0; j < h && j + h < n; j++) lanes[j] += lanes[j + h];
  return lanes[0];
}

static float take_chunk(summer *sum, int level) {
  int n = sum->n[level];
  sum->n[level] = 0;
  return fold_lanes(sum->lanes[level], n < SUM_LANES ? n : SUM_LANES);
}

static void add_to_level(summer *sum, int level, float x) {
  float *lane = &sum->lanes[level][sum->n[level] % SUM_LANES];
  *lane = sum->n[level] < SUM_LANES ? x : *lane + x;
  sum->n[level]++;
}

static void summer_add(summer *sum, float x) {
  add_to_level(sum, 0, x);
  for (int level = 0; sum->n[level] == SUM_CHUNK; level++) add_to_level(sum, level + 1, take_chunk(sum, level));
}

static float summer_result(summer *sum) {
  int top = SUM_LEVELS - 1;
  while (top > 0 && sum->n[top] == 0) top--;
  if (sum->n[top] == 0) return 0.0f;
  for (int level = 0; level < top; level++)
    if (sum->n[level] > 0) add_to_level(sum, level + 1, take_chunk(sum, level));
  return take_chunk(sum, top);
}

/* The operand as two nested walks: over the axes that stay and over those that are reduced. */
typedef struct reduction {
  int n_kept, n_reduced;
  int64_t kept_dims[SX_RANK_MAX], kept_strides[SX_RANK_MAX];
  int64_t reduced_dims[SX_RANK_MAX], reduced_strides[SX_RANK_MAX];
  int64_t n_out, n_in; /* elements of the result; elements reduced into each */
} reduction;

static reduction split_axes(const sx_call *call) {
  const sx_operand *in = &call->inputs[0];
  reduction split = {0};
  for (int axis = 0; axis < in->rank; axis++) {
    bool reduced = false;
    for (uint32_t k = 0; k < call->node->n_ints; k++) reduced = reduced || call->node->ints[k] == axis;
    int *n = reduced ? &split.n_reduced : &split.n_kept;
    (reduced ? split.reduced_dims : split.kept_dims)[*n] = in->dims[axis];
    (reduced ? split.reduced_strides : split.kept_strides)[(*n)++] = in->strides[axis];
  }
  split.n_out = sx_count(split.kept_dims, split.n_kept);
  split.n_in = sx_count(split.reduced_dims, split.n_reduced);
  return split;
}

static int64_t place(const int64_t *index, const int64_t *strides, int rank) {
  int64_t at = 0;
  for (int axis = 0; axis < rank; axis++) at += index[axis] * strides[axis];
  return at;
}

/* Folds the elements from `base` on into one value. */
typedef sx_value fold(const sx_call *call, const reduction *split, int64_t base);

static void reduce(const sx_call *call, fold *function) {
  reduction split = split_axes(call);
  int64_t index[SX_RANK_MAX] = {0};
  for (int64_t k = 0; k < split.n_out; k++) {
    int64_t base = place(index, split.kept_strides, split.n_kept);
    sx_store(call->out.data, call->out.dtype, k, function(call, &split, base));
    sx_index_next(index, split.kept_dims, split.n_kept);
  }
}

static sx_value fold_sum(const sx_call *call, const reduction *split, int64_t base) {
  const sx_operand *in = &call->inputs[0];
  int64_t index[SX_RANK_MAX] = {0};
  summer sum = {.n = {0}};
  int32_t integer = 0;
  for (int64_t k = 0; k < split->n_in; k++) {
    sx_value x = sx_load(in->data, in->dtype, base + place(index, split->reduced_strides, split->n_reduced));
    if (sx_is_float(in->dtype))
      summer_add(&sum, x.f);
    else
      integer = sx_wrap_add(integer, x.i);
    sx_index_next(index, split->reduced_dims, split->n_reduced);
  }
  return (sx_value){.f = summer_result(&sum), .i = integer};
}

void sx_reference_sum(const sx_call *call) { reduce(call, fold_sum); }

/* What a maximum or minimum of nothing is: what changes no other value. */
static sx_value neutral_extreme(sx_dtype dtype, bool max) {
  switch (dtype) {
    case SX_I32:
      return (sx_value){.i = max ? INT_MIN : INT_MAX};
    case SX_U8:
      return (sx_value){.i = max ? 0 : UCHAR_MAX};
    case SX_BOOL:
      return (sx_value){.i = max ? 0 : 1};
    default:
      return (sx_value){.f = max ? -INFINITY : INFINITY};
  }
}

static sx_value fold_extreme(const sx_call *call, const reduction *split, int64_t base) {
  const sx_operand *in = &call->inputs[0];
  sx_op op = call->node->op == SX_OP_REDUCEMAX ? SX_OP_MAX : SX_OP_MIN;
  int64_t index[SX_RANK_MAX] = {0};
  sx_value best = neutral_extreme(in->dtype, op == SX_OP_MAX);
  for (int64_t k = 0; k < split->n_in; k++) {
    sx_value x = sx_load(in->data, in->dtype, base + place(index, split->reduced_strides, split->n_reduced));
    best = sx_reference_apply(op, in->dtype, in->dtype, (sx_value[3]){best, x});
    sx_index_next(index, split->reduced_dims, split->n_reduced);
  }
  return best;
}

void sx_reference_extreme(const sx_call *call) { reduce(call, fold_extreme); }

static sx_value fold_any_all(const sx_call *call, const reduction *split, int64_t base) {
  const sx_operand *in = &call->inputs[0];
  bool any = call->node->op == SX_OP_ANY, result = !any;
  int64_t index[SX_RANK_MAX] = {0};
  for (int64_t k = 0; k < split->n_in; k++) {
    sx_value x = sx_load(in->data, in->dtype, base + place(index, split->reduced_strides, split->n_reduced));
    result = any ? result || x.i : result && x.i;
    sx_index_next(index, split->reduced_dims, split->n_reduced);
  }
  return (sx_value){.i = result};
}

void sx_reference_any_all(const sx_call *call) { reduce(call, fold_any_all); }

/* Whether x displaces the best so far: -0 and +0 tie, the first NaN stays. */
static bool beats(sx_dtype dtype, bool max, sx_value x, sx_value best) {
  if (!sx_is_float(dtype)) return max ? x.i > best.i : x.i < best.i;
  if (best.f != best.f) return false;
  return x.f != x.f || (max ? x.f > best.f : x.f < best.f);
}

static sx_value fold_arg_extreme(const sx_call *call, const reduction *split, int64_t base) {
  const sx_operand *in = &call->inputs[0];
  bool max = call->node->op == SX_OP_ARGMAX;
  sx_value best = {0};
  int32_t at = 0;
  for (int64_t k = 0; k < split->n_in; k++) {
    sx_value x = sx_load(in->data, in->dtype, base + k * split->reduced_strides[0]);
    if (k == 0 || beats(in->dtype, max, x, best)) {
      best = x;
      at = (int32_t)k;
    }
  }
  return (sx_value){.i = at};
}

void sx_reference_arg_extreme(const sx_call *call) { reduce(call, fold_arg_extreme); }

/* Each element of the result adds the windows that hold it, in ascending order. */
void sx_reference_fold(const sx_call *call) {
  const sx_operand *in = &call->inputs[0], *out = &call->out;
  int64_t axis = call->node->ints[0], size = call->node->ints[1], step = call->node->ints[2];
  int64_t index[SX_RANK_MAX] = {0}, from[SX_RANK_MAX];
  int64_t n = sx_operand_count(out);
  for (int64_t k = 0; k < n; k++) {
    sx_value sum = {0};
    memcpy(from, index, sizeof from);
    for (int64_t window = 0; window < in->dims[axis]; window++) {
      int64_t within = index[axis] - window * step;
      if (within < 0 || within >= size) continue;
      from[axis] = window;
      from[in->rank - 1] = within;
      sx_value x = sx_operand_load(in, from);
      sum = (sx_value){.f = sum.f + x.f, .i = sx_wrap_add(sum.i, x.i)};
    }
    sx_store(out->data, out->dtype, k, sum);
    sx_index_next(index, out->dims, out->rank);
  }
}
