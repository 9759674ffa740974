/* Products of few rows whose columns run along the contracted index; and tiles of them by whole lines of memory, in
 * registers of 16: each line is read once, so that it does not matter whether lines meet in one set of the cache. Where
 * they do not, and for other registers, smaller squares (kernels_narrow.c) cost fewer moves between registers. */
#include "tile.h"

enum {
  TURN_ROWS = SX_TURN_MOST,
  TURN_ROOM = 32 * SX_GEMM_DEPTH /* floats of packed rows, and what packing writes beyond; a panel comes after them */
};

#if defined(__AVX512F__)
enum { COLUMNS = SX_LANES, STEPS = 8, LINE = 2 * STEPS, FEW_ROWS = 2, MOST_GROUPS = 2 };

/* What is read of each column: 8 elements, or as many as the mask says. */
typedef struct reading {
  bool whole;
  __mmask8 some;
} reading;

SX_INLINE __m256 steps_of(const char *column, const reading how) {
  const float *from = (const float *)(const void *)column;
  return how.whole ? _mm256_loadu_ps(from) : _mm256_maskz_loadu_ps(how.some, from);
}

/* Elements of a column, and behind them those of another. */
SX_INLINE __m512 two_columns(const char *low, const char *high, const reading how) {
  return _mm512_mask_broadcast_f32x8(_mm512_castps256_ps512(steps_of(low, how)), 0xff00, steps_of(high, how));
}

/* x: 8 columns, two a register. Squares of 4 are turned: out[j] has step j of 4 columns, step 4 + j of them, then both
 * of the other 4. */
