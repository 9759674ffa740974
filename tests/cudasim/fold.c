/* Sums of products, a tile of 4 x 32 at a time. Three copies of one loop for three widths of registers: products and
 * sums are rounded one by one in all of them, so their bits are the same. */
#include "fold.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 4, COLUMNS = 32, WIDTH = 16, VECTORS = ROWS * COLUMNS / WIDTH };
typedef float vector __attribute__((vector_size(WIDTH * sizeof(float)), aligned(4), may_alias));

void *sim_take(size_t n_bytes) {
  void *memory = malloc(n_bytes ? n_bytes : 1);
  if (memory) return memory;
  fprintf(stderr, "cudasim: no memory for %zu bytes\n", n_bytes);
  abort();
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

size_t sim_dtype_size(sim_dtype dtype) { return dtype == SIM_F32 ? 4 : 2; }

const char *sim_dtype_name(sim_dtype dtype) {
  static const char *const names[SIM_N_DTYPES] = {"f32", "bf16", "f16"};
  return names[dtype];
}

float sim_widen_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000 | fraction << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}

/* A value of f16's subnormal range is rounded by adding what leaves f16's last bit as the last bit of the sum. */
static uint16_t narrow_f16(float value) {
  uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 1023));
  if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (bits < 0x38800000) return (uint16_t)(sign | (bits_of(float_of(bits) + 0.5f) - bits_of(0.5f)));
  return (uint16_t)(sign | ((bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13));
}

static uint16_t narrow_bf16(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 64);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void sim_narrow(sim_dtype dtype, void *values, int64_t at, float value) {
  if (dtype == SIM_F32)
    ((float *)values)[at] = value;
  else
    ((uint16_t *)values)[at] = dtype == SIM_BF16 ? narrow_bf16(value) : narrow_f16(value);
}

/* ---- panels ------------------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

INLINE void fill(sim_dtype dtype, float *panel, const void *values, int64_t n_terms, int64_t n, int64_t width,
                 int64_t row_stride, int64_t term_stride) {
  if (row_stride == 1)
    for (int64_t k = 0; k < n_terms; k++)
      for (int64_t r = 0; r < n; r++) panel[k * width + r] = sim_widen(dtype, values, r + k * term_stride);
  else
    for (int64_t r = 0; r < n; r++)
      for (int64_t k = 0; k < n_terms; k++)
        panel[k * width + r] = sim_widen(dtype, values, r * row_stride + k * term_stride);
}

void sim_fill_strided(const sim_operand *operand, float *panel, int64_t n_terms, int64_t i, int64_t width) {
  int64_t n = operand->n - i < width ? operand->n - i : width;
  const char *values =
      (const char *)operand->values + i * operand->row_stride * (int64_t)sim_dtype_size(operand->dtype);
  if (n < width) memset(panel, 0, (size_t)(n_terms * width) * sizeof *panel);
  SIM_FOR_DTYPE(operand->dtype, dtype,
                fill(dtype, panel, values, n_terms, n, width, operand->row_stride, operand->term_stride));
}

/* ---- one tile ----------------------------------------------------------------------------------- */

/* Adds n terms, `step` apart, from term k on. */
INLINE void add_terms(vector sums[VECTORS], const float *a, const float *b, int64_t k, int64_t n, int64_t step) {
  vector s[VECTORS];
  for (int v = 0; v < VECTORS; v++) s[v] = sums[v];
  a += k * ROWS;
  b += k * COLUMNS;
  for (; n > 0; n--, a += step * ROWS, b += step * COLUMNS) {
    const vector b0 = *(const vector *)b, b1 = *(const vector *)(b + WIDTH);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; r++) {
      s[2 * r] += a[r] * b0;
      s[2 * r + 1] += a[r] * b1;
    }
  }
  for (int v = 0; v < VECTORS; v++) sums[v] = s[v];
}

INLINE void add_sums(vector sums[VECTORS], vector more[VECTORS]) {
  for (int v = 0; v < VECTORS; v++) sums[v] += more[v];
}

/* The first of n groups of sums gets all of them. */
INLINE void combine(vector (*groups)[VECTORS], int64_t n, bool tree) {
  if (!tree) {
    for (int64_t i = 1; i < n; i++) add_sums(groups[0], groups[i]);
    return;
  }
  for (int64_t step = 1; step < n; step *= 2)
    for (int64_t i = 0; i + step < n; i += 2 * step) add_sums(groups[i], groups[i + step]);
}

