/* Softmax and its gradient on tiles of rows (softmax.h). Each pass goes over all rows of the tile, so that what ends a
 * row, a tree over 32 lanes, runs beside the next one. */
#include <math.h>

#include "level.h"
#include "softmax.h"
#include "sum_table.h"
#include "vector_math.h"

typedef int32_t ints __attribute__((vector_size(SX_LANES * 4), aligned(4), may_alias));

enum { GROUP = SX_SUM_LANES, REGISTERS = GROUP / SX_LANES, BLOCK = 4 * GROUP };

SX_INLINE sx_floats zero(void) { return (sx_floats){0}; }

SX_INLINE sx_floats choose(ints mask, sx_floats yes, sx_floats no) {
  return (sx_floats)((mask & (ints)yes) | (~mask & (ints)no));
}

/* Which of a register's columns, the first of which is `first`, are below n. */
SX_INLINE ints columns_below(int64_t n, int64_t first) {
  ints column;
  SX_UNROLL for (int i = 0; i < SX_LANES; i++) column[i] = i;
  return column < (int32_t)(n - first);
}

/* Either operand where one is NaN. */
SX_INLINE sx_floats larger(sx_floats a, sx_floats b) {
#if defined(__AVX512F__)
  return (sx_floats)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (sx_floats)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return choose(a > b, a, b);
#endif
}

/* ---- rows ------------------------------------------------------------------------------------------ */

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
enum { QUADS = GROUP / 4 };

/* The lanes as the tree of numerics 1. */
SX_INLINE float fold_sum(const float *x) {
  quad sums[QUADS];
  SX_UNROLL for (int i = 0; i < QUADS; i++) sums[i] = *(const quad *)(x + 4 * i);
  SX_UNROLL for (int h = QUADS / 2; h > 0; h /= 2) SX_UNROLL for (int i = 0; i < h; i++) sums[i] += sums[i + h];
  return (sums[0][0] + sums[0][2]) + (sums[0][1] + sums[0][3]);
}

SX_INLINE float larger_of(float a, float b) { return a > b ? a : b; }

SX_INLINE float fold_largest(const float *x) {
  sx_floats most = sx_floats_load(x);
  SX_UNROLL for (int v = 1; v < REGISTERS; v++) most = larger(most, sx_floats_load(x + v * SX_LANES));
  float lanes[SX_LANES];
  sx_floats_store(lanes, most);
  SX_UNROLL for (int h = SX_LANES / 2; h > 0; h /= 2) SX_UNROLL for (int i = 0; i < h; i++) lanes[i] =
      larger_of(lanes[i], lanes[i + h]);
  return lanes[0];
}

/* The largest of n elements, 1 at least; what is between them and the end of the last group becomes -inf. Anything
 * where one is NaN. */
SX_INLINE float take_largest(float *row, int64_t n) {
  sx_floats most[REGISTERS], low = sx_floats_spread(-INFINITY);
  int64_t j = 0;
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) most[v] = low;
  for (; j + GROUP <= n; j += GROUP)
    SX_UNROLL for (int v = 0; v < REGISTERS; v++) most[v] = larger(most[v], sx_floats_load(row + j + v * SX_LANES));
  for (int v = 0; v < REGISTERS && j < n; v++) {
    float *at = row + j + v * SX_LANES;
    sx_floats x = choose(columns_below(n, j + v * SX_LANES), sx_floats_load(at), low);
    sx_floats_store(at, x);
    most[v] = larger(most[v], x);
  }
  float lanes[GROUP];
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) sx_floats_store(lanes + v * SX_LANES, most[v]);
  return fold_largest(lanes);
}

/* row = exp (row - most), n elements, whole groups, BLOCK at most. */
SX_INLINE void take_exponentials(float *row, int64_t n, float most) {
  float x[BLOCK];
  for (int64_t j = 0; j < n; j += SX_LANES) sx_floats_store(x + j, sx_floats_load(row + j) - sx_floats_spread(most));
  if (!SX_TRY(exp, row, x, n)) SX_EACH_EXACT(exp, row, x, n)
}

/* The same of a row of any length; gives its sum. */
SX_INLINE float take_row(float *row, int64_t n, float most) {
  sx_floats sums[REGISTERS];
  float lanes[GROUP];
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) sums[v] = zero();
  for (int64_t j = 0; j < n; j += BLOCK) {
    int64_t end = sx_min_i64(n, j + BLOCK);
    take_exponentials(row + j, end - j, most);
    for (int64_t i = j; i < end; i += GROUP)
      SX_UNROLL for (int v = 0; v < REGISTERS; v++) sums[v] += sx_floats_load(row + i + v * SX_LANES);
  }
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) sx_floats_store(lanes + v * SX_LANES, sums[v]);
  return fold_sum(lanes);
}

