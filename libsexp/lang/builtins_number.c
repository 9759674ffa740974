/* Arithmetic and comparison: on compile-time numbers here, on tensors as operations. */
#include <math.h>

#include "../../kernels/math_f64.h"
#include "tensor.h"

/* ---- integers ---- */

static bool overflow(const sx_call *call) {
  return sx_call_fail(call, SX_E_EVAL_OVERFLOW, "the result does not fit a 64-bit integer");
}

static bool divide_by_zero(const sx_call *call) { return sx_call_fail(call, SX_E_EVAL_DIVIDE, "division by zero"); }

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* A negative exponent gives a real. */
static bool integer_power(const sx_call *call, int64_t a, int64_t b, sx_value *result) {
  int64_t power = 1;
  if (b < 0) {
    *result = sx_real(sx_pow_f64((double)a, (double)b));
    return true;
  }
  if (a == 0 || a == 1 || a == -1) {
    *result = sx_integer(b == 0 ? 1 : a == -1 && b % 2 == 0 ? 1 : a);
    return true;
  }
  for (int64_t i = 0; i < b; i++) /* at most 64 times */
    if (__builtin_mul_overflow(power, a, &power)) return overflow(call);
  *result = sx_integer(power);
  return true;
}

static bool integer_divide(const sx_call *call, int64_t a, int64_t b, sx_value *result) {
  if (b == 0) return divide_by_zero(call);
  if (b == -1) {
    int64_t negated = 0;
    bool over = call->builtin->op != SX_OP_MOD && __builtin_sub_overflow(0, a, &negated);
    *result = sx_integer(negated);
    return over ? overflow(call) : true;
  }
  if (call->builtin->op == SX_OP_DIV)
    *result = a % b == 0 ? sx_integer(a / b) : sx_real((double)a / (double)b);
  else if (call->builtin->op == SX_OP_IDIV)
    *result = sx_integer(floor_divide(a, b));
  else
    *result = sx_integer(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
  return true;
}

static bool integer_binary(const sx_call *call, int64_t a, int64_t b, sx_value *result) {
  int64_t value = 0;
  bool over = false;
  switch (call->builtin->op) {
    case SX_OP_ADD:
      over = __builtin_add_overflow(a, b, &value);
      break;
    case SX_OP_SUB:
      over = __builtin_sub_overflow(a, b, &value);
      break;
    case SX_OP_MUL:
      over = __builtin_mul_overflow(a, b, &value);
      break;
    case SX_OP_MAX:
      value = a > b ? a : b;
      break;
    case SX_OP_MIN:
      value = a < b ? a : b;
      break;
    case SX_OP_POW:
      return integer_power(call, a, b, result);
    default:
      return integer_divide(call, a, b, result);
  }
  *result = sx_integer(value);
  return over ? overflow(call) : true;
}

/* ---- reals ---- */

/* The remainder with the sign of b; an infinite b gives a where the signs agree, else b. */
static double real_modulo(double a, double b) {
  double r = fmod(a, b); /* exact, so the same everywhere */
  if (r != 0 && (r < 0) != (b < 0)) r += b;
  return r == 0 ? copysign(0.0, b) : r;
}

static double real_binary(int op, double a, double b) {
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
      return floor(a / b);
    case SX_OP_MOD:
      return real_modulo(a, b);
    default:
      return sx_pow_f64(a, b);
  }
}

/* The one of two numbers that is larger, or smaller; a NaN where there is one. */
static sx_value extreme(int op, const sx_value *a, const sx_value *b) {
  int order = sx_number_compare(a, b);
  if (order == 2) return sx_real((double)NAN);
  bool first = op == SX_OP_MAX ? order >= 0 : order <= 0;
  return first ? *a : *b;
}

static bool number_binary(const sx_call *call, const sx_value *a, const sx_value *b, sx_value *result) {
  int op = call->builtin->op;
  if (a->kind == SX_KIND_INTEGER && b->kind == SX_KIND_INTEGER)
    return integer_binary(call, a->integer, b->integer, result);
  bool is_extreme = op == SX_OP_MAX || op == SX_OP_MIN;
  *result = is_extreme ? extreme(op, a, b) : sx_real(real_binary(op, sx_number(a), sx_number(b)));
  return true;
}

/* ---- operations of one, two and more operands ---- */

