/* Convolutions, their data gradients and their weight gradients, of every geometry that the fast kernels tell
 * apart, equal the reference loop bit for bit at every SIMD level and with 1 to 4 threads: padding, strides, gaps
 * between places of the kernel, blocks of the contracted index that begin within a channel run, parts of
 * registers, sums that underflow to -0, values that are not finite. Operands end where a page that may not be
 * read begins. */
#define _DEFAULT_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/guarded.h"
#include "../common/kernel_case.h"
#include "../common/operand_values.h"
#include "../common/quick.h"

typedef struct geometry {
  int64_t n, h, w, channels, out, kernel_h, kernel_w, stride, padding;
} geometry;

enum { N_POOLS = 4, GUARD = 64, N_KINDS = 3 };
static sx_pool *pools[N_POOLS];
static int64_t infinite;  /* number of the element of operands that is infinite, counted from their end; 0: none */
static int64_t gap;       /* elements between neighbouring pixels of operands */
static int pool_step = 1; /* under sanitizers 1 and 3 threads alone: the suite takes long there */
static const sx_op ops[N_KINDS] = {SX_OP_CONV, SX_OP_CONVDATA, SX_OP_CONVWEIGHT};
static const char *const names[N_KINDS] = {"conv", "data gradient", "weight gradient"};

static int start_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) pools[k] = sx_pool_new(k + 1);
  if (test_is_quick()) pool_step = 2;
  return 0;
}

static int stop_pools(void **state) {
  (void)state;
  for (int k = 0; k < N_POOLS; k++) sx_pool_free(pools[k]);
  return 0;
}

/* ---- arrays -------------------------------------------------------------------------------- */

/* An array that ends at a page without access. */
typedef struct array {
  int64_t dims[4], strides[4];
  guarded memory;
  sx_operand operand;
} array;

static void make_array(array *a, const int64_t dims[4], sx_dtype dtype, operand_values v, uint64_t seed) {
  int64_t n = sx_count(dims, 4);
  memcpy(a->dims, dims, sizeof a->dims);
  a->strides[3] = 1;
  for (int axis = 2; axis >= 0; axis--) a->strides[axis] = a->strides[axis + 1] * dims[axis + 1];
  a->memory = guarded_new((size_t)(n * sx_element_bytes(dtype)), true);
  a->operand = (sx_operand){a->memory.data, dtype, 4, a->dims, a->strides};
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    sx_store(a->operand.data, dtype, k, (sx_value){.f = operand_value(v, seed)});
  }
  if (infinite > 0 && infinite <= n) sx_store(a->operand.data, dtype, n - infinite, (sx_value){.f = INFINITY});
}

static void free_array(array *a) { guarded_free(&a->memory); }

/* ---- one convolution -------------------------------------------------------------------------- */

static void check_level(sx_call call, sx_graph *graph, sx_simd simd, const array *want, const char *text) {
  int64_t n = sx_operand_count(&want->operand);
  sx_dtype dtype = want->operand.dtype;
  int64_t bytes = sx_kernel_scratch(sx_kernels(simd), graph, 0, sx_pool_threads(call.pool));
  unsigned char *scratch = NULL;
  if (posix_memalign((void **)&scratch, 64, (size_t)bytes + GUARD)) abort();
  memset(scratch, 0xa5, (size_t)bytes + GUARD);
  array got;
  make_array(&got, want->dims, dtype, VALUES_UNIT, 99);
  call.out = got.operand;
  call.scratch = scratch;
  if (!sx_kernels(simd)->fast[call.node->op](&call)) sx_reference[call.node->op](&call);
  canonicalize(got.operand.data, dtype, n);
  if (memcmp(got.operand.data, want->operand.data, (size_t)(n * sx_element_bytes(dtype))))
    fail_msg("%s at %s, %d threads differs from the reference", text, sx_simd_name(simd), sx_pool_threads(call.pool));
  for (int k = 0; k < GUARD; k++) assert_int_equal(scratch[bytes + k], 0xa5);
  free_array(&got);
  free(scratch);
}

