/* Maxima, minima, any and all: these do not depend on the order, so a register of running results takes a
 * line or many columns. Any and all are the maximum and minimum of bools. Then argmax and argmin, and
 * windows folded back. */
#include <limits.h>
#include <math.h>

#include "reduce.h"

enum { PIECE = 1024, LEAST_WORK = 1 << 14, LEAST_LINES = 4 };

SX_INLINE float max_f32(float a, float b) { return sx_max_f32(a, b); }
SX_INLINE float min_f32(float a, float b) { return sx_min_f32(a, b); }
SX_INLINE int32_t max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
SX_INLINE int32_t min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
SX_INLINE uint8_t max_u8(uint8_t a, uint8_t b) { return a > b ? a : b; }
SX_INLINE uint8_t min_u8(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* Running results of SX_BLOCK neighbours, taking n elements. */
#define RUNNING(type, combine)                                                                  \
  static void running_##combine(void *results, const void *from, int64_t n) {                   \
    type *r = results;                                                                          \
    const type *x = from;                                                                       \
    int64_t k = 0;                                                                              \
    for (; k + SX_BLOCK <= n; k += SX_BLOCK)                                                    \
      SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) r[j] = combine(r[j], x[k + j]);         \
    for (int j = 0; k + j < n; j++) r[j] = combine(r[j], x[k + j]);                             \
    SX_VECTOR_LOOP for (int j = 0; j < 16; j++) r[j] = combine(r[j], r[j + 16]);                \
    SX_VECTOR_LOOP for (int j = 0; j < 8; j++) r[j] = combine(r[j], r[j + 8]);                  \
    for (int h = 4; h > 0; h /= 2)                                                              \
      for (int j = 0; j < h; j++) r[j] = combine(r[j], r[j + h]);                               \
  }                                                                                             \
  static void columns_##combine(void *results, const void *from, int64_t n) {                   \
    type *r = results;                                                                          \
    const type *x = from;                                                                       \
    int64_t k = 0;                                                                              \
    for (; k + SX_BLOCK <= n; k += SX_BLOCK)                                                    \
      SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) r[k + j] = combine(r[k + j], x[k + j]); \
    for (; k < n; k++) r[k] = combine(r[k], x[k]);                                              \
  }

RUNNING(float, max_f32)
RUNNING(float, min_f32)
RUNNING(int32_t, max_i32)
RUNNING(int32_t, min_i32)
RUNNING(uint8_t, max_u8)
RUNNING(uint8_t, min_u8)

typedef void combine(void *results, const void *from, int64_t n);

typedef struct extreme_job {
  const sx_reduction *r;
  const sx_operand *out;
  combine *line, *columns;
  sx_dtype wide;    /* that results are computed in */
  uint32_t neutral; /* element of that dtype; four of them of bools */
} extreme_job;

/* n words: as many elements, or more where they are bools. */
static void fill_neutral(const extreme_job *job, uint32_t *to, int64_t n) {
  int64_t k = 0;
  uint32_t neutral = job->neutral;
  for (; k + SX_BLOCK <= n; k += SX_BLOCK) SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) to[k + j] = neutral;
  for (; k < n; k++) to[k] = neutral;
}

static void store_results(const extreme_job *job, int64_t at, const void *results, int64_t n) {
  char *to = (char *)job->out->data + at * job->r->bytes;
  if (job->wide == SX_F32)
    SX_AT_LEVEL(sx_narrow)(to, job->out->dtype, results, n);
  else
    memcpy(to, results, (size_t)(n * job->r->bytes));
}

static const void *widened(const extreme_job *job, const void *x, float *wide, int64_t n) {
  if (job->r->dtype != SX_BF16 && job->r->dtype != SX_F16) return x;
  SX_AT_LEVEL(sx_widen)(wide, x, job->r->dtype, n);
  return wide;
}

/* The elements a step from n places. */
static void read_places(void *to, const void *from, const int64_t *places, int64_t n, int64_t step, int64_t bytes) {
  if (bytes == 4)
    for (int64_t j = 0; j < n; j++) ((uint32_t *)to)[j] = ((const uint32_t *)from)[places[j] + step];
  else if (bytes == 2)
    for (int64_t j = 0; j < n; j++) ((uint16_t *)to)[j] = ((const uint16_t *)from)[places[j] + step];
  else
    for (int64_t j = 0; j < n; j++) ((uint8_t *)to)[j] = ((const uint8_t *)from)[places[j] + step];
}

