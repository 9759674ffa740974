/* Products as calls of cuBLAS. */
#include "cuda.h"
#include "product.h"

static cudaDataType_t type_of(sx_dtype dtype) {
  return dtype == SX_F32 ? CUDA_R_32F : dtype == SX_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

/* Sums are f32's: of f32 without TF32 or other shortcuts; products of two 16-bit floats are exact. */
bool sx_gemm_run(sx_cuda *cuda, const sx_gemm_call *call, sx_dtype from_dtype, sx_dtype to_dtype, const char *a,
                 const char *b, char *c) {
  static const float one = 1, zero = 0;
  const sx_api *api = &cuda->api;
  cudaDataType_t from = type_of(from_dtype), to = type_of(to_dtype);
  int64_t from_bytes = (int64_t)sx_dtype_bytes(from_dtype), to_bytes = (int64_t)sx_dtype_bytes(to_dtype);
  cublasComputeType_t sums = from_dtype == SX_F32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
  a += call->a * from_bytes;
  b += call->b * from_bytes;
  c += call->c * to_bytes;
  if (call->batch == 1)
    return sx_cuda_check_cublas(
        cuda,
        api->cublasGemmEx(cuda->cublas, operation(call->a_transposed), operation(call->b_transposed), call->m, call->n,
                          call->k, &one, a, from, call->a_leading, b, from, call->b_leading, &zero, c, to,
                          call->c_leading, sums, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  return sx_cuda_check_cublas(
      cuda,
      api->cublasGemmStridedBatchedEx(cuda->cublas, operation(call->a_transposed), operation(call->b_transposed),
                                      call->m, call->n, call->k, &one, a, from, call->a_leading, call->a_stride, b,
                                      from, call->b_leading, call->b_stride, &zero, c, to, call->c_leading,
                                      call->c_stride, call->batch, sums, CUBLAS_GEMM_DEFAULT),
      "cublasGemmStridedBatchedEx");
}

void sx_product_run(sx_cuda *cuda, const sx_work *work, const sx_addresses *addresses) {
  const sx_product *product = work->product;
  const char *a = (const char *)(uintptr_t)sx_address(addresses, product->operands[0]);
  const char *b = (const char *)(uintptr_t)sx_address(addresses, product->operands[1]);
  char *c = (char *)(uintptr_t)sx_address(addresses, product->result);
  for (uint32_t i = 0; i < product->n_calls; i++)
    if (!sx_gemm_run(cuda, &product->calls[i], product->from, product->to, a, b, c)) return;
}

void sx_product_print(sx_text *text, const sx_work *work) { sx_text_add(text, work->product->text); }
