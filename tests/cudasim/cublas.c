/* libcublas.so.13 of the simulated card: what the product calls, strictly. Results are those of sim_gemm. */
#include <cublas_v2.h>
#include <stdlib.h>
#include <string.h>

#include "gemm.h"
#include "mathlib.h"

/* ---- handles ------------------------------------------------------------------------------------ */

struct cublasContext {
  sim_owned object; /* first */
  CUstream stream;
  void *workspace; /* NULL: the default pool */
  size_t workspace_n_bytes;
  void *pool;
  cublasMath_t math;
  cublasAtomicsMode_t atomics;
  cublasPointerMode_t pointers;
};

enum { DEFAULT_POOL_N_BYTES = 4 << 20, HOPPER_POOL_N_BYTES = 32 << 20, WORKSPACE_ALIGNMENT = 256 };
static const char HANDLE[] = "handle";
static sim_owned_list objects;
static int64_t n_products;

__attribute__((destructor)) static void end(void) { sim_owned_end(&objects, "cuBLAS"); }

static void expect_settings(void) {
  static const char *const names[] = {"cublas.version", "cublas.default_workspace", "cublas.nondeterministic",
                                      "cublas.fail", "cublas.order"};
  static int done;
  if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
    sim_settings_expect("cublas.", names, sizeof names / sizeof *names, sim_gemm_is_engine);
}

static int version(void) { return (int)sim_setting_number("cublas.version", CUBLAS_VERSION); }

static cublasStatus_t refuse(const char *call, const char *why, cublasStatus_t status) {
  sim_violation("%s: %s", call, why);
  return status;
}

/* Whether a call may go on. */
static cublasStatus_t enter(cublasHandle_t handle, const char *call) {
  if (!sim_owned_is(&objects, handle, HANDLE))
    return refuse(call, "the handle is not one, or was destroyed", CUBLAS_STATUS_NOT_INITIALIZED);
  return CUBLAS_STATUS_SUCCESS;
}

#define ENTER(handle)                                     \
  do {                                                    \
    cublasStatus_t entered = enter(handle, __func__);     \
    if (entered != CUBLAS_STATUS_SUCCESS) return entered; \
  } while (0)
#define EXPECT(condition, why) \
  if (!(condition)) return refuse(__func__, why, CUBLAS_STATUS_INVALID_VALUE)

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
  expect_settings();
  EXPECT(handle, "there is no place for the handle");
  if (!sim_context_current()) return refuse(__func__, "no context is current", CUBLAS_STATUS_NOT_INITIALIZED);
  *handle = sim_take(sizeof **handle);
  **handle = (struct cublasContext){.math = CUBLAS_DEFAULT_MATH};
  sim_owned_add(&objects, &(*handle)->object, HANDLE);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  ENTER(handle);
  if (handle->pool) sim_memory_give(handle->pool);
  sim_owned_remove(&objects, &handle->object);
  free(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *number) {
  ENTER(handle);
  EXPECT(number, "there is no place for the version");
  *number = version();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
  expect_settings();
  EXPECT(value, "there is no place for the property");
  EXPECT(type == MAJOR_VERSION || type == MINOR_VERSION || type == PATCH_LEVEL, "the property is none");
  *value = type == MAJOR_VERSION ? version() / 10000 : type == MINOR_VERSION ? version() / 100 % 100 : version() % 100;
  return CUBLAS_STATUS_SUCCESS;
}

