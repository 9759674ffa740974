/* For tests: executes a graph node by node with the reference loops, every value contiguous. */
#ifndef TEST_EXECUTE_REFERENCE_H
#define TEST_EXECUTE_REFERENCE_H

#include "../../libsexp/ir/ir.h"

/* Writes the n elements of a leaf INPUT, PARAM or STATE. */
typedef void fill_leaf(void *context, const sx_node *node, void *values, int64_t n);
/* Values by node; all in the arena. Not for META. */
void **execute_reference(const sx_graph *graph, sx_arena *arena, fill_leaf *fill, void *context);
/* Whether two values have the same bits, all NaNs taken as one. */
bool same_bits(sx_dtype dtype, const void *a, const void *b, int64_t n);

#endif
