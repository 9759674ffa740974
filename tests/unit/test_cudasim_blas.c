/* The simulated cuBLAS and cuBLASLt: results within the bound of a sum of k products, engines that differ in bits, and
 * what is refused. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/mathlib.h"

#ifdef SX_CUDA
#include <cublasLt.h>
#include <cublas_v2.h>

/* ---- the libraries ------------------------------------------------------------------------------ */

#define BLAS(ROW)                \
  ROW(cublasCreate)              \
  ROW(cublasDestroy)             \
  ROW(cublasGetVersion)          \
  ROW(cublasGetProperty)         \
  ROW(cublasSetStream)           \
  ROW(cublasGetStream)           \
  ROW(cublasSetWorkspace)        \
  ROW(cublasSetMathMode)         \
  ROW(cublasGetMathMode)         \
  ROW(cublasSetAtomicsMode)      \
  ROW(cublasSetPointerMode)      \
  ROW(cublasGetStatusString)     \
  ROW(cublasSgemm)               \
  ROW(cublasSgemmStridedBatched) \
  ROW(cublasGemmEx)              \
  ROW(cublasGemmStridedBatchedEx)
#define NAME_OF(function) #function
#define GOOD(call) mathlib_check((call) == CUBLAS_STATUS_SUCCESS)

typedef struct blas {
#define ROW(function) __typeof__(function) *p_##function;
  BLAS(ROW)
#undef ROW
  mathlib_driver driver;
  cublasHandle_t handle;
  void *workspace;
} blas;

enum { WORKSPACE_N_BYTES = 4 << 20 };

