/* The reference loop of every operation that computes. */
#include "reference.h"

sx_kernel *const sx_reference[SX_N_OPS] = {
    [SX_OP_CONST] = sx_reference_const,
    [SX_OP_IOTA] = sx_reference_iota,

    [SX_OP_ADD] = sx_reference_element,
    [SX_OP_SUB] = sx_reference_element,
    [SX_OP_MUL] = sx_reference_element,
    [SX_OP_DIV] = sx_reference_element,
    [SX_OP_IDIV] = sx_reference_element,
    [SX_OP_MOD] = sx_reference_element,
    [SX_OP_MAX] = sx_reference_element,
    [SX_OP_MIN] = sx_reference_element,
    [SX_OP_POW] = sx_reference_element,
    [SX_OP_ATAN2] = sx_reference_element,
    [SX_OP_NEG] = sx_reference_element,
    [SX_OP_ABS] = sx_reference_element,
    [SX_OP_SIGN] = sx_reference_element,
    [SX_OP_SQRT] = sx_reference_element,
    [SX_OP_RSQRT] = sx_reference_element,
    [SX_OP_EXP] = sx_reference_element,
    [SX_OP_EXP2] = sx_reference_element,
    [SX_OP_EXPM1] = sx_reference_element,
    [SX_OP_LOG] = sx_reference_element,
    [SX_OP_LOG2] = sx_reference_element,
    [SX_OP_LOG1P] = sx_reference_element,
    [SX_OP_SIN] = sx_reference_element,
    [SX_OP_COS] = sx_reference_element,
    [SX_OP_TAN] = sx_reference_element,
    [SX_OP_TANH] = sx_reference_element,
    [SX_OP_ERF] = sx_reference_element,
    [SX_OP_FLOOR] = sx_reference_element,
    [SX_OP_CEIL] = sx_reference_element,
    [SX_OP_ROUND] = sx_reference_element,
    [SX_OP_EQ] = sx_reference_element,
    [SX_OP_NE] = sx_reference_element,
    [SX_OP_LT] = sx_reference_element,
    [SX_OP_LE] = sx_reference_element,
    [SX_OP_GT] = sx_reference_element,
    [SX_OP_GE] = sx_reference_element,
    [SX_OP_AND] = sx_reference_element,
    [SX_OP_OR] = sx_reference_element,
    [SX_OP_NOT] = sx_reference_element,
    [SX_OP_WHERE] = sx_reference_element,
    [SX_OP_CAST] = sx_reference_element,

    [SX_OP_RESHAPE] = sx_reference_reshape,
    [SX_OP_TRANSPOSE] = sx_reference_move,
    [SX_OP_BROADCAST] = sx_reference_move,
    [SX_OP_SLICE] = sx_reference_move,
    [SX_OP_PAD] = sx_reference_move,
    [SX_OP_CONCAT] = sx_reference_concat,
    [SX_OP_REVERSE] = sx_reference_move,
    [SX_OP_UNFOLD] = sx_reference_move,
    [SX_OP_FOLD] = sx_reference_fold,

    [SX_OP_SUM] = sx_reference_sum,
    [SX_OP_REDUCEMAX] = sx_reference_extreme,
    [SX_OP_REDUCEMIN] = sx_reference_extreme,
    [SX_OP_ANY] = sx_reference_any_all,
    [SX_OP_ALL] = sx_reference_any_all,
    [SX_OP_ARGMAX] = sx_reference_arg_extreme,
    [SX_OP_ARGMIN] = sx_reference_arg_extreme,

    [SX_OP_EINSUM] = sx_reference_einsum,
    [SX_OP_CONV] = sx_reference_conv,
    [SX_OP_CONVDATA] = sx_reference_conv_data,
    [SX_OP_CONVWEIGHT] = sx_reference_conv_weight,

    [SX_OP_GATHER] = sx_reference_gather,
    [SX_OP_SCATTER] = sx_reference_scatter,
    [SX_OP_TAKE] = sx_reference_take,
    [SX_OP_PUT] = sx_reference_put,
    [SX_OP_ONEHOT] = sx_reference_one_hot,
    [SX_OP_ARGSORT] = sx_reference_argsort,

    [SX_OP_CUMSUM] = sx_reference_scan,
    [SX_OP_SCANLINEAR] = sx_reference_scan,

    [SX_OP_UNIFORM] = sx_reference_draw,
    [SX_OP_NORMAL] = sx_reference_draw,
};

extern const struct sx_chain_kernels sx_chain_kernels_scalar;

static const sx_matrix_kernels matrices = {.product = sx_reference_product,
                                           .transpose = sx_reference_transpose,
                                           .largest = sx_reference_largest,
                                           .has_minus_zero = sx_reference_has_minus_zero,
                                           .apply = sx_reference_apply_constant};

/* A group of several nodes is a matter of the plan, not of a level: it needs chains. A group of one has none. */
const sx_kernel_set sx_kernel_set_reference = {.simd = SX_SIMD_REFERENCE,
                                               .element = sx_reference_elements,
                                               .chains = &sx_chain_kernels_scalar,
                                               .matrices = &matrices};
