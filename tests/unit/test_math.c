/* kernels/math.h and math_f64.h: a fixed sample and all hard cases against
 * MPFR, special values, error bounds, exhaustive conversions, pinned bits.
 * tests/math/check_math.c is the walk over all inputs. */
// cmocka.h needs the others first.
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "../../kernels/math_f64.h"
#include "../math/hard_cases.h"
#include "../math/oracle.h"

#define TILE 4096
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static mpfr_t scratch[3];

static uint64_t random_state;

/* xorshift64*: a fixed sequence, not a good one. */
static uint64_t random_word(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 0x2545f4914f6cdd1du;
}

static double random_between(double low, double high) {
  return low + (high - low) * ((double)(random_word() >> 11) * 0x1p-53);
}

static int setup(void **state) {
  (void)state;
  random_state = 88172645463325252u;
  for (size_t i = 0; i < COUNT(scratch); i++) mpfr_init2(scratch[i], SX_ORACLE_PRECISION);
  return 0;
}

static int teardown(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(scratch); i++) mpfr_clear(scratch[i]);
  mpfr_free_cache();
  return 0;
}

static const struct sx_oracle *find_function(const char *name) {
  for (size_t i = 0; i < SX_ORACLE_COUNT; i++)
    if (strcmp(sx_oracle_table[i].name, name) == 0) return &sx_oracle_table[i];
  return NULL;
}

static float f32(uint32_t bits) { return sx_from_bits_f32(bits); }

static float call(const struct sx_oracle *function, float x) {
  float y;
  function->evaluate(&x, &y, 1);
  return y;
}

static void expect_bits(const char *what, double x, uint32_t got, uint32_t right) {
  if (got != right) fail_msg("%s(%a) gave 0x%08x, right is 0x%08x", what, x, got, right);
}

/* ---- one argument, correctly rounded ------------------------------------ */

static void check_sample(const struct sx_oracle *function) {
  static float in[TILE], out[TILE];
  for (uint32_t first = 0; first < 1u << 20; first += TILE) {
    for (uint32_t i = 0; i < TILE; i++) in[i] = f32((first + i) * 4099u);
    function->evaluate(in, out, TILE);
    for (uint32_t i = 0; i < TILE; i++) {
      struct sx_verdict verdict = sx_oracle_judge(function, in[i], out[i], scratch);
      expect_bits(function->name, (double)in[i], sx_bits_f32(out[i]), verdict.right);
    }
  }
}

static void test_sample_is_correctly_rounded(void **state) {
  (void)state;
  for (size_t i = 0; i < SX_ORACLE_COUNT; i++) check_sample(&sx_oracle_table[i]);
}

static void test_hard_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(sx_hard_cases); i++) {
    const struct sx_hard_case *hard = &sx_hard_cases[i];
    const struct sx_oracle *function = find_function(hard->name);
    assert_non_null(function);
    assert_int_equal(sx_oracle_mpfr(function, f32(hard->input), scratch), hard->right);
    float tile[SX_ORACLE_TILE], out[SX_ORACLE_TILE];
    for (size_t j = 0; j < SX_ORACLE_TILE; j++) tile[j] = f32(hard->input);
    function->evaluate(tile, out, SX_ORACLE_TILE);
    expect_bits(hard->name, (double)tile[0], sx_bits_f32(out[0]), hard->right);
    expect_bits(hard->name, (double)tile[0], sx_bits_f32(call(function, tile[0])), hard->right);
  }
}

#define ZERO 0x00000000u
#define MINUS_ZERO 0x80000000u
#define ONE 0x3f800000u
#define INF 0x7f800000u
#define MINUS_INF 0xff800000u
#define NAN_BITS SX_NAN_F32

