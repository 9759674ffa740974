/* Products on the simulated cuBLAS, and what they should be. */
#ifndef TEST_CUDASIM_BLAS_H
#define TEST_CUDASIM_BLAS_H

#include "cudasim_mathlib.h"

#ifdef SX_CUDA
#include <cublas_v2.h>

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
#define FINE(call) CHECK((call) == CUBLAS_STATUS_SUCCESS)

/* One handle on one stream with a workspace, pedantic. */
typedef struct blas {
#define ROW(function) __typeof__(function) *p_##function;
  BLAS(ROW)
#undef ROW
  CUstream stream;
  cublasHandle_t handle;
  void *workspace;
} blas;

enum { BLAS_WORKSPACE_N_BYTES = 4 << 20 };

void blas_begin(blas *b);
void blas_end(blas *b);

typedef struct blas_product {
  bool ta, tb;
  int m, n, k, n_batch;
  cudaDataType_t input, output;
  float alpha, beta;
  int gap; /* of leading dimensions */
} blas_product;

typedef struct blas_memory {
  void *a, *b, *c;
  float *wide_a, *wide_b, *wide_c;
  void *host_c;
  size_t n_c_bytes;
} blas_memory;

/* Filled with numbers that the types have exactly. */
blas_memory blas_take(const blas_product *product);
void blas_give(blas_memory *memory);
/* Device memory of n such numbers; the same as f32 in *wide, and in *host as they are, unless NULL. */
void *blas_upload(cudaDataType_t type, float **wide, size_t n, uint64_t seed, void **host);
cublasStatus_t blas_multiply(blas *b, const blas_product *product, const blas_memory *memory);
/* The result in memory->host_c against binary64: the case ends where it is not within the bound of a sum of k products,
 * a rounding a term, and one to the result's type. */
void blas_compare(const blas_product *product, const blas_memory *memory);
void blas_compute_and_compare(blas *b, const blas_product *product);
#endif

#endif
