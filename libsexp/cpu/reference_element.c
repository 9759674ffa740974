/* Reference: element operations. Floats are computed in f32 and rounded to the dtype at the node; i32
 * wraps. A cast to i32 or u8 truncates and saturates, NaN gives 0; to a short float it goes through f32;
 * to bool it asks whether the value differs from 0 (NaN does). */
#include <limits.h>

#include "../ir/element.h"
#include "reference.h"

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

static int32_t integer_binary(sx_op op, int32_t a, int32_t b) {
  switch (op) {
    case SX_OP_ADD:
      return sx_wrap_add(a, b);
    case SX_OP_SUB:
      return sx_wrap_sub(a, b);
    case SX_OP_MUL:
      return sx_wrap_mul(a, b);
    case SX_OP_IDIV:
      return (int32_t)(uint32_t)(uint64_t)sx_floor_divide(a, b);
    case SX_OP_MOD:
      return (int32_t)sx_floor_modulo(a, b);
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
    return sx_is_float(from) ? (sx_value){.f = sx_element_unary(op, in[0].f)}
                             : (sx_value){.i = integer_unary(op, in[0].i)};
  return sx_is_float(from) ? (sx_value){.f = sx_element_binary(op, in[0].f, in[1].f)}
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
    sx_store(out->data, out->dtype, sx_operand_at(out, index), sx_reference_apply(op, from, out->dtype, in));
    sx_index_next(index, out->dims, out->rank);
  }
}