static const struct {
  const char *name;
  uint32_t input, right;
} special_cases[] = {
    {"exp", ZERO, ONE},
    {"exp", MINUS_ZERO, ONE},
    {"exp", INF, INF},
    {"exp", MINUS_INF, ZERO},
    {"exp", 0x42b17218u, INF},         /* the least that overflows */
    {"exp", 0x42b17217u, 0x7f7fff84u}, /* the greatest that does not */
    {"exp", 0xc2cff1b4u, 0x00000001u}, /* the last subnormal */
    {"exp", 0xc2cff1b5u, ZERO},
    {"exp2", ZERO, ONE},
    {"exp2", 0x43000000u, INF},         /* 128 */
    {"exp2", 0xc3150000u, 0x00000001u}, /* -149 */
    {"exp2", 0xc3160000u, ZERO},        /* -150: half of it, to even */
    {"exp2", 0xc2fc0000u, 0x00800000u}, /* -126 */
    {"exp2", 0x40400000u, 0x41000000u}, /* 3 */
    {"exp2", MINUS_INF, ZERO},
    {"exp2", INF, INF},
    {"expm1", ZERO, ZERO},
    {"expm1", MINUS_ZERO, MINUS_ZERO},
    {"expm1", 0x00000001u, 0x00000001u},
    {"expm1", 0x80000001u, 0x80000001u},
    {"expm1", INF, INF},
    {"expm1", MINUS_INF, 0xbf800000u},
    {"log", ONE, ZERO},
    {"log", ZERO, MINUS_INF},
    {"log", MINUS_ZERO, MINUS_INF},
    {"log", 0xbf800000u, NAN_BITS},
    {"log", MINUS_INF, NAN_BITS},
    {"log", INF, INF},
    {"log2", ONE, ZERO},
    {"log2", 0x00000001u, 0xc3150000u}, /* 2^-149 */
    {"log2", 0x7f000000u, 0x42fe0000u}, /* 2^127 */
    {"log2", 0x41000000u, 0x40400000u}, /* 8 */
    {"log2", ZERO, MINUS_INF},
    {"log2", 0x80000001u, NAN_BITS},
    {"log2", INF, INF},
    {"log1p", ZERO, ZERO},
    {"log1p", MINUS_ZERO, MINUS_ZERO},
    {"log1p", 0x80000001u, 0x80000001u},
    {"log1p", 0xbf800000u, MINUS_INF},
    {"log1p", 0xbf800001u, NAN_BITS},
    {"log1p", MINUS_INF, NAN_BITS},
    {"log1p", INF, INF},
    {"sin", ZERO, ZERO},
    {"sin", MINUS_ZERO, MINUS_ZERO},
    {"sin", 0x80000001u, 0x80000001u},
    {"sin", INF, NAN_BITS},
    {"sin", MINUS_INF, NAN_BITS},
    {"cos", ZERO, ONE},
    {"cos", MINUS_ZERO, ONE},
    {"cos", INF, NAN_BITS},
    {"tan", ZERO, ZERO},
    {"tan", MINUS_ZERO, MINUS_ZERO},
    {"tan", MINUS_INF, NAN_BITS},
    {"sinpi", ZERO, ZERO},
    {"sinpi", MINUS_ZERO, MINUS_ZERO},
    {"sinpi", ONE, ZERO},
    {"sinpi", 0xbf800000u, MINUS_ZERO},
    {"sinpi", 0x40000000u, ZERO},
    {"sinpi", 0xc0400000u, MINUS_ZERO},
    {"sinpi", 0x3f000000u, ONE},         /* 1/2 */
    {"sinpi", 0x3fc00000u, 0xbf800000u}, /* 3/2 */
    {"sinpi", 0x4affffffu, 0xbf800000u}, /* 2^23 - 1/2 */
    {"sinpi", 0x7f7fffffu, ZERO},
    {"sinpi", 0xff7fffffu, MINUS_ZERO},
    {"sinpi", INF, NAN_BITS},
    {"cospi", ZERO, ONE},
    {"cospi", 0x3f000000u, ZERO},
    {"cospi", 0xbf000000u, ZERO},
    {"cospi", 0x3fc00000u, ZERO},
    {"cospi", ONE, 0xbf800000u},
    {"cospi", 0x4b000001u, 0xbf800000u}, /* 2^23 + 1 */
    {"cospi", 0x7f7fffffu, ONE},
    {"cospi", MINUS_INF, NAN_BITS},
    {"tanh", ZERO, ZERO},
    {"tanh", MINUS_ZERO, MINUS_ZERO},
    {"tanh", 0x80000001u, 0x80000001u},
    {"tanh", INF, ONE},
    {"tanh", MINUS_INF, 0xbf800000u},
    {"erf", ZERO, ZERO},
    {"erf", MINUS_ZERO, MINUS_ZERO},
    {"erf", 0x80000001u, 0x80000001u},
    {"erf", INF, ONE},
    {"erf", MINUS_INF, 0xbf800000u},
};

static void test_special_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(special_cases); i++) {
    const struct sx_oracle *function = find_function(special_cases[i].name);
    float x = f32(special_cases[i].input);
    expect_bits(function->name, (double)x, sx_bits_f32(call(function, x)), special_cases[i].right);
  }
}

