/* How a contraction becomes calls of cuBLAS: which axes merge into the rows, columns and depth of matrices, which are
 * batches, and what has to be copied first for that. Needs no header of CUDA. */
#ifndef SX_CUDA_PRODUCT_MAP_H
#define SX_CUDA_PRODUCT_MAP_H

#include "product.h"

enum { SX_GEMM_CALLS_MOST = 32 }; /* of one product; beyond, operands are copied */

/* A tensor to be copied: its elements in the order of these axes become one contiguous array. Of the result the other
 * way: `view` is of the scratch, row-major like the result. */
typedef struct sx_product_copy {
  bool is;
  int64_t n; /* elements */
  int rank;
  int64_t dims[2 * SX_RANK_MAX], strides[2 * SX_RANK_MAX];
} sx_product_copy;

typedef struct sx_product_mapping {
  bool exchanged; /* cuBLAS's first operand is the contraction's second */
  sx_product_copy a, b, c;
  sx_gemm_call call; /* the first */
  /* The others: it again, further along these axes. */
  int n_loops;
  sx_contract_axis loops[2 * SX_RANK_MAX];
  int64_t n_calls;
  int64_t cost; /* bytes moved by copies, and what calls cost besides, as bytes */
} sx_product_mapping;

/* The cheapest mapping; false: there is none, as of dtypes that cuBLAS does not multiply. None of the counts is 0. */
bool sx_product_map(sx_product_mapping *mapping, const sx_contract *contract);
/* All calls of a mapping. */
sx_gemm_call *sx_product_calls(const sx_product_mapping *mapping, sx_arena *arena);

#endif
