/* Element operations over contiguous tiles. f32, i32 and u8 (which bools are) have loops of their own;
 * bf16 and f16 are widened into a buffer, computed in f32 and narrowed. What has no loop here (division
 * and modulo that branch) is left to the reference. */
#include "reference.h"
#include "vector_math.h"

/* A loop takes n, a multiple of SX_BLOCK. */
typedef void loop(void *out, const void *const *in, int64_t n);

#define UNARY(name, result, type, expression)                     \
  static void name(void *out, const void *const *in, int64_t n) { \
    for (int64_t k = 0; k < n; k += SX_BLOCK) {                   \
      result *o = (result *)out + k;                              \
      const type *px = (const type *)in[0] + k;                   \
      SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) {         \
        type x = px[j];                                           \
        o[j] = (expression);                                      \
      }                                                           \
    }                                                             \
  }

#define BINARY(name, result, type, expression)                                 \
  static void name(void *out, const void *const *in, int64_t n) {              \
    for (int64_t k = 0; k < n; k += SX_BLOCK) {                                \
      result *o = (result *)out + k;                                           \
      const type *px = (const type *)in[0] + k, *py = (const type *)in[1] + k; \
      SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) {                      \
        type x = px[j], y = py[j];                                             \
        o[j] = (expression);                                                   \
      }                                                                        \
    }                                                                          \
  }

/* A condition, then two values moved as bits. */
#define CHOICE(name, type)                                                     \
  static void name(void *out, const void *const *in, int64_t n) {              \
    for (int64_t k = 0; k < n; k += SX_BLOCK) {                                \
      type *o = (type *)out + k;                                               \
      const uint8_t *pc = (const uint8_t *)in[0] + k;                          \
      const type *px = (const type *)in[1] + k, *py = (const type *)in[2] + k; \
      SX_VECTOR_LOOP for (int j = 0; j < SX_BLOCK; j++) {                      \
        type x = px[j], y = py[j];                                             \
        o[j] = pc[j] ? x : y;                                                  \
      }                                                                        \
    }                                                                          \
  }

enum { TRIED = 8 * SX_LANES }; /* elements that vector_math.h tries together */

/* Where an element may be wrong, the exact functions do the piece anew, for which the arguments must still be there. */
#define FUNCTION(name)                                                  \
  static void name##_f32(void *out, const void *const *in, int64_t n) { \
    float buffer[TRIED];                                                \
    for (int64_t k = 0; k < n; k += TRIED) {                            \
      int64_t count = sx_min_i64(TRIED, n - k);                         \
      const float *x = (const float *)in[0] + k;                        \
      float *o = (float *)out + k, *y = o == x ? buffer : o;            \
      if (!SX_TRY(name, y, x, count))                                   \
        SX_EACH_EXACT(name, o, x, count)                                \
      else if (y != o)                                                  \
        memcpy(o, y, (size_t)count * sizeof *o);                        \
    }                                                                   \
  }

/* The exact form without a table serves |x| < SX_TRIG_SMALL; the rare other elements are done anew. */
#define TRIGONOMETRIC(name)                                             \
  static void name##_f32(void *out, const void *const *in, int64_t n) { \
    for (int64_t k = 0; k < n; k += SX_BLOCK) {                         \
      float *o = (float *)out + k, x[SX_BLOCK], y[SX_BLOCK];            \
      memcpy(x, (const float *)in[0] + k, sizeof x);                    \
      if (!SX_TRY(name, y, x, SX_BLOCK)) {                              \
        SX_EACH_EXACT(name##_small, y, x, SX_BLOCK)                     \
        for (int j = 0; j < SX_BLOCK; j++)                              \
          if (is_large(x[j])) y[j] = sx_##name##_f32(x[j]);             \
      }                                                                 \
      memcpy(o, y, sizeof y);                                           \
    }                                                                   \
  }

SX_INLINE bool is_large(float x) { return (sx_bits_f32(x) & 0x7fffffffu) >= sx_bits_f32(SX_TRIG_SMALL); }

