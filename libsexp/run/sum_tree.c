#include "sum_tree.h"

enum { ALIGNMENT = 64, GRAIN = 1 << 14 };

void *sx_take_aligned(sx_arena *arena, int64_t n_bytes) {
  char *bytes = sx_arena_take(arena, (size_t)n_bytes + ALIGNMENT, 1);
  return bytes + (ALIGNMENT - (uintptr_t)bytes % ALIGNMENT) % ALIGNMENT;
}

static int bit_length(int64_t n) {
  int length = 0;
  for (; n > 0; n >>= 1) length++;
  return length;
}

void sx_sum_tree_init(sx_sum_tree *tree, int64_t n, int64_t n_summands, sx_arena *arena) {
  int n_levels = bit_length(n_summands - 1);
  int64_t n_bytes;
  if (__builtin_mul_overflow(n, (int64_t)sizeof(float), &n_bytes)) sx_memory_fail(arena->memory);
  *tree = (sx_sum_tree){.levels = SX_NEW_N(arena, float *, n_levels), .n = n};
  tree->leaf = sx_take_aligned(arena, n_bytes);
  for (int i = 0; i < n_levels; i++) tree->levels[i] = sx_take_aligned(arena, n_bytes);
}

typedef struct addition {
  const float *left;
  float *right; /* becomes left + right */
} addition;

static void add_range(void *context, int64_t begin, int64_t end, int thread) {
  const addition *add = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) add->right[i] = add->left[i] + add->right[i];
}

static bool is_summed(int64_t i, int level) { return i >> level & 1; }

void sx_sum_tree_add(sx_sum_tree *tree, int64_t i, bool last, sx_pool *pool) {
  int level = 0;
  for (; i >> level && (last || is_summed(i, level)); level++) {
    if (!is_summed(i, level)) continue;
    addition add = {tree->levels[level], tree->leaf};
    sx_pool_run(pool, tree->n, GRAIN, add_range, &add);
  }
  if (last) return;
  float *free_block = tree->levels[level];
  tree->levels[level] = tree->leaf;
  tree->leaf = free_block;
}

typedef struct division {
  float *values;
  float count;
} division;

static void divide_range(void *context, int64_t begin, int64_t end, int thread) {
  const division *divide = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) divide->values[i] = divide->values[i] / divide->count;
}

void sx_sum_tree_divide(sx_sum_tree *tree, int64_t count, sx_pool *pool) {
  if (count == 1) return;
  division divide = {tree->leaf, (float)count};
  sx_pool_run(pool, tree->n, GRAIN, divide_range, &divide);
}
