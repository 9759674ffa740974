/* A contraction as its shapes and strides tell it: einsum and the three convolutions are products C[b i j] = sum over k
 * of A[b i k] B[b j k], where each of b, i, j, k is a walk over axes. product.c maps it to calls of cuBLAS,
 * kernel_product.c gives kernels for any of them. Sizes and strides are in elements. */
#ifndef SX_CUDA_CONTRACT_H
#define SX_CUDA_CONTRACT_H

#include "../pass/plan.h"

/* A tensor as it lies in memory, from the first element of its view. */
typedef struct sx_strided {
  sx_dtype dtype;
  int rank;
  const int64_t *dims, *strides;
} sx_strided;

/* One axis of a walk: what a step adds to the places in A, B and C; of an operand with an image to the place in it. */
typedef struct sx_contract_axis {
  int64_t dim;
  int64_t a, b, c;
  int64_t y, x; /* of the operand that has the image */
} sx_contract_axis;

typedef struct sx_contract_walk {
  int n;
  int64_t count; /* of its steps: 1 without axes */
  sx_contract_axis axes[2 * SX_RANK_MAX];
} sx_contract_walk;

/* Operand A or B of a convolution: an element lies at (y / divide) row + (x / divide) column + what the axes
 * add, where y and x are multiples of divide and below height and width; else it is 0. */
typedef struct sx_contract_image {
  bool is; /* false: an operand without one */
  int64_t y, x, divide, height, width, row, column;
} sx_contract_image;

typedef struct sx_contract {
  sx_dtype from, to; /* of both operands; of the result */
  sx_contract_walk batch, rows, columns, depth;
  sx_contract_image a, b; /* at most one is */
} sx_contract;

/* The contraction that a node of class CONTRACT computes; out is row-major. */
sx_contract sx_contract_of(const sx_node *node, const sx_strided inputs[2]);

/* The same with axes merged where one step of the outer is all of the inner, and axes of one step left out; the order
 * of the depth stays. Nothing of the result's bits changes. */
sx_contract sx_contract_merged(const sx_contract *contract);

#endif
