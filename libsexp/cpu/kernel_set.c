/* The kernels of one SIMD level. An operation without a row is computed by its reference loop; element
 * operations by sx_element, tile by tile. */
#include "chain.h"
#include "level.h"

enum { SIMD_scalar = SX_SIMD_SCALAR, SIMD_avx2 = SX_SIMD_AVX2, SIMD_avx512 = SX_SIMD_AVX512 };

extern const sx_kernel_set SX_AT_LEVEL(sx_kernel_set);
extern const sx_chain_kernels SX_AT_LEVEL(sx_chain_kernels);

static const sx_matrix_kernels matrices = {
    .product = SX_AT_LEVEL(sx_gemm_run_plain),
    .transpose = SX_AT_LEVEL(sx_gemm_transpose),
    .largest = SX_AT_LEVEL(sx_largest),
    .has_minus_zero = SX_AT_LEVEL(sx_has_minus_zero),
    .apply = SX_AT_LEVEL(sx_apply),
    .softmax = SX_AT_LEVEL(sx_softmax_run),
};

const sx_kernel_set SX_AT_LEVEL(sx_kernel_set) = {
    .simd = (sx_simd)SX_AT_LEVEL(SIMD),
    .element = SX_AT_LEVEL(sx_element),
    .chains = &SX_AT_LEVEL(sx_chain_kernels),
    .matrices = &matrices,
    .fast =
        {
            [SX_OP_PAD] = SX_AT_LEVEL(sx_fast_pad),
            [SX_OP_CONCAT] = SX_AT_LEVEL(sx_fast_concat),

            [SX_OP_FOLD] = SX_AT_LEVEL(sx_fast_fold),
            [SX_OP_SUM] = SX_AT_LEVEL(sx_fast_sum),
            [SX_OP_REDUCEMAX] = SX_AT_LEVEL(sx_fast_extreme),
            [SX_OP_REDUCEMIN] = SX_AT_LEVEL(sx_fast_extreme),
            [SX_OP_ANY] = SX_AT_LEVEL(sx_fast_extreme),
            [SX_OP_ALL] = SX_AT_LEVEL(sx_fast_extreme),
            [SX_OP_ARGMAX] = SX_AT_LEVEL(sx_fast_arg_extreme),
            [SX_OP_ARGMIN] = SX_AT_LEVEL(sx_fast_arg_extreme),

            [SX_OP_EINSUM] = SX_AT_LEVEL(sx_fast_einsum),
            [SX_OP_CONV] = SX_AT_LEVEL(sx_fast_conv),
            [SX_OP_CONVDATA] = SX_AT_LEVEL(sx_fast_conv_data),
            [SX_OP_CONVWEIGHT] = SX_AT_LEVEL(sx_fast_conv_weight),

            [SX_OP_GATHER] = SX_AT_LEVEL(sx_fast_gather),
            [SX_OP_SCATTER] = SX_AT_LEVEL(sx_fast_scatter),
            [SX_OP_TAKE] = SX_AT_LEVEL(sx_fast_take),
            [SX_OP_PUT] = SX_AT_LEVEL(sx_fast_put),
            [SX_OP_ONEHOT] = SX_AT_LEVEL(sx_fast_one_hot),
            [SX_OP_ARGSORT] = SX_AT_LEVEL(sx_fast_argsort),

            [SX_OP_CUMSUM] = SX_AT_LEVEL(sx_fast_scan),
            [SX_OP_SCANLINEAR] = SX_AT_LEVEL(sx_fast_scan),

            [SX_OP_UNIFORM] = SX_AT_LEVEL(sx_fast_draw),
            [SX_OP_NORMAL] = SX_AT_LEVEL(sx_fast_draw),
        },
};
