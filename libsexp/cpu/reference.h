/* The reference loops, one function a family of operations; sx_reference in reference.c names them by
 * operation. Private to libsexp/cpu. */
#ifndef SX_CPU_REFERENCE_H
#define SX_CPU_REFERENCE_H

#include "operand.h"

sx_kernel sx_reference_element; /* every ELEMENT operation */
sx_kernel sx_reference_const, sx_reference_iota;
sx_kernel sx_reference_reshape, sx_reference_move, sx_reference_concat;
sx_kernel sx_reference_sum, sx_reference_extreme, sx_reference_any_all, sx_reference_arg_extreme, sx_reference_fold;
sx_kernel sx_reference_einsum, sx_reference_conv, sx_reference_conv_data, sx_reference_conv_weight;
sx_kernel sx_reference_gather, sx_reference_scatter, sx_reference_take, sx_reference_put, sx_reference_one_hot;
sx_kernel sx_reference_argsort, sx_reference_scan, sx_reference_draw;

/* One element operation on values of dtype `from` (of input 0; WHERE: of input 1), to a value of dtype `to`.
 * The scalar definition that every other form of it must equal. */
sx_value sx_reference_apply(sx_op op, sx_dtype from, sx_dtype to, const sx_value in[3]);
/* sx_kernel_set.element by sx_reference_apply. */
void sx_reference_elements(sx_op op, sx_dtype from, sx_dtype to, void *out, const void *const *inputs, int64_t n);

/* sx_matrix_kernels; the product by the same loop as an EINSUM. */
void sx_reference_product(const struct sx_gemm_plain *plain, const struct sx_gemm_part *part, float *panels);
void sx_reference_transpose(const float *from, int64_t row, int64_t step, int64_t n, int64_t depth, int64_t width,
                            float *out);
int32_t sx_reference_largest(const float *from, int64_t rows, int64_t row, int64_t columns);
bool sx_reference_has_minus_zero(const float *from, int64_t rows, int64_t row, int64_t columns);
void sx_reference_apply_constant(float *to, int64_t rows, int64_t row, int64_t columns, bool adds, float value);

/* One element of a convolution or of its gradients, before it is rounded to its dtype. */
float sx_reference_conv_at(const sx_call *call, const int64_t at[4]);
float sx_reference_conv_data_at(const sx_call *call, const int64_t at[4]);
float sx_reference_conv_weight_at(const sx_call *call, const int64_t at[4]);

extern const sx_kernel_set sx_kernel_set_reference;

#endif
