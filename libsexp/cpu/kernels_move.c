/* Pad and concat: strided pieces of the operands are copied into place, rows by memcpy. The other
 * movements are views, which a plan copies by its own walks. */
#include "reduce.h"

enum { LEAST_WORK = 1 << 14 };

/* Copies an operand into strided places of a block: rows of the operand's last axis, one after the other. */
typedef struct placing {
  const sx_operand *from;
  char *to;
  int64_t strides[SX_RANK_MAX]; /* elements of the destination per axis */
  int64_t bytes, row;           /* of an element; length of a row */
} placing;

static void copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t bytes) {
  if (to_step == 1 && from_step == 1) {
    memcpy(to, from, (size_t)(n * bytes));
  } else if (bytes == 4) {
    uint32_t *t = (uint32_t *)(void *)to;
    const uint32_t *f = (const uint32_t *)(const void *)from;
    for (int64_t k = 0; k < n; k++) t[k * to_step] = f[k * from_step];
  } else if (bytes == 2) {
    uint16_t *t = (uint16_t *)(void *)to;
    const uint16_t *f = (const uint16_t *)(const void *)from;
    for (int64_t k = 0; k < n; k++) t[k * to_step] = f[k * from_step];
  } else {
    for (int64_t k = 0; k < n; k++) to[k * to_step] = from[k * from_step];
  }
}

static void place_rows(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const placing *job = context;
  const sx_operand *from = job->from;
  int last = from->rank - 1;
  for (int64_t row = begin; row < end; row++) {
    int64_t from_at = 0, to_at = 0, rest = row;
    for (int axis = last - 1; axis >= 0; axis--) {
      int64_t index = rest % from->dims[axis];
      rest /= from->dims[axis];
      from_at += index * from->strides[axis];
      to_at += index * job->strides[axis];
    }
    copy_elements(job->to + to_at * job->bytes, job->strides[last], (const char *)from->data + from_at * job->bytes,
                  from->strides[last], job->row, job->bytes);
  }
}

static void place(const placing *job, sx_pool *pool) {
  int64_t n_rows = sx_count(job->from->dims, job->from->rank - 1);
  placing mine = *job;
  if (n_rows * job->row > 0) sx_pool_run(pool, n_rows, sx_max_i64(1, LEAST_WORK / job->row), place_rows, &mine);
}

typedef struct filling {
  char *to;
  uint32_t pattern; /* the element, repeated to 4 bytes */
} filling;

/* Of units of 4 bytes. */
static void fill_units(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const filling *job = context;
  uint32_t *to = (uint32_t *)(void *)job->to;
  for (int64_t k = begin; k < end; k++) to[k] = job->pattern;
}

static void fill(char *to, sx_dtype dtype, double real, int64_t n, sx_pool *pool) {
  int64_t bytes = sx_element_bytes(dtype);
  char pattern[4] = {0};
  sx_value value = sx_is_float(dtype) ? (sx_value){.f = (float)real} : (sx_value){.i = (int32_t)real};
  for (int64_t k = 0; k < 4 / bytes; k++) sx_store(pattern, dtype, k, value);
  filling job = {.to = to};
  memcpy(&job.pattern, pattern, 4);
  int64_t units = n * bytes / 4;
  if (units > 0) sx_pool_run(pool, units, LEAST_WORK, fill_units, &job);
  memcpy(to + units * 4, pattern, (size_t)(n * bytes - units * 4));
}

/* Padding that takes away (negative) is left to the reference. */
bool SX_AT_LEVEL(sx_fast_pad)(const sx_call *call) {
  const sx_operand *in = &call->inputs[0], *out = &call->out;
  const int64_t *ints = call->node->ints; /* low, high, inner of each axis */
  if (in->rank == 0) return false;
  placing job = {.from = in, .to = out->data, .bytes = sx_element_bytes(out->dtype), .row = in->dims[in->rank - 1]};
  for (int axis = 0; axis < in->rank; axis++) {
    if (ints[3 * axis] < 0 || ints[3 * axis + 1] < 0) return false;
    job.to += ints[3 * axis] * out->strides[axis] * job.bytes;
    job.strides[axis] = out->strides[axis] * (ints[3 * axis + 2] + 1);
  }
  fill(out->data, out->dtype, call->node->real, sx_operand_count(out), call->pool);
  place(&job, call->pool);
  return true;
}

/* A piece that was computed where it goes is there already. */
bool SX_AT_LEVEL(sx_fast_concat)(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t axis = call->node->ints[0], bytes = sx_element_bytes(out->dtype);
  char *to = out->data;
  for (uint32_t k = 0; k < call->n_inputs; k++) {
    const sx_operand *from = &call->inputs[k];
    placing job = {.from = from, .to = to, .bytes = bytes, .row = from->dims[from->rank - 1]};
    memcpy(job.strides, out->strides, (size_t)out->rank * sizeof *job.strides);
    if (from->data != to) place(&job, call->pool);
    to += from->dims[axis] * out->strides[axis] * bytes;
  }
  return true;
}
