/* Products of matrices as the stand-ins of cuBLAS and cuBLASLt compute them, and the engines they choose from.
 *
 * An engine is an order of the k terms of every sum. Which one is taken depends on the shape, the transpositions, the
 * type, the alignment, the workspace, the card's compute capability and number of multiprocessors and the version of
 * the library, and on nothing else: as of the real one, one machine repeats its bits and another may have others. */
#ifndef SIM_GEMM_H
#define SIM_GEMM_H

#include <library_types.h>

#include "fold.h"
#include "sim.h"

/* D = relu(alpha * op(A) op(B) + beta * C + bias), column-major, sums and alpha and beta in f32, rounded once. */
typedef struct sim_gemm {
  bool transpose_a, transpose_b, relu;
  int64_t m, n, k, n_batch;
  sim_dtype input, output;      /* of A and B; of C, D and the bias */
  const void *a, *b, *c, *bias; /* c is read where beta is not 0; bias: m elements, or NULL */
  void *d;
  int64_t lda, ldb, ldc, ldd, stride_a, stride_b, stride_c, stride_d;
  float alpha, beta;
  void *workspace; /* written by engines that split k among multiprocessors */
  size_t workspace_n_bytes;
} sim_gemm;

typedef struct sim_gemm_engine {
  const char *name;
  sim_fold_order order;
  double efficiency; /* the part of the card's speed that it reaches */
  bool splits;       /* k among multiprocessors, whose sums meet in the workspace */
} sim_gemm_engine;

enum { SIM_GEMM_FAMILIES = 8 };
/* NULL: no engine of this name. */
const char *sim_gemm_family(size_t i);
bool sim_gemm_is_engine(const char *name);
bool sim_gemm_splits(size_t i);

/* The engine of family i with k in `parts` (taken by those that split alone). False: the workspace does not hold it. */
bool sim_gemm_engine_make(sim_gemm_engine *engine, const sim_gemm *gemm, size_t i, int64_t parts);
/* What the heuristics take: its family's index and its parts. */
void sim_gemm_choose(size_t *family, int64_t *parts, const sim_gemm *gemm, int version);

/* NULL: the types are those of a product; else what is wrong. */
const char *sim_gemm_types(sim_dtype *input, sim_dtype *output, cudaDataType_t a, cudaDataType_t b, cudaDataType_t d);
/* NULL: sound; else which argument is wrong, as the library would refuse it. Leading dimensions against shapes. */
const char *sim_gemm_check(const sim_gemm *gemm);
/* Memory that is written twice or read while it is written: a violation, told under `call`. */
bool sim_gemm_check_memory(const sim_gemm *gemm, const char *call);
/* Checks and enqueues. */
CUresult sim_gemm_enqueue(CUstream stream, const char *call, const sim_gemm *gemm, const sim_gemm_engine *engine);

#endif
