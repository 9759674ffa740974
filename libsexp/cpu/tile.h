/* A tile of a product: some rows by some columns of the result, kept in registers while they run through one
 * block of the contracted index, then stored (first block) or added (the others).
 *
 * Internal to the fast kernels of products. */
#ifndef SX_CPU_TILE_H
#define SX_CPU_TILE_H

#include "fma.h"
#include "gemm.h"

#if defined(__AVX512F__)
enum { SX_TURN_ROWS = 8, SX_TURN_MOST = 10 };
#else
enum { SX_TURN_ROWS = 4, SX_TURN_MOST = 4 };
#endif
#if defined(__AVX2__)
enum { SX_TURN_COLUMNS = 16 };
#else
enum { SX_TURN_COLUMNS = 8 };
#endif
enum { SX_TILE_VECTORS = 2, SX_TILE_COLUMNS = SX_TILE_VECTORS * SX_LANES };

/* Lines of memory that a later tile will read: `width` of them a step apart, then as many from `row` on, and so forth.
 * Each tile fetches the next `n_each`, some at a time while it multiplies. */
typedef struct sx_fetch {
  const float *line;
  int64_t step, width, row; /* row: from the end of one to the beginning of the next */
  int64_t at;               /* lines of this row that are done */
  int64_t n, n_each;        /* n: that are left */
} sx_fetch;
enum { SX_FETCH_ROWS, SX_FETCH_COLUMNS, SX_N_FETCHES };

/* The next n of them. level: the nearest cache that gets them. */
SX_INLINE void sx_fetch_some(sx_fetch *fetch, const int level, int64_t n) {
  n = sx_min_i64(n, fetch->n);
  fetch->n -= n;
  for (; n > 0; n--) {
    if (level == 1)
      __builtin_prefetch(fetch->line, 0, 3);
    else
      __builtin_prefetch(fetch->line, 0, 2);
    fetch->line += fetch->step;
    if (++fetch->at < fetch->width) continue;
    fetch->at = 0;
    fetch->line += fetch->row;
  }
}

/* a[r k] = a[r a_row + k a_depth], b[k j] = b[k b_depth + j], or b[k + j b_column] of a turned tile. */
typedef struct sx_tile_call {
  const float *a, *b;
  int64_t a_row, a_depth, b_depth, b_column, depth;
  float *c;
  int64_t c_row, c_column;
  int64_t n_columns;
  bool first;      /* of the blocks: store, else add */
  bool padded;     /* every register of b may be read whole */
  float *copy;     /* where b's columns go, SX_TILE_COLUMNS apart for each k; NULL: nowhere */
  sx_fetch *fetch; /* SX_N_FETCHES of them; NULL: none */
} sx_tile_call;

/* The last register of a line, which may be a part of one. */
#if defined(__AVX512F__)
typedef __mmask16 sx_lanes;
SX_INLINE sx_lanes sx_lanes_first(int64_t n) { return (sx_lanes)((1u << n) - 1); }
SX_INLINE sx_floats sx_lanes_load(sx_lanes some, const float *from) {
  return (sx_floats)_mm512_maskz_loadu_ps(some, from);
}
SX_INLINE void sx_lanes_store(sx_lanes some, float *to, sx_floats x) { _mm512_mask_storeu_ps(to, some, (__m512)x); }
#elif defined(__AVX2__)
typedef __m256i sx_lanes;
SX_INLINE sx_lanes sx_lanes_first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SX_INLINE sx_floats sx_lanes_load(sx_lanes some, const float *from) {
  return (sx_floats)_mm256_maskload_ps(from, some);
}
SX_INLINE void sx_lanes_store(sx_lanes some, float *to, sx_floats x) { _mm256_maskstore_ps(to, some, (__m256)x); }
#else
typedef int64_t sx_lanes;
SX_INLINE sx_lanes sx_lanes_first(int64_t n) { return n; }
SX_INLINE sx_floats sx_lanes_load(sx_lanes some, const float *from) {
  if (some == SX_LANES) return sx_floats_load(from);
  sx_floats x = {0};
  for (int64_t j = 0; j < some; j++) x[j] = from[j];
  return x;
}
SX_INLINE void sx_lanes_store(sx_lanes some, float *to, sx_floats x) {
  for (int64_t j = 0; j < some; j++) to[j] = x[j];
}
#endif

/* Rows 1 to SX_TILE_ROWS, columns 1 to SX_TILE_COLUMNS. */
void SX_AT_LEVEL(sx_tile_run)(const sx_tile_call *tile, int64_t rows);
#if defined(__AVX512VL__)
/* As sx_tile_run, for SX_LANES columns at most. */
void SX_AT_LEVEL(sx_tile_run_narrow)(const sx_tile_call *tile, int64_t rows);
#endif
/* Few rows or a short contracted index: what sx_gemm_is_rows says; computes a part of it. */
bool SX_AT_LEVEL(sx_gemm_is_rows)(const sx_gemm_plain *plain);
void SX_AT_LEVEL(sx_gemm_run_rows)(const sx_gemm_plain *plain, const sx_gemm_part *part);
/* Where b runs along the contracted index: squares of it are turned in registers. Rows 1 to SX_TURN_MOST
 * (of a tile that others follow SX_TURN_ROWS do best), columns a multiple of SX_TURN_COLUMNS; rows are packed,
 * a[k][rows]. */
void SX_AT_LEVEL(sx_tile_run_turned)(const sx_tile_call *tile, int64_t rows);
#if defined(__AVX512F__)
/* The same by whole lines of memory. */
void SX_AT_LEVEL(sx_tile_run_lines)(const sx_tile_call *tile, int64_t rows);
#endif
/* Few rows and such columns: what sx_gemm_is_turned says; computes the part. panels: sx_gemm_scratch_bytes. */
bool SX_AT_LEVEL(sx_gemm_is_turned)(const sx_gemm_plain *plain, const sx_gemm_part *part);
void SX_AT_LEVEL(sx_gemm_run_turned)(const sx_gemm_plain *plain, const sx_gemm_part *part, float *panels);

#endif