static void test_nan_is_canonical(void **state) {
  (void)state;
  static const uint32_t nans[] = {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffbfffffu, 0x7fffffffu, 0xffffffffu};
  for (size_t i = 0; i < COUNT(nans); i++) {
    float x = f32(nans[i]);
    for (size_t j = 0; j < SX_ORACLE_COUNT; j++)
      expect_bits(sx_oracle_table[j].name, 0, sx_bits_f32(call(&sx_oracle_table[j], x)), NAN_BITS);
    const float others[] = {
        sx_sqrt_f32(x),      sx_rsqrt_f32(x),        sx_pow_f32(x, 2.0f),       sx_pow_f32(2.0f, x),
        sx_atan2_f32(x, 1),  sx_atan2_f32(1, x),     sx_floor_f32(x),           sx_ceil_f32(x),
        sx_round_f32(x),     sx_mod_f32(x, 3.0f),    sx_mod_f32(3.0f, x),       sx_fmod_f32(x, 3.0f),
        sx_max_f32(x, 1.0f), sx_max_f32(1.0f, x),    sx_min_f32(x, 1.0f),       sx_min_f32(1.0f, x),
        sx_sign_f32(x),      sx_div_floor_f32(x, 2), sx_div_floor_f32(2.0f, x), sx_fmod_f32(3.0f, x)};
    for (size_t j = 0; j < COUNT(others); j++) assert_int_equal(sx_bits_f32(others[j]), NAN_BITS);
    assert_int_equal(sx_f32_to_i32(x), 0);
    assert_int_equal(sx_bf16_from_f32(x), 0x7fc0);
    assert_int_equal(sx_f16_from_f32(x), 0x7e00);
  }
}

static void test_small_trigonometry_equals_the_full_one(void **state) {
  (void)state;
  uint32_t bound = sx_bits_f32(SX_TRIG_SMALL);
  for (uint32_t i = 0; i < 1u << 20; i++) {
    float x = f32((uint32_t)(random_word() % bound) | (i & 1) << 31);
    expect_bits("sin_small", (double)x, sx_bits_f32(sx_sin_small_f32(x)), sx_bits_f32(sx_sin_f32(x)));
    expect_bits("cos_small", (double)x, sx_bits_f32(sx_cos_small_f32(x)), sx_bits_f32(sx_cos_f32(x)));
    expect_bits("tan_small", (double)x, sx_bits_f32(sx_tan_small_f32(x)), sx_bits_f32(sx_tan_f32(x)));
  }
}

/* ---- error bounds ------------------------------------------------------- */

/* |got - exact| in units in the last place of a format with `digits` bits and
 * least exponent `least` (of the last place of subnormals). */
static double error_ulp(double got, mpfr_t exact, int digits, long least) {
  if (mpfr_nan_p(exact) || got != got) return mpfr_nan_p(exact) && got != got ? 0 : HUGE_VAL;
  double greatest = digits == 24 ? (double)FLT_MAX : DBL_MAX;
  if (fabs(got) > greatest) { /* right only where the exact value rounds there */
    double rounded = digits == 24 ? (double)mpfr_get_flt(exact, MPFR_RNDN) : mpfr_get_d(exact, MPFR_RNDN);
    return rounded == got ? 0 : HUGE_VAL;
  }
  if (mpfr_inf_p(exact)) return HUGE_VAL;
  long exponent = mpfr_zero_p(exact) ? least : mpfr_get_exp(exact) - digits;
  if (exponent < least) exponent = least;
  mpfr_sub_d(exact, exact, got, MPFR_RNDN);
  mpfr_div_2si(exact, exact, exponent, MPFR_RNDN);
  return fabs(mpfr_get_d(exact, MPFR_RNDN));
}

static double pow_error(float x, float y) {
  mpfr_set_flt(scratch[0], x, MPFR_RNDN);
  mpfr_set_flt(scratch[1], y, MPFR_RNDN);
  mpfr_pow(scratch[2], scratch[0], scratch[1], MPFR_RNDN);
  return error_ulp((double)sx_pow_f32(x, y), scratch[2], 24, -149);
}

static void expect_bound(const char *what, double error, double bound, double x, double y) {
  if (!(error <= bound)) fail_msg("%s(%a, %a) has error %.4f ulp", what, x, y, error);
}

