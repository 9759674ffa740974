#include "sum_tree.h"

enum { ALIGNED_FLOATS = 64 };

int sx_sum_tree_levels(int64_t n_summands) {
  int length = 0;
  for (int64_t n = n_summands - 1; n > 0; n >>= 1) length++;
  return length;
}

static int64_t stride_of(int64_t n) { return (n + ALIGNED_FLOATS - 1) / ALIGNED_FLOATS * ALIGNED_FLOATS; }

int64_t sx_sum_tree_bytes(int64_t n, int n_levels) {
  int64_t n_bytes;
  if (n > INT64_MAX - ALIGNED_FLOATS) return INT64_MAX;
  bool overflows = __builtin_mul_overflow(stride_of(n), (int64_t)sizeof(float) * (n_levels + 1), &n_bytes);
  return overflows ? INT64_MAX : n_bytes;
}

int64_t sx_sum_tree_init(sx_sum_tree *tree, sx_backend *backend, int64_t n, int n_levels, sx_arena *arena) {
  int64_t n_bytes = sx_sum_tree_bytes(n, n_levels);
  if (n_bytes == INT64_MAX) sx_memory_fail(arena->memory);
  *tree = (sx_sum_tree){.backend = backend, .levels = SX_NEW_N(arena, float *, n_levels), .n = n, .n_levels = n_levels};
  tree->stride = stride_of(n);
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