static void divide_row(float *to, const float *from, int64_t n, float by) {
  for (int64_t j = 0; j < n; j += SX_LANES) sx_floats_store(to + j, sx_floats_load(from + j) / sx_floats_spread(by));
}

/* ---- gradients ------------------------------------------------------------------------------------- */

/* Fills weights with e / z, slopes with t / z; the sum of -t (e / z / z). n: whole groups, of which n_seen columns
 * have a slope. */
SX_INLINE float take_slopes(float *weights, float *slopes, const float *exponentials, int64_t n, int64_t n_seen,
                            float sum) {
  sx_floats sums[REGISTERS], z = sx_floats_spread(sum);
  float lanes[GROUP];
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) sums[v] = zero();
  for (int64_t j = 0; j < n; j += GROUP) {
    SX_UNROLL for (int v = 0; v < REGISTERS; v++) {
      int64_t at = j + v * SX_LANES;
      sx_floats t = sx_floats_load(slopes + at), p = sx_floats_load(exponentials + at) / z;
      if (j + GROUP > n_seen) t = choose(columns_below(n_seen, at), t, zero());
      sx_floats_store(weights + at, p);
      sx_floats_store(slopes + at, t / z);
      sums[v] += (sx_floats)((ints)t ^ INT32_MIN) * (p / z);
    }
  }
  SX_UNROLL for (int v = 0; v < REGISTERS; v++) sx_floats_store(lanes + v * SX_LANES, sums[v]);
  return fold_sum(lanes);
}

SX_INLINE void take_gradients(float *to, const float *slopes, const float *exponentials, int64_t n, int64_t n_seen,
                              float sum) {
  for (int64_t j = 0; j < n; j += SX_LANES) {
    sx_floats g = (sx_floats_load(slopes + j) + sx_floats_spread(sum)) * sx_floats_load(exponentials + j);
    if (j + SX_LANES > n_seen) g = choose(columns_below(n_seen, j), g, zero());
    sx_floats_store(to + j, g);
  }
}

static void clear(float *row, int64_t first, int64_t end) {
  for (; first + SX_LANES <= end; first += SX_LANES) sx_floats_store(row + first, zero());
  for (; first < end; first++) row[first] = 0;
}

/* ---- tiles ----------------------------------------------------------------------------------------- */

SX_INLINE int64_t seen(const sx_softmax_tile *tile, int64_t row) {
  return sx_min_i64(tile->n_seen + row, tile->n_columns);
}

SX_INLINE int64_t whole_groups(int64_t n) { return (n + GROUP - 1) / GROUP * GROUP; }

/* Whether a column that is not seen is 0: exp of less than -104 is. `most` is -inf where no column is seen. */
static bool hides(const sx_softmax_tile *tile, float most) { return tile->hidden - most < -104.0f; }

static bool run_weights(const sx_softmax_tile *tile, float *sums) {
  bool fine = true;
  for (int64_t i = 0; i < tile->n_rows; i++) {
    float most = take_largest(tile->scores + i * tile->pitch, seen(tile, i));
    sums[i] = most;
    fine &= seen(tile, i) == tile->n_columns || hides(tile, most);
  }
  if (!fine) return false;
  for (int64_t i = 0; i < tile->n_rows; i++) {
    sums[i] = take_row(tile->scores + i * tile->pitch, whole_groups(seen(tile, i)), sums[i]);
    fine &= sums[i] >= 1 && sums[i] <= (float)tile->n_columns; /* else something was NaN or infinite */
  }
  return fine;
}

static bool run_gradients(const sx_softmax_tile *tile, const float *sums) {
  bool fine = true;
  float totals[SX_SOFTMAX_ROWS];
  for (int64_t i = 0; i < tile->n_rows; i++) {
    int64_t at = i * tile->pitch, n = seen(tile, i);
    totals[i] = take_slopes(tile->weights + at, tile->slopes + at, tile->scores + at, whole_groups(n), n, sums[i]);
    fine &= totals[i] != 0;
  }
  for (int64_t i = 0; i < tile->n_rows; i++) {
    int64_t at = i * tile->pitch, n = seen(tile, i);
    take_gradients(tile->gradients + at, tile->slopes + at, tile->scores + at, whole_groups(n), n, totals[i]);
    clear(tile->gradients + at, whole_groups(n), tile->limit);
  }
  return fine;
}

bool SX_AT_LEVEL(sx_softmax_run)(const sx_softmax_tile *tile) {
  float sums[SX_SOFTMAX_ROWS];
  if (!run_weights(tile, sums)) return false;
  if (tile->slopes && !run_gradients(tile, sums)) return false;
  for (int64_t i = 0; i < tile->n_rows; i++) {
    int64_t at = i * tile->pitch, n = whole_groups(seen(tile, i));
    if (!tile->slopes) divide_row(tile->weights + at, tile->scores + at, n, sums[i]);
    clear(tile->weights + at, n, tile->limit);
  }
  return true;
}
