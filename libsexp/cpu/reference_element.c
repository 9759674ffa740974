/* Reference: element operations. Floats are computed in f32 and rounded to the dtype at the node; i32
 * wraps. A cast to i32 or u8 truncates and saturates, NaN gives 0; to a short float it goes through f32;
 * to bool it asks whether the value differs from 0 (NaN does). */
#include <limits.h>

#include "reference.h"

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
      SX_BUG("no float operation of one input: %d", (int)op);
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
      SX_BUG("no float operation of two inputs: %d", (int)op);
  }
}

static bool float_compare(sx_op op, float a, float b) {
  switch (op) {
    case SX_OP_EQ:
      return a == b;
    case SX_OP_NE:
      return a != b;
    case SX_OP_LT:
      return a < b;
    case SX_OP_LE:
      return a <= b;
    case SX_OP_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static bool integer_compare(sx_op op, int32_t a, int32_t b) {
  switch (op) {
    case SX_OP_EQ:
      return a == b;
    case SX_OP_NE:
      return a != b;
    case SX_OP_LT:
      return a < b;
    case SX_OP_LE:
      return a <= b;
    case SX_OP_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static int32_t integer_unary(sx_op op, int32_t x) {
  switch (op) {
    case SX_OP_NEG:
      return sx_wrap_sub(0, x);
    case SX_OP_ABS:
      return x < 0 ? sx_wrap_sub(0, x) : x;
    case SX_OP_SIGN:
      return (x > 0) - (x < 0);
    default:
      SX_BUG("no integer operation of one input: %d", (int)op);
  }
}

/* In 64 bits, where INT_MIN / -1 has its place; the caller wraps it. */
static int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

static int64_t floor_modulo(int64_t a, int64_t b) { return b == 0 ? 0 : a - b * floor_divide(a, b); }

static int32_t integer_binary(sx_op op, int32_t a, int32_t b) {
  switch (op) {
    case SX_OP_ADD:
      return sx_wrap_add(a, b);
    case SX_OP_SUB:
      return sx_wrap_sub(a, b);
    case SX_OP_MUL:
      return sx_wrap_mul(a, b);
    case SX_OP_IDIV:
      return (int32_t)(uint32_t)(uint64_t)floor_divide(a, b);
    case SX_OP_MOD:
      return (int32_t)floor_modulo(a, b);
    case SX_OP_MAX:
      return a > b ? a : b;
    case SX_OP_MIN:
      return a < b ? a : b;
    default:
      SX_BUG("no integer operation of two inputs: %d", (int)op);
  }
}

static sx_value cast(sx_dtype from, sx_dtype to, sx_value x) {
  if (sx_is_float(to)) return sx_is_float(from) ? x : (sx_value){.f = (float)x.i};
  if (to == SX_BOOL) return (sx_value){.i = sx_is_float(from) ? x.f != 0.0f : x.i != 0};
  int32_t value = sx_is_float(from) ? sx_f32_to_i32(x.f) : x.i;
  if (to == SX_U8) value = value < 0 ? 0 : value > UCHAR_MAX ? UCHAR_MAX : value;
  return (sx_value){.i = value};
}

sx_value sx_reference_apply(sx_op op, sx_dtype from, sx_dtype to, const sx_value in[3]) {
  switch (op) {
    case SX_OP_CAST:
      return cast(from, to, in[0]);
    case SX_OP_WHERE:
      return in[0].i ? in[1] : in[2];
    case SX_OP_AND:
      return (sx_value){.i = in[0].i & in[1].i};
    case SX_OP_OR:
      return (sx_value){.i = in[0].i | in[1].i};
    case SX_OP_NOT:
      return (sx_value){.i = !in[0].i};
    case SX_OP_EQ:
    case SX_OP_NE:
    case SX_OP_LT:
    case SX_OP_LE:
    case SX_OP_GT:
    case SX_OP_GE:
      return (sx_value){.i = sx_is_float(from) ? float_compare(op, in[0].f, in[1].f)
                                               : integer_compare(op, in[0].i, in[1].i)};
    default:
      break;
  }
  if (sx_op_describe(op)->n_inputs == 1)
    return sx_is_float(from) ? (sx_value){.f = float_unary(op, in[0].f)} : (sx_value){.i = integer_unary(op, in[0].i)};
  return sx_is_float(from) ? (sx_value){.f = float_binary(op, in[0].f, in[1].f)}
                           : (sx_value){.i = integer_binary(op, in[0].i, in[1].i)};
}

void sx_reference_elements(sx_op op, sx_dtype from, sx_dtype to, void *out, const void *const *inputs, int64_t n) {
  int n_inputs = sx_op_describe(op)->n_inputs;
  for (int64_t k = 0; k < n; k++) {
    sx_value in[3] = {{.i = 0}};
    for (int j = 0; j < n_inputs; j++) in[j] = sx_load(inputs[j], op == SX_OP_WHERE && j == 0 ? SX_BOOL : from, k);
    sx_store(out, to, k, sx_reference_apply(op, from, to, in));
  }
}

void sx_reference_element(const sx_call *call) {
  sx_op op = call->node->op;
  const sx_operand *out = &call->out;
  sx_dtype from = call->inputs[op == SX_OP_WHERE].dtype;
  int64_t index[SX_RANK_MAX] = {0};
  int64_t n = sx_operand_count(out);
  for (int64_t k = 0; k < n; k++) {
    sx_value in[3] = {{.i = 0}};
    for (uint32_t j = 0; j < call->n_inputs; j++) in[j] = sx_operand_load(&call->inputs[j], index);
    sx_store(out->data, out->dtype, k, sx_reference_apply(op, from, out->dtype, in));
    sx_index_next(index, out->dims, out->rank);
  }
}