static void extreme_lines(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const extreme_job *job = context;
  const sx_reduction *r = job->r;
  for (int64_t line = begin; line < end; line++) {
    int64_t base = sx_axes_at(&r->kept, line);
    uint32_t results[SX_BLOCK];
    fill_neutral(job, results, SX_BLOCK);
    for (int64_t k = 0; k < r->n_in; k += PIECE) {
      uint32_t buffer[PIECE];
      float wide[PIECE];
      int64_t n = sx_min_i64(PIECE, r->n_in - k);
      job->line(results, widened(job, SX_AT_LEVEL(sx_line_read)(r, base, k, n, buffer), wide, n), n);
    }
    store_results(job, line, results, 1);
  }
}

/* Lines of SX_BLOCK elements at most, SX_BLOCK lines side by side. */
static void extreme_short_lines(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const extreme_job *job = context;
  const sx_reduction *r = job->r;
  int64_t steps[SX_BLOCK], bases[SX_BLOCK];
  for (int64_t k = 0; k < r->n_in; k++) steps[k] = sx_axes_at(&r->reduced, k);
  for (int64_t line = begin, n; line < end; line += n) {
    uint32_t results[SX_BLOCK];
    n = sx_min_i64(SX_BLOCK, end - line);
    for (int64_t j = 0; j < n; j++) bases[j] = sx_axes_at(&r->kept, line + j);
    fill_neutral(job, results, SX_BLOCK);
    for (int64_t k = 0; k < r->n_in; k++) {
      uint32_t row[SX_BLOCK];
      float wide[SX_BLOCK];
      read_places(row, r->data, bases, n, steps[k], r->bytes);
      job->columns(results, widened(job, row, wide, n), n);
    }
    store_results(job, line, results, n);
  }
}

static void extreme_columns(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const extreme_job *job = context;
  const sx_reduction *r = job->r;
  int64_t width = r->kept.dims[r->kept.n - 1], tiles = sx_ceil_div(width, PIECE);
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t out_at = unit / tiles * width + unit % tiles * PIECE, n = sx_min_i64(PIECE, width - unit % tiles * PIECE);
    int64_t base = sx_axes_at(&r->kept, out_at);
    uint32_t results[PIECE];
    float wide[PIECE];
    fill_neutral(job, results, n);
    for (int64_t row = 0; row < r->n_in; row++) {
      const char *x = (const char *)r->data + (base + sx_axes_at(&r->reduced, row)) * r->bytes;
      job->columns(results, widened(job, x, wide, n), n);
    }
    store_results(job, out_at, results, n);
  }
}

/* What changes no other value: -inf, INT_MIN, false and their opposites. */
static uint32_t neutral_element(sx_dtype wide, bool max) {
  if (wide == SX_F32) return sx_bits_f32(max ? -INFINITY : INFINITY);
  if (wide == SX_I32) return max ? 0x80000000u : 0x7fffffffu;
  return max ? 0 : 0x01010101u;
}

bool SX_AT_LEVEL(sx_fast_extreme)(const sx_call *call) {
  static combine *const functions[3][2][2] = {
      {{running_min_f32, columns_min_f32}, {running_max_f32, columns_max_f32}},
      {{running_min_i32, columns_min_i32}, {running_max_i32, columns_max_i32}},
      {{running_min_u8, columns_min_u8}, {running_max_u8, columns_max_u8}},
  };
  sx_op op = call->node->op;
  bool max = op == SX_OP_REDUCEMAX || op == SX_OP_ANY;
  sx_reduction r = SX_AT_LEVEL(sx_reduction_make)(call);
  if (r.n_out == 0) return true;
  sx_dtype wide = sx_is_float(r.dtype) ? SX_F32 : r.dtype;
  int kind = wide == SX_F32 ? 0 : wide == SX_I32 ? 1 : 2;
  extreme_job job = {
      &r, &call->out, functions[kind][max][0], functions[kind][max][1], wide, neutral_element(wide, max)};
  if (r.columns) {
    int64_t width = r.kept.dims[r.kept.n - 1], tiles = sx_ceil_div(width, PIECE);
    int64_t grain = sx_max_i64(1, LEAST_WORK / (sx_min_i64(width, PIECE) * sx_max_i64(1, r.n_in)));
    sx_pool_run(call->pool, r.n_out / width * tiles, grain, extreme_columns, &job);
  } else {
    int64_t grain = sx_max_i64(SX_BLOCK, LEAST_WORK / sx_max_i64(1, r.n_in));
    bool is_short = r.n_in <= SX_BLOCK && r.n_out >= LEAST_LINES;
    sx_pool_run(call->pool, r.n_out, is_short ? grain : sx_max_i64(1, LEAST_WORK / sx_max_i64(1, r.n_in)),
                is_short ? extreme_short_lines : extreme_lines, &job);
  }
  return true;
}

