/* libcublasLt.so.13 of the simulated card: products with the epilogues bias and relu, by an engine that the caller
 * names. The heuristics list what cuBLAS would take first, then the other engines.
 *
 * The real cuDNN opens this library too. It is answered as without a device: what it asks is not the product's. */
#define _GNU_SOURCE /* dladdr */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "mathlib.h"

/* ---- objects ------------------------------------------------------------------------------------ */

struct cublasLtContext {
  sim_owned owned; /* first, in all of them */
};
typedef struct description {
  sim_owned owned;
  cublasComputeType_t compute;
  int32_t transa, transb, pointers, bias_type;
  uint32_t epilogue;
  const void *bias;
} description;
typedef struct layout {
  sim_owned owned;
  cudaDataType_t type;
  int32_t order, n_batch;
  uint64_t rows, columns;
  int64_t ld, stride;
} layout;
typedef struct preference {
  sim_owned owned;
  uint64_t workspace_n_bytes;
  uint32_t reductions, alignments[4];
} preference;

static const char HANDLE[] = "handle", DESCRIPTION[] = "operation", LAYOUT[] = "layout", PREFERENCE[] = "preference";
static sim_owned_list objects;
static int64_t n_products;

__attribute__((destructor)) static void end(void) { sim_owned_end(&objects, "cuBLASLt"); }

static void expect_settings(void) {
  static const char *const names[] = {"cublaslt.fail"};
  static int done;
  if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
    sim_settings_expect("cublaslt.", names, sizeof names / sizeof *names, NULL);
}

static int version(void) { return (int)sim_setting_number("cublas.version", CUBLAS_VERSION); }

static cublasStatus_t refuse(const char *call, const char *why, cublasStatus_t status) {
  sim_violation("%s: %s", call, why);
  return status;
}

#define EXPECT(condition, why) \
  if (!(condition)) return refuse(__func__, why, CUBLAS_STATUS_INVALID_VALUE)
#define EXPECT_OBJECT(object, kind) \
  EXPECT(sim_owned_is(&objects, object, kind), "an object is not one, or was destroyed")

/* Whether the code at the address is a part of the real cuDNN. */
static bool is_of_cudnn(const void *address) {
  Dl_info info;
  return dladdr(address, &info) && info.dli_fname && strstr(info.dli_fname, "libcudnn_");
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  if (is_of_cudnn(__builtin_return_address(0))) return CUBLAS_STATUS_NOT_INITIALIZED;
  expect_settings();
  EXPECT(handle, "there is no place for the handle");
  if (!sim_context_current()) return refuse(__func__, "no context is current", CUBLAS_STATUS_NOT_INITIALIZED);
  *handle = sim_take(sizeof **handle);
  sim_owned_add(&objects, &(*handle)->owned, HANDLE);
  return CUBLAS_STATUS_SUCCESS;
}