static void begin(blas *b) {
  mathlib_begin(&b->driver);
  void *library = mathlib_library("libcublas.so.13");
#define ROW(function) *(void **)&b->p_##function = mathlib_function(library, NAME_OF(function));
  BLAS(ROW)
#undef ROW
  b->workspace = mathlib_take(&b->driver, WORKSPACE_N_BYTES);
  GOOD(b->p_cublasCreate(&b->handle));
  GOOD(b->p_cublasSetStream(b->handle, b->driver.stream));
  GOOD(b->p_cublasSetWorkspace(b->handle, b->workspace, WORKSPACE_N_BYTES));
  GOOD(b->p_cublasSetMathMode(b->handle,
                              (cublasMath_t)(CUBLAS_PEDANTIC_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
}

static void end(blas *b) {
  GOOD(b->p_cublasDestroy(b->handle));
  mathlib_give(&b->driver, b->workspace);
  mathlib_end(&b->driver);
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static float uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static float of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* f16 of a sixteenth. */
static uint16_t half_of(float value) {
  int exponent;
  float fraction = frexpf(fabsf(value), &exponent);
  unsigned sign = value < 0 ? 0x8000 : 0;
  return (uint16_t)(value == 0 ? 0 : sign | (unsigned)(exponent + 14) << 10 | (unsigned)((fraction * 2 - 1) * 1024));
}

/* Values that the type has exactly, also as f32. */
static void fill(cudaDataType_t type, void *values, float *wide, size_t n, uint64_t seed) {
  for (size_t i = 0; i < n; i++) {
    float value = uniform(&seed);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    wide[i] = type == CUDA_R_32F ? value : of_bits(bits & 0xffff0000);
    if (type == CUDA_R_32F) ((float *)values)[i] = value;
    if (type == CUDA_R_16BF) ((uint16_t *)values)[i] = (uint16_t)(bits >> 16);
    if (type == CUDA_R_16F) { /* sixteenths from -1 to 1 */
      float sixteenth = (float)(int)(value * 16) / 16;
      ((uint16_t *)values)[i] = half_of(sixteenth);
      wide[i] = sixteenth;
    }
  }
}

static double value_of(cudaDataType_t type, const void *values, size_t at) {
  if (type == CUDA_R_32F) return (double)((const float *)values)[at];
  uint16_t half = ((const uint16_t *)values)[at];
  if (type == CUDA_R_16BF) return (double)of_bits((uint32_t)half << 16);
  int exponent = half >> 10 & 31, fraction = half & 1023;
  double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return half >> 15 ? -size : size;
}

static size_t size_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

/* ---- results ------------------------------------------------------------------------------------ */

typedef struct product {
  bool ta, tb;
  int m, n, k, n_batch;
  cudaDataType_t input, output;
  float alpha, beta;
  int gap; /* of leading dimensions */
} product;

typedef struct matrices {
  int lda, ldb, ldc, a_columns, b_columns;
  size_t n_a, n_b, n_c; /* of one matrix */
} matrices;

static matrices shape(const product *p) {
  matrices s = {.lda = (p->ta ? p->k : p->m) + p->gap, .ldb = (p->tb ? p->n : p->k) + p->gap, .ldc = p->m + p->gap};
  if (s.lda < 1) s.lda = 1;
  if (s.ldb < 1) s.ldb = 1;
  s.a_columns = p->ta ? p->m : p->k;
  s.b_columns = p->tb ? p->k : p->n;
  s.n_a = (size_t)s.lda * (size_t)s.a_columns;
  s.n_b = (size_t)s.ldb * (size_t)s.b_columns;
  s.n_c = (size_t)s.ldc * (size_t)p->n;
  return s;
}

typedef struct memory {
  void *a, *b, *c;
  float *wide_a, *wide_b, *wide_c;
  void *host_c;
  size_t n_c_bytes;
} memory;

static void *upload(blas *b, cudaDataType_t type, float **wide, size_t n, uint64_t seed, void **host) {
  n = n ? n : 1;
  void *values = malloc(n * 4), *device = mathlib_take(&b->driver, n * size_of(type));
  *wide = malloc(n * sizeof **wide);
  fill(type, values, *wide, n, seed);
  mathlib_write(&b->driver, device, values, n * size_of(type));
  if (host)
    *host = values;
  else
    free(values);
  return device;
}

static memory take(blas *b, const product *p) {
  matrices s = shape(p);
  size_t n_batch = (size_t)p->n_batch;
  memory m = {.n_c_bytes = s.n_c * n_batch * size_of(p->output)};
  m.a = upload(b, p->input, &m.wide_a, s.n_a * n_batch, 1, NULL);
  m.b = upload(b, p->input, &m.wide_b, s.n_b * n_batch, 2, NULL);
  m.c = upload(b, p->output, &m.wide_c, s.n_c * n_batch, 3, &m.host_c);
  return m;
}

static void give(blas *b, memory *m) {
  mathlib_give(&b->driver, m->a);
  mathlib_give(&b->driver, m->b);
  mathlib_give(&b->driver, m->c);
  free(m->wide_a);
  free(m->wide_b);
  free(m->wide_c);
  free(m->host_c);
}

static cublasStatus_t multiply(blas *b, const product *p, const memory *m) {
  matrices s = shape(p);
  return b->p_cublasGemmStridedBatchedEx(
      b->handle, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->m, p->n, p->k, &p->alpha,
      m->a, p->input, s.lda, (long long)s.n_a, m->b, p->input, s.ldb, (long long)s.n_b, &p->beta, m->c, p->output,
      s.ldc, (long long)s.n_c, p->n_batch, p->input == CUDA_R_32F ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT);
}

/* Against binary64: k + 2 roundings of sums of the sizes of the products, and one of the result to its type. */
static void compare(const product *p, const memory *m) {
  matrices s = shape(p);
  for (size_t batch = 0; batch < (size_t)p->n_batch; batch++)
    for (int j = 0; j < p->n; j++)
      for (int i = 0; i < p->m; i++) {
        double sum = 0, sizes = 0;
        for (int k = 0; k < p->k; k++) {
          double x = (double)m->wide_a[batch * s.n_a + (size_t)(p->ta ? k + i * s.lda : i + k * s.lda)];
          double y = (double)m->wide_b[batch * s.n_b + (size_t)(p->tb ? j + k * s.ldb : k + j * s.ldb)];
          sum += x * y;
          sizes += fabs(x * y);
        }
        size_t at = batch * s.n_c + (size_t)(i + j * s.ldc);
        double old = (double)p->beta * (double)m->wide_c[at], wanted = (double)p->alpha * sum + old;
        double bound = (p->k + 4) * 0x1p-24 * (fabs((double)p->alpha) * sizes + fabs(old));
        double unit = p->output == CUDA_R_32F ? 0x1p-24 : p->output == CUDA_R_16BF ? 0x1p-8 : 0x1p-11;
        bound += unit * fabs(wanted) + 0x1p-25;
        if (fabs(value_of(p->output, m->host_c, at) - wanted) > bound) {
          fprintf(stderr, "%d %d: %.9g, not %.9g\n", i, j, value_of(p->output, m->host_c, at), wanted);
          mathlib_check(!"within its bound");
        }
      }
}

static void compute_and_compare(blas *b, const product *p) {
  memory m = take(b, p);
  GOOD(multiply(b, p, &m));
  mathlib_read(&b->driver, m.host_c, m.c, m.n_c_bytes);
  compare(p, &m);
  give(b, &m);
}

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
  begin(&b);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int transposed = 0; transposed < 4; transposed++) {
        const int *n = shapes[s];
        bool scaled = transposed == 1;
        compute_and_compare(
            &b, &(product){transposed & 1, transposed >> 1, n[0], n[1], n[2], n[3], types[t][0], types[t][1],
                           scaled ? 0.5f : 1, scaled ? 0.25f : 0, transposed == 2 ? 3 : 0});
      }
  end(&b);
}

static void results_are_within_the_bound_of_a_sum(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  mathlib_run(&outcome, "a100", "", many_products, NULL);
  mathlib_expect_ok(&outcome);
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
    GOOD(b->p_cublasSgemm(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE_M, SIDE_N, k, &one, a, SIDE_M, c, TERMS, &zero, d,
                          SIDE_M));
  else
    GOOD(b->p_cublasSgemm(b->handle, CUBLAS_OP_T, CUBLAS_OP_T, SIDE_N, SIDE_M, k, &one, c, TERMS, a, SIDE_M, &zero, d,
                          SIDE_N));
  if (!result) return;
  mathlib_read(&b->driver, columns, d, sizeof columns);
  for (int i = 0; i < SIDE_M; i++)
    for (int j = 0; j < SIDE_N; j++)
      result[i * SIDE_N + j] = transposed ? columns[j + i * SIDE_N] : columns[i + j * SIDE_M];
}

static void replay(blas *b, float *result, float *a, float *c, void *d) {
  CUgraph graph;
  CUgraphExec executable;
  mathlib_check(!b->driver.p_cuStreamBeginCapture(b->driver.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  product_of(b, NULL, a, c, d, false, TERMS);
  mathlib_check(!b->driver.p_cuStreamEndCapture(b->driver.stream, &graph));
  mathlib_check(!b->driver.p_cuGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 2; i++) mathlib_check(!b->driver.p_cuGraphLaunch(executable, b->driver.stream));
  float columns[N_RESULT];
  mathlib_read(&b->driver, columns, d, sizeof columns);
  for (int i = 0; i < SIDE_M; i++)
    for (int j = 0; j < SIDE_N; j++) result[i * SIDE_N + j] = columns[i + j * SIDE_M];
  mathlib_check(!b->driver.p_cuGraphExecDestroy(executable));
  mathlib_check(!b->driver.p_cuGraphDestroy(graph));
}

static void compute_bits(void *context) {
  bits *out = context;
  blas b;
  begin(&b);
  size_t n_a = SIDE_M * TERMS, n_c = TERMS * SIDE_N;
  float *wide_a, *wide_c;
  char *a = upload(&b, CUDA_R_32F, &wide_a, n_a, 1, NULL), *c = upload(&b, CUDA_R_32F, &wide_c, n_c, 2, NULL);
  char *d = mathlib_take(&b.driver, (N_RESULT + 4) * sizeof(float));
  product_of(&b, out->ordinary, (float *)a, (float *)c, d, false, TERMS);
  product_of(&b, out->again, (float *)a, (float *)c, d, false, TERMS);
  replay(&b, out->replayed, (float *)a, (float *)c, d);
  product_of(&b, out->transposed, (float *)a, (float *)c, d, true, TERMS);
  product_of(&b, out->unaligned, (float *)a, (float *)c, d + sizeof(float), false, TERMS);
  product_of(&b, out->brief, (float *)a, (float *)c, d, false, 200);
  GOOD(b.p_cublasSetWorkspace(b.handle, b.workspace, 1024));
  product_of(&b, out->small, (float *)a, (float *)c, d, false, TERMS);
  mathlib_give(&b.driver, a);
  mathlib_give(&b.driver, c);
  mathlib_give(&b.driver, d);
  free(wide_a);
  free(wide_c);
  end(&b);
}

static bits *bits_on(const char *card, const char *settings) {
  static mathlib_outcome outcome;
  bits *out = mathlib_share(sizeof *out);
  mathlib_run(&outcome, card, settings, compute_bits, out);
  mathlib_expect_ok(&outcome);
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

/* ---- every engine, by cuBLASLt ---------------------------------------------------------------------- */

#define LIGHT(ROW)                          \
  ROW(cublasLtCreate)                       \
  ROW(cublasLtDestroy)                      \
  ROW(cublasLtGetVersion)                   \
  ROW(cublasLtMatmulDescCreate)             \
  ROW(cublasLtMatmulDescSetAttribute)       \
  ROW(cublasLtMatmulDescDestroy)            \
  ROW(cublasLtMatrixLayoutCreate)           \
  ROW(cublasLtMatrixLayoutDestroy)          \
  ROW(cublasLtMatmulPreferenceCreate)       \
  ROW(cublasLtMatmulPreferenceSetAttribute) \
  ROW(cublasLtMatmulPreferenceDestroy)      \
  ROW(cublasLtMatmulAlgoGetHeuristic)       \
  ROW(cublasLtMatmulAlgoConfigGetAttribute) \
  ROW(cublasLtMatmul)

typedef struct light {
#define ROW(function) __typeof__(function) *p_##function;
  LIGHT(ROW)
#undef ROW
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, d;
  cublasLtMatmulPreference_t preference;
} light;

enum { N_ENGINES = 8, LT_M = 32, LT_N = 16, LT_K = 1024, LT_RESULT = LT_M * LT_N };

typedef struct engines {
  int32_t n, ids[2 * N_ENGINES], splits[2 * N_ENGINES];
  float sums[2 * N_ENGINES][LT_RESULT], biased[LT_RESULT];
  double worst; /* error of any, in units of the bound */
} engines;

static void begin_light(light *l) {
  void *library = mathlib_library("libcublasLt.so.13");
  uint64_t n_bytes = WORKSPACE_N_BYTES;
#define ROW(function) *(void **)&l->p_##function = mathlib_function(library, NAME_OF(function));
  LIGHT(ROW)
#undef ROW
  GOOD(l->p_cublasLtCreate(&l->handle));
  GOOD(l->p_cublasLtMatmulDescCreate(&l->operation, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F));
  GOOD(l->p_cublasLtMatrixLayoutCreate(&l->a, CUDA_R_32F, LT_M, LT_K, LT_M));
  GOOD(l->p_cublasLtMatrixLayoutCreate(&l->b, CUDA_R_32F, LT_K, LT_N, LT_K));
  GOOD(l->p_cublasLtMatrixLayoutCreate(&l->d, CUDA_R_32F, LT_M, LT_N, LT_M));
  GOOD(l->p_cublasLtMatmulPreferenceCreate(&l->preference));
  GOOD(l->p_cublasLtMatmulPreferenceSetAttribute(l->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &n_bytes,
                                                 sizeof n_bytes));
}

static void end_light(light *l) {
  GOOD(l->p_cublasLtMatmulPreferenceDestroy(l->preference));
  GOOD(l->p_cublasLtMatrixLayoutDestroy(l->a));
  GOOD(l->p_cublasLtMatrixLayoutDestroy(l->b));
  GOOD(l->p_cublasLtMatrixLayoutDestroy(l->d));
  GOOD(l->p_cublasLtMatmulDescDestroy(l->operation));
  GOOD(l->p_cublasLtDestroy(l->handle));
}

static double worst_error(const float *sums, const float *a, const float *b) {
  double worst = 0;
  for (int j = 0; j < LT_N; j++)
    for (int i = 0; i < LT_M; i++) {
      double sum = 0, sizes = 0;
      for (int k = 0; k < LT_K; k++) {
        double term = (double)a[i + k * LT_M] * (double)b[k + j * LT_K];
        sum += term;
        sizes += fabs(term);
      }
      double error = fabs((double)sums[i + j * LT_M] - sum) / (LT_K * 0x1p-24 * sizes);
      if (error > worst) worst = error;
    }
  return worst;
}

static void run_engines(void *context) {
  engines *out = context;
  blas b;
  light l;
  cublasLtMatmulHeuristicResult_t results[2 * N_ENGINES];
  const float one = 1, zero = 0;
  float *wide_a, *wide_b, *wide_bias;
  begin(&b);
  begin_light(&l);
  void *a = upload(&b, CUDA_R_32F, &wide_a, LT_M * LT_K, 5, NULL),
       *c = upload(&b, CUDA_R_32F, &wide_b, LT_K * LT_N, 6, NULL);
  void *bias = upload(&b, CUDA_R_32F, &wide_bias, LT_M, 7, NULL),
       *d = mathlib_take(&b.driver, LT_RESULT * sizeof(float));
  GOOD(l.p_cublasLtMatmulAlgoGetHeuristic(l.handle, l.operation, l.a, l.b, l.d, l.d, l.preference, 2 * N_ENGINES,
                                          results, &out->n));
  for (int i = 0; i < out->n; i++) {
    const cublasLtMatmulAlgo_t *algo = &results[i].algo;
    size_t n = 0;
    GOOD(l.p_cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &out->ids[i], sizeof(int32_t), &n));
    GOOD(l.p_cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &out->splits[i],
                                                  sizeof(int32_t), &n));
    GOOD(l.p_cublasLtMatmul(l.handle, l.operation, &one, a, l.a, c, l.b, &zero, d, l.d, d, l.d, algo, b.workspace,
                            WORKSPACE_N_BYTES, b.driver.stream));
    mathlib_read(&b.driver, out->sums[i], d, sizeof out->sums[i]);
    double worst = worst_error(out->sums[i], wide_a, wide_b);
    if (worst > out->worst) out->worst = worst;
  }
  const uint32_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  GOOD(l.p_cublasLtMatmulDescSetAttribute(l.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  GOOD(l.p_cublasLtMatmulDescSetAttribute(l.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  GOOD(l.p_cublasLtMatmul(l.handle, l.operation, &one, a, l.a, c, l.b, &zero, d, l.d, d, l.d, &results[0].algo,
                          b.workspace, WORKSPACE_N_BYTES, b.driver.stream));
  mathlib_read(&b.driver, out->biased, d, sizeof out->biased);
  for (int i = 0; i < LT_RESULT; i++) {
    float wanted = out->sums[0][i] + wide_bias[i % LT_M];
    wanted = wanted > 0 ? wanted : 0;
    mathlib_check(!memcmp(&wanted, &out->biased[i], sizeof wanted));
  }
  void *all[] = {a, c, bias, d};
  for (size_t i = 0; i < 4; i++) mathlib_give(&b.driver, all[i]);
  free(wide_a);
  free(wide_b);
  free(wide_bias);
  end_light(&l);
  end(&b);
}

static void every_engine_has_bits_of_its_own(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  engines *out = mathlib_share(sizeof *out), *again = mathlib_share(sizeof *again);
  mathlib_run(&outcome, "a100", "", run_engines, out);
  mathlib_expect_ok(&outcome);
  mathlib_run(&outcome, "a100", "", run_engines, again);
  mathlib_expect_ok(&outcome);
  assert_memory_equal(out, again, sizeof *out);
  assert_true(out->n >= N_ENGINES);
  for (int i = 0; i < out->n; i++)
    for (int j = 0; j < i; j++) {
      size_t n = 0;
      for (int k = 0; k < LT_RESULT; k++) n += !memcmp(&out->sums[i][k], &out->sums[j][k], sizeof(float));
      if (n >= LT_RESULT * 3 / 4)
        fail_msg("engines %d split %d and %d split %d: %zu of %d sums are equal", out->ids[i], out->splits[i],
                 out->ids[j], out->splits[j], n, LT_RESULT);
    }
  printf("%d engines, all different; the worst error is %.3f of the bound\n", out->n, out->worst);
  assert_true(out->worst < 1);
}

/* ---- settings ----------------------------------------------------------------------------------- */

static const product SMALL = {false, false, 8, 8, 300, 1, CUDA_R_32F, CUDA_R_32F, 1, 0, 0};

static void read_versions(void *context) {
  (void)context;
  blas b;
  int number = 0, major = 0, minor = 0, patch = 0;
  begin(&b);
  GOOD(b.p_cublasGetVersion(b.handle, &number));
  GOOD(b.p_cublasGetProperty(MAJOR_VERSION, &major));
  GOOD(b.p_cublasGetProperty(MINOR_VERSION, &minor));
  GOOD(b.p_cublasGetProperty(PATCH_LEVEL, &patch));
  printf("version %d %d.%d.%d\n", number, major, minor, patch);
  end(&b);
}

static void fail_second(void *context) {
  (void)context;
  blas b;
  begin(&b);
  memory m = take(&b, &SMALL);
  for (int i = 1; i <= 3; i++) printf("call %d gives %s\n", i, b.p_cublasGetStatusString(multiply(&b, &SMALL, &m)));
  mathlib_read(&b.driver, m.host_c, m.c, m.n_c_bytes);
  compare(&SMALL, &m);
  give(&b, &m);
  end(&b);
}

static void repeat(void *context) {
  float *all = context;
  blas b;
  begin(&b);
  memory m = take(&b, &SMALL);
  for (int i = 0; i < 4; i++) {
    GOOD(multiply(&b, &SMALL, &m));
    mathlib_read(&b.driver, all + 64 * i, m.c, m.n_c_bytes);
  }
  give(&b, &m);
  end(&b);
}

static void use_pool(void *context) {
  (void)context;
  blas b;
  begin(&b);
  GOOD(b.p_cublasSetStream(b.handle, b.driver.stream));
  compute_and_compare(&b, &SMALL);
  end(&b);
}

static void measure(void *context) {
  float *ms = context;
  static const product big = {false, false, 256, 256, 256, 1, CUDA_R_32F, CUDA_R_32F, 1, 0, 0};
  CUevent from, to;
  blas b;
  begin(&b);
  memory m = take(&b, &big);
  mathlib_check(!b.driver.p_cuEventCreate(&from, CU_EVENT_DEFAULT) && !b.driver.p_cuEventCreate(&to, CU_EVENT_DEFAULT));
  mathlib_check(!b.driver.p_cuEventRecord(from, b.driver.stream));
  for (int i = 0; i < 4; i++) GOOD(multiply(&b, &big, &m));
  mathlib_check(!b.driver.p_cuEventRecord(to, b.driver.stream));
  mathlib_check(!b.driver.p_cuStreamSynchronize(b.driver.stream));
  mathlib_check(!b.driver.p_cuEventElapsedTime(ms, from, to));
  mathlib_check(!b.driver.p_cuEventDestroy(from) && !b.driver.p_cuEventDestroy(to));
  give(&b, &m);
  end(&b);
}

static void settings_are_obeyed(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  mathlib_run(&outcome, "a100", "cublas.version=120304", read_versions, NULL);
  mathlib_expect_ok(&outcome);
  assert_non_null(strstr(outcome.text, "version 120304 12.3.4"));
  mathlib_run(&outcome, "a100", "cublas.fail=13@2", fail_second, NULL);
  mathlib_expect_ok(&outcome);
  assert_non_null(strstr(outcome.text, "call 1 gives the function completed"));
  assert_non_null(strstr(outcome.text, "call 2 gives a program of the device failed"));
  assert_non_null(strstr(outcome.text, "call 3 gives the function completed"));
  mathlib_run(&outcome, "a100", "cublas.default_workspace=allow", use_pool, NULL);
  mathlib_expect_ok(&outcome);
  mathlib_run(&outcome, "a100", "cublas.best=1", read_versions, NULL);
  mathlib_expect_violation(&outcome, "setting cublas.best=1: there is none of this name");
  mathlib_run(&outcome, "a100", "speed.cublas.fastest=2", read_versions, NULL);
  mathlib_expect_violation(&outcome, "setting speed.cublas.fastest=2: there is no such engine");
}

#define ALL_ENGINES "serial,blocks32,lanes4,lanes2,halves,split_blocks,split_lanes,split_tree"

static void an_engine_can_differ_from_call_to_call(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  float *all = mathlib_share(4 * 64 * sizeof *all);
  mathlib_run(&outcome, "a100", "", repeat, all);
  mathlib_expect_ok(&outcome);
  for (int i = 1; i < 4; i++) assert_memory_equal(all, all + 64 * i, 64 * sizeof *all);
  mathlib_run(&outcome, "a100", "cublas.nondeterministic=" ALL_ENGINES, repeat, all);
  mathlib_expect_ok(&outcome);
  for (int i = 1; i < 4; i++) assert_memory_not_equal(all, all + 64 * i, 64 * sizeof *all);
}

static void an_engine_has_a_speed(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  float *ms = mathlib_share(2 * sizeof *ms);
  mathlib_run(&outcome, "a100", "", measure, ms);
  mathlib_expect_ok(&outcome);
  mathlib_run(&outcome, "a100",
              "speed.cublas.serial=0.01\nspeed.cublas.blocks32=0.01\nspeed.cublas.lanes4=0.01\n"
              "speed.cublas.lanes2=0.01\nspeed.cublas.halves=0.01\nspeed.cublas.split_blocks=0.01\n"
              "speed.cublas.split_lanes=0.01\nspeed.cublas.split_tree=0.01",
              measure, ms + 1);
  mathlib_expect_ok(&outcome);
  printf("%g ms, and %g ms at a hundredth of the speed\n", (double)ms[0], (double)ms[1]);
  assert_true(ms[0] > 0 && ms[1] > 4 * ms[0]);
}

/* ---- violations --------------------------------------------------------------------------------- */

/* A call that is wrong in one way, of many. */
typedef struct wrong {
  const char *words;
  void (*call)(blas *b, const memory *m);
} wrong;

static const float ONE = 1, ZERO = 0;

static void gemm(blas *b, const memory *m, int lda, cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  b->p_cublasGemmEx(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, &ONE, m->a, CUDA_R_32F, lda, m->b, CUDA_R_32F, 300,
                    &ZERO, m->c, CUDA_R_32F, 8, compute, algo);
}
static void sgemm(blas *b, const void *a, const void *c, void *d, const float *alpha, int ldc) {
  b->p_cublasSgemm(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, alpha, a, 8, c, 300, &ZERO, d, ldc);
}

static void stale_workspace(blas *b, const memory *m) {
  GOOD(b->p_cublasSetStream(b->handle, b->driver.stream));
  sgemm(b, m->a, m->b, m->c, &ONE, 8);
}
static void autotune(blas *b, const memory *m) { gemm(b, m, 8, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_AUTOTUNE); }
static void numbered(blas *b, const memory *m) { gemm(b, m, 8, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_ALGO3); }
static void tf32(blas *b, const memory *m) { gemm(b, m, 8, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT); }
static void not_pedantic(blas *b, const memory *m) {
  GOOD(b->p_cublasSetMathMode(b->handle, CUBLAS_DEFAULT_MATH));
  gemm(b, m, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static void reduced(blas *b, const memory *m) {
  GOOD(b->p_cublasSetMathMode(b->handle, CUBLAS_DEFAULT_MATH));
  b->p_cublasGemmEx(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 300, &ONE, m->a, CUDA_R_16BF, 8, m->b, CUDA_R_16BF, 300,
                    &ZERO, m->c, CUDA_R_16BF, 8, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
static void narrow_a(blas *b, const memory *m) { gemm(b, m, 7, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT); }
static void narrow_c(blas *b, const memory *m) { sgemm(b, m->a, m->b, m->c, &ONE, 7); }
static void atomics(blas *b, const memory *m) {
  (void)m;
  b->p_cublasSetAtomicsMode(b->handle, CUBLAS_ATOMICS_ALLOWED);
}
static void fast_math(blas *b, const memory *m) {
  (void)m;
  b->p_cublasSetMathMode(b->handle, CUBLAS_TF32_TENSOR_OP_MATH);
}
static void device_alpha(blas *b, const memory *m) { sgemm(b, m->a, m->b, m->c, m->a, 8); }
static void host_operand(blas *b, const memory *m) { sgemm(b, m->wide_a, m->b, m->c, &ONE, 8); }
static void past_the_end(blas *b, const memory *m) { sgemm(b, m->a, m->b, m->c, &ONE, 9); }
static void in_place(blas *b, const memory *m) { sgemm(b, m->a, m->b, m->a, &ONE, 8); }
static void crooked(blas *b, const memory *m) { sgemm(b, m->a, m->b, (char *)m->c + 2, &ONE, 8); }
static void crowded_batch(blas *b, const memory *m) {
  b->p_cublasSgemmStridedBatched(b->handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &ONE, m->a, 4, 16, m->b, 4, 16, &ZERO,
                                 m->c, 4, 8, 2);
}
static void crooked_workspace(blas *b, const memory *m) {
  (void)m;
  b->p_cublasSetWorkspace(b->handle, (char *)b->workspace + 16, 1024);
}
static void foreign_workspace(blas *b, const memory *m) {
  (void)m;
  static _Alignas(256) char host[1024];
  b->p_cublasSetWorkspace(b->handle, host, sizeof host);
}
static void freed_workspace(blas *b, const memory *m) {
  (void)m;
  b->p_cublasSetWorkspace(b->handle, b->workspace, WORKSPACE_N_BYTES + 1);
}
static void no_handle(blas *b, const memory *m) {
  (void)m;
  int number;
  b->p_cublasGetVersion((cublasHandle_t)b->workspace, &number);
}
static void lost_handle(blas *b, const memory *m) {
  (void)m;
  cublasHandle_t other;
  GOOD(b->p_cublasCreate(&other));
}
static void dead_stream(blas *b, const memory *m) {
  (void)m;
  CUstream stream;
  mathlib_check(!b->driver.p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) && !b->driver.p_cuStreamDestroy(stream));
  b->p_cublasSetStream(b->handle, stream);
}

static const wrong WRONG[] = {
    {"the handle has the default workspace: set one after every change of its stream", stale_workspace},
    {"CUBLAS_GEMM_AUTOTUNE chooses by time", autotune},
    {"the algorithm is not CUBLAS_GEMM_DEFAULT", numbered},
    {"the compute type is neither", tf32},
    {"a product of f32 has to be pedantic", not_pedantic},
    {"without CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION", reduced},
    {"lda is less than the rows of A", narrow_a},
    {"ldc is less than the rows of C", narrow_c},
    {"atomics are allowed", atomics},
    {"the mode allows other arithmetic than f32's", fast_math},
    {"alpha or beta is in device memory", device_alpha},
    {"cublasSgemm_v2", host_operand},
    {"cublasSgemm_v2", past_the_end},
    {"the result overlaps an operand", in_place},
    {"a matrix is not aligned to its elements", crooked},
    {"matrices of the batch overlap in the result", crowded_batch},
    {"the workspace is not aligned to 256 bytes", crooked_workspace},
    {"the workspace is not one allocation of device memory", foreign_workspace},
    {"the workspace is not one allocation of device memory", freed_workspace},
    {"the handle is not one, or was destroyed", no_handle},
    {"cuBLAS: 1 of kind handle not destroyed at the end", lost_handle},
    {"the stream is not one, or was destroyed", dead_stream},
};

static void do_wrong(void *context) {
  const wrong *w = context;
  blas b;
  begin(&b);
  memory m = take(&b, &SMALL);
  w->call(&b, &m);
  GOOD(b.p_cublasSetStream(b.handle, b.driver.stream)); /* other calls go on */
  give(&b, &m);
  end(&b);
}

static void what_is_wrong_is_a_violation(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
    mathlib_run(&outcome, "a100", "", do_wrong, (void *)(uintptr_t)&WRONG[i]);
    mathlib_expect_violation(&outcome, WRONG[i].words);
    if (strchr(strstr(outcome.text, "cudasim:"), '\n') != strrchr(outcome.text, '\n'))
      fail_msg("more than one line: %s", outcome.text);
  }
}
#endif

MATHLIB_MAIN(cmocka_unit_test(results_are_within_the_bound_of_a_sum), cmocka_unit_test(one_machine_repeats_its_bits),
             cmocka_unit_test(another_order_has_other_bits), cmocka_unit_test(every_engine_has_bits_of_its_own),
             cmocka_unit_test(settings_are_obeyed), cmocka_unit_test(an_engine_can_differ_from_call_to_call),
             cmocka_unit_test(an_engine_has_a_speed), cmocka_unit_test(what_is_wrong_is_a_violation))
