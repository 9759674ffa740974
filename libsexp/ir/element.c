#include "element.h"

#include "../../kernels/math.h"
#include "../base/bug.h"

float sx_element_unary(sx_op op, float x) {
  switch (op) {
    case SX_OP_NEG:
      return -x;
    case SX_OP_ABS:
      return sx_from_bits_f32(sx_bits_f32(x) & 0x7fffffffu);
    case SX_OP_SIGN:
      return sx_sign_f32(x);
    case SX_OP_SQRT:
      return sx_sqrt_f32(x);
    case SX_OP_RSQRT:
      return sx_rsqrt_f32(x);
    case SX_OP_EXP:
      return sx_exp_f32(x);
    case SX_OP_EXP2:
      return sx_exp2_f32(x);
    case SX_OP_EXPM1:
      return sx_expm1_f32(x);
    case SX_OP_LOG:
      return sx_log_f32(x);
    case SX_OP_LOG2:
      return sx_log2_f32(x);
    case SX_OP_LOG1P:
      return sx_log1p_f32(x);
    case SX_OP_SIN:
      return sx_sin_f32(x);
    case SX_OP_COS:
      return sx_cos_f32(x);
    case SX_OP_TAN:
      return sx_tan_f32(x);
    case SX_OP_TANH:
      return sx_tanh_f32(x);
    case SX_OP_ERF:
      return sx_erf_f32(x);
    case SX_OP_FLOOR:
      return sx_floor_f32(x);
    case SX_OP_CEIL:
      return sx_ceil_f32(x);
    case SX_OP_ROUND:
      return sx_round_f32(x);
    default:
      SX_BUG("%s is not of one float", sx_op_describe(op)->name);
  }
}

float sx_element_binary(sx_op op, float a, float b) {
  switch (op) {
    case SX_OP_ADD:
      return a + b;
    case SX_OP_SUB:
      return a - b;
    case SX_OP_MUL:
      return a * b;
    case SX_OP_DIV:
      return a / b;
    case SX_OP_IDIV:
      return sx_div_floor_f32(a, b);
    case SX_OP_MOD:
      return sx_mod_f32(a, b);
    case SX_OP_MAX:
      return sx_max_f32(a, b);
    case SX_OP_MIN:
      return sx_min_f32(a, b);
    case SX_OP_POW:
      return sx_pow_f32(a, b);
    case SX_OP_ATAN2:
      return sx_atan2_f32(a, b);
    default:
      SX_BUG("%s is not of two floats", sx_op_describe(op)->name);
  }
}

int64_t sx_floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t sx_floor_modulo(int64_t a, int64_t b) { return b == 0 ? 0 : a - b * sx_floor_divide(a, b); }