UNARY(neg_f32, float, float, -x)
UNARY(abs_f32, float, float, sx_from_bits_f32(sx_bits_f32(x) & 0x7fffffffu))
UNARY(sign_f32, float, float, sx_sign_f32(x))
FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log2)
FUNCTION(log1p)
TRIGONOMETRIC(sin)
TRIGONOMETRIC(cos)
TRIGONOMETRIC(tan)
FUNCTION(tanh)
FUNCTION(erf)
UNARY(floor_f32, float, float, sx_floor_f32(x))
UNARY(ceil_f32, float, float, sx_ceil_f32(x))
UNARY(round_f32, float, float, sx_round_f32(x))
BINARY(add_f32, float, float, x + y)
BINARY(sub_f32, float, float, x - y)
BINARY(mul_f32, float, float, x *y)
BINARY(div_f32, float, float, x / y)
BINARY(max_f32, float, float, sx_max_f32(x, y))
BINARY(min_f32, float, float, sx_min_f32(x, y))
BINARY(pow_f32, float, float, sx_pow_f32(x, y))
BINARY(atan2_f32, float, float, sx_atan2_f32(x, y))
BINARY(eq_f32, uint8_t, float, x == y)
BINARY(ne_f32, uint8_t, float, x != y)
BINARY(lt_f32, uint8_t, float, x < y)
BINARY(le_f32, uint8_t, float, x <= y)
BINARY(gt_f32, uint8_t, float, x > y)
BINARY(ge_f32, uint8_t, float, x >= y)

UNARY(neg_i32, int32_t, int32_t, sx_wrap_sub(0, x))
UNARY(abs_i32, int32_t, int32_t, x < 0 ? sx_wrap_sub(0, x) : x)
UNARY(sign_i32, int32_t, int32_t, (x > 0) - (x < 0))
BINARY(add_i32, int32_t, int32_t, sx_wrap_add(x, y))
BINARY(sub_i32, int32_t, int32_t, sx_wrap_sub(x, y))
BINARY(mul_i32, int32_t, int32_t, sx_wrap_mul(x, y))
BINARY(max_i32, int32_t, int32_t, x > y ? x : y)
BINARY(min_i32, int32_t, int32_t, x < y ? x : y)
BINARY(eq_i32, uint8_t, int32_t, x == y)
BINARY(ne_i32, uint8_t, int32_t, x != y)
BINARY(lt_i32, uint8_t, int32_t, x < y)
BINARY(le_i32, uint8_t, int32_t, x <= y)
BINARY(gt_i32, uint8_t, int32_t, x > y)
BINARY(ge_i32, uint8_t, int32_t, x >= y)

BINARY(eq_u8, uint8_t, uint8_t, x == y)
BINARY(ne_u8, uint8_t, uint8_t, x != y)
BINARY(lt_u8, uint8_t, uint8_t, x < y)
BINARY(le_u8, uint8_t, uint8_t, x <= y)
BINARY(gt_u8, uint8_t, uint8_t, x > y)
BINARY(ge_u8, uint8_t, uint8_t, x >= y)
BINARY(and_u8, uint8_t, uint8_t, x &y)
BINARY(or_u8, uint8_t, uint8_t, x | y)
UNARY(not_u8, uint8_t, uint8_t, !x)

CHOICE(where_32, uint32_t)
CHOICE(where_16, uint16_t)
CHOICE(where_8, uint8_t)

UNARY(f32_from_bf16, float, uint16_t, sx_f32_from_bf16(x))
UNARY(f32_from_f16, float, uint16_t, sx_f32_from_f16(x))
UNARY(f32_from_i32, float, int32_t, (float)x)
UNARY(i32_from_f32, int32_t, float, sx_f32_to_i32(x))
UNARY(i32_from_u8, int32_t, uint8_t, x)
UNARY(u8_from_i32, uint8_t, int32_t, (uint8_t)(x<0 ? 0 : x> 255 ? 255 : x))
UNARY(bf16_from_f32, uint16_t, float, sx_bf16_from_f32(x))
UNARY(f16_from_f32, uint16_t, float, sx_f16_from_f32(x))
UNARY(bool_from_f32, uint8_t, float, x != 0.0f)
UNARY(bool_from_i32, uint8_t, int32_t, x != 0)

/* The compilers keep sqrtf's errno apart from the instruction, so this one names the instruction. */
static void sqrt_f32(void *out, const void *const *in, int64_t n) {
  for (int64_t k = 0; k < n; k += SX_LANES) {
    float *o = (float *)out + k;
    const float *x = (const float *)in[0] + k;
#if defined(__AVX512F__)
    _mm512_storeu_ps(o, _mm512_sqrt_ps(_mm512_loadu_ps(x)));
#elif defined(__AVX2__)
    _mm256_storeu_ps(o, _mm256_sqrt_ps(_mm256_loadu_ps(x)));
#elif defined(__SSE2__)
    _mm_storeu_ps(o, _mm_sqrt_ps(_mm_loadu_ps(x)));
#else
    for (int j = 0; j < SX_LANES; j++) o[j] = sx_sqrt_f32(x[j]);
#endif
    for (int j = 0; j < SX_LANES; j++) o[j] = sx_canonical_f32(o[j]);
  }
}

UNARY(inverse_f32, float, float, sx_canonical_f32(1.0f / x))

