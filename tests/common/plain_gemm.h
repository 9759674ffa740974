/* One call of cuBLAS's gemm in plain C, with the same arguments: for tests of how products become calls. */
#ifndef TEST_PLAIN_GEMM_H
#define TEST_PLAIN_GEMM_H

#include "../../libsexp/cuda/product.h"

/* Sums in f32, in index order, without fma. Addresses are those of the product's operands and result. */
void plain_gemm(const sx_gemm_call *call, sx_dtype from, sx_dtype to, const void *a, const void *b, void *c);

#endif