SX_INLINE void turn_squares(const __m512 x[4], __m512 out[4]) {
  __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[0], x[1])),
          high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[0], x[1])),
          low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[2], x[3])),
          high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[2], x[3]));
  out[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
  out[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
  out[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
  out[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}

/* Reads 8 steps of 16 columns, `step` bytes apart. Addresses are made of four that compilers are told nothing of: else
 * they keep one for each column, in memory, and advance them all. */
SX_INLINE void read_columns(const char *from, int64_t step, const reading how, __m512 x[8]) {
  const char *at[4] = {from};
  int64_t step3 = step * 3;
  SX_UNROLL for (int q = 1; q < 4; q++) {
    at[q] = at[q - 1] + step * 4;
    __asm__("" : "+r"(at[q]));
  }
  SX_UNROLL for (int q = 0; q < 2; q++) {
    const char *low = at[2 * q], *high = at[2 * q + 1];
    x[4 * q] = two_columns(low, high, how);
    x[4 * q + 1] = two_columns(low + step, high + step, how);
    x[4 * q + 2] = two_columns(low + step * 2, high + step * 2, how);
    x[4 * q + 3] = two_columns(low + step3, high + step3, how);
  }
}

/* out[k] has step k of the 16 columns. */
SX_INLINE void turn_columns(const __m512 x[8], sx_floats out[STEPS]) {
  __m512 first[4], second[4];
  turn_squares(x, first);
  turn_squares(x + 4, second);
  SX_UNROLL for (int k = 0; k < 4; k++) {
    out[k] = (sx_floats)_mm512_shuffle_f32x4(first[k], second[k], 0x88);
    out[4 + k] = (sx_floats)_mm512_shuffle_f32x4(first[k], second[k], 0xdd);
  }
}

SX_INLINE void multiply_steps(const int rows, const bool copied, int64_t n, const float *a, const sx_floats *columns,
                              float *copy, sx_floats *sums) {
  SX_UNROLL for (int k = 0; k < STEPS; k++) {
    if (k == n) break;
    if (copied) sx_floats_store(copy + k * SX_TILE_COLUMNS, columns[k]);
    SX_UNROLL for (int r = 0; r < rows; r++) sx_floats_fma(&sums[r], sx_floats_spread_from(&a[k * rows + r]), columns[k]);
  }
}

SX_INLINE void store_sums(const int rows, sx_floats *sums, const sx_tile_call *t, float *c) {
  SX_UNROLL for (int r = 0; r < rows; r++) {
    float *to = c + r * t->c_row;
    if (t->c_column == 1) {
      if (!t->first) sums[r] = sx_floats_load(to) + sums[r];
      sx_floats_store(to, sums[r]);
      continue;
    }
    float line[COLUMNS];
    sx_floats_store(line, sums[r]);
    for (int64_t j = 0; j < COLUMNS; j++)
      to[j * t->c_column] = t->first ? line[j] : to[j * t->c_column] + line[j];
  }
}

/* Groups of columns from `first` on. Rows are packed, a[k][rows]. */
SX_INLINE void turned_groups(const int rows, const int groups, const bool copied, const sx_tile_call *t,
                             int64_t first) {
  sx_floats sums[MOST_GROUPS][TURN_ROWS];
  const float *a = t->a;
  const char *b = (const char *)(t->b + first * t->b_column);
  float *copy = copied ? t->copy + first : NULL;
  int64_t n = t->depth, step = t->b_column * 4, group = step * COLUMNS;
  const reading whole = {.whole = true};
  SX_UNROLL for (int g = 0; g < groups; g++) SX_UNROLL for (int r = 0; r < rows; r++) sums[g][r] = (sx_floats){0};
  for (; n >= LINE; n -= LINE, b += LINE * 4, a += LINE * rows) {
    SX_UNROLL for (int g = 0; g < groups; g++) {
      __m512 near[8], far[8];
      sx_floats columns[STEPS];
      read_columns(b + g * group, step, whole, near);
      read_columns(b + g * group + STEPS * 4, step, whole, far);
      turn_columns(near, columns);
      multiply_steps(rows, copied, STEPS, a, columns, copy, sums[g]);
      turn_columns(far, columns);
      multiply_steps(rows, copied, STEPS, a + STEPS * rows, columns, copied ? copy + STEPS * SX_TILE_COLUMNS : NULL,
                     sums[g]);
    }
    if (copied) copy += LINE * SX_TILE_COLUMNS;
  }
  for (int64_t some; n > 0; n -= some, b += STEPS * 4, a += STEPS * rows) {
    some = sx_min_i64(n, STEPS);
    const reading how = {.some = (__mmask8)((1u << some) - 1)};
    SX_UNROLL for (int g = 0; g < groups; g++) {
      __m512 x[8];
      sx_floats columns[STEPS];
      read_columns(b + g * group, step, how, x);
      turn_columns(x, columns);
      multiply_steps(rows, copied, some, a, columns, copy, sums[g]);
    }
    if (copied) copy += STEPS * SX_TILE_COLUMNS;
  }
  SX_UNROLL for (int g = 0; g < groups; g++)
      store_sums(rows, sums[g], t, t->c + (first + g * COLUMNS) * t->c_column);
}

typedef void turn_function(const sx_tile_call *t, int64_t first);

#define TURN(rows)                                                                                             \
  static void turned_##rows(const sx_tile_call *t, int64_t first) { turned_groups(rows, 1, false, t, first); } \
  static void turned_copied_##rows(const sx_tile_call *t, int64_t first) { turned_groups(rows, 1, true, t, first); }
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10)
EACH_ROWS(TURN)
#define BOTH(rows) {turned_##rows, turned_copied_##rows},
static turn_function *const turned[TURN_ROWS][2] = {EACH_ROWS(BOTH)};
#undef BOTH

/* With so few rows a second group keeps enough sums going. */
static void turned_two_1(const sx_tile_call *t, int64_t first) { turned_groups(1, 2, false, t, first); }
static void turned_two_2(const sx_tile_call *t, int64_t first) { turned_groups(2, 2, false, t, first); }

void SX_AT_LEVEL(sx_tile_run_lines)(const sx_tile_call *t, int64_t rows) {
  turn_function *function = turned[rows - 1][t->copy != NULL];
  int64_t first = 0;
  if (rows <= FEW_ROWS && !t->copy)
    for (; first + 2 * COLUMNS <= t->n_columns; first += 2 * COLUMNS) (rows == 1 ? turned_two_1 : turned_two_2)(t, first);
  for (; first < t->n_columns; first += COLUMNS) function(t, first);
}
#endif

/* ---- products of few rows ------------------------------------------------------------------------------ */

bool SX_AT_LEVEL(sx_gemm_is_turned)(const sx_gemm_plain *p, const sx_gemm_part *part) {
  int64_t rows = part->end_row - part->first_row;
  return p->b_depth == 1 && p->b_column != 1 && rows <= TURN_ROWS && rows * p->k <= TURN_ROOM - SX_GEMM_PANEL;
}

/* Columns that do not fill a group, turned into a panel first. */
static void run_rest(const sx_tile_call *t, int64_t rows, float *panel) {
  SX_AT_LEVEL(sx_gemm_transpose)(t->b, t->b_column, 1, t->n_columns, t->depth, SX_TILE_COLUMNS, panel);
  sx_tile_call last = *t;
  last.b = panel;
  last.b_depth = SX_TILE_COLUMNS;
  last.padded = true;
  SX_AT_LEVEL(sx_tile_run)(&last, rows);
}

/* All blocks of the contracted index of some columns, then the next columns: memory is read in long runs. */
void SX_AT_LEVEL(sx_gemm_run_turned)(const sx_gemm_plain *p, const sx_gemm_part *part, float *panels) {
  int64_t rows = part->end_row - part->first_row, n;
  const float *a = (const float *)part->a + part->first_row * p->a_row;
  if (rows > 1 || p->a_depth != 1) {
    SX_AT_LEVEL(sx_gemm_transpose)(a, p->a_row, p->a_depth, rows, p->k, rows, panels);
    a = panels;
  }
  sx_tile_call t = {.a_row = 1, .a_depth = rows, .b_column = p->b_column, .c_row = p->c_row, .c_column = p->c_column};
  for (int64_t column = part->first_column; column < part->end_column; column += n) {
    n = sx_min_i64(SX_TILE_COLUMNS, part->end_column - column);
    t.n_columns = n;
    t.c = part->c + part->first_row * p->c_row + column * p->c_column;
    for (int64_t k = 0; k < p->k; k += SX_GEMM_DEPTH) {
      t.depth = sx_min_i64(SX_GEMM_DEPTH, p->k - k);
      t.first = k == 0 && !part->adds;
      t.a = a + k * rows;
      t.b = (const float *)part->b + column * p->b_column + k;
      if (n % SX_TURN_COLUMNS == 0)
        SX_AT_LEVEL(sx_tile_run_turned)(&t, rows);
      else
        run_rest(&t, rows, panels + TURN_ROOM);
    }
  }
}
