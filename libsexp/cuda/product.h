/* Products of matrices on the device: einsum by cuBLAS, or by the project's own kernels in the order of numerics 1.
 *
 * cuBLAS computes it where its operands are matrices or can be made so by copying them into scratch: f32 with
 * CUBLAS_COMPUTE_32F_PEDANTIC, bf16 and f16 with f32 sums. The project's kernels compute the rest, everything when the
 * lowering is portable, and what is so small that a call would not pay; which of them is decided by the shape alone.
 *
 * A long product of f32 (sx_product_is_long) has several implementations, one of which is chosen:
 *   ordinary    one call
 *   transposed  the transposed product, operands exchanged, into scratch; then its transpose
 *   split N     the contracted index in N parts, a product each into scratch, then their sum in order
 *
 * Source: NVIDIA, cuBLAS library (column-major matrices, leading dimensions). */
#ifndef SX_CUDA_PRODUCT_H
#define SX_CUDA_PRODUCT_H

#include "contract.h"
#include "work.h"

/* ---- calls of cuBLAS ------------------------------------------------------------------------------------------- */

/* Arguments of one cublasGemmStridedBatchedEx, column-major: C [m n] = op(A) op(B), A being [m k] or, transposed, [k
 * m]. `a`, `b`, `c` say where in the product's operands it begins. A call of one batch is cublasGemmEx. */
typedef struct sx_gemm_call {
  bool a_transposed, b_transposed;
  int m, n, k, a_leading, b_leading, c_leading, batch;
  int64_t a_stride, b_stride, c_stride; /* elements from a batch to the next */
  int64_t a, b, c;                      /* elements */
} sx_gemm_call;

/* One piece of work: calls one after the other. cuBLAS's A is operand 0, its B operand 1. */
typedef struct sx_product {
  sx_place operands[2], result;
  sx_dtype from, to;
  sx_gemm_call *calls;
  uint32_t n_calls;
  const char *text; /* "768 x 3072 x 65536 n t f32, cuBLAS, split 8" for reports */
  const char *key;  /* of a call that cuBLAS decides by itself (sx_product_call_print); NULL: it was chosen */
} sx_product;

/* ---- lowering -------------------------------------------------------------------------------------------------- */

/* Adds the works of a NODE task that is an EINSUM. What cuBLAS does not multiply a kernel does. Errors: E-DEVICE-041 it
 * has more elements than a launch has threads. */
bool sx_lower_product(sx_lowering *lowering, uint32_t task);

/* A contraction whose operands and result lie where the places say. */
typedef struct sx_contraction {
  uint32_t task;
  sx_id node;
  sx_contract contract;
  sx_place operands[2], result;
  bool chooses; /* a long one has a choice of its own */
} sx_contraction;

/* The works of a contraction, which may be empty. */
bool sx_lower_contraction(sx_lowering *lowering, const sx_contraction *contraction);
/* Adds a copy of a tensor's elements, in row-major order. */
void sx_lower_copy(sx_lowering *lowering, const sx_contraction *of, const sx_strided *tensor, sx_place from,
                   sx_place to);
/* Input i of a node as its view lies. */
sx_strided sx_strided_of(const sx_plan *plan, sx_id node);

/* ---- the choice of a long product's implementation ----------------------------------------------------------------
 */

/* Product { batch: 1, m: 768, n: 3072, k: 65536, a: n, b: t } f32: C [m n] = A B, A being [m k] row-major (n) or [k m]
 * (t), B [k n] (n) or [n k] (t). */
typedef struct sx_product_key {
  int64_t batch, m, n, k;
  bool a_transposed, b_transposed;
  sx_dtype dtype;
} sx_product_key;

void sx_product_key_print(sx_text *text, const sx_product_key *key);
/* The same of any call, with " to f32" after it where the result is of another dtype. */
void sx_product_call_print(sx_text *text, const sx_product_key *key, sx_dtype to);
/* Takes what that gives and nothing else, of sizes that a call has. */
bool sx_product_call_parse(sx_product_key *key, sx_dtype *to, const char *text, sx_arena *arena);
/* Long: f32, one matrix, m and n at least 16, k at least 4096 and at least four times the larger of them; operands
 * without gaps. */
bool sx_product_is_long(const sx_product_key *key);
/* "ordinary", "transposed", "split 2" ... "split 32": of these, the splits into equal parts of at least 512 whose
 * partial results have at most 256 MiB; in the arena. */
const char *const *sx_product_implementations(size_t *n, const sx_product_key *key, sx_arena *arena);
/* Whether the task is a long product; its key. */
bool sx_product_key_of(sx_product_key *key, const sx_plan *plan, uint32_t task);

#endif
