/* Products of matrices as they are stored, of every shape that the fast kernels tell apart, equal the
 * reference loop bit for bit at every SIMD level and with 1, 2 and 3 threads. Operands end where a page that
 * may not be read begins. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/guarded.h"

typedef struct layout {
  const char *labels;
  bool a_transposed, b_transposed, c_transposed;
} layout;

static const layout layouts[] = {
    {"zmk,zkn->zmn", false, false, false}, {"zmk,znk->zmn", false, true, false}, {"zkm,zkn->zmn", true, false, false},
    {"zkm,znk->zmn", true, true, false},   {"zmk,zkn->znm", false, false, true}, {"zkm,znk->znm", true, true, true},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts, N_POOLS = 3, GUARD = 64 };
static sx_pool *pools[N_POOLS];
static const float *special; /* values among the operands' elements */
static int n_special;

static int start_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) pools[k] = sx_pool_new(k + 1);
  return 0;
}

static int stop_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) sx_pool_free(pools[k]);
  return 0;
}

/* n elements that end at a page without access. Short floats are of moderate size. */
static guarded new_elements(int64_t n, sx_dtype dtype, uint64_t seed) {
  guarded g = guarded_new((size_t)(n * sx_element_bytes(dtype)), true);
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float x = (float)(int32_t)(seed >> 40) * 0x1p-23f - 1.0f;
    if (n_special && seed >> 60 == 0) x = special[(seed >> 32) % (uint64_t)n_special];
    sx_store(g.data, dtype, k, (sx_value){.f = x});
  }
  return g;
}

/* Rows of a matrix lie `gap` elements farther apart than they are long. */
typedef struct matrix {
  int64_t dims[3], strides[3];
  guarded memory;
  sx_operand operand;
} matrix;

static void make_matrix(matrix *x, int64_t batches, int64_t rows, int64_t columns, int64_t gap, sx_dtype dtype,
                        uint64_t seed) {
  int64_t row = columns + gap, last = (batches * rows - 1) * row + columns;
  memcpy(x->dims, (int64_t[]){batches, rows, columns}, sizeof x->dims);
  memcpy(x->strides, (int64_t[]){rows * row, row, 1}, sizeof x->strides);
  x->memory = new_elements(last, dtype, seed);
  x->operand = (sx_operand){x->memory.data, dtype, 3, x->dims, x->strides};
}

static void check_level(sx_call call, sx_simd simd, const matrix *want, const char *text) {
  int64_t n = sx_operand_count(&want->operand);
  sx_graph graph = {.nodes = {.items = (sx_node *)(uintptr_t)call.node, .n = 1}};
  int64_t bytes = sx_kernel_scratch(sx_kernels(simd), &graph, 0, sx_pool_threads(call.pool));
  unsigned char *scratch = NULL;
  if (posix_memalign((void **)&scratch, 64, (size_t)bytes + GUARD)) abort();
  memset(scratch, 0xa5, (size_t)bytes + GUARD);
  matrix got;
  make_matrix(&got, want->dims[0], want->dims[1], want->dims[2], 0, SX_F32, 99);
  call.out = got.operand;
  call.scratch = scratch;
  assert_true(sx_kernels(simd)->fast[SX_OP_EINSUM](&call));
  sx_canonical_nans(got.memory.data, SX_F32, n);
  if (memcmp(got.memory.data, want->memory.data, (size_t)n * 4))
    fail_msg("%s at %s, %d threads differs from the reference", text, sx_simd_name(simd), sx_pool_threads(call.pool));
  for (int k = 0; k < GUARD; k++) assert_int_equal(scratch[bytes + k], 0xa5);
  guarded_free(&got.memory);
  free(scratch);
}

static void check_of(sx_dtype dtype, const layout *l, int64_t batches, int64_t m, int64_t n, int64_t k, int64_t gap) {
  matrix a, b, c;
  char text[96];
  snprintf(text, sizeof text, "%s, %lld of %lld %lld %lld, gap %lld", l->labels, (long long)batches, (long long)m,
           (long long)n, (long long)k, (long long)gap);
  make_matrix(&a, batches, l->a_transposed ? k : m, l->a_transposed ? m : k, gap, dtype, 1);
  make_matrix(&b, batches, l->b_transposed ? n : k, l->b_transposed ? k : n, gap, dtype, 2);
  make_matrix(&c, batches, l->c_transposed ? n : m, l->c_transposed ? m : n, 0, SX_F32, 3);
  sx_node node = {.op = SX_OP_EINSUM, .text = l->labels, .rank = 3, .dims = c.dims};
  sx_operand inputs[2] = {a.operand, b.operand};
  sx_call call = {.node = &node, .out = c.operand, .inputs = inputs, .n_inputs = 2};
  sx_reference[SX_OP_EINSUM](&call);
  sx_canonical_nans(c.memory.data, SX_F32, sx_operand_count(&c.operand));
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    for (int p = 0; p < N_POOLS && sx_simd_available(simd); p++) {
      call.pool = pools[p];
      check_level(call, simd, &c, text);
    }
  guarded_free(&a.memory);
  guarded_free(&b.memory);
  guarded_free(&c.memory);
}

static void check(const layout *l, int64_t batches, int64_t m, int64_t n, int64_t k, int64_t gap) {
  check_of(SX_F32, l, batches, m, n, k, gap);
}

