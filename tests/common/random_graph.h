/* Random READY graphs over every operation, for tests of what must hold for any graph. */
#ifndef TESTS_COMMON_RANDOM_GRAPH_H
#define TESTS_COMMON_RANDOM_GRAPH_H

#include "../../libsexp/ir/ir.h"

typedef struct random_source {
  uint64_t state;
} random_source;

uint64_t random_next(random_source *random);
/* 0 to n - 1. */
int64_t random_below(random_source *random, int64_t n);

/* About n_nodes nodes, some of them outputs. Ids are in range. Shapes are small, with a few of some thousand
 * elements; some are empty. A function of the seed. */
sx_graph *random_graph(sx_arena *arena, sx_intern *names, uint64_t seed, int n_nodes);
/* A value for an input of the graph: floats with special values among them, i32 of -4 to 9, bools. */
void random_fill(random_source *random, sx_dtype dtype, int64_t n, void *data);

#endif
