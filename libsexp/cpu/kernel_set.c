/* The kernels of one SIMD level. An operation without a row is computed by its reference loop; element
 * operations by sx_element, tile by tile. */
#include "level.h"

enum { SIMD_scalar = SX_SIMD_SCALAR, SIMD_avx2 = SX_SIMD_AVX2, SIMD_avx512 = SX_SIMD_AVX512 };

extern const sx_kernel_set SX_AT_LEVEL(sx_kernel_set);

const sx_kernel_set SX_AT_LEVEL(sx_kernel_set) = {
    .simd = (sx_simd)SX_AT_LEVEL(SIMD),
    .element = SX_AT_LEVEL(sx_element),
    .fast =
        {
            [SX_OP_EINSUM] = SX_AT_LEVEL(sx_fast_einsum),
            [SX_OP_CONV] = SX_AT_LEVEL(sx_fast_conv),
            [SX_OP_CONVDATA] = SX_AT_LEVEL(sx_fast_conv_data),
            [SX_OP_CONVWEIGHT] = SX_AT_LEVEL(sx_fast_conv_weight),
        },
};
