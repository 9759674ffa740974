/* Reference: lookups by index, additions at indices, stable order. An id that is negative or not below
 * the length is reported by its flat index among the ids; what it would have read is 0, and what it would
 * have added is left out. Contributions to a target are added in ascending order of source index, from +0,
 * in f32 for short floats, which are rounded once. */
#include "reference.h"

/* The id at a flat index and a walk's index; -1 and a report when it is out of range. */
static int64_t read_id(const sx_call *call, const sx_operand *ids, const int64_t *index, int64_t flat, int64_t n) {
  int64_t id = sx_operand_load(ids, index).i;
  if (id >= 0 && id < n) return id;
  sx_fault_report(call->fault, flat);
  return -1;
}

/* table [n rest...], ids [...] -> [ids... rest...] */
void sx_reference_gather(const sx_call *call) {
  const sx_operand *table = &call->inputs[0], *ids = &call->inputs[1], *out = &call->out;
  int64_t n_rows = sx_operand_count(ids), n_row = sx_count(table->dims + 1, table->rank - 1);
  int64_t bytes = sx_element_bytes(out->dtype);
  int64_t at[SX_RANK_MAX] = {0}, from[SX_RANK_MAX] = {0};
  for (int64_t row = 0; row < n_rows; row++) {
    int64_t id = read_id(call, ids, at, row, table->dims[0]);
    for (int64_t k = 0; k < n_row; k++) {
      from[0] = id;
      if (id >= 0)
        sx_move_element(out->data, row * n_row + k, table->data, sx_operand_at(table, from), bytes);
      else
        sx_store(out->data, out->dtype, row * n_row + k, (sx_value){0});
      sx_index_next(from + 1, table->dims + 1, table->rank - 1);
    }
    sx_index_next(at, ids->dims, ids->rank);
  }
}

/* Sums of a scatter: the result itself, or f32 in the scratch where the result is a short float. */
typedef struct sums {
  void *data;
  sx_dtype dtype;
  int64_t n;
} sums;

static sums begin_sums(const sx_call *call) {
  bool is_short = call->out.dtype == SX_BF16 || call->out.dtype == SX_F16;
  sums to = {is_short ? call->scratch : call->out.data, is_short ? SX_F32 : call->out.dtype,
             sx_operand_count(&call->out)};
  for (int64_t k = 0; k < to.n; k++) sx_store(to.data, to.dtype, k, (sx_value){0});
  return to;
}

static void add_to_sums(const sums *to, int64_t at, sx_value x) {
  sx_value sum = sx_load(to->data, to->dtype, at);
  sx_store(to->data, to->dtype, at, (sx_value){.f = sum.f + x.f, .i = sx_wrap_add(sum.i, x.i)});
}

static void end_sums(const sums *to, const sx_call *call) {
  if (to->data == call->out.data) return;
  for (int64_t k = 0; k < to->n; k++) sx_store(call->out.data, call->out.dtype, k, sx_load(to->data, to->dtype, k));
}

/* ids [...], values [ids... rest...] -> [n rest...] */
void sx_reference_scatter(const sx_call *call) {
  const sx_operand *ids = &call->inputs[0], *values = &call->inputs[1], *out = &call->out;
  int64_t n_rows = sx_operand_count(ids), n_row = sx_count(out->dims + 1, out->rank - 1);
  int64_t at[SX_RANK_MAX] = {0}, from[SX_RANK_MAX] = {0};
  sums to = begin_sums(call);
  for (int64_t row = 0; row < n_rows; row++) {
    int64_t id = read_id(call, ids, at, row, out->dims[0]);
    for (int64_t k = 0; k < n_row; k++) {
      if (id >= 0) add_to_sums(&to, id * n_row + k, sx_operand_load(values, from));
      sx_index_next(from, values->dims, values->rank);
    }
    sx_index_next(at, ids->dims, ids->rank);
  }
  end_sums(&to, call);
}

