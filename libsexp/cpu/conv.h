/* Convolutions with pixels as rows and channels as lanes. The result's pixels that see the same places of the
 * kernel inside of the source are a class: only those places are contracted, so that each row is one pointer
 * and all rows of a class share one list of runs. What is left out are terms fma(0, w, sum): for a finite w
 * they change nothing but a sum of -0 into +0, so where a class that leaves out terms gives -0, the element is
 * computed anew by the reference.
 *
 * Internal to the fast kernels. */
#ifndef SX_CPU_CONV_H
#define SX_CPU_CONV_H

#include "gemm.h"

/* Along one axis: pixel i of the result lies at c_first + c_step i and sees, through place t of the kernel, the
 * source at from + step i + place_step t; place t is index place_first + place_apart t of the kernel. */
typedef struct sx_conv_axis {
  int64_t n, c_first, c_step;
  int64_t from, step, length;
  int64_t n_places, place_first, place_apart, place_step;
} sx_conv_axis;

typedef struct sx_conv_phase {
  sx_conv_axis y, x;
} sx_conv_phase;

typedef float sx_conv_reference(const sx_call *call, const int64_t at[4]);

typedef struct sx_conv_pixels {
  const sx_call *call;
  sx_conv_reference *reference; /* one element by the full order */
  const sx_operand *source;     /* f32, channels side by side */
  const sx_operand *kernel;
  float *c; /* contiguous, of the call's result's shape */
  /* Phases of equal remainder by the stride: n_phases of either axis, of which this makes one. */
  int64_t n_phases;
  sx_conv_phase (*phase)(const sx_call *call, int64_t y, int64_t x);
  sx_gemm_side weights; /* rows: channels of the result; depth: (kh, kw, channels of the source) */
} sx_conv_pixels;

/* The bytes of scratch that all threads share: weights as panels. A multiple of 64. */
static inline int64_t sx_conv_pixels_bytes(int64_t n, int64_t k) { return (n + SX_GEMM_PANEL) * k * 4 / 64 * 64 + 64; }

/* A weight gradient: pixels are contracted. Rows and lanes are channels of dy and of the image at one place of
 * the kernel; or, where the image has few channels, elements of a window and channels of dy. */
typedef struct sx_conv_weight {
  const sx_call *call;
  float *c; /* contiguous, of the call's result's shape */
} sx_conv_weight;

enum { SX_CONV_WINDOW = 64, SX_CONV_ROWS = 14 }; /* most elements of a window that are rows; most rows of a tile */

/* Bytes of scratch of each thread: rows of a block of pixels, tile by tile; for windows also the result as it is
 * computed. A multiple of 64. */
static inline int64_t sx_conv_weight_bytes(const int64_t w[4]) {
  int64_t window = w[1] * w[2] * w[3];
  int64_t channels = (w[0] + 2 * SX_CONV_ROWS) * (SX_GEMM_DEPTH + SX_GEMM_PANEL) * 4;
  int64_t windows = (SX_CONV_WINDOW * SX_GEMM_DEPTH + SX_CONV_WINDOW * w[0] + SX_GEMM_PANEL) * 4;
  return ((window <= SX_CONV_WINDOW && windows > channels ? windows : channels) + 63) / 64 * 64;
}

#endif