/* From the left: (+ a b c) is (+ (+ a b) c). */
static bool arithmetic(sx_call *call, sx_value *result) {
  sx_value left = call->args[0];
  for (uint32_t i = 0; i < call->n; i++)
    if (!sx_is_number(&call->args[i]) && call->args[i].kind != SX_KIND_TENSOR)
      return sx_expected(call, &call->args[i], "a number or a tensor");
  for (uint32_t i = 1; i < call->n; i++) {
    sx_value operands[2] = {left, call->args[i]};
    bool numbers = sx_is_number(&operands[0]) && sx_is_number(&operands[1]);
    if (numbers ? !number_binary(call, &operands[0], &operands[1], &left)
                : !sx_add_element(call, (sx_op)call->builtin->op, operands, 2, &left))
      return false;
  }
  *result = left;
  return true;
}

static bool negate(const sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind == SX_KIND_TENSOR) return sx_add_element(call, SX_OP_NEG, a, 1, result);
  if (!sx_is_number(a)) return sx_expected(call, a, "a number or a tensor");
  if (a->kind == SX_KIND_REAL) {
    *result = sx_real(-a->real);
    return true;
  }
  int64_t value = 0;
  bool over = __builtin_sub_overflow(0, a->integer, &value);
  *result = sx_integer(value);
  return over ? overflow(call) : true;
}

static bool subtract(sx_call *call, sx_value *result) {
  return call->n == 1 ? negate(call, result) : arithmetic(call, result);
}

/* One operand: the compile-time version on numbers where there is one, else an operation; without such a version a
 * number becomes a scalar of f32. */
static bool unary(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind == SX_KIND_TENSOR) return sx_add_element(call, (sx_op)call->builtin->op, a, 1, result);
  if (!sx_is_number(a)) return sx_expected(call, a, "a number or a tensor");
  if (!call->builtin->real) return sx_add_element(call, (sx_op)call->builtin->op, a, 1, result);
  *result = sx_real(call->builtin->real(sx_number(a)));
  return true;
}

static bool atan2_of(sx_call *call, sx_value *result) {
  return sx_add_element(call, SX_OP_ATAN2, call->args, 2, result);
}

static bool absolute(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind != SX_KIND_INTEGER) return unary(call, result);
  *result = *a;
  return a->integer >= 0 || negate(call, result);
}

static bool sign(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind != SX_KIND_INTEGER) return unary(call, result);
  *result = sx_integer((a->integer > 0) - (a->integer < 0));
  return true;
}

/* floor, ceil and round of a number are integers. */
static bool rounded(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind == SX_KIND_INTEGER) {
    *result = *a;
    return true;
  }
  if (!unary(call, result)) return false;
  if (result->kind != SX_KIND_REAL) return true;
  if (!(result->real >= -0x1p63 && result->real < 0x1p63)) return overflow(call);
  *result = sx_integer((int64_t)result->real);
  return true;
}

static double root(double x) { return sqrt(x); }
static double reciprocal_root(double x) { return 1 / sqrt(x); }
static double exponential(double x) { return sx_exp_f64(x); }
static double logarithm(double x) { return sx_log_f64(x); }
static double sine(double x) { return sx_sin_f64(x); }
static double cosine(double x) { return sx_cos_f64(x); }
static double magnitude(double x) { return fabs(x); }
static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

static double nearest_even(double x) {
  double below = floor(x), rest = x - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return fmod(below, 2) == 0 ? below : below + 1;
}

/* ---- comparison ---- */

static bool holds(int op, int order) {
  switch (op) {
    case SX_OP_LT:
      return order == -1;
    case SX_OP_LE:
      return order == -1 || order == 0;
    case SX_OP_GT:
      return order == 1;
    default:
      return order == 1 || order == 0;
  }
}

/* (< a b c) on numbers: each pair in order. */
static bool ordered(sx_call *call, sx_value *result) {
  bool tensors = false, all = true;
  for (uint32_t i = 0; i < call->n; i++) {
    const sx_value *a = &call->args[i];
    tensors = tensors || a->kind == SX_KIND_TENSOR;
    if (!sx_is_number(a) && a->kind != SX_KIND_TENSOR) return sx_expected(call, a, "a number or a tensor");
  }
  if (tensors && call->n != 2) return sx_call_fail(call, SX_E_EVAL_ARITY, "tensors are compared in pairs");
  if (tensors) return sx_add_element(call, (sx_op)call->builtin->op, call->args, 2, result);
  for (uint32_t i = 0; i + 1 < call->n; i++)
    all = all && holds(call->builtin->op, sx_number_compare(&call->args[i], &call->args[i + 1]));
  *result = sx_boolean(all);
  return true;
}

