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

/* Bytes of scratch that an input of short floats takes as f32: a multiple of 64. */
static inline int64_t sx_conv_wide_bytes(int64_t n) { return (n * 4 + 63) / 64 * 64; }

/* The bytes of scratch that all threads share: weights as panels. A multiple of 64. */
static inline int64_t sx_conv_pixels_bytes(int64_t n, int64_t k) { return (n + SX_GEMM_PANEL) * k * 4 / 64 * 64 + 64; }

/* Windows of a line of an image of few channels overlap in a packed line as they do in the image, with 0 where they
 * leave it; those that do not meet lie side by side. Floats of a line of n windows: at most n kw channels. */
static inline int64_t sx_conv_line(int64_t n, int64_t stride, int64_t kw, int64_t channels) {
  return ((n - 1) * (stride < kw ? stride : kw) + kw) * channels;
}

enum { SX_CONV_FEW_TERMS = 48, SX_CONV_STRIP = 4096 };

/* Whether a forward convolution has so few terms that finding the rows of each tile would take long: then lines of the
 * image are packed. */
static inline bool sx_conv_has_lines(const int64_t out[4], const int64_t kernel[4]) {
  int64_t places = kernel[1] * kernel[2], terms = places * kernel[3];
  return places > 1 && terms > 0 && terms <= SX_CONV_FEW_TERMS && out[1] > 0 && out[2] > 0;
}

/* How many rows of pixels are packed at once: lines of about SX_CONV_STRIP floats together; at least one row. */
static inline int64_t sx_conv_strip(int64_t line, int64_t step, int64_t kh, int64_t n_rows) {
  int64_t rows = (SX_CONV_STRIP / line - kh) / step + 1;
  return rows < 1 ? 1 : rows > n_rows ? n_rows : rows;
}

/* Of a thread's packed lines: a multiple of 16. */
static inline int64_t sx_conv_strip_floats(const int64_t out[4], const int64_t kernel[4], int64_t stride) {
  int64_t line = sx_conv_line(out[2], stride, kernel[2], kernel[3]), step = stride < kernel[1] ? stride : kernel[1];
  int64_t rows = sx_conv_strip(line, step, kernel[1], out[1]);
  return (((rows - 1) * step + kernel[1]) * line + 15) / 16 * 16;
}

/* A weight gradient: pixels are contracted. Rows and lanes are channels of dy and of the image at one place of
 * the kernel; or, where the image has few channels, elements of a window and channels of dy. */
typedef struct sx_conv_weight {
  const sx_call *call;
  float *c; /* contiguous, of the call's result's shape */
} sx_conv_weight;

enum { SX_CONV_WINDOW = 256, SX_CONV_ROWS = 14 }; /* most elements of a window that are rows; most rows of a tile */

/* Bytes of scratch of each thread: rows of a block of pixels, tile by tile; for windows also the result as it is
 * computed. A multiple of 64. */
static inline int64_t sx_conv_weight_bytes(const int64_t w[4]) {
  int64_t window = w[1] * w[2] * w[3];
  int64_t channels = (w[0] + 2 * SX_CONV_ROWS) * (SX_GEMM_DEPTH + SX_GEMM_PANEL) * 4;
  int64_t windows = (window * SX_GEMM_DEPTH + window * w[0] + SX_GEMM_PANEL) * 4;
  return ((window <= SX_CONV_WINDOW && windows > channels ? windows : channels) + 63) / 64 * 64;
}

#endif
