/* The simulated cuBLASLt: every engine, epilogues, and what is refused. */
#include <math.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cudasim_blas.h"

#ifdef SX_CUDA
#include <cublasLt.h>

#define NAME_OF(function) #function

/* ---- the library ---------------------------------------------------------------------- */

#define LIGHT(ROW)                          \
  ROW(cublasLtCreate)                       \
  ROW(cublasLtDestroy)                      \
  ROW(cublasLtGetVersion)                   \
  ROW(cublasLtMatmulDescCreate)             \
  ROW(cublasLtMatmulDescSetAttribute)       \
  ROW(cublasLtMatmulDescDestroy)            \
  ROW(cublasLtMatrixLayoutCreate)           \
  ROW(cublasLtMatrixLayoutSetAttribute)     \
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
  float sums[2 * N_ENGINES][LT_RESULT];
  double worst; /* error of any, in units of the bound */
} engines;

static void begin_light(light *l) {
  void *library = mathlib_library("libcublasLt.so.13");
  uint64_t n_bytes = BLAS_WORKSPACE_N_BYTES;
#define ROW(function) *(void **)&l->p_##function = mathlib_function(library, NAME_OF(function));
  LIGHT(ROW)
#undef ROW
  FINE(l->p_cublasLtCreate(&l->handle));
  FINE(l->p_cublasLtMatmulDescCreate(&l->operation, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F));
  FINE(l->p_cublasLtMatrixLayoutCreate(&l->a, CUDA_R_32F, LT_M, LT_K, LT_M));
  FINE(l->p_cublasLtMatrixLayoutCreate(&l->b, CUDA_R_32F, LT_K, LT_N, LT_K));
  FINE(l->p_cublasLtMatrixLayoutCreate(&l->d, CUDA_R_32F, LT_M, LT_N, LT_M));
  FINE(l->p_cublasLtMatmulPreferenceCreate(&l->preference));
  FINE(l->p_cublasLtMatmulPreferenceSetAttribute(l->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &n_bytes,
                                                 sizeof n_bytes));
}

static cublasStatus_t light_multiply(light *l, blas *b, void *const memory[4], const cublasLtMatmulAlgo_t *algo,
                                     size_t n_workspace) {
  const float one = 1, zero = 0;
  return l->p_cublasLtMatmul(l->handle, l->operation, &one, memory[0], l->a, memory[1], l->b, &zero, memory[3], l->d,
                             memory[3], l->d, algo, b->workspace, n_workspace, b->stream);
}

static void end_light(light *l) {
  FINE(l->p_cublasLtMatmulPreferenceDestroy(l->preference));
  FINE(l->p_cublasLtMatrixLayoutDestroy(l->a));
  FINE(l->p_cublasLtMatrixLayoutDestroy(l->b));
  FINE(l->p_cublasLtMatrixLayoutDestroy(l->d));
  FINE(l->p_cublasLtMatmulDescDestroy(l->operation));
  FINE(l->p_cublasLtDestroy(l->handle));
}

/* ---- engines ------------------------------------------------------------------------------------ */

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

/* bias, relu and both, after the sums; memory: A, B, the bias and D. */
static void check_epilogues(light *l, blas *b, void *const memory[4], const cublasLtMatmulAlgo_t *algo,
                            const float *sums, const float *bias) {
  static const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS};
  float got[LT_RESULT];
  FINE(l->p_cublasLtMatmulDescSetAttribute(l->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &memory[2],
                                           sizeof memory[2]));
  for (size_t e = 0; e < 3; e++) {
    FINE(l->p_cublasLtMatmulDescSetAttribute(l->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[e],
                                             sizeof(uint32_t)));
    FINE(light_multiply(l, b, memory, algo, BLAS_WORKSPACE_N_BYTES));
    mathlib_read(b->stream, got, memory[3], sizeof got);
    for (int i = 0; i < LT_RESULT; i++) {
      float wanted = epilogues[e] & CUBLASLT_EPILOGUE_BIAS ? sums[i] + bias[i % LT_M] : sums[i];
      if (epilogues[e] & CUBLASLT_EPILOGUE_RELU) wanted = wanted > 0 ? wanted : 0;
      CHECK(!memcmp(&wanted, &got[i], sizeof wanted));
    }
  }
}

