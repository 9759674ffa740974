/* The functions are those of kernels/math.h that the kernels use: floats compute in f32 and round once to
 * their dtype, i32 wraps. A test holds every operation to its reference loop. */
#include "fold_constant.h"

#include "../base/bug.h"
#include "../ir/element.h"

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

static int64_t integer_binary(sx_op op, int64_t a, int64_t b) {
  switch (op) {
    case SX_OP_ADD:
      return a + b;
    case SX_OP_SUB:
      return a - b;
    case SX_OP_MUL:
      return a * b;
    case SX_OP_IDIV:
      return sx_floor_divide(a, b);
    case SX_OP_MOD:
      return sx_floor_modulo(a, b);
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
    return sx_dtype_round(to,
                          (double)(unary ? sx_element_unary(op, (float)a) : sx_element_binary(op, (float)a, (float)b)));
  int64_t integer = unary ? integer_unary(op, (int64_t)a) : integer_binary(op, (int64_t)a, (int64_t)b);
  return (double)(int32_t)(uint32_t)(uint64_t)integer;
}