static void rsqrt_f32(void *out, const void *const *in, int64_t n) {
  sqrt_f32(out, in, n);
  inverse_f32(out, (const void *const[]){out}, n);
}

typedef struct row {
  loop *f32, *i32, *u8;
} row;

static const row rows[SX_N_OPS] = {
    [SX_OP_ADD] = {add_f32, add_i32, NULL},    [SX_OP_SUB] = {sub_f32, sub_i32, NULL},
    [SX_OP_MUL] = {mul_f32, mul_i32, NULL},    [SX_OP_DIV] = {div_f32, NULL, NULL},
    [SX_OP_MAX] = {max_f32, max_i32, NULL},    [SX_OP_MIN] = {min_f32, min_i32, NULL},
    [SX_OP_POW] = {pow_f32, NULL, NULL},       [SX_OP_ATAN2] = {atan2_f32, NULL, NULL},
    [SX_OP_NEG] = {neg_f32, neg_i32, NULL},    [SX_OP_ABS] = {abs_f32, abs_i32, NULL},
    [SX_OP_SIGN] = {sign_f32, sign_i32, NULL}, [SX_OP_SQRT] = {sqrt_f32, NULL, NULL},
    [SX_OP_RSQRT] = {rsqrt_f32, NULL, NULL},   [SX_OP_EXP] = {exp_f32, NULL, NULL},
    [SX_OP_EXP2] = {exp2_f32, NULL, NULL},     [SX_OP_EXPM1] = {expm1_f32, NULL, NULL},
    [SX_OP_LOG] = {log_f32, NULL, NULL},       [SX_OP_LOG2] = {log2_f32, NULL, NULL},
    [SX_OP_LOG1P] = {log1p_f32, NULL, NULL},   [SX_OP_SIN] = {sin_f32, NULL, NULL},
    [SX_OP_COS] = {cos_f32, NULL, NULL},       [SX_OP_TAN] = {tan_f32, NULL, NULL},
    [SX_OP_TANH] = {tanh_f32, NULL, NULL},     [SX_OP_ERF] = {erf_f32, NULL, NULL},
    [SX_OP_FLOOR] = {floor_f32, NULL, NULL},   [SX_OP_CEIL] = {ceil_f32, NULL, NULL},
    [SX_OP_ROUND] = {round_f32, NULL, NULL},   [SX_OP_EQ] = {eq_f32, eq_i32, eq_u8},
    [SX_OP_NE] = {ne_f32, ne_i32, ne_u8},      [SX_OP_LT] = {lt_f32, lt_i32, lt_u8},
    [SX_OP_LE] = {le_f32, le_i32, le_u8},      [SX_OP_GT] = {gt_f32, gt_i32, gt_u8},
    [SX_OP_GE] = {ge_f32, ge_i32, ge_u8},      [SX_OP_AND] = {NULL, NULL, and_u8},
    [SX_OP_OR] = {NULL, NULL, or_u8},          [SX_OP_NOT] = {NULL, NULL, not_u8},
};

/* Runs a loop over any n: the rest beyond whole blocks goes through buffers of one block. */
static void run(loop *function, void *out, int64_t out_bytes, const void *const *in, const int64_t *in_bytes, int n_in,
                int64_t n) {
  int64_t whole = n - n % SX_BLOCK, rest = n - whole;
  if (whole > 0) function(out, in, whole);
  if (rest == 0) return;
  _Alignas(64) char buffers[4][SX_BLOCK * 4] = {{0}};
  const void *from[3] = {buffers[0], buffers[1], buffers[2]};
  for (int j = 0; j < n_in; j++)
    memcpy(buffers[j], (const char *)in[j] + whole * in_bytes[j], (size_t)(rest * in_bytes[j]));
  function(buffers[3], from, SX_BLOCK);
  memcpy((char *)out + whole * out_bytes, buffers[3], (size_t)(rest * out_bytes));
}

static void convert(loop *function, void *out, int64_t out_bytes, const void *in, int64_t in_bytes, int64_t n) {
  run(function, out, out_bytes, (const void *const[]){in}, &in_bytes, 1, n);
}

void SX_AT_LEVEL(sx_widen)(float *to, const void *from, sx_dtype dtype, int64_t n) {
  if (dtype == SX_F32) {
    if (to != from) memcpy(to, from, (size_t)n * 4);
  } else {
    convert(dtype == SX_BF16 ? f32_from_bf16 : f32_from_f16, to, 4, from, 2, n);
  }
}

