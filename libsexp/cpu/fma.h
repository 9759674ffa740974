/* fma(a, b, c) with one rounding, on one f32 and on a register of them. Where the target has the
 * instruction it is used; elsewhere the exact product and the sum's error in binary64 give the same bits. */
#ifndef SX_CPU_FMA_H
#define SX_CPU_FMA_H

#include "level.h"

#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__aarch64__)
#define SX_HARDWARE_FMA 1
#else
#define SX_HARDWARE_FMA 0
#endif

/* The product is exact in binary64; the sum is rounded to odd there, so that the rounding to f32 sees on
 * which side of a midpoint it lies (Boldo and Melquiond, 2008). The error of an infinite sum is NaN and
 * counts as none. */
SX_INLINE float sx_fma_by_f64(float a, float b, float c) {
  double product = (double)a * (double)b;
  double rest;
  double sum = sx_two_sum(product, (double)c, &rest);
  uint64_t bits = sx_bits_f64(sum);
  uint64_t inexact = sx_mask64(rest < 0.0) | sx_mask64(rest > 0.0);
  uint64_t below = (bits ^ sx_bits_f64(rest)) >> 63;
  bits = (bits - (below & inexact)) | (inexact & 1);
  return (float)sx_from_bits_f64(bits);
}

SX_INLINE float sx_fma(float a, float b, float c) {
#if SX_HARDWARE_FMA
  return __builtin_fmaf(a, b, c);
#else
  return sx_fma_by_f64(a, b, c);
#endif
}

/* *sum = fma(a, b, *sum). The form that overwrites the sum is named: left alone, compilers mix forms and
 * spill sums. */
SX_INLINE void sx_floats_fma(sx_floats *sum, sx_floats a, sx_floats b) {
#if defined(__AVX512F__)
  __asm__("vfmadd231ps %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
#elif defined(__FMA__) && defined(__AVX2__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b));
#else
  for (int lane = 0; lane < SX_LANES; lane++) (*sum)[lane] = sx_fma(a[lane], b[lane], (*sum)[lane]);
#endif
}

/* The most rows of a tile in registers at this level, and X of each number of rows: functions for them, and a table of
 * those. Few: where each row has an address of its own, which takes a register too. */
#if defined(__AVX512F__)
enum { SX_TILE_ROWS = 14, SX_FEW_TILE_ROWS = 12 };
#define SX_EACH_FEW_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define SX_EACH_TILE_ROWS(X) SX_EACH_FEW_TILE_ROWS(X) X(13) X(14)
#elif defined(__AVX2__)
enum { SX_TILE_ROWS = 6, SX_FEW_TILE_ROWS = 6 };
#define SX_EACH_FEW_TILE_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define SX_EACH_TILE_ROWS(X) SX_EACH_FEW_TILE_ROWS(X)
#else
enum { SX_TILE_ROWS = 4, SX_FEW_TILE_ROWS = 4 };
#define SX_EACH_FEW_TILE_ROWS(X) X(1) X(2) X(3) X(4)
#define SX_EACH_TILE_ROWS(X) SX_EACH_FEW_TILE_ROWS(X)
#endif

#endif