/* Terms begin to end of a lane's own count, in blocks. */
INLINE void add_run(vector sums[VECTORS], const float *a, const float *b, int64_t origin, int64_t begin, int64_t end,
                    const sim_fold_order *order) {
  int64_t block = order->block > 0 ? order->block : end - begin;
  for (int64_t at = begin; at < end; at += block) {
    vector some[VECTORS] = {{0}};
    int64_t n = end - at < block ? end - at : block;
    add_terms(some, a, b, origin + at * order->lanes, n, order->lanes);
    add_sums(sums, some);
  }
}

INLINE void fold_tile(float *tile, const float *a, const float *b, int64_t n_terms, const sim_fold_order *order) {
  vector parts[SIM_PARTS_MAX][VECTORS], lanes[SIM_LANES_MAX][VECTORS];
  int64_t length = (n_terms + order->parts - 1) / order->parts;
  for (int64_t p = 0; p < order->parts; p++) {
    int64_t begin = p * length < n_terms ? p * length : n_terms;
    int64_t n_part = n_terms - begin < length ? n_terms - begin : length;
    for (int64_t l = 0; l < order->lanes; l++) {
      int64_t n = n_part > l ? (n_part - l + order->lanes - 1) / order->lanes : 0;
      int64_t first = n ? order->first % n : 0;
      memset(lanes[l], 0, sizeof lanes[l]);
      add_run(lanes[l], a, b, begin + l, first, n, order);
      add_run(lanes[l], a, b, begin + l, 0, first, order);
    }
    combine(lanes, order->lanes, order->tree);
    memcpy(parts[p], lanes[0], sizeof parts[p]);
  }
  combine(parts, order->parts, order->tree);
  memcpy(tile, parts[0], sizeof parts[0]);
}

typedef void fold_function(float *tile, const float *a, const float *b, int64_t n_terms, const sim_fold_order *order);

static void fold_plain(float *tile, const float *a, const float *b, int64_t n_terms, const sim_fold_order *order) {
  fold_tile(tile, a, b, n_terms, order);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void fold_avx2(float *tile, const float *a, const float *b, int64_t n_terms,
                                                      const sim_fold_order *order) {
  fold_tile(tile, a, b, n_terms, order);
}

__attribute__((target("avx512f"))) static void fold_avx512(float *tile, const float *a, const float *b, int64_t n_terms,
                                                           const sim_fold_order *order) {
  fold_tile(tile, a, b, n_terms, order);
}

static fold_function *choose_width(void) {
  if (__builtin_cpu_supports("avx512f")) return fold_avx512;
  return __builtin_cpu_supports("avx2") ? fold_avx2 : fold_plain;
}
#else
static fold_function *choose_width(void) { return fold_plain; }
#endif

/* ---- all tiles ---------------------------------------------------------------------------------- */

/* Where a is the longer side, tiles lie across: products commute, so the bits are the same. */
static void put_tile(float *sums, const float *tile, int64_t i, int64_t j, const sim_operand *a, const sim_operand *b,
                     bool across) {
  int64_t n_rows = a->n - i < ROWS ? a->n - i : ROWS, n_columns = b->n - j < COLUMNS ? b->n - j : COLUMNS;
  for (int64_t r = 0; r < n_rows; r++)
    for (int64_t c = 0; c < n_columns; c++)
      sums[across ? (j + c) * a->n + i + r : (i + r) * b->n + j + c] = tile[r * COLUMNS + c];
}

void sim_fold(float *sums, int64_t n_terms, const sim_operand *a, const sim_operand *b, const sim_fold_order *order) {
  fold_function *fold = choose_width();
  bool across = a->fill == sim_fill_strided && b->fill == sim_fill_strided && a->n > b->n;
  const sim_operand *whole = across ? b : a, *strip = across ? a : b;
  int64_t n_panels = (whole->n + ROWS - 1) / ROWS;
  float *panels = sim_take((size_t)(n_panels * ROWS * n_terms) * sizeof *panels);
  float *columns = sim_take((size_t)(COLUMNS * n_terms) * sizeof *columns), tile[ROWS * COLUMNS];
  for (int64_t i = 0; i < n_panels; i++) whole->fill(whole, panels + i * ROWS * n_terms, n_terms, i * ROWS, ROWS);
  for (int64_t j = 0; j < strip->n; j += COLUMNS) {
    strip->fill(strip, columns, n_terms, j, COLUMNS);
    for (int64_t i = 0; i < n_panels; i++) {
      fold(tile, panels + i * ROWS * n_terms, columns, n_terms, order);
      put_tile(sums, tile, i * ROWS, j, whole, strip, across);
    }
  }
  free(panels);
  free(columns);
}