static void test_pow_within_051_ulp(void **state) {
  (void)state;
  for (int i = 0; i < 100000; i++) {
    float x = f32((uint32_t)(random_word() % 0x7f800000u)), y;
    if (i % 3 == 0) x = 1.0f + (float)random_between(-0.01, 0.01);
    y = (float)(random_between(-150, 150) / log2((double)x));
    if (i % 5 == 0) y = (float)((int)(random_word() % 41) - 20);
    if (i % 5 == 0 && i % 2 == 0) x = -x;
    if (!(fabsf(y) <= FLT_MAX)) continue;
    expect_bound("pow", pow_error(x, y), 0.51, (double)x, (double)y);
  }
}

static double atan2_error(float y, float x) {
  mpfr_set_flt(scratch[0], y, MPFR_RNDN);
  mpfr_set_flt(scratch[1], x, MPFR_RNDN);
  mpfr_atan2(scratch[2], scratch[0], scratch[1], MPFR_RNDN);
  return error_ulp((double)sx_atan2_f32(y, x), scratch[2], 24, -149);
}

static void test_atan2_within_051_ulp(void **state) {
  (void)state;
  for (int i = 0; i < 100000; i++) {
    float y = f32((uint32_t)random_word()), x = f32((uint32_t)random_word());
    if (i % 2 == 0) {
      y = (float)random_between(-2, 2);
      x = (float)random_between(-2, 2);
    } else if (i % 3 == 0) {
      x = y * (float)random_between(-4, 4);
    }
    if (y != y || x != x) continue;
    expect_bound("atan2", atan2_error(y, x), 0.51, (double)y, (double)x);
  }
}

/* Against libm over all pairs of these, for which libm follows Annex F. */
static const uint32_t corners[] = {
    ZERO,        0x00000001u, 0x007fffffu, 0x00800000u, 0x33800000u, 0x3effffffu, 0x3f000000u, 0x3f7fffffu,
    ONE,         0x3f800001u, 0x3fc00000u, 0x40000000u, 0x40400000u, 0x40490fdbu, 0x40a00000u, 0x4affffffu,
    0x4b000001u, 0x4b7fffffu, 0x4b800000u, 0x4c000001u, 0x7f7fffffu, INF,         0x7fc00000u,
};

static float corner(size_t i) { return f32(corners[i / 2] | (uint32_t)(i & 1) << 31); }

/* Results that are exact: zeros, infinities, ones, NaN. */
static int is_plain(float y) { return !(fabsf(y) > 0) || fabsf(y) == 1.0f || isinf(y); }

static void test_pow_atan2_special_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * COUNT(corners); i++)
    for (size_t j = 0; j < 2 * COUNT(corners); j++) {
      float x = corner(i), y = corner(j);
      float power = powf(x, y), angle = atan2f(x, y);
      if (is_plain(power))
        expect_bits("pow", (double)x, sx_bits_f32(sx_pow_f32(x, y)), sx_oracle_bits(power));
      else
        expect_bound("pow", pow_error(x, y), 0.51, (double)x, (double)y);
      if (is_plain(angle))
        expect_bits("atan2", (double)x, sx_bits_f32(sx_atan2_f32(x, y)), sx_oracle_bits(angle));
      else
        expect_bound("atan2", atan2_error(x, y), 0.51, (double)x, (double)y);
    }
}

/* ---- rounding, mod, max, conversions ------------------------------------ */

static void check_rounding(float x) {
  expect_bits("floor", (double)x, sx_bits_f32(sx_floor_f32(x)), sx_oracle_bits(floorf(x)));
  expect_bits("ceil", (double)x, sx_bits_f32(sx_ceil_f32(x)), sx_oracle_bits(ceilf(x)));
  expect_bits("round", (double)x, sx_bits_f32(sx_round_f32(x)), sx_oracle_bits(rintf(x)));
  expect_bits("sqrt", (double)x, sx_bits_f32(sx_sqrt_f32(x)), sx_oracle_bits(sqrtf(x)));
  expect_bits("rsqrt", (double)x, sx_bits_f32(sx_rsqrt_f32(x)), sx_oracle_bits(1.0f / sqrtf(x)));
  double d = (double)x;
  int32_t expected = x != x ? 0 : d >= 0x1p31 ? INT32_MAX : d <= -0x1p31 ? INT32_MIN : (int32_t)d;
  assert_int_equal(sx_f32_to_i32(x), expected);
  float sign = x > 0 ? 1.0f : x < 0 ? -1.0f : x;
  expect_bits("sign", d, sx_bits_f32(sx_sign_f32(x)), sx_oracle_bits(sign));
}