static void check_kind(const geometry *g, int kind, sx_dtype dtype, operand_values v) {
  int64_t oh = (g->h + 2 * g->padding - g->kernel_h) / g->stride + 1;
  int64_t ow = (g->w + 2 * g->padding - g->kernel_w) / g->stride + 1;
  const int64_t dims[3][4] = {
      {g->n, g->h, g->w, g->channels}, {g->out, g->kernel_h, g->kernel_w, g->channels}, {g->n, oh, ow, g->out}};
  static const int which[N_KINDS][3] = {{2, 0, 1}, {0, 2, 1}, {1, 2, 0}}; /* result, inputs */
  array arrays[3];
  for (int k = 0; k < 3; k++) {
    int64_t room[4];
    memcpy(room, dims[which[kind][k]], sizeof room);
    room[3] += k > 0 ? gap : 0;
    make_array(&arrays[k], room, dtype, v, (uint64_t)(k + 1));
    arrays[k].dims[3] = dims[which[kind][k]][3];
  }
  int64_t ints[2] = {g->stride, g->padding};
  sx_id ids[2] = {1, 2};
  sx_node nodes[3] = {{.op = ops[kind], .inputs = ids, .n_inputs = 2, .ints = ints, .n_ints = 2}};
  for (int k = 0; k < 3; k++) {
    nodes[k].dtype = dtype;
    nodes[k].rank = 4;
    nodes[k].dims = arrays[k].dims;
  }
  sx_graph graph = {.nodes = {.items = nodes, .n = 3}};
  sx_operand inputs[2] = {arrays[1].operand, arrays[2].operand};
  sx_call call = {.node = nodes, .out = arrays[0].operand, .inputs = inputs, .n_inputs = 2};
  sx_reference[ops[kind]](&call);
  canonicalize(arrays[0].operand.data, dtype, sx_operand_count(&arrays[0].operand));
  char text[160];
  snprintf(
      text, sizeof text, "%s of %s: %lld images %lld %lld %lld, %lld out, kernel %lld %lld, stride %lld, padding %lld",
      names[kind], sx_dtype_name(dtype), (long long)g->n, (long long)g->h, (long long)g->w, (long long)g->channels,
      (long long)g->out, (long long)g->kernel_h, (long long)g->kernel_w, (long long)g->stride, (long long)g->padding);
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    for (int p = 0; p < N_POOLS && sx_simd_available(simd); p += pool_step) {
      call.pool = pools[p];
      check_level(call, &graph, simd, &arrays[0], text);
    }
  for (int k = 0; k < 3; k++) free_array(&arrays[k]);
}

static void check(const geometry *g, size_t n, sx_dtype dtype, operand_values v) {
  for (size_t k = 0; k < n; k++)
    for (int kind = 0; kind < N_KINDS; kind++) check_kind(&g[k], kind, dtype, v);
}
#define CHECK(geometries, dtype, v) check(geometries, sizeof geometries / sizeof *geometries, dtype, v)

/* ---- geometries -------------------------------------------------------------------------------- */

static const geometry usual[] = {
    {3, 8, 8, 16, 32, 3, 3, 1, 1},  /* as many places as padding allows */
    {5, 8, 8, 16, 32, 3, 3, 2, 1},  /* phases, channels on both sides */
    {2, 9, 7, 32, 16, 3, 3, 2, 1},  /* odd sizes: the last row is seen or not */
    {4, 6, 6, 3, 64, 3, 3, 1, 1},   /* a first layer */
    {2, 7, 7, 64, 32, 1, 1, 1, 0},  /* points */
    {2, 7, 7, 64, 32, 1, 1, 2, 0},  /* points with gaps: pixels that no place of the kernel reaches */
    {1, 12, 5, 17, 19, 3, 3, 1, 1}, /* parts of registers */
    {33, 4, 4, 16, 16, 3, 3, 1, 1}, /* many small images */
};

/* Blocks of 256 begin within a place, between places, within a row of pixels. */
static const geometry blocks[] = {
    {2, 6, 6, 96, 32, 3, 3, 1, 1},  {2, 6, 6, 64, 80, 3, 3, 2, 1},  {1, 5, 5, 300, 16, 2, 2, 1, 0},
    {1, 5, 5, 16, 300, 2, 2, 2, 1}, {3, 19, 17, 8, 16, 3, 3, 1, 1}, {1, 40, 3, 32, 32, 3, 3, 1, 1},
    {1, 3, 3, 256, 25, 3, 3, 1, 0}, /* weights that take more scratch than a product does */
};

static const geometry odd[] = {
    {2, 5, 5, 16, 16, 3, 3, 1, 4},   /* pixels that see padding alone */
    {2, 3, 3, 16, 16, 5, 5, 1, 2},   /* no pixel sees all places */
    {2, 11, 11, 16, 16, 3, 3, 5, 1}, /* a stride above the kernel */
    {2, 9, 4, 16, 32, 4, 2, 3, 2},   /* neither side square */
    {1, 520, 2, 4, 4, 520, 1, 1, 0}, /* more places than a list of runs holds */
    {2, 0, 3, 16, 16, 1, 2, 1, 1},   /* an image without pixels */
    {1, 5, 4, 16, 15, 3, 3, 1, 1},   /* a register holds one channel more than dy has */
    {1, 1, 1, 32, 16, 3, 3, 1, 1},   {1, 2, 9, 1, 1, 1, 3, 1, 1}, {2, 6, 6, 5, 7, 3, 3, 2, 0},
};

