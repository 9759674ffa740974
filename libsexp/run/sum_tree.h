/* The sum of a step's microbatches as the tree T(n) = T(2^k) + T(n - 2^k), 2^k the largest power of two
 * below n, over vectors of f32; computed as they come, like a binary counter.
 *
 * A summand may itself be the sum of a group of microbatches that was computed at once; where such a group is computed
 * one by one instead, its own tree takes the levels below `base`. */
#ifndef SX_RUN_SUM_TREE_H
#define SX_RUN_SUM_TREE_H

#include "../device/backend.h"

typedef struct sx_sum_tree {
  sx_backend *backend;
  float *leaf;    /* the next summand goes here; holds the sum after the last */
  float **levels; /* levels[base + k]: a partial sum of 2^k summands */
  int64_t n;      /* elements */
  float *memory;
  int64_t stride; /* floats from one vector to the next */
  int n_levels;
} sx_sum_tree;

/* Levels that a sum of n summands takes. */
int sx_sum_tree_levels(int64_t n_summands);
/* Bytes of the memory of a tree of vectors of n elements; INT64_MAX where that overflows. */
int64_t sx_sum_tree_bytes(int64_t n, int n_levels);
/* Describes a tree of vectors of n elements; gives the bytes of memory, of its backend, that it is to be given. */
int64_t sx_sum_tree_init(sx_sum_tree *tree, sx_backend *backend, int64_t n, int n_levels, sx_arena *arena);
void sx_sum_tree_place(sx_sum_tree *tree, void *memory);
/* Leaf and levels as they were placed: sums of one number of summands have the same addresses each time. */
void sx_sum_tree_begin(sx_sum_tree *tree);
/* Takes summand i, in order from 0, out of `leaf`; leaf may then be another block of memory. */
void sx_sum_tree_add(sx_sum_tree *tree, int base, int64_t i, bool last);
/* Divides the sum in `leaf` by the count, once; by 1 not at all. */
void sx_sum_tree_divide(sx_sum_tree *tree, int64_t count);

#endif