static void test_rounding_to_integers(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 1u << 20; i++) check_rounding(f32(i * 4099u));
  for (int i = -4000; i < 4000; i++) check_rounding((float)i * 0.25f);
  for (uint32_t i = 0; i < 2 * COUNT(corners); i++) check_rounding(corner(i));
  for (uint32_t bits = 0x4a800000u; bits < 0x4b800010u; bits += 7) check_rounding(f32(bits));
}

/* Python's and NumPy's % by fmod. */
static float reference_mod(float x, float y) {
  float r = fmodf(x, y);
  if (r == 0.0f) return copysignf(0.0f, y);
  return (r < 0.0f) != (y < 0.0f) ? r + y : r;
}

/* NumPy's floor_divide (npy_divmod). */
static float reference_div_floor(float x, float y) {
  if (y == 0.0f) return x / y;
  float r = fmodf(x, y);
  float quotient = (x - r) / y;
  if (r != 0.0f && (y < 0.0f) != (r < 0.0f)) quotient -= 1.0f;
  if (quotient == 0.0f) return copysignf(0.0f, x / y);
  float whole = floorf(quotient);
  return quotient - whole > 0.5f ? whole + 1.0f : whole;
}

static void check_mod(float x, float y) {
  expect_bits("fmod", (double)x, sx_bits_f32(sx_fmod_f32(x, y)), sx_oracle_bits(fmodf(x, y)));
  expect_bits("mod", (double)x, sx_bits_f32(sx_mod_f32(x, y)), sx_oracle_bits(reference_mod(x, y)));
  expect_bits("div_floor", (double)x, sx_bits_f32(sx_div_floor_f32(x, y)), sx_oracle_bits(reference_div_floor(x, y)));
}

static void test_mod_and_floor_division(void **state) {
  (void)state;
  for (int i = 0; i < 300000; i++) {
    float x = f32((uint32_t)random_word()), y = f32((uint32_t)random_word());
    if (i % 3 == 0) y = x * (float)random_between(-3, 3);
    if (i % 3 == 1) {
      x = (float)((int)(random_word() % 2001) - 1000) * 0.125f;
      y = (float)((int)(random_word() % 101) - 50) * 0.125f;
    }
    check_mod(x, y);
  }
  for (size_t i = 0; i < 2 * COUNT(corners); i++)
    for (size_t j = 0; j < 2 * COUNT(corners); j++) check_mod(corner(i), corner(j));
}

static void test_max_min(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * COUNT(corners); i++)
    for (size_t j = 0; j < 2 * COUNT(corners); j++) {
      float a = corner(i), b = corner(j);
      uint32_t high = sx_bits_f32(a > b ? a : b), low = sx_bits_f32(a < b ? a : b);
      if (a == 0.0f && b == 0.0f) {
        high = sx_bits_f32(a) & sx_bits_f32(b);
        low = sx_bits_f32(a) | sx_bits_f32(b);
      }
      if (a != a || b != b) high = low = NAN_BITS;
      expect_bits("max", (double)a, sx_bits_f32(sx_max_f32(a, b)), high);
      expect_bits("min", (double)a, sx_bits_f32(sx_min_f32(a, b)), low);
    }
}

static double f16_value(uint32_t h) {
  uint32_t exponent = h >> 10 & 31, fraction = h & 0x3ff;
  double magnitude = exponent == 31  ? (fraction != 0 ? (double)NAN : HUGE_VAL)
                     : exponent == 0 ? ldexp(fraction, -24)
                                     : ldexp(1024 + fraction, (int)exponent - 25);
  return (h & 0x8000u) != 0 ? -magnitude : magnitude;
}

static void test_short_types_widen_and_return(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x10000u; h++) {
    float wide = sx_f32_from_f16((uint16_t)h);
    assert_int_equal(sx_bits_f32(wide), sx_oracle_bits((float)f16_value(h)));
    assert_int_equal(sx_f16_from_f32(wide), wide != wide ? 0x7e00u : h);
    float brain = sx_f32_from_bf16((uint16_t)h);
    assert_int_equal(sx_bits_f32(brain), sx_oracle_bits(f32(h << 16)));
    assert_int_equal(sx_bf16_from_f32(brain), brain != brain ? 0x7fc0u : h);
  }
}

/* Between neighbours h and h + 1: below, at and above their midpoint. */
static void check_narrowing(float (*widen)(uint16_t), uint16_t (*narrow)(float), uint32_t h, float next) {
  float middle = (float)(0.5 * ((double)widen((uint16_t)h) + (double)next));
  uint32_t bits = sx_bits_f32(middle);
  for (uint32_t sign = 0; sign <= 1; sign++) {
    assert_int_equal(narrow(f32((bits - 1) | sign << 31)), h | sign << 15);
    assert_int_equal(narrow(f32(bits | sign << 31)), (h + (h & 1)) | sign << 15);
    assert_int_equal(narrow(f32((bits + 1) | sign << 31)), (h + 1) | sign << 15);
  }
}