void SX_AT_LEVEL(sx_narrow)(void *to, sx_dtype dtype, const float *from, int64_t n) {
  if (dtype == SX_F32) {
    if (to != from) memcpy(to, from, (size_t)n * 4);
  } else {
    convert(dtype == SX_BF16 ? bf16_from_f32 : f16_from_f32, to, 2, from, 4, n);
  }
}

enum { PIECE = 512 }; /* elements that a conversion buffers */

static void cast_from_float(sx_dtype from, sx_dtype to, void *out, const void *in, int64_t n) {
  float wide[PIECE];
  int32_t integers[PIECE];
  SX_AT_LEVEL(sx_widen)(wide, in, from, n);
  switch (to) {
    case SX_BOOL:
      convert(bool_from_f32, out, 1, wide, 4, n);
      break;
    case SX_I32:
      convert(i32_from_f32, out, 4, wide, 4, n);
      break;
    case SX_U8:
      convert(i32_from_f32, integers, 4, wide, 4, n);
      convert(u8_from_i32, out, 1, integers, 4, n);
      break;
    default:
      SX_AT_LEVEL(sx_narrow)(out, to, wide, n);
      break;
  }
}

static void cast_from_integer(sx_dtype from, sx_dtype to, void *out, const void *in, int64_t n) {
  float wide[PIECE];
  int32_t integers[PIECE];
  if (from == SX_I32)
    memcpy(integers, in, (size_t)n * 4);
  else
    convert(i32_from_u8, integers, 4, in, 1, n);
  switch (to) {
    case SX_BOOL:
      convert(bool_from_i32, out, 1, integers, 4, n);
      break;
    case SX_I32:
      memcpy(out, integers, (size_t)n * 4);
      break;
    case SX_U8:
      convert(u8_from_i32, out, 1, integers, 4, n);
      break;
    default:
      convert(f32_from_i32, wide, 4, integers, 4, n);
      SX_AT_LEVEL(sx_narrow)(out, to, wide, n);
      break;
  }
}

static void cast(sx_dtype from, sx_dtype to, void *out, const void *in, int64_t n) {
  int64_t from_bytes = sx_element_bytes(from), to_bytes = sx_element_bytes(to);
  for (int64_t k = 0; k < n; k += PIECE) {
    void *o = (char *)out + k * to_bytes;
    const void *x = (const char *)in + k * from_bytes;
    (sx_is_float(from) ? cast_from_float : cast_from_integer)(from, to, o, x, sx_min_i64(PIECE, n - k));
  }
}

/* Short floats: pieces are widened, computed in f32 and narrowed; a comparison's bools need no narrowing. */
static void short_floats(loop *function, sx_dtype from, sx_dtype to, void *out, const void *const *in, int n_in,
                         int64_t n) {
  float wide[2][PIECE];
  const void *wide_in[2] = {wide[0], wide[1]};
  int64_t to_bytes = sx_element_bytes(to);
  for (int64_t k = 0; k < n; k += PIECE) {
    int64_t count = sx_min_i64(PIECE, n - k);
    void *o = (char *)out + k * to_bytes;
    for (int j = 0; j < n_in; j++) SX_AT_LEVEL(sx_widen)(wide[j], (const uint16_t *)in[j] + k, from, count);
    bool narrow = to != SX_BOOL;
    run(function, narrow ? wide[0] : o, narrow ? 4 : 1, wide_in, (int64_t[]){4, 4}, n_in, count);
    if (narrow) SX_AT_LEVEL(sx_narrow)(o, to, wide[0], count);
  }
}

static void choose(sx_dtype dtype, void *out, const void *const *in, int64_t n) {
  int64_t bytes = sx_element_bytes(dtype);
  run(bytes == 4 ? where_32 : bytes == 2 ? where_16 : where_8, out, bytes, in, (int64_t[]){1, bytes, bytes}, 3, n);
}

void SX_AT_LEVEL(sx_element)(sx_op op, sx_dtype from, sx_dtype to, void *out, const void *const *inputs, int64_t n) {
  if (op == SX_OP_CAST) {
    cast(from, to, out, inputs[0], n);
    return;
  }
  if (op == SX_OP_WHERE) {
    choose(from, out, inputs, n);
    return;
  }
  loop *function = sx_is_float(from) ? rows[op].f32 : from == SX_I32 ? rows[op].i32 : rows[op].u8;
  int n_in = sx_op_describe(op)->n_inputs;
  int64_t bytes = sx_element_bytes(from);
  if (!function)
    sx_reference_elements(op, from, to, out, inputs, n);
  else if (from == SX_BF16 || from == SX_F16)
    short_floats(function, from, to, out, inputs, n_in, n);
  else
    run(function, out, sx_element_bytes(to), inputs, (int64_t[]){bytes, bytes}, n_in, n);
}
