/* For tests: evaluates a graph in binary64, straight from the meaning of each operation and without any code
 * of the library's kernels: what gradients are compared with. Draws are not supported. */
#ifndef TEST_EVALUATE64_H
#define TEST_EVALUATE64_H

#include "../../libsexp/ir/ir.h"

/* Values by node, row-major; all in the arena. A leaf INPUT, PARAM or STATE is asked for by name: fill
 * writes its n elements. */
typedef void fill64(void *context, const char *name, double *values, int64_t n);
double **evaluate64(const sx_graph *graph, sx_arena *arena, fill64 *fill, void *context);

#endif