static float widen_f16(uint16_t h) { return sx_f32_from_f16(h); }
static float widen_bf16(uint16_t h) { return sx_f32_from_bf16(h); }
static uint16_t narrow_f16(float x) { return sx_f16_from_f32(x); }
static uint16_t narrow_bf16(float x) { return sx_bf16_from_f32(x); }

static void test_short_types_narrow_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x7c00u; h++) /* the last one's next would be 2^16 */
    check_narrowing(widen_f16, narrow_f16, h, h == 0x7bffu ? 65536.0f : widen_f16((uint16_t)(h + 1)));
  for (uint32_t h = 0; h < 0x7f7fu; h++) check_narrowing(widen_bf16, narrow_bf16, h, widen_bf16((uint16_t)(h + 1)));
  assert_int_equal(narrow_bf16(FLT_MAX), 0x7f80);
  assert_int_equal(narrow_f16(FLT_MAX), 0x7c00);
  assert_int_equal(narrow_f16(-HUGE_VALF), 0xfc00);
  assert_int_equal(narrow_bf16(-HUGE_VALF), 0xff80);
}

/* ---- binary64 ----------------------------------------------------------- */

static void check_f64(const char *name, double (*got)(double), int (*truth)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t),
                      double x) {
  mpfr_set_d(scratch[0], x, MPFR_RNDN);
  truth(scratch[2], scratch[0], MPFR_RNDN);
  expect_bound(name, error_ulp(got(x), scratch[2], 53, -1074), 0.999, x, 0);
}

static double exp_f64(double x) { return sx_exp_f64(x); }
static double log_f64(double x) { return sx_log_f64(x); }
static double sin_f64(double x) { return sx_sin_f64(x); }
static double cos_f64(double x) { return sx_cos_f64(x); }

static void check_pow_f64(double x, double y) {
  mpfr_set_d(scratch[0], x, MPFR_RNDN);
  mpfr_set_d(scratch[1], y, MPFR_RNDN);
  mpfr_pow(scratch[2], scratch[0], scratch[1], MPFR_RNDN);
  expect_bound("pow_f64", error_ulp(sx_pow_f64(x, y), scratch[2], 53, -1074), 0.999, x, y);
}

static void test_f64_within_one_ulp(void **state) {
  (void)state;
  for (int i = 0; i < 40000; i++) {
    double any = sx_from_bits_f64(random_word());
    if (!(fabs(any) <= DBL_MAX)) any = 1.5;
    double near_one = 1.0 + ldexp(random_between(-1, 1), -(int)(random_word() % 45));
    double multiple = (double)(random_word() % 1000000) * 1.5707963267948966;
    check_f64("exp_f64", exp_f64, mpfr_exp, random_between(-746, 710));
    check_f64("exp_f64", exp_f64, mpfr_exp, random_between(-2, 2));
    check_f64("log_f64", log_f64, mpfr_log, fabs(any));
    check_f64("log_f64", log_f64, mpfr_log, near_one);
    check_f64("log_f64", log_f64, mpfr_log, random_between(0.5, 2));
    check_f64("sin_f64", sin_f64, mpfr_sin, any);
    check_f64("sin_f64", sin_f64, mpfr_sin, random_between(-10, 10));
    check_f64("sin_f64", sin_f64, mpfr_sin, multiple);
    check_f64("cos_f64", cos_f64, mpfr_cos, any);
    check_f64("cos_f64", cos_f64, mpfr_cos, random_between(-10, 10));
    check_f64("cos_f64", cos_f64, mpfr_cos, multiple);
    check_pow_f64(fabs(any), random_between(-1100, 1100) / log2(fabs(any)));
    check_pow_f64(random_between(0, 10), random_between(-20, 20));
  }
}

static uint64_t bits_or_nan(double x) { return x != x ? SX_NAN_F64 : sx_bits_f64(x); }