void sx_reference_take(const sx_call *call) {
  const sx_operand *x = &call->inputs[0], *ids = &call->inputs[1], *out = &call->out;
  int64_t axis = call->node->ints[0], bytes = sx_element_bytes(out->dtype);
  int64_t index[SX_RANK_MAX] = {0}, from[SX_RANK_MAX];
  int64_t n = sx_operand_count(out);
  for (int64_t k = 0; k < n; k++) {
    int64_t id = read_id(call, ids, index, k, x->dims[axis]);
    memcpy(from, index, sizeof from);
    from[axis] = id;
    if (id >= 0)
      sx_move_element(out->data, k, x->data, sx_operand_at(x, from), bytes);
    else
      sx_store(out->data, out->dtype, k, (sx_value){0});
    sx_index_next(index, out->dims, out->rank);
  }
}

void sx_reference_put(const sx_call *call) {
  const sx_operand *ids = &call->inputs[0], *values = &call->inputs[1];
  int64_t axis = call->node->ints[0], length = call->out.dims[axis];
  int64_t index[SX_RANK_MAX] = {0}, target[SX_RANK_MAX];
  int64_t n = sx_operand_count(ids);
  sums to = begin_sums(call);
  for (int64_t k = 0; k < n; k++) {
    int64_t id = read_id(call, ids, index, k, length);
    memcpy(target, index, sizeof target);
    target[axis] = id;
    if (id >= 0) add_to_sums(&to, sx_operand_at(&call->out, target), sx_operand_load(values, index));
    sx_index_next(index, ids->dims, ids->rank);
  }
  end_sums(&to, call);
}

void sx_reference_one_hot(const sx_call *call) {
  const sx_operand *ids = &call->inputs[0], *out = &call->out;
  int64_t length = out->dims[out->rank - 1], n = sx_operand_count(ids);
  int64_t index[SX_RANK_MAX] = {0};
  for (int64_t k = 0; k < n; k++) {
    int64_t id = read_id(call, ids, index, k, length);
    for (int64_t j = 0; j < length; j++)
      sx_store(out->data, out->dtype, k * length + j, (sx_value){.f = j == id ? 1.0f : 0.0f, .i = j == id});
    sx_index_next(index, ids->dims, ids->rank);
  }
}

/* Whether b goes before a, which comes first in the input: -0 and +0 tie, NaN goes last. */
static bool goes_before(sx_dtype dtype, bool descending, sx_value b, sx_value a) {
  if (!sx_is_float(dtype)) return descending ? b.i > a.i : b.i < a.i;
  if (a.f != a.f) return b.f == b.f;
  return descending ? b.f > a.f : b.f < a.f;
}

/* Insertion sort of one line: its ids lie `step` apart in the result. */
static void sort_line(const sx_call *call, int32_t *line, int64_t step, int64_t n, int64_t base, int64_t stride) {
  const sx_operand *x = &call->inputs[0];
  bool descending = call->node->ints[1] != 0;
  for (int64_t k = 0; k < n; k++) {
    sx_value value = sx_load(x->data, x->dtype, base + k * stride);
    int64_t hole = k;
    for (; hole > 0; hole--) {
      int32_t before = line[(hole - 1) * step];
      if (!goes_before(x->dtype, descending, value, sx_load(x->data, x->dtype, base + before * stride))) break;
      line[hole * step] = before;
    }
    line[hole * step] = (int32_t)k;
  }
}

void sx_reference_argsort(const sx_call *call) {
  const sx_operand *x = &call->inputs[0], *out = &call->out;
  int64_t axis = call->node->ints[0];
  int64_t dims[SX_RANK_MAX], index[SX_RANK_MAX] = {0};
  for (int k = 0; k < x->rank; k++) dims[k] = k == axis ? (x->dims[k] > 0) : x->dims[k];
  int64_t n_lines = sx_count(dims, x->rank);
  for (int64_t k = 0; k < n_lines; k++) {
    int32_t *line = (int32_t *)out->data + sx_operand_at(out, index);
    sort_line(call, line, out->strides[axis], x->dims[axis], sx_operand_at(x, index), x->strides[axis]);
    sx_index_next(index, dims, x->rank);
  }
}
