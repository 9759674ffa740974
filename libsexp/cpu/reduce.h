/* How a reduction sees its operand: two nested walks, over the axes that stay and over those that are
 * reduced, each with as few axes as its strides allow. A line is what is reduced into one element, in
 * row-major order. Internal to the fast kernels. */
#ifndef SX_CPU_REDUCE_H
#define SX_CPU_REDUCE_H

#include "level.h"
#include "sum_table.h"

typedef struct sx_axes {
  int n;
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
} sx_axes;

typedef struct sx_reduction {
  const void *data;
  sx_dtype dtype;
  int64_t bytes; /* of an element */
  sx_axes kept, reduced;
  int64_t n_out, n_in; /* elements of the result; of a line */
  bool columns;        /* results lie side by side in the operand: reduce rows into many at once */
} sx_reduction;

/* An axis that stays beside it, or continues the one before. */
static inline void sx_axes_push(sx_axes *axes, int64_t dim, int64_t stride) {
  if (dim == 1) return;
  int last = axes->n - 1;
  if (last >= 0 && axes->strides[last] == stride * dim) {
    axes->dims[last] *= dim;
    axes->strides[last] = stride;
    return;
  }
  axes->dims[axes->n] = dim;
  axes->strides[axes->n++] = stride;
}

/* Of one of the axes' elements. */
static inline int64_t sx_axes_at(const sx_axes *axes, int64_t k) {
  int64_t at = 0;
  if (axes->n == 0) return 0;
  for (int axis = axes->n - 1; axis > 0; axis--) {
    at += k % axes->dims[axis] * axes->strides[axis];
    k /= axes->dims[axis];
  }
  return at + k * axes->strides[0];
}

sx_reduction SX_AT_LEVEL(sx_reduction_make)(const sx_call *call);
/* Elements first to first + n - 1 of the line from `base` on, as they lie: where they are when they lie side
 * by side, else copied into the buffer. */
const void *SX_AT_LEVEL(sx_line_read)(const sx_reduction *r, int64_t base, int64_t first, int64_t n, void *buffer);

#endif
