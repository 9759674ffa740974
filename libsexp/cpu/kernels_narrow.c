/* Tiles of few columns, in registers of 8 elements also where there are longer ones: a broadcast into such a
 * register takes half the time, and where columns are few there is a broadcast for every multiply-add or two.
 *
 * Columns that lie side by side are read as they are. Where they run along the contracted index, squares of
 * them are turned in registers on the way. */
#include "tile.h"

#if defined(__AVX2__)
enum { HALF = 8 };
#else
enum { HALF = 4 };
#endif
enum {
  ROWS = SX_TILE_ROWS,
  GROUP = 2 * HALF,
  FEW_ROWS = 2,
  SET_FLOATS = 512,
  MOST_HALVES = 4,
  WIDE = MOST_HALVES * HALF
};

typedef float half __attribute__((vector_size(HALF * 4), aligned(4), may_alias));

SX_INLINE half load(const float *from) { return *(const half *)from; }
SX_INLINE void store(float *to, half x) { *(half *)to = x; }

/* See sx_floats_spread_from. */
SX_INLINE half spread(const float *from) {
#if defined(__AVX512VL__)
  half x;
  __asm__("vpbroadcastd %1, %0" : "=v"(x) : "m"(*from));
  return x;
#elif defined(__AVX2__)
  return (half)_mm256_broadcast_ss(from);
#else
  return (half){*from, *from, *from, *from};
#endif
}

SX_INLINE void multiply_add(half *sum, half a, half b) {
#if defined(__AVX512VL__)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#elif defined(__FMA__) && defined(__AVX2__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
#else
  for (int lane = 0; lane < HALF; lane++) (*sum)[lane] = sx_fma(a[lane], b[lane], (*sum)[lane]);
#endif
}

/* n elements at most, 1 to HALF; the others are 0. */
SX_INLINE half load_some(const float *from, int64_t n) {
#if defined(__AVX512VL__)
  return (half)_mm256_maskz_loadu_ps((__mmask8)((1u << n) - 1), from);
#else
  if (n == HALF) return load(from);
  half x = {0};
  for (int64_t j = 0; j < n; j++) x[j] = from[j];
  return x;
#endif
}

SX_INLINE void store_some(float *to, int64_t n, half x) {
  if (n == HALF) {
    store(to, x);
    return;
  }
#if defined(__AVX512VL__)
  _mm256_mask_storeu_ps(to, (__mmask8)((1u << n) - 1), (__m256)x);
#else
  for (int64_t j = 0; j < n; j++) to[j] = x[j];
#endif
}

SX_INLINE void clear(const int rows, const int halves, half sums[ROWS][MOST_HALVES]) {
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < halves; v++) sums[r][v] = (half){0};
}

static void scatter(const sx_tile_call *t, int rows, float *c, int64_t n, const float *sums) {
  for (int64_t j = 0; j < n; j++)
    for (int r = 0; r < rows; r++) {
      float *to = c + r * t->c_row + j * t->c_column, sum = sums[r * WIDE + j];
      *to = t->first ? sum : *to + sum;
    }
}

/* The first n columns of a group to c. */
SX_INLINE void store_group(const int rows, const int halves, half sums[ROWS][MOST_HALVES], const sx_tile_call *t,
                           float *c, int64_t n) {
  if (t->c_column != 1) {
    float buffer[ROWS * WIDE];
    SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < halves; v++)
        store(buffer + r * WIDE + v * HALF, sums[r][v]);
    scatter(t, rows, c, n, buffer);
    return;
  }
  SX_UNROLL for (int r = 0; r < rows; r++) SX_UNROLL for (int v = 0; v < halves; v++) {
    float *to = c + r * t->c_row + v * HALF;
    int64_t count = v < halves - 1 ? HALF : n - v * HALF;
    if (!t->first) sums[r][v] = load_some(to, count) + sums[r][v];
    store_some(to, count, sums[r][v]);
  }
}

/* ---- columns that lie side by side --------------------------------------------------------------- */

#if defined(__AVX512VL__)
enum { QUADS = (ROWS + 3) / 4 };

/* GROUP columns at most. Rows are found from every fourth of them: an address of each is more than there are registers
 * for. */
