/* A graph's values by the reference loops alone: every node into memory of its own, row-major, no plan, no
 * views. What an execution must equal. */
#ifndef TESTS_COMMON_INTERPRET_H
#define TESTS_COMMON_INTERPRET_H

#include "../../libsexp/ir/ir.h"

/* Values of all nodes, canonical; freed by interpret_free. Leaves from outside come from leaf_fill. */
void **interpret(const sx_graph *graph, int64_t draw_seed, uint64_t seed);
void interpret_free(const sx_graph *graph, void **values);
/* The value of an input with the name ("field/x", "param/w"), a function of name and seed. */
void leaf_fill(const char *name, uint64_t seed, sx_dtype dtype, int64_t n, void *data);

#endif
