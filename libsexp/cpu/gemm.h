/* Matrix products C[i j] = sum over k of R[i k] S[j k] in the order of numerics 1, where either operand is
 * seen through a side: how an index i (or j) and an index k lead to an element. Einsum and convolutions
 * are sides; windows of an image are read where they lie, 0 where they leave it.
 *
 * Internal to the fast kernels. The block of the contracted index is part of the definition; the other
 * block sizes are tuning. */
#ifndef SX_CPU_GEMM_H
#define SX_CPU_GEMM_H

#include "kernel.h"

enum {
  SX_GEMM_DEPTH = 256,    /* the block of numerics 1 */
  SX_GEMM_ROWS = 168,     /* largest block of rows of any level */
  SX_GEMM_COLUMNS = 2048, /* largest block of columns of any level */
  SX_GEMM_PANEL = 32,     /* widest panel of any level */
  SX_GEMM_WIDEST = 64,    /* widest panel that sx_gemm_transpose makes */
  SX_GEMM_SMALL = 1 << 18 /* multiplications (some 5 us) that are not worth waking threads, which takes 2 to 16 us */
};

/* One axis of a walk: its length, what a step adds to the offset and to the place in the image. */
typedef struct sx_gemm_axis {
  int64_t dim, stride;
  int64_t y, x;
} sx_gemm_axis;

typedef struct sx_gemm_walk {
  int n;
  sx_gemm_axis axes[SX_RANK_MAX];
} sx_gemm_walk;

/* An element is data[base + row + depth], if 0 <= y0 + y < height and likewise x; else it is 0. A side
 * without an image has height and width 1 and no axis that moves y or x. */
typedef struct sx_gemm_side {
  const void *data;
  sx_dtype dtype;
  int64_t base;
  int64_t y0, x0, height, width;
  sx_gemm_walk rows, depth;
} sx_gemm_side;

static inline bool sx_gemm_moves(const sx_gemm_walk *walk) {
  for (int axis = 0; axis < walk->n; axis++)
    if (walk->axes[axis].dim > 1 && (walk->axes[axis].y || walk->axes[axis].x)) return true;
  return false;
}

/* Whether an element may lie outside of an image: a padded image of one pixel is one too. */
static inline bool sx_gemm_has_image(const sx_gemm_side *side) {
  return side->height != 1 || side->width != 1 || side->y0 || side->x0 || sx_gemm_moves(&side->rows) ||
         sx_gemm_moves(&side->depth);
}

typedef struct sx_gemm {
  sx_gemm_side row_side, column_side;
  int64_t m, n, k;
  float *c;
  sx_gemm_walk c_rows, c_columns;
  int64_t n_batches;                               /* products that differ by offsets alone */
  sx_gemm_walk batch_rows, batch_columns, batch_c; /* of equal dims */
  /* Where block j of the contracted index begins, for a k that leaves out terms that are 0; NULL: j 256.
   * A block that is left out whole adds nothing (where the full order would add +0). */
  int64_t (*block_begin)(const void *context, int64_t j);
  const void *context;
  int64_t n_blocks;
} sx_gemm;

/* Where a step of a walk leads. */
typedef struct sx_gemm_place {
  int64_t offset, y, x;
} sx_gemm_place;

/* A panel of rows that is not packed: in a block of the contracted index, the runs that lie side by side
 * and where each row's begins. */
enum { SX_GEMM_RUNS = 24 };
typedef struct sx_gemm_runs {
  int n;
  int64_t length[SX_GEMM_RUNS];
  const float *from[SX_GEMM_RUNS][SX_GEMM_PANEL / 2];
} sx_gemm_runs;

/* A product whose indices are single strides, without an image. */
typedef struct sx_gemm_plain {
  int64_t m, n, k;
  int64_t a_row, a_depth, b_column, b_depth, c_row, c_column;
} sx_gemm_plain;

/* A rectangle of one batch's result, and where the batch begins. */
typedef struct sx_gemm_part {
  int64_t first_row, end_row, first_column, end_column;
  const void *a, *b;
  float *c;
  bool adds; /* of one block of k: its sums are added to c; else they are stored */
} sx_gemm_part;

/* Bytes of packed panels and of widened blocks that one thread needs, at any level; a multiple of 64. */
static inline int64_t sx_gemm_scratch_bytes(int64_t m, int64_t n) {
  int64_t rows = (m < SX_GEMM_ROWS ? m : SX_GEMM_ROWS) + SX_GEMM_PANEL;
  int64_t columns = (2 * n < SX_GEMM_COLUMNS ? 2 * n : SX_GEMM_COLUMNS) + SX_GEMM_PANEL;
  return (rows + columns + 1) * SX_GEMM_DEPTH * 4;
}

#endif