static void destroy(void *object) {
  sim_owned_remove(&objects, object);
  free(object);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  EXPECT_OBJECT(handle, HANDLE);
  destroy(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) { return (size_t)version(); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute, cudaDataType_t scale) {
  if (is_of_cudnn(__builtin_return_address(0))) return CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT(made, "there is no place for the operation");
  EXPECT(scale == CUDA_R_32F, "alpha and beta are simulated in f32 only");
  description *d = sim_take(sizeof *d);
  *d = (description){.compute = compute, .epilogue = CUBLASLT_EPILOGUE_DEFAULT, .bias_type = -1};
  sim_owned_add(&objects, &d->owned, DESCRIPTION);
  *made = (cublasLtMatmulDesc_t)(void *)d;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  EXPECT_OBJECT(operation, DESCRIPTION);
  destroy(operation);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  if (is_of_cudnn(__builtin_return_address(0))) return CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT(made, "there is no place for the layout");
  layout *l = sim_take(sizeof *l);
  *l = (layout){.type = type, .order = CUBLASLT_ORDER_COL, .n_batch = 1, .rows = rows, .columns = columns, .ld = ld};
  sim_owned_add(&objects, &l->owned, LAYOUT);
  *made = (cublasLtMatrixLayout_t)(void *)l;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  EXPECT_OBJECT(matrix, LAYOUT);
  destroy(matrix);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  if (is_of_cudnn(__builtin_return_address(0))) return CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT(made, "there is no place for the preference");
  preference *p = sim_take(sizeof *p);
  *p = (preference){.reductions = CUBLASLT_REDUCTION_SCHEME_MASK};
  sim_owned_add(&objects, &p->owned, PREFERENCE);
  *made = (cublasLtMatmulPreference_t)(void *)p;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wanted) {
  EXPECT_OBJECT(wanted, PREFERENCE);
  destroy(wanted);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- attributes --------------------------------------------------------------------------------- */

typedef struct attribute {
  int name;
  size_t offset, n_bytes;
} attribute;
#define ROW(name, type, member) \
  { (int)name, offsetof(type, member), sizeof((type *)NULL)->member }

/* False: there is none of this name here, or it has another size. */
static bool set(void *object, const attribute *rows, size_t n_rows, int name, const void *value, size_t n_bytes) {
  for (size_t i = 0; i < n_rows; i++)
    if (rows[i].name == name && rows[i].n_bytes == n_bytes && value) {
      memcpy((char *)object + rows[i].offset, value, n_bytes);
      return true;
    }
  return false;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t n_bytes) {
  static const attribute rows[] = {
      ROW(CUBLASLT_MATMUL_DESC_TRANSA, description, transa),
      ROW(CUBLASLT_MATMUL_DESC_TRANSB, description, transb),
      ROW(CUBLASLT_MATMUL_DESC_EPILOGUE, description, epilogue),
      ROW(CUBLASLT_MATMUL_DESC_BIAS_POINTER, description, bias),
      ROW(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, description, bias_type),
      ROW(CUBLASLT_MATMUL_DESC_POINTER_MODE, description, pointers),
  };
  EXPECT_OBJECT(operation, DESCRIPTION);
  EXPECT(set(operation, rows, sizeof rows / sizeof *rows, (int)name, value, n_bytes),
         "the attribute is not simulated, or has another size");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matrix, cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t n_bytes) {
  static const attribute rows[] = {
      ROW(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, type),
      ROW(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
      ROW(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
      ROW(CUBLASLT_MATRIX_LAYOUT_COLS, layout, columns),
      ROW(CUBLASLT_MATRIX_LAYOUT_LD, layout, ld),
      ROW(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, n_batch),
      ROW(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, stride),
  };
  EXPECT_OBJECT(matrix, LAYOUT);
  EXPECT(set(matrix, rows, sizeof rows / sizeof *rows, (int)name, value, n_bytes),
         "the attribute is not simulated, or has another size");
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wanted,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                    size_t n_bytes) {
  static const attribute rows[] = {
      ROW(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference, workspace_n_bytes),
      ROW(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference, reductions),
      ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference, alignments[0]),
      ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference, alignments[1]),
      ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference, alignments[2]),
      ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference, alignments[3]),
  };
  EXPECT_OBJECT(wanted, PREFERENCE);
  EXPECT(set(wanted, rows, sizeof rows / sizeof *rows, (int)name, value, n_bytes),
         "the attribute is not simulated, or has another size");
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product -------------------------------------------------------------------------------- */

/* NULL: filled from the objects, memory aside; else what is wrong. */
static const char *describe(sim_gemm *g, const description *o, const layout *a, const layout *b, const layout *c,
                            const layout *d) {
  const layout *all[] = {a, b, c, d};
  for (size_t i = 0; i < 4; i++)
    if (all[i]->order != CUBLASLT_ORDER_COL || all[i]->n_batch != a->n_batch)
      return "layouts are simulated column-major, with one size of batch";
  if (o->transa > 1 || o->transb > 1 || o->transa < 0 || o->transb < 0) return "an operation is neither N nor T";
  if (o->pointers != CUBLASLT_POINTER_MODE_HOST) return "alpha and beta are simulated in host memory only";
  const char *why = sim_gemm_types(&g->input, &g->output, a->type, b->type, d->type);
  if (why) return why;
  if (o->compute != CUBLAS_COMPUTE_32F_PEDANTIC && (o->compute != CUBLAS_COMPUTE_32F || g->input == SIM_F32))
    return "the compute type is not CUBLAS_COMPUTE_32F_PEDANTIC, nor CUBLAS_COMPUTE_32F of bf16 or f16";
  if (c->type != d->type) return "C and D are of different types";
  if (o->bias_type != -1 && o->bias_type != (int32_t)d->type) return "the bias is not of the type of D";
  bool biased = o->epilogue & CUBLASLT_EPILOGUE_BIAS, relu = o->epilogue & CUBLASLT_EPILOGUE_RELU;
  if (o->epilogue & ~(uint32_t)(CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU_BIAS))
    return "the epilogue is not simulated";
  if (biased && !o->bias) return "there is no bias";
  g->transpose_a = o->transa == CUBLAS_OP_T;
  g->transpose_b = o->transb == CUBLAS_OP_T;
  g->relu = relu;
  g->bias = biased ? o->bias : NULL;
  g->m = (int64_t)d->rows;
  g->n = (int64_t)d->columns;
  g->k = (int64_t)(g->transpose_a ? a->rows : a->columns);
  g->n_batch = d->n_batch;
  g->lda = a->ld, g->ldb = b->ld, g->ldc = c->ld, g->ldd = d->ld;
  g->stride_a = a->stride, g->stride_b = b->stride, g->stride_c = c->stride, g->stride_d = d->stride;
  if ((int64_t)(g->transpose_a ? a->columns : a->rows) != g->m ||
      (int64_t)(g->transpose_b ? b->rows : b->columns) != g->n ||
      (int64_t)(g->transpose_b ? b->columns : b->rows) != g->k || c->rows != d->rows || c->columns != d->columns)
    return "the shapes of A, B, C and D do not fit";
  return NULL;
}

static bool are_objects(const void *handle, const void *operation, const void *const layouts[4]) {
  bool all = sim_owned_is(&objects, handle, HANDLE) && sim_owned_is(&objects, operation, DESCRIPTION);
  for (size_t i = 0; i < 4; i++) all = all && sim_owned_is(&objects, layouts[i], LAYOUT);
  return all;
}

/* ---- algorithms --------------------------------------------------------------------------------- */

static const uint64_t MARK = 0x6d6973;

static cublasLtMatmulAlgo_t algo_of(size_t family, int64_t parts) {
  return (cublasLtMatmulAlgo_t){{MARK, family, (uint64_t)parts}};
}

static void add(cublasLtMatmulHeuristicResult_t *results, int *n, int n_wanted, const sim_gemm *g,
                const preference *wanted, size_t family, int64_t parts) {
  sim_gemm_engine engine;
  cublasLtMatmulAlgo_t algo = algo_of(family, parts);
  for (int i = 0; i < *n; i++)
    if (!memcmp(&results[i].algo, &algo, sizeof algo)) return;
  if (*n == n_wanted || !sim_gemm_engine_make(&engine, g, family, parts)) return;
  if (engine.splits && !(wanted->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) return;
  results[(*n)++] = (cublasLtMatmulHeuristicResult_t){
      .algo = algo,
      .workspaceSize = engine.splits ? (size_t)(parts * g->m * g->n * g->n_batch) * sizeof(float) : 0,
      .state = CUBLAS_STATUS_SUCCESS,
      .wavesCount = 1};
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *n) {
  if (is_of_cudnn(__builtin_return_address(0))) return CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT(are_objects(handle, operation, (const void *[]){a, b, c, d}) && sim_owned_is(&objects, wanted, PREFERENCE),
         "an object is not one, or was destroyed");
  EXPECT(results && n && n_wanted > 0, "there is no place for the results");
  sim_gemm g = {.alpha = 1};
  const char *why = describe(&g, (void *)operation, (void *)a, (void *)b, (void *)c, (void *)d);
  if (why) return refuse(__func__, why, CUBLAS_STATUS_NOT_SUPPORTED);
  const preference *p = (const void *)wanted;
  g.workspace_n_bytes = p->workspace_n_bytes;
  size_t family;
  int64_t parts;
  sim_gemm_choose(&family, &parts, &g, version());
  *n = 0;
  add(results, n, n_wanted, &g, p, family, parts);
  for (size_t i = 0; i < SIM_GEMM_FAMILIES; i++) add(results, n, n_wanted, &g, p, i, sim_gemm_splits(i) ? 4 : 1);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void *value,
                                                    size_t n_bytes, size_t *n_written) {
  EXPECT(algo && algo->data[0] == MARK && algo->data[1] < SIM_GEMM_FAMILIES, "the algorithm is not one");
  EXPECT(value && n_bytes == sizeof(int32_t), "the attribute is of 4 bytes");
  bool splits = sim_gemm_splits(algo->data[1]);
  int32_t number = name == CUBLASLT_ALGO_CONFIG_ID           ? (int32_t)algo->data[1]
                   : name == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? (int32_t)algo->data[2]
                   : name == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && splits
                       ? (int32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                       : 0;
  memcpy(value, &number, sizeof number);
  if (n_written) *n_written = sizeof number;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha,
                              const void *a_values, cublasLtMatrixLayout_t a, const void *b_values,
                              cublasLtMatrixLayout_t b, const void *beta, const void *c_values,
                              cublasLtMatrixLayout_t c, void *d_values, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_n_bytes,
                              cudaStream_t stream) {
  EXPECT(are_objects(handle, operation, (const void *[]){a, b, c, d}), "an object is not one, or was destroyed");
  EXPECT(sim_context_current(), "no context is current");
  EXPECT(algo && algo->data[0] == MARK && algo->data[1] < SIM_GEMM_FAMILIES,
         "no algorithm is named: the choice has no record");
  EXPECT(alpha && beta, "alpha or beta is NULL");
  EXPECT(!workspace_n_bytes || (uintptr_t)workspace % 16 == 0, "the workspace is not aligned to 16 bytes");
  cublasStatus_t status = (cublasStatus_t)sim_setting_failure("cublaslt.fail", &n_products);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  sim_gemm g = {.a = a_values, .b = b_values, .c = c_values, .d = d_values};
  memcpy(&g.alpha, alpha, sizeof g.alpha);
  memcpy(&g.beta, beta, sizeof g.beta);
  const char *why = describe(&g, (void *)operation, (void *)a, (void *)b, (void *)c, (void *)d);
  if (why) return refuse(__func__, why, CUBLAS_STATUS_NOT_SUPPORTED);
  why = sim_gemm_check(&g);
  EXPECT(!why, why);
  if (!sim_gemm_check_memory(&g, __func__)) return CUBLAS_STATUS_INVALID_VALUE;
  g.workspace = workspace;
  g.workspace_n_bytes = workspace_n_bytes;
  sim_gemm_engine engine;
  EXPECT(sim_gemm_engine_make(&engine, &g, algo->data[1], (int64_t)algo->data[2]),
         "the workspace is less than what the algorithm needs");
  if (!g.m || !g.n || !g.n_batch) return CUBLAS_STATUS_SUCCESS;
  return sim_gemm_enqueue((CUstream)stream, __func__, &g, &engine) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