static void test_f64_special_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * COUNT(corners); i++) {
    double x = (double)corner(i);
    if (is_plain((float)exp(x))) assert_int_equal(bits_or_nan(exp(x)), sx_bits_f64(sx_exp_f64(x)));
    if (is_plain((float)log(x))) assert_int_equal(bits_or_nan(log(x)), sx_bits_f64(sx_log_f64(x)));
    if (x == 0 || !isfinite(x)) {
      assert_int_equal(bits_or_nan(sin(x)), sx_bits_f64(sx_sin_f64(x)));
      assert_int_equal(bits_or_nan(cos(x)), sx_bits_f64(sx_cos_f64(x)));
    }
    for (size_t j = 0; j < 2 * COUNT(corners); j++) {
      double y = (double)corner(j), power = pow(x, y);
      if (power == 0 || fabs(power) == 1 || !isfinite(power))
        assert_int_equal(bits_or_nan(power), sx_bits_f64(sx_pow_f64(x, y)));
      else
        check_pow_f64(x, y);
    }
  }
  check_f64("cos_f64", cos_f64, mpfr_cos, 0x1.6ac5b262ca1ffp+849); /* the double nearest to a multiple of pi/2 */
  check_f64("sin_f64", sin_f64, mpfr_sin, 0x1.921fb54442d18p+1);
  assert_true(sx_pow_f64(10.0, 15.0) == 1e15 && sx_pow_f64(-3.0, 3.0) == -27.0 &&
              sx_pow_f64(2.0, -1074.0) == 0x1p-1074);
  assert_true(sx_exp_f64(0x1.62e42fefa39efp+9) <= DBL_MAX && sx_exp_f64(0x1.62e42fefa39fp+9) > DBL_MAX);
}

/* ---- pinned bits -------------------------------------------------------- */

static uint64_t fnv1a(uint64_t hash, uint64_t word, int n_bytes) {
  for (int i = 0; i < n_bytes; i++) hash = (hash ^ (word >> 8 * i & 0xff)) * 0x100000001b3u;
  return hash;
}

#define FNV1A_START 0xcbf29ce484222325u

struct pin {
  const char *name;
  uint64_t hash;
};

static void expect_pin(const struct pin *pins, size_t i, const char *name, uint64_t hash) {
  assert_string_equal(pins[i].name, name);
  if (hash != pins[i].hash) fail_msg("%s: bits hash to 0x%016llx", name, (unsigned long long)hash);
}

static const struct pin one_argument_pins[] = {
    {"exp", 0x77e72f7a811116a8u},   {"exp2", 0x28ea8360df1e6912u},  {"expm1", 0x9e09ca690afe211cu},
    {"log", 0xa09dd783cec18758u},   {"log2", 0x14cdb54be8a4c628u},  {"log1p", 0x496b810c49587944u},
    {"sin", 0x6e4866e39f07be39u},   {"cos", 0x29723431061b1cbcu},   {"tan", 0xbee35c2d30c8e8b2u},
    {"sinpi", 0x12d7da73fb228f44u}, {"cospi", 0x02fd3c900a547ecbu}, {"tanh", 0xe8177ad781642a6fu},
    {"erf", 0xb1e5052cacf53b1du},   {"sqrt", 0x3cfcf8bd82704e1au},
};

static void test_pinned_one_argument(void **state) {
  (void)state;
  for (size_t i = 0; i < SX_ORACLE_COUNT; i++) {
    static float in[1 << 16], out[1 << 16];
    uint64_t hash = FNV1A_START;
    for (uint32_t j = 0; j < 1u << 16; j++) in[j] = f32(j * 65537u);
    sx_oracle_table[i].evaluate(in, out, 1 << 16);
    for (uint32_t j = 0; j < 1u << 16; j++) hash = fnv1a(hash, sx_bits_f32(out[j]), 4);
    expect_pin(one_argument_pins, i, sx_oracle_table[i].name, hash);
  }
}

static const struct pin two_argument_pins[] = {
    {"pow", 0xdbf32b9a99634be7u},       {"atan2", 0xfed842fc527c97ebu}, {"mod", 0xd009aab4d7bafbbdu},
    {"div_floor", 0xa331218d3bbfd433u}, {"rsqrt", 0x3d6ec720ab3e20f5u},
};