static bool equality(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0], *b = &call->args[1];
  if (a->kind == SX_KIND_TENSOR || b->kind == SX_KIND_TENSOR)
    return sx_add_element(call, (sx_op)call->builtin->op, call->args, 2, result);
  sx_effort effort = SX_EFFORT_DEFAULT, before = effort;
  bool equal = sx_value_equal(a, b, &effort);
  if (!sx_spend(call->evaluator, (uint64_t)(before.work - effort.work))) return false;
  if (effort.depth < 0 || effort.work < 0)
    return sx_call_fail(call, SX_E_EVAL_DEPTH, "the values are too large or too deeply nested to be compared");
  *result = sx_boolean(equal == (call->builtin->op == SX_OP_EQ));
  return true;
}

static bool negation(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind == SX_KIND_TENSOR) return sx_add_element(call, SX_OP_NOT, a, 1, result);
  if (a->kind != SX_KIND_BOOLEAN) return sx_expected(call, a, "true, false or a tensor of bool");
  *result = sx_boolean(!a->boolean);
  return true;
}

const sx_builtin sx_builtins_number[] = {
    {"+", 1, -1, arithmetic, "(+ a b ...)", SX_OP_ADD, NULL},
    {"-", 1, -1, subtract, "(- a b ...)", SX_OP_SUB, NULL},
    {"*", 1, -1, arithmetic, "(* a b ...)", SX_OP_MUL, NULL},
    {"/", 2, -1, arithmetic, "(/ a b ...)", SX_OP_DIV, NULL},
    {"div", 2, 2, arithmetic, "(div a b)", SX_OP_IDIV, NULL},
    {"mod", 2, 2, arithmetic, "(mod a b)", SX_OP_MOD, NULL},
    {"max", 1, -1, arithmetic, "(max a b ...)", SX_OP_MAX, NULL},
    {"min", 1, -1, arithmetic, "(min a b ...)", SX_OP_MIN, NULL},
    {"pow", 2, 2, arithmetic, "(pow a b)", SX_OP_POW, NULL},
    {"atan2", 2, 2, atan2_of, "(atan2 a b)", SX_OP_ATAN2, NULL},
    {"abs", 1, 1, absolute, "(abs x)", SX_OP_ABS, magnitude},
    {"sign", 1, 1, sign, "(sign x)", SX_OP_SIGN, sign_of},
    {"sqrt", 1, 1, unary, "(sqrt x)", SX_OP_SQRT, root},
    {"rsqrt", 1, 1, unary, "(rsqrt x)", SX_OP_RSQRT, reciprocal_root},
    {"exp", 1, 1, unary, "(exp x)", SX_OP_EXP, exponential},
    {"exp2", 1, 1, unary, "(exp2 x)", SX_OP_EXP2, NULL},
    {"expm1", 1, 1, unary, "(expm1 x)", SX_OP_EXPM1, NULL},
    {"log", 1, 1, unary, "(log x)", SX_OP_LOG, logarithm},
    {"log2", 1, 1, unary, "(log2 x)", SX_OP_LOG2, NULL},
    {"log1p", 1, 1, unary, "(log1p x)", SX_OP_LOG1P, NULL},
    {"sin", 1, 1, unary, "(sin x)", SX_OP_SIN, sine},
    {"cos", 1, 1, unary, "(cos x)", SX_OP_COS, cosine},
    {"tan", 1, 1, unary, "(tan x)", SX_OP_TAN, NULL},
    {"tanh", 1, 1, unary, "(tanh x)", SX_OP_TANH, NULL},
    {"erf", 1, 1, unary, "(erf x)", SX_OP_ERF, NULL},
    {"floor", 1, 1, rounded, "(floor x)", SX_OP_FLOOR, floor},
    {"ceil", 1, 1, rounded, "(ceil x)", SX_OP_CEIL, ceil},
    {"round", 1, 1, rounded, "(round x)", SX_OP_ROUND, nearest_even},
    {"=", 2, 2, equality, "(= a b)", SX_OP_EQ, NULL},
    {"!=", 2, 2, equality, "(!= a b)", SX_OP_NE, NULL},
    {"<", 2, -1, ordered, "(< a b)", SX_OP_LT, NULL},
    {"<=", 2, -1, ordered, "(<= a b)", SX_OP_LE, NULL},
    {">", 2, -1, ordered, "(> a b)", SX_OP_GT, NULL},
    {">=", 2, -1, ordered, "(>= a b)", SX_OP_GE, NULL},
    {"not", 1, 1, negation, "(not a)", SX_OP_NOT, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