SX_INLINE void narrow_tile(const int rows, const int halves, const sx_tile_call *t) {
  half sums[ROWS][MOST_HALVES];
  const char *from[QUADS] = {(const char *)t->a};
  const float *b = t->b;
  int64_t n = t->depth, a_depth = t->a_depth * 4, b_depth = t->b_depth, n_last = t->n_columns - (halves - 1) * HALF;
  int64_t step = t->a_row * 4, step3 = step * 3;
  SX_UNROLL for (int q = 1; 4 * q < rows; q++) {
    from[q] = from[q - 1] + step * 4;
    __asm__("" : "+r"(from[q]));
  }
  clear(rows, halves, sums);
  for (int64_t k = 0; k < n; k++, b += b_depth) {
    half columns[2];
    SX_UNROLL for (int v = 0; v < halves; v++) columns[v] =
        v < halves - 1 ? load(b + v * HALF) : load_some(b + v * HALF, n_last);
    if (t->copy) SX_UNROLL for (int v = 0; v < halves; v++) store(t->copy + k * SX_TILE_COLUMNS + v * HALF, columns[v]);
    SX_UNROLL for (int r = 0; r < rows; r++) {
      const char *at = from[r / 4] + (r % 4 < 3 ? r % 4 * step : step3);
      half row = spread((const float *)(const void *)at);
      SX_UNROLL for (int v = 0; v < halves; v++) multiply_add(&sums[r][v], row, columns[v]);
    }
    SX_UNROLL for (int q = 0; 4 * q < rows; q++) from[q] += a_depth;
  }
  store_group(rows, halves, sums, t, t->c, t->n_columns);
}

#define NARROW(rows)                                                                \
  static void narrow_##rows##_1(const sx_tile_call *t) { narrow_tile(rows, 1, t); } \
  static void narrow_##rows##_2(const sx_tile_call *t) { narrow_tile(rows, 2, t); }
NARROW(1)
NARROW(2)
NARROW(3)
NARROW(4)
NARROW(5)
NARROW(6)
NARROW(7)
NARROW(8)
NARROW(9)
NARROW(10)
NARROW(11)
NARROW(12)
NARROW(13)
NARROW(14)
#define PAIR(rows) \
  { narrow_##rows##_1, narrow_##rows##_2 }
static void (*const narrow[ROWS][2])(const sx_tile_call *t) = {PAIR(1),  PAIR(2),  PAIR(3),  PAIR(4), PAIR(5),
                                                               PAIR(6),  PAIR(7),  PAIR(8),  PAIR(9), PAIR(10),
                                                               PAIR(11), PAIR(12), PAIR(13), PAIR(14)};
#undef PAIR

void SX_AT_LEVEL(sx_tile_run_narrow)(const sx_tile_call *t, int64_t rows) { narrow[rows - 1][t->n_columns > HALF](t); }
#endif

/* ---- columns that run along the contracted index ------------------------------------------------ */

/* The first 4 elements of HALF rows, one element of each a register. */
SX_INLINE void turn(const float *from, int64_t row, half out[4]) {
#if defined(__AVX2__)
  __m256 x[4];
  SX_UNROLL for (int r = 0; r < 4; r++) {
    const float *at = from + r * row;
    x[r] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(at)), _mm_loadu_ps(at + 4 * row), 1);
  }
  __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(x[0], x[1])),
          high01 = _mm256_castps_pd(_mm256_unpackhi_ps(x[0], x[1])),
          low23 = _mm256_castps_pd(_mm256_unpacklo_ps(x[2], x[3])),
          high23 = _mm256_castps_pd(_mm256_unpackhi_ps(x[2], x[3]));
  out[0] = (half)_mm256_unpacklo_pd(low01, low23);
  out[1] = (half)_mm256_unpackhi_pd(low01, low23);
  out[2] = (half)_mm256_unpacklo_pd(high01, high23);
  out[3] = (half)_mm256_unpackhi_pd(high01, high23);
#else
  for (int k = 0; k < 4; k++)
    for (int r = 0; r < HALF; r++) out[k][r] = from[r * row + k];
#endif
}

