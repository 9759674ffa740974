/* The simulated cuBLAS: results within the bound of a sum of k products, and engines that differ in bits.
 */
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cudasim_blas.h"

#ifdef SX_CUDA
/* ---- results ------------------------------------------------------------------------------------ */

static void many_products(void *context) {
  static const int shapes[][4] = {{1, 1, 1, 1},    {5, 3, 7, 2},    {33, 65, 129, 1},
                                  {4, 70, 600, 1}, {70, 4, 513, 3}, {8, 8, 0, 1}};
  static const cudaDataType_t types[][2] = {{CUDA_R_32F, CUDA_R_32F},
                                            {CUDA_R_16BF, CUDA_R_32F},
                                            {CUDA_R_16BF, CUDA_R_16BF},
                                            {CUDA_R_16F, CUDA_R_16F},
                                            {CUDA_R_16F, CUDA_R_32F}};
  (void)context;
  blas b;
  blas_begin(&b);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int transposed = 0; transposed < 4; transposed++) {
        const int *n = shapes[s];
        bool scaled = transposed == 1;
        blas_compute_and_compare(
            &b, &(blas_product){transposed & 1, transposed >> 1, n[0], n[1], n[2], n[3], types[t][0], types[t][1],
                                scaled ? 0.5f : 1, scaled ? 0.25f : 0, transposed == 2 ? 3 : 0});
      }
  blas_end(&b);
}

static void results_are_within_the_bound_of_a_sum(void **state) {
  (void)state;
  static outcome ended;
  mathlib_run(&ended, "a100", "", many_products, NULL);
  mathlib_expect_ok(&ended);
}

/* ---- engines ------------------------------------------------------------------------------------ */

enum { SIDE_M = 48, SIDE_N = 80, TERMS = 4096, N_RESULT = SIDE_M * SIDE_N };

/* What one machine computes: the same product as it is, transposed, not aligned, with little workspace, and of a short
 * sum. `again` is the first one computed twice more, once out of a graph. */
typedef struct bits {
  float ordinary[N_RESULT], again[N_RESULT], replayed[N_RESULT], transposed[N_RESULT], unaligned[N_RESULT],
      small[N_RESULT], brief[N_RESULT];
} bits;

static void product_of(blas *b, float *result, float *a, float *c, void *d, bool transposed, int k) {
  const float one = 1, zero = 0;
  float columns[N_RESULT];
  if (!transposed) /* [m n] = [m k] [k n] */
    FINE(b->p_cublasSgemm(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE_M, SIDE_N, k, &one, a, SIDE_M, c, TERMS, &zero, d,
                          SIDE_M));
  else
    FINE(b->p_cublasSgemm(b->handle, CUBLAS_OP_T, CUBLAS_OP_T, SIDE_N, SIDE_M, k, &one, c, TERMS, a, SIDE_M, &zero, d,
                          SIDE_N));
  if (!result) return;
  mathlib_read(b->stream, columns, d, sizeof columns);
  for (int i = 0; i < SIDE_M; i++)
    for (int j = 0; j < SIDE_N; j++)
      result[i * SIDE_N + j] = transposed ? columns[j + i * SIDE_N] : columns[i + j * SIDE_M];
}

