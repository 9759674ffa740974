/* The sum of a step's microbatches as the tree T(n) = T(2^k) + T(n - 2^k), 2^k the largest power of two
 * below n, over vectors of f32; computed as they come, like a binary counter. */
#ifndef SX_RUN_SUM_TREE_H
#define SX_RUN_SUM_TREE_H

#include <stdbool.h>

#include "../base/memory.h"
#include "../cpu/threads.h"

typedef struct sx_sum_tree {
  float *leaf;    /* the next summand goes here; holds the sum after the last */
  float **levels; /* levels[k]: a partial sum of 2^k summands */
  int64_t n;      /* elements */
} sx_sum_tree;

/* For sums of at most n_summands vectors of n elements; 64-aligned. */
void sx_sum_tree_init(sx_sum_tree *tree, int64_t n, int64_t n_summands, sx_arena *arena);
/* Takes summand i, in order from 0, out of `leaf`; leaf may then be another block of memory. */
void sx_sum_tree_add(sx_sum_tree *tree, int64_t i, bool last, sx_pool *pool);
/* Divides the sum in `leaf` by the count, once; by 1 not at all. */
void sx_sum_tree_divide(sx_sum_tree *tree, int64_t count, sx_pool *pool);

/* 64-aligned memory of an arena. */
void *sx_take_aligned(sx_arena *arena, int64_t n_bytes);

#endif