/* ---- argmax, argmin ------------------------------------------------------------------ */

typedef struct arg_job {
  const sx_reduction *r;
  int32_t *out;
  bool max;
} arg_job;

/* The lowest index of the best of n floats that beats `best`, or -1; NaN beats all but NaN. */
static int64_t best_float(const float *x, int64_t n, bool max, float *best) {
  int64_t at = -1;
  for (int64_t k = 0; k < n && *best == *best; k++)
    if (x[k] != x[k] || (max ? x[k] > *best : x[k] < *best)) {
      *best = x[k];
      at = k;
    }
  return at;
}

static int64_t best_integer(const int32_t *x, int64_t n, bool max, int32_t *best) {
  int64_t at = -1;
  for (int64_t k = 0; k < n; k++)
    if (max ? x[k] > *best : x[k] < *best) {
      *best = x[k];
      at = k;
    }
  return at;
}

static void arg_lines(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const arg_job *job = context;
  const sx_reduction *r = job->r;
  for (int64_t line = begin; line < end; line++) {
    int64_t base = sx_axes_at(&r->kept, line), best_at = 0;
    sx_value best = sx_load(r->data, r->dtype, base);
    for (int64_t k = 0; k < r->n_in; k += PIECE) {
      uint32_t buffer[PIECE];
      float wide[PIECE];
      int64_t n = sx_min_i64(PIECE, r->n_in - k), at;
      const void *x = SX_AT_LEVEL(sx_line_read)(r, base, k, n, buffer);
      if (r->dtype == SX_I32) {
        at = best_integer(x, n, job->max, &best.i);
      } else {
        if (r->dtype != SX_F32) {
          SX_AT_LEVEL(sx_widen)(wide, x, r->dtype, n);
          x = wide;
        }
        at = best_float(x, n, job->max, &best.f);
      }
      if (at >= 0) best_at = k + at;
    }
    job->out[line] = (int32_t)best_at;
  }
}

bool SX_AT_LEVEL(sx_fast_arg_extreme)(const sx_call *call) {
  sx_reduction r = SX_AT_LEVEL(sx_reduction_make)(call);
  if (r.n_in == 0 || (!sx_is_float(r.dtype) && r.dtype != SX_I32)) return false;
  arg_job job = {&r, call->out.data, call->node->op == SX_OP_ARGMAX};
  if (r.n_out > 0) sx_pool_run(call->pool, r.n_out, sx_max_i64(1, LEAST_WORK / r.n_in), arg_lines, &job);
  return true;
}

/* ---- fold ------------------------------------------------------------------------------ */

typedef struct fold_job {
  const sx_call *call;
  sx_axes outer, inner; /* axes before and after the folded one, over the operand */
  int64_t n_inner;
} fold_job;

/* Positions of (outer, place along the axis): each adds the windows that hold it. */
static void fold_places(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const fold_job *job = context;
  const sx_operand *in = &job->call->inputs[0];
  const int64_t *ints = job->call->node->ints;
  int64_t axis = ints[0], size = ints[1], step = ints[2], length = ints[3], n_windows = in->dims[axis];
  const float *data = in->data;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t place = unit % length, base = sx_axes_at(&job->outer, unit / length);
    int64_t first = place < size ? 0 : (place - size) / step + 1, last = sx_min_i64(n_windows - 1, place / step);
    float *out = (float *)job->call->out.data + unit * job->n_inner;
    for (int64_t k = 0; k < job->n_inner; k++) {
      int64_t at = base + sx_axes_at(&job->inner, k);
      float sum = 0.0f;
      for (int64_t window = first; window <= last; window++)
        sum += data[at + window * in->strides[axis] + (place - window * step) * in->strides[in->rank - 1]];
      out[k] = sum;
    }
  }
}

bool SX_AT_LEVEL(sx_fast_fold)(const sx_call *call) {
  const sx_operand *in = &call->inputs[0];
  if (in->dtype != SX_F32) return false;
  int64_t axis = call->node->ints[0], length = call->node->ints[3];
  fold_job job = {.call = call, .n_inner = 1};
  int64_t n_outer = 1;
  for (int k = 0; k < in->rank - 1; k++) {
    if (k == axis) continue;
    sx_axes_push(k < axis ? &job.outer : &job.inner, in->dims[k], in->strides[k]);
    *(k < axis ? &n_outer : &job.n_inner) *= in->dims[k];
  }
  if (n_outer * length * job.n_inner > 0)
    sx_pool_run(call->pool, n_outer * length, sx_max_i64(1, LEAST_WORK / job.n_inner), fold_places, &job);
  return true;
}
