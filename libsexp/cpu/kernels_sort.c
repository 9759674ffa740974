/* Argsort: a stable merge sort of each line's (key, index) pairs, from the bottom up. A key orders as the
 * element: floats as integers, with -0 and +0 one key and NaN the last; descending turns the order of all
 * but NaN around. */
#include "level.h"

enum { LEAST_WORK = 1 << 13, INSERTION = 16 };

typedef struct pair {
  uint32_t key;
  int32_t index;
} pair;

typedef struct sort_job {
  const sx_call *call;
  int64_t axis, n;
  char *scratch;
  int64_t scratch_bytes; /* of each thread: two lines of pairs */
  bool descending;
} sort_job;

SX_INLINE uint32_t float_key(float x, bool descending) {
  if (x != x) return UINT32_MAX;
  uint32_t key = sx_order_f32(sx_bits_f32(x == 0.0f ? 0.0f : x));
  return descending ? ~key : key;
}

SX_INLINE uint32_t key_of(const sx_operand *x, int64_t at, bool descending) {
  sx_value value = sx_load(x->data, x->dtype, at);
  if (sx_is_float(x->dtype)) return float_key(value.f, descending);
  uint32_t key = (uint32_t)value.i ^ 0x80000000u;
  return descending ? ~key : key;
}

static void sort_runs(pair *pairs, int64_t n) {
  for (int64_t first = 0; first < n; first += INSERTION) {
    int64_t end = sx_min_i64(n, first + INSERTION);
    for (int64_t k = first + 1; k < end; k++) {
      pair moved = pairs[k];
      int64_t hole = k;
      for (; hole > first && pairs[hole - 1].key > moved.key; hole--) pairs[hole] = pairs[hole - 1];
      pairs[hole] = moved;
    }
  }
}

static void merge(const pair *from, int64_t first, int64_t middle, int64_t end, pair *to) {
  int64_t a = first, b = middle;
  for (int64_t k = first; k < end; k++) {
    bool second = a == middle || (b < end && from[b].key < from[a].key);
    to[k] = second ? from[b++] : from[a++];
  }
}

/* Gives the array of the two that holds the sorted pairs. */
static const pair *sort_pairs(pair *pairs, pair *other, int64_t n) {
  sort_runs(pairs, n);
  for (int64_t run = INSERTION; run < n; run *= 2) {
    for (int64_t first = 0; first < n; first += 2 * run)
      merge(pairs, first, sx_min_i64(n, first + run), sx_min_i64(n, first + 2 * run), other);
    pair *held = pairs;
    pairs = other;
    other = held;
  }
  return pairs;
}

static void sort_lines(void *context, int64_t begin, int64_t end, int thread) {
  const sort_job *job = context;
  const sx_operand *x = &job->call->inputs[0], *out = &job->call->out;
  pair *pairs = (pair *)(void *)(job->scratch + thread * job->scratch_bytes), *other = pairs + job->n;
  for (int64_t line = begin; line < end; line++) {
    int64_t x_at = 0, out_at = 0, rest = line;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
      if (axis == job->axis) continue;
      x_at += rest % x->dims[axis] * x->strides[axis];
      out_at += rest % x->dims[axis] * out->strides[axis];
      rest /= x->dims[axis];
    }
    for (int64_t k = 0; k < job->n; k++)
      pairs[k] = (pair){key_of(x, x_at + k * x->strides[job->axis], job->descending), (int32_t)k};
    const pair *sorted = sort_pairs(pairs, other, job->n);
    int32_t *to = (int32_t *)out->data + out_at;
    for (int64_t k = 0; k < job->n; k++) to[k * out->strides[job->axis]] = sorted[k].index;
  }
}

bool SX_AT_LEVEL(sx_fast_argsort)(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t axis = call->node->ints[0], n = out->dims[axis], count = sx_operand_count(out);
  if (count == 0) return true;
  sort_job job = {.call = call, .axis = axis, .n = n, .scratch = call->scratch, .descending = call->node->ints[1] != 0};
  job.scratch_bytes = (n * (int64_t)sizeof(pair) * 2 + 63) / 64 * 64;
  sx_pool_run(call->pool, count / n, sx_max_i64(1, LEAST_WORK / n), sort_lines, &job);
  return true;
}
