/* Values of elements on the host, for constants and for what is shown of a device's memory. Needs no header of CUDA. */
#ifndef SX_CUDA_VALUES_H
#define SX_CUDA_VALUES_H

#include "../pass/plan.h"

/* The value, which the dtype holds, as an element. */
void sx_value_store(void *to, sx_dtype dtype, double value);

/* Bytes of a buffer that a view reaches: from the first to behind the last. */
typedef struct sx_reach {
  int64_t begin, end;
} sx_reach;
sx_reach sx_view_reach(const sx_view *view, const sx_node *node);
/* The elements of a view in row-major order; `from` is the buffer at its byte `reach.begin`. */
void sx_view_read(void *to, const void *from, sx_reach reach, const sx_view *view, const sx_node *node);
/* Every NaN becomes the one NaN. */
void sx_values_canonical(void *values, sx_dtype dtype, int64_t n);

#endif