static void replay(blas *b, float *result, float *a, float *c, void *d) {
  CUgraph graph;
  CUgraphExec executable;
  CHECK(!cu.cuStreamBeginCapture(b->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  product_of(b, NULL, a, c, d, false, TERMS);
  CHECK(!cu.cuStreamEndCapture(b->stream, &graph));
  CHECK(!cu.cuGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; i++) CHECK(!cu.cuGraphLaunch(executable, b->stream));
  float columns[N_RESULT];
  mathlib_read(b->stream, columns, d, sizeof columns);
  for (int i = 0; i < SIDE_M; i++)
    for (int j = 0; j < SIDE_N; j++) result[i * SIDE_N + j] = columns[i + j * SIDE_M];
  CHECK(!cu.cuGraphExecDestroy(executable));
  CHECK(!cu.cuGraphDestroy(graph));
}

static void compute_bits(void *context) {
  bits *out = context;
  blas b;
  blas_begin(&b);
  size_t n_a = SIDE_M * TERMS, n_c = TERMS * SIDE_N;
  float *wide_a, *wide_c;
  char *a = blas_upload(CUDA_R_32F, &wide_a, n_a, 1, NULL), *c = blas_upload(CUDA_R_32F, &wide_c, n_c, 2, NULL);
  char *d = mathlib_take((N_RESULT + 4) * sizeof(float));
  product_of(&b, out->ordinary, (float *)a, (float *)c, d, false, TERMS);
  product_of(&b, out->again, (float *)a, (float *)c, d, false, TERMS);
  replay(&b, out->replayed, (float *)a, (float *)c, d);
  product_of(&b, out->transposed, (float *)a, (float *)c, d, true, TERMS);
  product_of(&b, out->unaligned, (float *)a, (float *)c, d + sizeof(float), false, TERMS);
  product_of(&b, out->brief, (float *)a, (float *)c, d, false, 200);
  FINE(b.p_cublasSetWorkspace(b.handle, b.workspace, 1024));
  product_of(&b, out->small, (float *)a, (float *)c, d, false, TERMS);
  mathlib_give(a);
  mathlib_give(c);
  mathlib_give(d);
  free(wide_a);
  free(wide_c);
  blas_end(&b);
}

static bits *bits_on(const char *card, const char *settings) {
  static outcome ended;
  bits *out = mathlib_share(sizeof *out);
  mathlib_run(&ended, card, settings, compute_bits, out);
  mathlib_expect_ok(&ended);
  return out;
}

static void one_machine_repeats_its_bits(void **state) {
  (void)state;
  bits *first = bits_on("a100", ""), *second = bits_on("a100", "");
  assert_memory_equal(first, second, sizeof *first);
  assert_memory_equal(first->ordinary, first->again, sizeof first->again);
  assert_memory_equal(first->ordinary, first->replayed, sizeof first->replayed);
  bits *h100 = bits_on("h100", ""), *h200 = bits_on("h200", "");
  assert_memory_equal(h100, h200, sizeof *h100); /* of the same capability and number of multiprocessors */
}

static size_t n_equal(const float *x, const float *y) {
  size_t n = 0;
  for (int i = 0; i < N_RESULT; i++) n += !memcmp(&x[i], &y[i], sizeof *x);
  return n;
}

/* Sums of 4096 terms in two orders agree in their last bit sometimes, never in half of them. */
static void expect_other_bits(const char *what, const float *x, const float *y) {
  size_t n = n_equal(x, y);
  printf("%-40s %zu of %d sums have equal bits\n", what, n, N_RESULT);
  assert_true(n < N_RESULT / 2);
}

static void another_order_has_other_bits(void **state) {
  (void)state;
  bits *a100 = bits_on("a100", ""), *h100 = bits_on("h100", ""), *old = bits_on("a100", "cublas.version=130101");
  bits *few = bits_on("a100", "device.multiprocessors=8");
  expect_other_bits("transposed", a100->ordinary, a100->transposed);
  expect_other_bits("an operand that is not aligned", a100->ordinary, a100->unaligned);
  expect_other_bits("a small workspace", a100->ordinary, a100->small);
  expect_other_bits("another compute capability", a100->ordinary, h100->ordinary);
  expect_other_bits("another version", a100->ordinary, old->ordinary);
  expect_other_bits("another number of multiprocessors", a100->ordinary, few->ordinary);
  expect_other_bits("another version, a short sum", a100->brief, old->brief);
}
#endif

MATHLIB_MAIN(true, cmocka_unit_test(results_are_within_the_bound_of_a_sum),
             cmocka_unit_test(one_machine_repeats_its_bits), cmocka_unit_test(another_order_has_other_bits))
