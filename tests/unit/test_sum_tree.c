/* The tree of microbatches against its definition. */
#include <string.h>

#include "../../libsexp/cpu/backend.h"
#include "../../libsexp/run/loader.h"
#include "../../libsexp/run/sum_tree.h"
#include "../common/cmocka_all.h"

enum { N = 37, MOST = 70 };

static float summands[MOST][N];

/* T(n) = T(2^k) + T(n - 2^k), 2^k the largest power of two below n. */
static void define(int begin, int n, float *out) {
  if (n == 1) {
    memcpy(out, summands[begin], sizeof summands[begin]);
    return;
  }
  int left = 1;
  while (left * 2 < n) left *= 2;
  float a[N], b[N];
  define(begin, left, a);
  define(begin + left, n - left, b);
  for (int i = 0; i < N; i++) out[i] = a[i] + b[i];
}

static void fill(void) {
  uint32_t x = 1;
  for (int s = 0; s < MOST; s++)
    for (int i = 0; i < N; i++) {
      x = x * 1664525u + 1013904223u;
      summands[s][i] = (float)(int32_t)x * (x >> 28 & 1 ? 1e-12f : 1e3f);
    }
}

static void test_sum_is_the_tree(void **state) {
  (void)state;
  fill();
  for (int threads = 1; threads <= 3; threads++) {
    sx_pool *pool = sx_pool_new(threads);
    for (int n = 1; n <= MOST; n++) {
      sx_memory memory = sx_memory_default();
      sx_arena arena;
      sx_sum_tree tree;
      float expected[N];
      sx_arena_init(&arena, &memory);
      const sx_cpu cpu = {.pool = pool, .memory = &memory};
      sx_backend *backend = sx_cpu_backend_new(&cpu, &arena);
      int64_t n_bytes = sx_sum_tree_init(&tree, backend, N, sx_sum_tree_levels(n), &arena);
      sx_sum_tree_place(&tree, sx_take_aligned(&arena, n_bytes));
      for (int s = 0; s < n; s++) {
        assert_int_equal((uintptr_t)tree.leaf % 64, 0);
        memcpy(tree.leaf, summands[s], sizeof summands[s]);
        sx_sum_tree_add(&tree, 0, s, s == n - 1);
      }
      define(0, n, expected);
      assert_memory_equal(tree.leaf, expected, sizeof expected);
      sx_sum_tree_divide(&tree, n);
      for (int i = 0; i < N; i++) expected[i] = n == 1 ? expected[i] : expected[i] / (float)n;
      assert_memory_equal(tree.leaf, expected, sizeof expected);
      sx_arena_free(&arena);
    }
    sx_pool_free(pool);
  }
}

/* A sum in order differs: the test above can fail. */
static void test_order_matters(void **state) {
  (void)state;
  float expected[N], in_order[N];
  fill();
  define(0, MOST, expected);
  memcpy(in_order, summands[0], sizeof in_order);
  for (int s = 1; s < MOST; s++)
    for (int i = 0; i < N; i++) in_order[i] += summands[s][i];
  assert_memory_not_equal(expected, in_order, sizeof expected);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum_is_the_tree), cmocka_unit_test(test_order_matters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
