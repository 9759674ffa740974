/* Element operations as expressions: what libsexp/cpu/reference_element.c computes, of registers. */
#include "../base/bug.h"
#include "emit_parts.h"

/* A, B, C stand for the inputs. */
static const char *const float_forms[SX_N_OPS] = {
    [SX_OP_ADD] = "(A + B)",
    [SX_OP_SUB] = "(A - B)",
    [SX_OP_MUL] = "(A * B)",
    [SX_OP_DIV] = "(A / B)",
    [SX_OP_IDIV] = "sx_div_floor_f32(A, B)",
    [SX_OP_MOD] = "sx_mod_f32(A, B)",
    [SX_OP_MAX] = "sx_max_f32(A, B)",
    [SX_OP_MIN] = "sx_min_f32(A, B)",
    [SX_OP_POW] = "sx_pow_f32(A, B)",
    [SX_OP_ATAN2] = "sx_atan2_f32(A, B)",
    [SX_OP_NEG] = "sx_negated(A)",
    [SX_OP_ABS] = "sx_absolute(A)",
    [SX_OP_SIGN] = "sx_sign_f32(A)",
    [SX_OP_SQRT] = "sx_sqrt_f32(A)",
    [SX_OP_RSQRT] = "sx_rsqrt_f32(A)",
    [SX_OP_EXP] = "sx_exp_f32(A)",
    [SX_OP_EXP2] = "sx_exp2_f32(A)",
    [SX_OP_EXPM1] = "sx_expm1_f32(A)",
    [SX_OP_LOG] = "sx_log_f32(A)",
    [SX_OP_LOG2] = "sx_log2_f32(A)",
    [SX_OP_LOG1P] = "sx_log1p_f32(A)",
    [SX_OP_SIN] = "sx_sin_f32(A)",
    [SX_OP_COS] = "sx_cos_f32(A)",
    [SX_OP_TAN] = "sx_tan_f32(A)",
    [SX_OP_TANH] = "sx_tanh_f32(A)",
    [SX_OP_ERF] = "sx_erf_f32(A)",
    [SX_OP_FLOOR] = "sx_floor_f32(A)",
    [SX_OP_CEIL] = "sx_ceil_f32(A)",
    [SX_OP_ROUND] = "sx_round_f32(A)",
};

static const char *const integer_forms[SX_N_OPS] = {
    [SX_OP_ADD] = "sx_wrap_add(A, B)",
    [SX_OP_SUB] = "sx_wrap_sub(A, B)",
    [SX_OP_MUL] = "sx_wrap_mul(A, B)",
    [SX_OP_IDIV] = "sx_floor_div(A, B)",
    [SX_OP_MOD] = "sx_floor_mod(A, B)",
    [SX_OP_MAX] = "(A > B ? A : B)",
    [SX_OP_MIN] = "(A < B ? A : B)",
    [SX_OP_NEG] = "sx_wrap_sub(0, A)",
    [SX_OP_ABS] = "(A < 0 ? sx_wrap_sub(0, A) : A)",
    [SX_OP_SIGN] = "((A > 0) - (A < 0))",
};

/* The same of floats and of integers. */
static const char *const common_forms[SX_N_OPS] = {
    [SX_OP_EQ] = "(int)(A == B)",  [SX_OP_NE] = "(int)(A != B)", [SX_OP_LT] = "(int)(A < B)",
    [SX_OP_LE] = "(int)(A <= B)",  [SX_OP_GT] = "(int)(A > B)",  [SX_OP_GE] = "(int)(A >= B)",
    [SX_OP_AND] = "(A & B)",       [SX_OP_OR] = "(A | B)",       [SX_OP_NOT] = "(int)!A",
    [SX_OP_WHERE] = "(A ? B : C)",
};

static const char *cast_form(sx_dtype from, sx_dtype to) {
  bool is_float = sx_dtype_is_float(from);
  if (sx_dtype_is_float(to)) return is_float ? "A" : "(float)A";
  if (to == SX_BOOL) return is_float ? "(int)(A != 0.0f)" : "(int)(A != 0)";
  if (to == SX_U8) return is_float ? "sx_byte_from_int(sx_f32_to_i32(A))" : "sx_byte_from_int(A)";
  return is_float ? "sx_f32_to_i32(A)" : "A";
}

static const char *form_of(sx_op op, sx_dtype from, sx_dtype to) {
  if (op == SX_OP_CAST) return cast_form(from, to);
  if (common_forms[op]) return common_forms[op];
  const char *form = sx_dtype_is_float(from) ? float_forms[op] : integer_forms[op];
  if (!form) SX_BUG("%s is no element operation of %s", sx_op_describe(op)->name, sx_dtype_name(from));
  return form;
}

/* A capital letter A to C alone is an input. */
static bool is_input(const char *form, const char *at) {
  if (*at < 'A' || *at > 'C') return false;
  return (at == form || at[-1] == '(' || at[-1] == ' ' || at[-1] == ')' || at[-1] == '!') &&
         !(at[1] >= '0' && at[1] <= 'z');
}

const char *sx_emit_operation(sx_arena *arena, sx_op op, sx_dtype from, sx_dtype to, const char *const inputs[3]) {
  const char *form = form_of(op, from, to);
  sx_text text;
  sx_text_init(&text, arena);
  bool rounds = to == SX_BF16 || to == SX_F16;
  if (rounds) sx_text_addf(&text, "sx_rounded<%s>(", sx_emit_type(to));
  for (const char *at = form; *at; at++) {
    if (is_input(form, at))
      sx_text_add(&text, inputs[*at - 'A']);
    else
      sx_text_add_bytes(&text, at, 1);
  }
  if (rounds) sx_text_add(&text, ")");
  return sx_text_get(&text);
}