/* Of few channels: windows are rows of the weight gradient, and lines of the image are packed by strips. */
static const geometry windows[] = {
    {2, 9, 11, 3, 32, 3, 3, 2, 1},  {2, 13, 12, 2, 16, 2, 2, 3, 1}, /* windows with gaps between them */
    {2, 9, 8, 1, 48, 5, 5, 1, 2},   {1, 6, 7, 20, 16, 1, 3, 1, 1},  /* a line of more elements than a tile has rows */
    {1, 3, 300, 3, 16, 2, 2, 1, 1}, {2, 5, 5, 3, 16, 3, 3, 1, 4},   /* a row of pixels of several blocks */
    {2, 8, 12, 4, 16, 4, 4, 4, 0},  {3, 20, 1, 7, 16, 3, 1, 2, 1},
    {2, 33, 90, 3, 32, 3, 3, 1, 1}, {1, 5, 520, 4, 16, 3, 3, 2, 0}, /* several strips of an image; of one row */
    {2, 14, 27, 5, 48, 2, 2, 3, 1}, {1, 11, 11, 5, 16, 7, 7, 1, 3}, /* the largest window; a larger one */
    {1, 9, 9, 29, 16, 3, 3, 2, 1},  {2, 6, 12, 3, 32, 2, 2, 3, 4},  /* windows beyond the line's last column */
};

static void windows_of_few_channels(void **state) {
  (void)state;
  CHECK(windows, SX_F32, VALUES_UNIT);
  check(windows, 4, SX_F32, VALUES_UNDERFLOW);
  check(windows, 4, SX_F32, VALUES_NOT_FINITE);
}

static void pixels_with_gaps(void **state) {
  (void)state;
  gap = 3;
  check(usual, 5, SX_F32, VALUES_UNIT);
  check(windows, 3, SX_F32, VALUES_UNIT);
  gap = 0;
}

static void usual_geometries(void **state) {
  (void)state;
  CHECK(usual, SX_F32, VALUES_UNIT);
}

static void blocks_of_the_contracted_index(void **state) {
  (void)state;
  CHECK(blocks, SX_F32, VALUES_UNIT);
}

static void odd_geometries(void **state) {
  (void)state;
  CHECK(odd, SX_F32, VALUES_UNIT);
}

static void sums_that_underflow(void **state) {
  (void)state;
  CHECK(usual, SX_F32, VALUES_UNDERFLOW);
  CHECK(odd, SX_F32, VALUES_UNDERFLOW);
}

static void values_that_are_not_finite(void **state) {
  (void)state;
  CHECK(usual, SX_F32, VALUES_NOT_FINITE);
  CHECK(odd, SX_F32, VALUES_NOT_FINITE);
}

/* In the part of a register that ends the weights, or a pixel of the gradient: the last one, or in the last row. */
static const geometry parts[] = {
    {1, 6, 5, 17, 31, 3, 3, 1, 1},
    {2, 5, 4, 16, 19, 3, 3, 1, 1},
    {1, 7, 6, 31, 17, 3, 3, 2, 1},
};

static void one_value_that_is_not_finite(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
    infinite = 1;
    check(&parts[k], 1, SX_F32, VALUES_UNIT);
    infinite = 2 * parts[k].out + 1;
    check(&parts[k], 1, SX_F32, VALUES_UNIT);
  }
  infinite = 0;
}

static void short_floats(void **state) {
  (void)state;
  check(usual, 4, SX_BF16, VALUES_UNIT);
  check(usual, 4, SX_F16, VALUES_UNIT);
  check(windows, 3, SX_BF16, VALUES_UNIT);
  check(windows + 8, 1, SX_BF16, VALUES_UNIT); /* large enough for several threads to widen it */
  check(usual + 1, 1, SX_F16, VALUES_NOT_FINITE);
  gap = 3;
  check(usual, 2, SX_BF16, VALUES_UNIT);
  gap = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(usual_geometries),
      cmocka_unit_test(blocks_of_the_contracted_index),
      cmocka_unit_test(odd_geometries),
      cmocka_unit_test(windows_of_few_channels),
      cmocka_unit_test(pixels_with_gaps),
      cmocka_unit_test(sums_that_underflow),
      cmocka_unit_test(values_that_are_not_finite),
      cmocka_unit_test(one_value_that_is_not_finite),
      cmocka_unit_test(short_floats),
  };
  return cmocka_run_group_tests(tests, start_pools, stop_pools);
}
