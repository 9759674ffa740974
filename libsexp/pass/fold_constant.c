/* The functions are those of kernels/math.h that the kernels use: floats compute in f32 and round once to
 * their dtype, i32 wraps. A test holds every operation to its reference loop. */
#include "fold_constant.h"

#include "../../kernels/math.h"
#include "../base/bug.h"

static float float_unary(sx_op op, float x) {
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

static float float_binary(sx_op op, float a, float b) {
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

static int64_t integer_unary(sx_op op, int64_t x) {
  switch (op) {
    case SX_OP_NEG:
      return -x;
    case SX_OP_ABS:
      return x < 0 ? -x : x;
    case SX_OP_SIGN:
      return (x > 0) - (x < 0);
    default:
      SX_BUG("%s is not of one integer", sx_op_describe(op)->name);
  }
}

static int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t integer_binary(sx_op op, int64_t a, int64_t b) {
  switch (op) {
    case SX_OP_ADD:
      return a + b;
    case SX_OP_SUB:
      return a - b;
    case SX_OP_MUL:
      return a * b;
    case SX_OP_IDIV:
      return floor_quotient(a, b);
    case SX_OP_MOD:
      return b == 0 ? 0 : a - b * floor_quotient(a, b);
    case SX_OP_MAX:
      return a > b ? a : b;
    case SX_OP_MIN:
      return a < b ? a : b;
    default:
      SX_BUG("%s is not of two integers", sx_op_describe(op)->name);
  }
}

/* Comparisons and logic; values of every dtype are exact in f64. False: op is neither. */
static bool fold_bool(sx_op op, double a, double b, double *result) {
  switch (op) {
    case SX_OP_EQ:
      *result = a == b;
      return true;
    case SX_OP_NE:
      *result = a != b;
      return true;
    case SX_OP_LT:
      *result = a < b;
      return true;
    case SX_OP_LE:
      *result = a <= b;
      return true;
    case SX_OP_GT:
      *result = a > b;
      return true;
    case SX_OP_GE:
      *result = a >= b;
      return true;
    case SX_OP_AND:
      *result = a != 0 && b != 0;
      return true;
    case SX_OP_OR:
      *result = a != 0 || b != 0;
      return true;
    case SX_OP_NOT:
      *result = a == 0;
      return true;
    default:
      return false;
  }
}

/* To a float through f32, as the kernels do. */
static double fold_cast(sx_dtype to, double x) {
  return sx_dtype_round(to, sx_dtype_is_float(to) ? (double)(float)x : x);
}

double sx_fold_constant(sx_op op, sx_dtype from, sx_dtype to, const double inputs[3]) {
  double a = inputs[0], b = inputs[1], result;
  bool unary = sx_op_describe(op)->n_inputs == 1;
  if (op == SX_OP_WHERE) return a != 0 ? b : inputs[2];
  if (op == SX_OP_CAST) return fold_cast(to, a);
  if (fold_bool(op, a, b, &result)) return result;
  if (sx_dtype_is_float(from))
    return sx_dtype_round(to, (double)(unary ? float_unary(op, (float)a) : float_binary(op, (float)a, (float)b)));
  int64_t integer = unary ? integer_unary(op, (int64_t)a) : integer_binary(op, (int64_t)a, (int64_t)b);
  return (double)(int32_t)(uint32_t)(uint64_t)integer;
}