/* Every number of rows of a tile, every part of a register. */
static void tiles(void **state) {
  (void)state;
  for (int64_t m = 1; m <= 16; m++)
    for (int64_t n = 1; n <= 34; n += 1 + (n > 17) * 3)
      for (int l = 0; l < N_LAYOUTS; l++) check(&layouts[l], 1, m, n, 1 + (m * n) % 21, (m + n) % 3);
}

/* Blocks of the contracted index, of columns; few rows; rows and columns that meet in the cache. */
static void blocks(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {
      {2, 0, 130, 300},  {1, 1, 70, 257},  {300, 1, 1, 513},  {20, 0, 600, 9},   {3, 0, 66, 256},   {30, 0, 20, 1024},
      {33, 0, 70, 1},    {300, 0, 40, 37}, {17, 0, 1024, 30}, {29, 0, 1040, 12}, {128, 1, 10, 512}, {2, 0, 1100, 290},
      {1, 0, 1030, 520}, {50, 0, 37, 3},   {40, 1, 530, 260}, {9, 0, 80, 40},    {2, 0, 64, 512},   {25, 0, 16, 260},
      {10, 0, 37, 830},  {8, 0, 37, 1020}, /* more packed rows than there is room for; as many */
  };
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int l = 0; l < N_LAYOUTS; l++) check(&layouts[l], 1, shapes[s][0], shapes[s][2], shapes[s][3], shapes[s][1]);
}

static void batches(void **state) {
  (void)state;
  for (int l = 0; l < N_LAYOUTS; l++) {
    check(&layouts[l], 7, 5, 9, 11, 0);
    check(&layouts[l], 2, 40, 33, 65, 1);
    check(&layouts[l], 5, 64, 64, 32, 0);
  }
}

/* Columns that run along the contracted index, 4 KiB apart, where their lines meet in one set of the cache: few rows,
 * every part of a line. */
static void lines_that_meet(void **state) {
  (void)state;
  enum { APART = 1024 };
  static const int64_t depths[] = {1, 7, 8, 15, 16, 29, 300, 530}, columns[] = {1, 15, 16, 32, 37, 64};
  for (int64_t m = 1; m <= 11; m++)
    for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
      for (size_t d = (size_t)m % 3; d < sizeof depths / sizeof *depths; d += 3)
        for (int l = 1; l < N_LAYOUTS; l += 2) check(&layouts[l], 1, m, columns[n], depths[d], APART - depths[d]);
  check(&layouts[1], 2, 20, 40, 530, APART - 530);
  check(&layouts[1], 1, 2, 40, 9000, 0);
}

/* Blocks of rows, of columns and of the contracted index are widened. */
static void short_floats(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {{1, 0, 1, 1},      {1, 1, 70, 300}, {20, 0, 530, 20},
                                      {180, 1, 34, 270}, {2, 0, 9, 520},  {20, 0, 34, 257}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int l = 0; l < N_LAYOUTS; l++)
      for (sx_dtype dtype = SX_BF16; dtype <= SX_F16; dtype++)
        check_of(dtype, &layouts[l], 1 + (int64_t)s % 2, shapes[s][0], shapes[s][2], shapes[s][3], shapes[s][1]);
}

/* Subnormals, infinities, NaN and zeros of both signs go where the definition sends them. */
static void special_values(void **state) {
  (void)state;
  static const float values[] = {0x1p-149f, -0x1p-140f, -0.0f, 0.0f, 0x1p127f,
                                 -0x1p127f, INFINITY,   NAN,   1.0f, 0x1p-75f};
  enum { N_VALUES = sizeof values / sizeof *values };
  static const int64_t shapes[][3] = {{1, 40, 300}, {40, 1, 20}, {4, 33, 270}, {30, 70, 260}, {20, 20, 2}};
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int l = 0; l < N_LAYOUTS; l++) {
      special = values;
      n_special = N_VALUES;
      check(&layouts[l], 1, shapes[s][0], shapes[s][1], shapes[s][2], 0);
      n_special = 0;
    }
}

/* Panels of rows longer than a block of the contracted index, with fewer rows than they are wide. */
static void panels(void **state) {
  (void)state;
  enum { MOST = 64, SPILL = 8 };
  static const int64_t depths[] = {5, 256, 300, 1030}, widths[] = {3, 14, 32, MOST};
  for (int64_t step = 1; step <= 2; step++)
    for (int d = 0; d < 4; d++)
      for (int w = 0; w < 4; w++) {
        int64_t depth = depths[d], width = widths[w], row = depth * step, n = width - 2;
        guarded from = new_elements((n - 1) * row + (depth - 1) * step + 1, SX_F32, 1);
        float want[MOST * 1030], got[MOST * 1030 + SPILL];
        sx_kernels(SX_SIMD_REFERENCE)->matrices->transpose(from.data, row, step, n, depth, width, want);
        for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
          if (!sx_simd_available(simd)) continue;
          sx_kernels(simd)->matrices->transpose(from.data, row, step, n, depth, width, got);
          assert_memory_equal(got, want, (size_t)(depth * width) * sizeof *want);
        }
        guarded_free(&from);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(tiles),          cmocka_unit_test(blocks),
                                     cmocka_unit_test(batches),        cmocka_unit_test(short_floats),
                                     cmocka_unit_test(special_values), cmocka_unit_test(panels),
                                     cmocka_unit_test(lines_that_meet)};
  return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