static void run_engines(void *context) {
  engines *out = context;
  blas b;
  light l;
  cublasLtMatmulHeuristicResult_t results[2 * N_ENGINES];
  float *wide_a, *wide_b, *wide_bias;
  blas_begin(&b);
  begin_light(&l);
  void *a = blas_upload(CUDA_R_32F, &wide_a, LT_M * LT_K, 5, NULL),
       *c = blas_upload(CUDA_R_32F, &wide_b, LT_K * LT_N, 6, NULL);
  void *bias = blas_upload(CUDA_R_32F, &wide_bias, LT_M, 7, NULL), *d = mathlib_take(LT_RESULT * sizeof(float));
  FINE(l.p_cublasLtMatmulAlgoGetHeuristic(l.handle, l.operation, l.a, l.b, l.d, l.d, l.preference, 2 * N_ENGINES,
                                          results, &out->n));
  for (int i = 0; i < out->n; i++) {
    const cublasLtMatmulAlgo_t *algo = &results[i].algo;
    size_t n = 0;
    FINE(l.p_cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &out->ids[i], sizeof(int32_t), &n));
    FINE(l.p_cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &out->splits[i],
                                                  sizeof(int32_t), &n));
    FINE(light_multiply(&l, &b, (void *[]){a, c, bias, d}, algo, BLAS_WORKSPACE_N_BYTES));
    mathlib_read(b.stream, out->sums[i], d, sizeof out->sums[i]);
    double worst = worst_error(out->sums[i], wide_a, wide_b);
    if (worst > out->worst) out->worst = worst;
  }
  check_epilogues(&l, &b, (void *[]){a, c, bias, d}, &results[0].algo, out->sums[0], wide_bias);
  void *all[] = {a, c, bias, d};
  for (size_t i = 0; i < 4; i++) mathlib_give(all[i]);
  free(wide_a);
  free(wide_b);
  free(wide_bias);
  end_light(&l);
  blas_end(&b);
}