/* As of the real library, a stream, even the same one, takes the workspace away. */
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  ENTER(handle);
  EXPECT(sim_stream_valid((CUstream)stream), "the stream is not one, or was destroyed");
  handle->stream = (CUstream)stream;
  handle->workspace = NULL;
  handle->workspace_n_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream) {
  ENTER(handle);
  EXPECT(stream, "there is no place for the stream");
  *stream = (cudaStream_t)handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t n_bytes) {
  ENTER(handle);
  EXPECT(workspace && n_bytes, "there is no workspace");
  EXPECT((uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0, "the workspace is not aligned to 256 bytes");
  EXPECT(sim_device_memory(workspace, n_bytes), "the workspace is not one allocation of device memory");
  handle->workspace = workspace;
  handle->workspace_n_bytes = n_bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- modes -------------------------------------------------------------------------------------- */

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  ENTER(handle);
  int kind = (int)mode & ~(int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
  EXPECT(kind == CUBLAS_DEFAULT_MATH || kind == CUBLAS_PEDANTIC_MATH,
         "the mode allows other arithmetic than f32's: only CUBLAS_DEFAULT_MATH and CUBLAS_PEDANTIC_MATH repeat it");
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
  ENTER(handle);
  EXPECT(mode, "there is no place for the mode");
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  ENTER(handle);
  EXPECT(mode == CUBLAS_ATOMICS_NOT_ALLOWED, "atomics are allowed: their bits do not repeat");
  handle->atomics = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t *mode) {
  ENTER(handle);
  EXPECT(mode, "there is no place for the mode");
  *mode = handle->atomics;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  ENTER(handle);
  EXPECT(mode == CUBLAS_POINTER_MODE_HOST, "alpha and beta are simulated in host memory only");
  handle->pointers = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t *mode) {
  ENTER(handle);
  EXPECT(mode, "there is no place for the mode");
  *mode = handle->pointers;
  return CUBLAS_STATUS_SUCCESS;
}

/* ---- statuses ----------------------------------------------------------------------------------- */

#define STATUSES(ROW)                                                           \
  ROW(SUCCESS, "the function completed successfully")                           \
  ROW(NOT_INITIALIZED, "the library was not initialized")                       \
  ROW(ALLOC_FAILED, "the resource allocation failed")                           \
  ROW(INVALID_VALUE, "an invalid value was passed as an argument")              \
  ROW(ARCH_MISMATCH, "a feature is absent from the architecture of the device") \
  ROW(MAPPING_ERROR, "an access to memory of the device failed")                \
  ROW(EXECUTION_FAILED, "a program of the device failed to execute")            \
  ROW(INTERNAL_ERROR, "an operation inside the library failed")                 \
  ROW(NOT_SUPPORTED, "the functionality that was asked for is not supported")   \
  ROW(LICENSE_ERROR, "the functionality that was asked for needs a license")

const char *cublasGetStatusString(cublasStatus_t status) {
#define ROW(name, text) \
  if (status == CUBLAS_STATUS_##name) return text;
  STATUSES(ROW)
#undef ROW
  return "unknown status";
}

const char *cublasGetStatusName(cublasStatus_t status) {
#define ROW(name, text) \
  if (status == CUBLAS_STATUS_##name) return "CUBLAS_STATUS_" #name;
  STATUSES(ROW)
#undef ROW
  return "unknown status";
}

/* ---- products ----------------------------------------------------------------------------------- */

/* The default pool is memory of the library's that any other stream's products may be using. */
static cublasStatus_t use_workspace(sim_gemm *gemm, cublasHandle_t handle, const char *call) {
  gemm->workspace = handle->workspace;
  gemm->workspace_n_bytes = handle->workspace_n_bytes;
  if (handle->workspace) return CUBLAS_STATUS_SUCCESS;
  const char *allowed = sim_setting("cublas.default_workspace");
  if (!allowed || strcmp(allowed, "allow"))
    return refuse(call, "the handle has the default workspace: set one after every change of its stream",
                  CUBLAS_STATUS_NOT_INITIALIZED);
  size_t n_bytes = sim_card_fact("deviceVer") >= 900 ? HOPPER_POOL_N_BYTES : DEFAULT_POOL_N_BYTES;
  if (!handle->pool) handle->pool = sim_memory_take(n_bytes);
  if (!handle->pool) return CUBLAS_STATUS_ALLOC_FAILED;
  gemm->workspace = handle->pool;
  gemm->workspace_n_bytes = n_bytes;
  return CUBLAS_STATUS_SUCCESS;
}

typedef struct request {
  const char *call;
  cublasOperation_t transa, transb;
  const void *alpha, *beta;
  cudaDataType_t a, b, c;
  cublasComputeType_t compute;
  cublasGemmAlgo_t algo;
} request;

static bool is_operation(cublasOperation_t operation) { return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T; }

static const char *judge_arithmetic(cublasHandle_t handle, const request *r, sim_dtype input) {
  bool pedantic = r->compute == CUBLAS_COMPUTE_32F_PEDANTIC || (handle->math & 15) == CUBLAS_PEDANTIC_MATH;
  if (r->compute != CUBLAS_COMPUTE_32F && r->compute != CUBLAS_COMPUTE_32F_PEDANTIC)
    return "the compute type is neither CUBLAS_COMPUTE_32F nor CUBLAS_COMPUTE_32F_PEDANTIC";
  if (r->algo == CUBLAS_GEMM_AUTOTUNE) return "CUBLAS_GEMM_AUTOTUNE chooses by time and keeps no record";
  if (r->algo != CUBLAS_GEMM_DEFAULT) return "the algorithm is not CUBLAS_GEMM_DEFAULT";
  if (pedantic) return NULL;
  if (input == SIM_F32) return "a product of f32 has to be pedantic: otherwise its arithmetic may be another's";
  if (!(handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION))
    return "without CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION partial sums may be rounded to 16 bits";
  return NULL;
}

static cublasStatus_t read_factors(sim_gemm *gemm, const request *r) {
  if (!r->alpha || !r->beta) return refuse(r->call, "alpha or beta is NULL", CUBLAS_STATUS_INVALID_VALUE);
  if (sim_device_memory(r->alpha, sizeof(float)) || sim_device_memory(r->beta, sizeof(float)))
    return refuse(r->call, "alpha or beta is in device memory, and the pointer mode says host",
                  CUBLAS_STATUS_INVALID_VALUE);
  memcpy(&gemm->alpha, r->alpha, sizeof(float));
  memcpy(&gemm->beta, r->beta, sizeof(float));
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t check(sim_gemm *gemm, cublasHandle_t handle, const request *r) {
  if (!sim_context_current()) return refuse(r->call, "no context is current", CUBLAS_STATUS_NOT_INITIALIZED);
  if (!sim_stream_valid(handle->stream))
    return refuse(r->call, "the handle's stream was destroyed", CUBLAS_STATUS_INVALID_VALUE);
  if (!is_operation(r->transa) || !is_operation(r->transb))
    return refuse(r->call, "an operation is neither N nor T", CUBLAS_STATUS_INVALID_VALUE);
  gemm->transpose_a = r->transa == CUBLAS_OP_T;
  gemm->transpose_b = r->transb == CUBLAS_OP_T;
  const char *why = sim_gemm_types(&gemm->input, &gemm->output, r->a, r->b, r->c);
  if (why) return refuse(r->call, why, CUBLAS_STATUS_NOT_SUPPORTED);
  why = judge_arithmetic(handle, r, gemm->input);
  if (why) return refuse(r->call, why, CUBLAS_STATUS_NOT_SUPPORTED);
  cublasStatus_t status = read_factors(gemm, r);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  why = sim_gemm_check(gemm);
  if (why) return refuse(r->call, why, CUBLAS_STATUS_INVALID_VALUE);
  return sim_gemm_check_memory(gemm, r->call) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t multiply(cublasHandle_t handle, sim_gemm gemm, const request *r) {
  cublasStatus_t status = enter(handle, r->call);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  status = (cublasStatus_t)sim_setting_failure("cublas.fail", &n_products);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  gemm.c = gemm.d;
  gemm.ldd = gemm.ldc;
  gemm.stride_d = gemm.stride_c;
  status = check(&gemm, handle, r);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  status = use_workspace(&gemm, handle, r->call);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (!gemm.m || !gemm.n || !gemm.n_batch) return CUBLAS_STATUS_SUCCESS;
  sim_gemm_engine engine;
  size_t family;
  int64_t parts;
  sim_gemm_choose(&family, &parts, &gemm, version());
  sim_gemm_engine_make(&engine, &gemm, family, parts);
  return sim_gemm_enqueue(handle->stream, r->call, &gemm, &engine) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void *alpha, const void *a, cudaDataType_t a_type,
                                          int lda, long long int stride_a, const void *b, cudaDataType_t b_type,
                                          int ldb, long long int stride_b, const void *beta, void *c,
                                          cudaDataType_t c_type, int ldc, long long int stride_c, int n_batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  const request r = {__func__, transa, transb, alpha, beta, a_type, b_type, c_type, compute, algo};
  const sim_gemm gemm = {.m = m,
                         .n = n,
                         .k = k,
                         .n_batch = n_batch,
                         .a = a,
                         .b = b,
                         .d = c,
                         .lda = lda,
                         .ldb = ldb,
                         .ldc = ldc,
                         .stride_a = stride_a,
                         .stride_b = stride_b,
                         .stride_c = stride_c};
  return multiply(handle, gemm, &r);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *a, cudaDataType_t a_type, int lda, const void *b,
                            cudaDataType_t b_type, int ldb, const void *beta, void *c, cudaDataType_t c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo) {
  const request r = {__func__, transa, transb, alpha, beta, a_type, b_type, c_type, compute, algo};
  const sim_gemm gemm = {
      .m = m, .n = n, .k = k, .n_batch = 1, .a = a, .b = b, .d = c, .lda = lda, .ldb = ldb, .ldc = ldc};
  return multiply(handle, gemm, &r);
}

/* The compute type of these two is the handle's math mode. */
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc) {
  const request r = {
      __func__,           transa, transb, alpha, beta, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT};
  const sim_gemm gemm = {
      .m = m, .n = n, .k = k, .n_batch = 1, .a = a, .b = b, .d = c, .lda = lda, .ldb = ldb, .ldc = ldc};
  return multiply(handle, gemm, &r);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const float *alpha, const float *a, int lda,
                                         long long int stride_a, const float *b, int ldb, long long int stride_b,
                                         const float *beta, float *c, int ldc, long long int stride_c, int n_batch) {
  const request r = {
      __func__,           transa, transb, alpha, beta, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT};
  const sim_gemm gemm = {.m = m,
                         .n = n,
                         .k = k,
                         .n_batch = n_batch,
                         .a = a,
                         .b = b,
                         .d = c,
                         .lda = lda,
                         .ldb = ldb,
                         .ldc = ldc,
                         .stride_a = stride_a,
                         .stride_b = stride_b,
                         .stride_c = stride_c};
  return multiply(handle, gemm, &r);
}