/* One step of the contracted index: number j of each square. */
SX_INLINE void turned_step(const int rows, const int halves, const bool copied, const int j,
                           half sums[ROWS][MOST_HALVES], const float *a, half squares[MOST_HALVES][4], float *copy) {
  if (copied) SX_UNROLL for (int v = 0; v < halves; v++) store(copy + v * HALF, squares[v][j]);
  SX_UNROLL for (int r = 0; r < rows; r++) {
    half row = spread(&a[r]);
    SX_UNROLL for (int v = 0; v < halves; v++) multiply_add(&sums[r][v], row, squares[v][j]);
  }
}

/* Columns first to first + halves HALF - 1. Rows are packed, a[k][rows]. */
SX_INLINE void turned_group(const int rows, const int halves, const bool copied, const sx_tile_call *t, int64_t first) {
  half sums[ROWS][MOST_HALVES], squares[MOST_HALVES][4];
  const float *a = t->a, *b = t->b + first * t->b_column;
  float *copy = copied ? t->copy + first : NULL;
  int64_t n = t->depth, k = 0, b_column = t->b_column;
  clear(rows, halves, sums);
  for (; k + 4 <= n; k += 4, b += 4) {
    if (t->fetch) sx_fetch_some(&t->fetch[SX_FETCH_COLUMNS], 2, 4); /* as many as the squares use up */
    SX_UNROLL for (int v = 0; v < halves; v++) turn(b + v * HALF * b_column, b_column, squares[v]);
    SX_UNROLL for (int j = 0; j < 4; j++) {
      turned_step(rows, halves, copied, j, sums, a, squares, copy);
      a += rows;
      if (copied) copy += SX_TILE_COLUMNS;
    }
  }
  for (; k < n; k++, b++, a += rows) {
    float line[WIDE];
    for (int64_t j = 0; j < halves * HALF; j++) line[j] = b[j * b_column];
    SX_UNROLL for (int v = 0; v < halves; v++) squares[v][0] = load(line + v * HALF);
    turned_step(rows, halves, copied, 0, sums, a, squares, copy);
    if (copied) copy += SX_TILE_COLUMNS;
  }
  store_group(rows, halves, sums, t, t->c + first * t->c_column, halves * HALF);
}

typedef void turn_function(const sx_tile_call *t, int64_t group);

#define TURN(rows)                                                                                            \
  static void turned_##rows(const sx_tile_call *t, int64_t group) { turned_group(rows, 2, false, t, group); } \
  static void turned_copied_##rows(const sx_tile_call *t, int64_t group) { turned_group(rows, 2, true, t, group); }
TURN(1)
TURN(2)
TURN(3)
TURN(4)
#if defined(__AVX512F__)
TURN(5)
TURN(6)
TURN(7)
TURN(8)
TURN(9)
TURN(10)
#endif
#define BOTH(rows) \
  { turned_##rows, turned_copied_##rows }
static turn_function *const turned[SX_TURN_MOST][2] = {
    BOTH(1), BOTH(2), BOTH(3), BOTH(4),
#if defined(__AVX512F__)
    BOTH(5), BOTH(6), BOTH(7), BOTH(8), BOTH(9), BOTH(10),
#endif
};

/* With so few rows more columns keep enough sums going. */
static void turned_wide_1(const sx_tile_call *t, int64_t group) { turned_group(1, 4, false, t, group); }
static void turned_wide_2(const sx_tile_call *t, int64_t group) { turned_group(2, 4, false, t, group); }

void SX_AT_LEVEL(sx_tile_run_turned)(const sx_tile_call *t, int64_t rows) {
  turn_function *function = turned[rows - 1][t->copy != NULL];
  int64_t group = 0;
  bool meet = t->b_column % SET_FLOATS == 0; /* their lines would drive each other out of the cache */
#if defined(__AVX512F__)
  if (rows == 1 || t->b_column % (2 * SET_FLOATS) == 0) {
    SX_AT_LEVEL(sx_tile_run_lines)(t, rows);
    return;
  }
#endif
  if (rows <= FEW_ROWS && !t->copy && !meet)
    for (; group + WIDE <= t->n_columns; group += WIDE) (rows == 1 ? turned_wide_1 : turned_wide_2)(t, group);
  for (; group < t->n_columns; group += GROUP) function(t, group);
}