static void every_engine_has_bits_of_its_own(void **state) {
  (void)state;
  static outcome ended;
  engines *out = mathlib_share(sizeof *out), *again = mathlib_share(sizeof *again);
  mathlib_run(&ended, "a100", "", run_engines, out);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", "", run_engines, again);
  mathlib_expect_ok(&ended);
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

/* ---- violations --------------------------------------------------------------------------------- */

typedef struct wrong {
  const char *words;
  void (*call)(light *l, blas *b, void *const memory[4], const cublasLtMatmulHeuristicResult_t *results, int n);
} wrong;

#define WRONG_CALL(name) \
  static void name(light *l, blas *b, void *const memory[4], const cublasLtMatmulHeuristicResult_t *results, int n)

WRONG_CALL(no_algorithm) {
  (void)results, (void)n;
  light_multiply(l, b, memory, NULL, BLAS_WORKSPACE_N_BYTES);
}
WRONG_CALL(small_workspace) {
  for (int i = 0; i < n; i++)
    if (results[i].workspaceSize) {
      light_multiply(l, b, memory, &results[i].algo, results[i].workspaceSize - 1);
      return;
    }
}
WRONG_CALL(other_shape) {
  (void)n;
  const uint64_t rows = LT_M - 1;
  FINE(l->p_cublasLtMatrixLayoutSetAttribute(l->a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows));
  light_multiply(l, b, memory, &results[0].algo, BLAS_WORKSPACE_N_BYTES);
}
WRONG_CALL(row_major) {
  (void)n;
  const int32_t order = CUBLASLT_ORDER_ROW;
  FINE(l->p_cublasLtMatrixLayoutSetAttribute(l->a, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
  light_multiply(l, b, memory, &results[0].algo, BLAS_WORKSPACE_N_BYTES);
}
WRONG_CALL(no_bias) {
  (void)n;
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  FINE(l->p_cublasLtMatmulDescSetAttribute(l->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  light_multiply(l, b, memory, &results[0].algo, BLAS_WORKSPACE_N_BYTES);
}
WRONG_CALL(other_epilogue) {
  (void)n;
  const uint32_t epilogue = CUBLASLT_EPILOGUE_GELU;
  FINE(l->p_cublasLtMatmulDescSetAttribute(l->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  light_multiply(l, b, memory, &results[0].algo, BLAS_WORKSPACE_N_BYTES);
}
WRONG_CALL(lost_layout) {
  (void)b, (void)memory, (void)results, (void)n;
  cublasLtMatrixLayout_t layout;
  FINE(l->p_cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1));
}
WRONG_CALL(crossed_objects) {
  (void)b, (void)memory, (void)results, (void)n;
  l->p_cublasLtMatrixLayoutDestroy((cublasLtMatrixLayout_t)(void *)l->operation);
}

static const wrong WRONG[] = {
    {"no algorithm is named: the choice has no record", no_algorithm},
    {"the workspace is less than what the algorithm needs", small_workspace},
    {"the shapes of A, B, C and D do not fit", other_shape},
    {"layouts are simulated column-major", row_major},
    {"there is no bias", no_bias},
    {"the epilogue is not simulated", other_epilogue},
    {"cuBLASLt: 1 of kind layout not destroyed at the end", lost_layout},
    {"cublasLtMatrixLayoutDestroy: an object is not one, or was destroyed", crossed_objects},
};

static void do_wrong(void *context) {
  const wrong *w = context;
  blas b;
  light l;
  cublasLtMatmulHeuristicResult_t results[2 * N_ENGINES];
  int n = 0;
  blas_begin(&b);
  begin_light(&l);
  void *memory[] = {mathlib_take(LT_M * LT_K * 4), mathlib_take(LT_K * LT_N * 4), NULL, mathlib_take(LT_RESULT * 4)};
  FINE(l.p_cublasLtMatmulAlgoGetHeuristic(l.handle, l.operation, l.a, l.b, l.d, l.d, l.preference, 2 * N_ENGINES,
                                          results, &n));
  w->call(&l, &b, memory, results, n);
  mathlib_give(memory[0]);
  mathlib_give(memory[1]);
  mathlib_give(memory[3]);
  end_light(&l);
  blas_end(&b);
}

static void what_is_wrong_is_a_violation(void **state) {
  (void)state;
  static outcome ended;
  for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
    mathlib_run(&ended, "a100", "", do_wrong, (void *)(uintptr_t)&WRONG[i]);
    mathlib_expect_violation(&ended, WRONG[i].words);
  }
}

static void fail_first(void *context) {
  (void)context;
  blas b;
  light l;
  cublasLtMatmulHeuristicResult_t result;
  int n = 0;
  blas_begin(&b);
  begin_light(&l);
  void *memory[] = {mathlib_take(LT_M * LT_K * 4), mathlib_take(LT_K * LT_N * 4), NULL, mathlib_take(LT_RESULT * 4)};
  FINE(l.p_cublasLtMatmulAlgoGetHeuristic(l.handle, l.operation, l.a, l.b, l.d, l.d, l.preference, 1, &result, &n));
  CHECK(l.p_cublasLtGetVersion() == 120304);
  CHECK(light_multiply(&l, &b, memory, &result.algo, BLAS_WORKSPACE_N_BYTES) == CUBLAS_STATUS_EXECUTION_FAILED);
  FINE(light_multiply(&l, &b, memory, &result.algo, BLAS_WORKSPACE_N_BYTES));
  mathlib_give(memory[0]);
  mathlib_give(memory[1]);
  mathlib_give(memory[3]);
  end_light(&l);
  blas_end(&b);
}

static void settings_are_obeyed(void **state) {
  (void)state;
  static outcome ended;
  mathlib_run(&ended, "a100", "cublaslt.fail=13@1\ncublas.version=120304", fail_first, NULL);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", "cublaslt.best=1", fail_first, NULL);
  assert_non_null(strstr(ended.text, "setting cublaslt.best=1: there is none of this name"));
}
#endif

MATHLIB_MAIN(true, cmocka_unit_test(every_engine_has_bits_of_its_own), cmocka_unit_test(what_is_wrong_is_a_violation),
             cmocka_unit_test(settings_are_obeyed))