static void test_pinned_two_arguments(void **state) {
  (void)state;
  uint64_t hash[5] = {FNV1A_START, FNV1A_START, FNV1A_START, FNV1A_START, FNV1A_START};
  for (uint32_t j = 0; j < 1u << 16; j++) {
    float x = f32(j * 65537u), y = f32(j * 2654435761u);
    hash[0] = fnv1a(hash[0], sx_bits_f32(sx_pow_f32(x, (float)(int32_t)(j * 40503u % 4001u - 2000u) * 0.01f)), 4);
    hash[1] = fnv1a(hash[1], sx_bits_f32(sx_atan2_f32(x, y)), 4);
    hash[2] = fnv1a(hash[2], sx_bits_f32(sx_mod_f32(x, y)), 4);
    hash[3] = fnv1a(hash[3], sx_bits_f32(sx_div_floor_f32(x, y)), 4);
    hash[4] = fnv1a(hash[4], sx_bits_f32(sx_rsqrt_f32(x)), 4);
  }
  static const char *const names[5] = {"pow", "atan2", "mod", "div_floor", "rsqrt"};
  for (size_t i = 0; i < 5; i++) expect_pin(two_argument_pins, i, names[i], hash[i]);
}

/* The binary64 insides of pow and atan2, which f32 results show only rarely. */
static const struct pin inner_pins[] = {
    {"pow_log2", 0x191fb6177a114405u},
    {"exp2_scaled", 0x9d2dcca786998170u},
    {"atan_core", 0x5294d901a93fd552u},
};

static void test_pinned_insides(void **state) {
  (void)state;
  uint64_t hash[3] = {FNV1A_START, FNV1A_START, FNV1A_START};
  for (uint32_t j = 0; j < 1u << 16; j++) {
    double unit = j * 0x1p-16;
    hash[0] = fnv1a(hash[0], sx_bits_f64(sx_pow_log2((double)f32(j * 32749u))), 8);
    hash[1] = fnv1a(hash[1], sx_bits_f64(sx_exp2_scaled((unit - 0.5) * 300)), 8);
    hash[2] = fnv1a(hash[2], sx_bits_f64(sx_atan_core(unit)), 8);
  }
  static const char *const names[3] = {"pow_log2", "exp2_scaled", "atan_core"};
  for (size_t i = 0; i < 3; i++) expect_pin(inner_pins, i, names[i], hash[i]);
}

static const struct pin f64_pins[] = {
    {"exp", 0x41cc782b6784f5b4u}, {"log", 0x8e5aa52a6988b3f0u}, {"sin", 0x70ccdf3fa2440703u},
    {"cos", 0x8f2eb4ddfcc3e94cu}, {"pow", 0xb68e6c642c5a84f7u},
};

static void test_pinned_f64(void **state) {
  (void)state;
  uint64_t hash[5] = {FNV1A_START, FNV1A_START, FNV1A_START, FNV1A_START, FNV1A_START};
  for (uint64_t j = 0; j < 1u << 16; j++) {
    double any = sx_from_bits_f64(j * 0x0001000100010001u);
    double small = ((double)(j * 40503u % 65536u) - 32768.0) * 0x1p-8 + 0x1p-20;
    hash[0] = fnv1a(hash[0], sx_bits_f64(sx_exp_f64(small * 5.5)), 8);
    hash[1] = fnv1a(hash[1], sx_bits_f64(sx_log_f64(any)), 8);
    hash[2] = fnv1a(hash[2], sx_bits_f64(sx_sin_f64(any)), 8);
    hash[3] = fnv1a(hash[3], sx_bits_f64(sx_cos_f64(any)), 8);
    hash[4] = fnv1a(hash[4], sx_bits_f64(sx_pow_f64(any, small * 0.01)), 8);
  }
  static const char *const names[5] = {"exp", "log", "sin", "cos", "pow"};
  for (size_t i = 0; i < 5; i++) expect_pin(f64_pins, i, names[i], hash[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sample_is_correctly_rounded),
      cmocka_unit_test(test_hard_cases),
      cmocka_unit_test(test_special_cases),
      cmocka_unit_test(test_nan_is_canonical),
      cmocka_unit_test(test_small_trigonometry_equals_the_full_one),
      cmocka_unit_test(test_pow_within_051_ulp),
      cmocka_unit_test(test_atan2_within_051_ulp),
      cmocka_unit_test(test_pow_atan2_special_cases),
      cmocka_unit_test(test_rounding_to_integers),
      cmocka_unit_test(test_mod_and_floor_division),
      cmocka_unit_test(test_max_min),
      cmocka_unit_test(test_short_types_widen_and_return),
      cmocka_unit_test(test_short_types_narrow_to_nearest_even),
      cmocka_unit_test(test_f64_within_one_ulp),
      cmocka_unit_test(test_f64_special_cases),
      cmocka_unit_test(test_pinned_one_argument),
      cmocka_unit_test(test_pinned_two_arguments),
      cmocka_unit_test(test_pinned_insides),
      cmocka_unit_test(test_pinned_f64),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
