#include "sum_tree.h"

enum { ALIGNED_FLOATS = 64 };

int sx_sum_tree_levels(int64_t n_summands) {
  int length = 0;
  for (int64_t n = n_summands - 1; n > 0; n >>= 1) length++;
  return length;
}

int64_t sx_sum_tree_init(sx_sum_tree *tree, sx_backend *backend, int64_t n, int n_levels, sx_arena *arena) {
  *tree = (sx_sum_tree){.backend = backend, .levels = SX_NEW_N(arena, float *, n_levels), .n = n, .n_levels = n_levels};
  int64_t n_bytes;
  if (n > INT64_MAX - ALIGNED_FLOATS) sx_memory_fail(arena->memory);
  tree->stride = (n + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS;
  if (__builtin_mul_overflow(tree->stride, (int64_t)sizeof(float) * (n_levels + 1), &n_bytes))
    sx_memory_fail(arena->memory);
  return n_bytes;
}

void sx_sum_tree_place(sx_sum_tree *tree, void *memory) {
  tree->memory = memory;
  sx_sum_tree_begin(tree);
}

void sx_sum_tree_begin(sx_sum_tree *tree) {
  tree->leaf = tree->memory;
  for (int i = 0; i < tree->n_levels; i++) tree->levels[i] = tree->memory + (i + 1) * tree->stride;
}

static bool is_summed(int64_t i, int level) { return i >> level & 1; }

void sx_sum_tree_add(sx_sum_tree *tree, int base, int64_t i, bool last) {
  sx_backend *backend = tree->backend;
  float **levels = tree->levels + base;
  int level = 0;
  for (; i >> level && (last || is_summed(i, level)); level++)
    if (is_summed(i, level)) backend->calls->add(backend, tree->leaf, levels[level], tree->leaf, tree->n);
  if (last) return;
  float *free_block = levels[level];
  levels[level] = tree->leaf;
  tree->leaf = free_block;
}

void sx_sum_tree_divide(sx_sum_tree *tree, int64_t count) {
  if (count != 1) tree->backend->calls->divide(tree->backend, tree->leaf, (float)count, tree->n);
}
