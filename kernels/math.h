/* The project's own elementary functions: the same bits on every machine.
 *
 * One source for host C17 compilers and for NVRTC. Only + - * / sqrt,
 * integer operations, comparisons and selects are used, each rounded once,
 * so a build must keep them apart: -ffp-contract=off (host), --fmad=false
 * (NVRTC), and no fast-math flag. Neither libm nor a CUDA math function is
 * called. The f32 functions work in binary64. Include it as "kernels/math.h":
 * a search path that ends in kernels/ would hide the system's <math.h>.
 *
 *   float x[n], y[n];
 *   for (size_t i = 0; i < n; i++)
 *       y[i] = sx_exp_f32(x[i]);       // this loop vectorizes
 *
 * Guarantees
 *   exp exp2 expm1 log log2 log1p sin cos tan sinpi cospi tanh erf:
 *       correctly rounded (nearest even) for all 2^32 inputs; the program
 *       tests/math/check_math.c walks them all.
 *   pow atan2: within 0.51 ulp.
 *   the rest: exact, or rounded as their comments say.
 * Special cases are those of C17 Annex F, and of IEEE 754-2019 for sinpi and
 * cospi. Every NaN result is 0x7fc00000 (0x7e00, 0x7fc0 in the short types).
 *
 * A function has no data-dependent branch unless its comment says so: a
 * choice between computed values is a select by mask (sx_pick_*), which
 * compilers vectorize without speculating a floating-point operation.
 *
 * Coefficients are the project's own minimax fits; docs/kernels.md has the
 * method and the measured figures of each function. The file is longer than
 * most because NVRTC gets it as one piece.
 */
#ifndef SX_KERNELS_MATH_H
#define SX_KERNELS_MATH_H

#ifdef __CUDACC_RTC__
#define SX_MATH static __device__ __forceinline__
#define SX_TABLE static __constant__
#ifndef SX_MATH_HAVE_STDINT
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif
#else
#include <float.h>
#include <stdint.h>
#include <string.h>
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "kernels/math.h needs float and double evaluated in their own format"
#endif
#define SX_MATH static inline __attribute__((always_inline))
#define SX_TABLE static const
#endif

#define SX_NAN_F32 0x7fc00000u

/* ---- Bits and selects --------------------------------------------------- */

#ifdef __CUDACC_RTC__
SX_MATH uint32_t sx_bits_f32(float x) { return __float_as_uint(x); }
SX_MATH float sx_from_bits_f32(uint32_t u) { return __uint_as_float(u); }
SX_MATH uint64_t sx_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
SX_MATH double sx_from_bits_f64(uint64_t u) { return __longlong_as_double((int64_t)u); }
#else
SX_MATH uint32_t sx_bits_f32(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

SX_MATH float sx_from_bits_f32(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

SX_MATH uint64_t sx_bits_f64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

SX_MATH double sx_from_bits_f64(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}
#endif

/* All ones for a nonzero condition, else zero. */
SX_MATH uint32_t sx_mask32(int condition) { return 0u - (uint32_t)condition; }
SX_MATH uint64_t sx_mask64(int condition) { return (uint64_t)0 - (uint64_t)condition; }

SX_MATH uint32_t sx_pick_u32(uint32_t mask, uint32_t yes, uint32_t no) { return (yes & mask) | (no & ~mask); }

SX_MATH uint64_t sx_pick_u64(uint64_t mask, uint64_t yes, uint64_t no) { return (yes & mask) | (no & ~mask); }

SX_MATH float sx_pick_f32(uint32_t mask, float yes, float no) {
  return sx_from_bits_f32(sx_pick_u32(mask, sx_bits_f32(yes), sx_bits_f32(no)));
}

SX_MATH double sx_pick_f64(uint64_t mask, double yes, double no) {
  return sx_from_bits_f64(sx_pick_u64(mask, sx_bits_f64(yes), sx_bits_f64(no)));
}

SX_MATH double sx_abs_f64(double x) { return sx_from_bits_f64(sx_bits_f64(x) & 0x7fffffffffffffffu); }

/* x with the sign of `sign` or-ed in: x must not be negative. */
SX_MATH float sx_with_sign_f32(float x, float sign) {
  return sx_from_bits_f32(sx_bits_f32(x) | (sx_bits_f32(sign) & 0x80000000u));
}

/* y, or the one NaN of this page where y is NaN. */
SX_MATH float sx_canonical_f32(float y) { return sx_pick_f32(sx_mask32(y != y), sx_from_bits_f32(SX_NAN_F32), y); }

/* y, or the one NaN where the argument x was NaN. */
SX_MATH float sx_nan_through_f32(float x, float y) {
  return sx_pick_f32(sx_mask32(x != x), sx_from_bits_f32(SX_NAN_F32), y);
}

/* result, or `right` where x is the one argument with the bits `hard`: a case
 * whose value lies too close to a rounding boundary for the evaluation. */
SX_MATH float sx_hard_case_f32(float x, float result, uint32_t hard, uint32_t right) {
  uint32_t mask = sx_mask32(sx_bits_f32(x) == hard);
  return sx_from_bits_f32(sx_pick_u32(mask, right, sx_bits_f32(result)));
}

/* The same for an odd function, whose hard cases come in pairs x, -x: `hard`
 * and `right` are those of the positive one. */
SX_MATH float sx_hard_case_odd_f32(float x, float result, uint32_t hard, uint32_t right) {
  uint32_t sign = sx_bits_f32(x) & 0x80000000u;
  return sx_hard_case_f32(x, result, hard ^ sign, right ^ sign);
}

/* And for an even one. */
SX_MATH float sx_hard_case_even_f32(float x, float result, uint32_t hard, uint32_t right) {
  return sx_hard_case_f32(sx_from_bits_f32(sx_bits_f32(x) & 0x7fffffffu), result, hard, right);
}

/* Clamps to [low, high]; a NaN stays. */
SX_MATH double sx_clamp_f64(double x, double low, double high) {
  double y = sx_pick_f64(sx_mask64(x < low), low, x);
  return sx_pick_f64(sx_mask64(y > high), high, y);
}

/* Adding and subtracting this rounds a |x| < 2^51 to an integer, half to even;
 * the low bits of the sum are that integer in two's complement. */
#define SX_ROUND_F64 0x1.8p52

/* 2^k, k the integer in the low bits of `shifted` = k + SX_ROUND_F64. */
SX_MATH double sx_exponent_f64(double shifted) {
  return sx_from_bits_f64((sx_bits_f64(shifted) << 52) + ((uint64_t)1023 << 52));
}

/* hi + lo rounded to f32 once, for |lo| <= |hi|: the sum is first rounded to
 * odd in binary64 (Boldo and Melquiond, "Emulation of FMA and correctly
 * rounded sums", 2008), so that the second rounding sees on which side of a
 * midpoint it lies. */
SX_MATH float sx_round_sum_f32(double hi, double lo) {
  double sum = hi + lo;
  double rest = lo - (sum - hi);
  uint64_t bits = sx_bits_f64(sum);
  uint64_t inexact = sx_mask64(rest != 0.0);
  uint64_t below = (bits ^ sx_bits_f64(rest)) >> 63;
  bits = (bits - (below & inexact)) | (inexact & 1);
  return (float)sx_from_bits_f64(bits);
}

/* ---- exp, exp2, expm1, tanh --------------------------------------------- */

/* q with exp(r) - 1 = r + r^2 q to 2^-61 of itself, for |r| <= 0.3467. */
SX_MATH double sx_expm1_series(double r) {
  double z = r * r;
  double p = 0x1.1f1a3879b2714p-29;
  p = p * z + (0x1.27e513359e454p-22 + r * 0x1.af5f20fdae875p-26);
  p = p * z + (0x1.a01a018e117f3p-16 + r * 0x1.71ddf814aec45p-19);
  p = p * z + (0x1.6c16c16c1aaf8p-10 + r * 0x1.a01a01b001f74p-13);
  p = p * z + (0x1.555555555554dp-5 + r * 0x1.111111110f657p-7);
  return p * z + (0.5 + r * 0x1.5555555555559p-3);
}

/* x = k ln 2 + r: gives exp(r) - 1 and the scale 2^k; |x| < 700. */
SX_MATH double sx_exp_reduce(double x, double *scale) {
  double shifted = x * 0x1.71547652b82fep+0 + SX_ROUND_F64;
  double k = shifted - SX_ROUND_F64;
  double r = (x - k * 0x1.62e42fefa2000p-1) - k * 0x1.9ef35793c7673p-41;
  *scale = sx_exponent_f64(shifted);
  return r + r * r * sx_expm1_series(r);
}

SX_MATH float sx_exp_f32(float x) {
  double scale;
  double p = sx_exp_reduce(sx_clamp_f64((double)x, -104.0, 89.0), &scale);
  return sx_nan_through_f32(x, (float)(scale * (1.0 + p)));
}

SX_MATH float sx_expm1_f32(float x) {
  double scale;
  double p = sx_exp_reduce(sx_clamp_f64((double)x, -104.0, 89.0), &scale);
  float y = (float)((scale - 1.0) + scale * p);
  return sx_nan_through_f32(x, sx_with_sign_f32(y, x));
}

/* 2^r for |r| <= 1/2. */
SX_MATH double sx_exp2_core(double r) {
  double z = r * r;
  double p = 0x1.e0f3bd4ef79eap-36;
  p = p * z + (0x1.e4bb8386dd17dp-28 + r * 0x1.ec5de15e8a5f6p-32);
  p = p * z + (0x1.62c0272dcc241p-20 + r * 0x1.b5233e26212fep-24);
  p = p * z + (0x1.430912f755655p-13 + r * 0x1.ffcbfd44215p-17);
  p = p * z + (0x1.3b2ab6fba51a1p-7 + r * 0x1.5d87fe787529dp-10);
  p = p * z + (0x1.ebfbdff82c58ep-3 + r * 0x1.c6b08d704a1d1p-5);
  return 1.0 + (r * 0x1.62e42fefa39efp-1 + z * p);
}

SX_MATH double sx_exp2_scaled(double x) {
  double shifted = x + SX_ROUND_F64;
  double r = x - (shifted - SX_ROUND_F64);
  return sx_exponent_f64(shifted) * sx_exp2_core(r);
}

SX_MATH float sx_exp2_f32(float x) {
  float y = (float)sx_exp2_scaled(sx_clamp_f64((double)x, -151.0, 129.0));
  y = sx_hard_case_f32(x, y, 0x3b429d37u, 0x3f804385u);
  y = sx_hard_case_f32(x, y, 0xbcf3a937u, 0x3f7ac6b1u);
  return sx_nan_through_f32(x, y);
}

/* tanh |x| = e / (e + 2), e = expm1(2 |x|). */
SX_MATH float sx_tanh_f32(float x) {
  double scale;
  double p = sx_exp_reduce(sx_clamp_f64(2.0 * sx_abs_f64((double)x), 0.0, 20.0), &scale);
  double e = (scale - 1.0) + scale * p;
  return sx_nan_through_f32(x, sx_with_sign_f32((float)(e / (e + 2.0)), x));
}

/* ---- log, log2, log1p --------------------------------------------------- */

/* u = 2^k m with m in [sqrt(1/2), sqrt(2)): gives k and m - 1 (exact);
 * u normal and positive. */
SX_MATH double sx_log_split(double u, double *fraction) {
  uint64_t bits = sx_bits_f64(u) + ((uint64_t)(0x3ff00000 - 0x3fe6a09e) << 32);
  uint64_t m = (bits & 0x000fffffffffffffu) + ((uint64_t)0x3fe6a09e << 32);
  *fraction = sx_from_bits_f64(m) - 1.0;
  return sx_from_bits_f64(bits >> 52 | (uint64_t)0x43300000 << 32) - (0x1p52 + 1023.0);
}

/* log(1 + f) = f - (f^2/2 - tail); returns tail = s (f^2/2 + R(s^2)) with
 * s = f / (2 + f), from log(1 + f) = 2 atanh(s). half_square is f^2/2. */
SX_MATH double sx_log_tail(double f, double half_square) {
  double s = f / (2.0 + f);
  double z = s * s;
  double p = 0x1.69cd2b0b02e1p-4;
  p = p * z + 0x1.effb8e32104ep-4;
  p = p * z + 0x1.109d765ed3d7p-3;
  p = p * z + 0x1.3b177f78e875dp-3;
  p = p * z + 0x1.745d04c94e03p-3;
  p = p * z + 0x1.c71c71fbf9936p-3;
  p = p * z + 0x1.2492492467724p-2;
  p = p * z + 0x1.9999999999bcbp-2;
  p = p * z + 0x1.5555555555555p-1;
  return s * (half_square + z * p);
}

/* k ln 2 + log(1 + f) rounded to f32 once. */
SX_MATH float sx_log_round(double k, double f) {
  double half_square = 0.5 * f * f;
  double tail = sx_log_tail(f, half_square);
  double k_ln2 = k * 0x1.62e42fefa2000p-1;
  double hi = k_ln2 + f;
  double lo = f - (hi - k_ln2);
  lo = lo + (k * 0x1.9ef35793c7673p-41 + (tail - half_square));
  return sx_round_sum_f32(hi, lo);
}

/* Puts in a logarithm's special cases, u being the number it is of:
 * -inf at 0, NaN below 0 and at NaN, +inf at +inf. */
SX_MATH float sx_log_special(double u, float y) {
  uint32_t bits = sx_bits_f32(y);
  bits = sx_pick_u32(sx_mask32(u == 0.0), 0xff800000u, bits);
  bits = sx_pick_u32(sx_mask32(u > 0x1p200), 0x7f800000u, bits);
  bits = sx_pick_u32(sx_mask32(!(u >= 0.0)), SX_NAN_F32, bits);
  return sx_from_bits_f32(bits);
}

SX_MATH float sx_log_f32(float x) {
  double f;
  double k = sx_log_split((double)x, &f);
  return sx_log_special((double)x, sx_log_round(k, f));
}

SX_MATH float sx_log1p_f32(float x) {
  double u = 1.0 + (double)x;
  double f;
  double k = sx_log_split(u, &f);
  f = sx_pick_f64(sx_mask64(k == 0.0), (double)x, f);
  return sx_log_special(u, sx_with_sign_f32(sx_log_round(k, f), x));
}

/* log2(1 + f) = (f - f^2/2 + tail) / ln 2. For an f32 argument f - f^2/2 is
 * exact in binary64; its leading 26 bits times the leading 26 of 1/ln 2 are
 * exact too. */
SX_MATH float sx_log2_f32(float x) {
  double f;
  double k = sx_log_split((double)x, &f);
  double half_square = 0.5 * f * f;
  double tail = sx_log_tail(f, half_square);
  double y = f - half_square;
  double y_hi = sx_from_bits_f64(sx_bits_f64(y) & 0xfffffffff8000000u);
  double product = y_hi * 0x1.7154764p+0;
  double rest = (y - y_hi) * 0x1.7154764p+0 + (y * 0x1.2b82fe1777d1p-28 + tail * 0x1.71547652b82fep+0);
  double hi = k + product;
  double lo = (product - (hi - k)) + rest;
  return sx_log_special((double)x, sx_round_sum_f32(hi, lo));
}

/* ---- sin, cos, tan, sinpi, cospi ---------------------------------------- */

/* 2/pi without its bits above 2^-8j, in three chunks of 24 bits and the rest:
 * column j serves arguments M 2^E, |M| < 2^24, with 8j + 2 <= E < 8j + 10, for
 * which the bits left out only add multiples of four quarter turns (Payne and
 * Hanek, 1983). Column 0 serves every smaller argument too. */
SX_TABLE double sx_two_over_pi[4][13] = {
    {0x1.45f306p-1, 0x1.f306dcp-9, 0x1.06dc9cp-17, 0x1.b9391p-26, 0x1.391054p-34, 0x1.1054a4p-42, 0x1.529fcp-52,
     0x1.4fe138p-59, 0x1.f84eaep-65, 0x1.3abe88p-75, 0x1.5f47d4p-82, 0x1.a3ea68p-89, 0x1.ea69bap-97},
    {0x1.b9391p-26, 0x1.391054p-34, 0x1.1054a4p-42, 0x1.529fcp-52, 0x1.4fe138p-59, 0x1.f84eaep-65, 0x1.3abe88p-75,
     0x1.5f47d4p-82, 0x1.a3ea68p-89, 0x1.ea69bap-97, 0x1.a6eep-107, 0x1.bb81b6p-113, 0x1.81b6c4p-121},
    {0x1.529fcp-52, 0x1.4fe138p-59, 0x1.f84eaep-65, 0x1.3abe88p-75, 0x1.5f47d4p-82, 0x1.a3ea68p-89, 0x1.ea69bap-97,
     0x1.a6eep-107, 0x1.bb81b6p-113, 0x1.81b6c4p-121, 0x1.b6c52ap-129, 0x1.8a5664p-138, 0x1.2b3278p-145},
    {0x1.3abe8fa9a6eep-75, 0x1.5f47d4d377037p-82, 0x1.a3ea69bb81b6cp-89, 0x1.ea69bb81b6c53p-97, 0x1.a6ee06db14acdp-107,
     0x1.bb81b6c52b328p-113, 0x1.81b6c52b32788p-121, 0x1.b6c52b3278872p-129, 0x1.8a5664f10e41p-138,
     0x1.2b3278872084p-145, 0x1.3278872083fcap-153, 0x1.e21c820ff28b2p-163, 0x1.0e4107f9458ebp-170},
};

/* a + b = sum + *rest exactly (Knuth). */
SX_MATH double sx_two_sum(double a, double b, double *rest) {
  double sum = a + b;
  double b_part = sum - a;
  *rest = (a - (sum - b_part)) + (b - b_part);
  return sum;
}

/* x 2/pi = 4n + quarter + y, |y| <= 1/2 and a little, from the chunks of 2/pi.
 * quarter is right modulo 4 only. */
SX_MATH double sx_quarters(double x, double c0, double c1, double c2, double c3, uint64_t *quarter) {
  double p0 = x * c0;
  double shifted0 = p0 + SX_ROUND_F64;
  double y0 = p0 - (shifted0 - SX_ROUND_F64);
  double rest1, rest2;
  double y1 = sx_two_sum(y0, x * c1, &rest1);
  double shifted1 = y1 + SX_ROUND_F64;
  y1 = y1 - (shifted1 - SX_ROUND_F64);
  y1 = sx_two_sum(y1, x * c2, &rest2);
  *quarter = sx_bits_f64(shifted0) + sx_bits_f64(shifted1);
  return y1 + ((rest1 + rest2) + x * c3);
}

SX_MATH double sx_quarters_small(float x, uint64_t *quarter) {
  return sx_quarters((double)x, 0x1.45f306p-1, 0x1.b9391p-26, 0x1.529fcp-52, 0x1.3abe8fa9a6eep-75, quarter);
}

SX_MATH double sx_quarters_any(float x, uint64_t *quarter) {
  uint32_t exponent = sx_bits_f32(x) >> 23 & 0xff;
  uint64_t j = (exponent < 152 ? 0 : exponent - 152) >> 3;
  return sx_quarters((double)x, sx_two_over_pi[0][j], sx_two_over_pi[1][j], sx_two_over_pi[2][j], sx_two_over_pi[3][j],
                     quarter);
}

/* sin(pi/2 (y + quarter)) for |y| <= 0.501. Even quarters use a sine
 * polynomial, odd ones a cosine polynomial; both are polynomials in y^2, so
 * one evaluation with selected coefficients serves. */
SX_MATH double sx_sin_quarter(double y, uint64_t quarter) {
  uint64_t odd = sx_mask64((int)(quarter & 1));
  double z = y * y;
  double p = sx_pick_f64(odd, -0x1.3da513abe0a52p-33, 0.0);
  p = p * z + sx_pick_f64(odd, -0x1.a7de968109545p-28, -0x1.6f1ab4df6e194p-31);
  p = p * z + sx_pick_f64(odd, 0x1.f9b9f57a9d47ap-22, 0x1.e8f8fc5dd860ap-25);
  p = p * z + sx_pick_f64(odd, -0x1.a6d1dbb98b3c5p-16, -0x1.e3075a4a72ab3p-19);
  p = p * z + sx_pick_f64(odd, 0x1.e1f506721ccdcp-11, 0x1.50783490ef514p-13);
  p = p * z + sx_pick_f64(odd, -0x1.55d3c7e3bf49ap-6, -0x1.32d2cce6337dep-8);
  p = p * z + sx_pick_f64(odd, 0x1.03c1f081b5a54p-2, 0x1.466bc6775ab46p-4);
  p = p * z + sx_pick_f64(odd, -0x1.3bd3cc9be45dep+0, -0x1.4abbce625be53p-1);
  p = p * z;
  double base = sx_pick_f64(odd, 1.0, y);
  double first = sx_pick_f64(odd, 1.0, y * 0x1.921fb54442d18p+0);
  double value = first + base * p;
  return sx_from_bits_f64(sx_bits_f64(value) ^ (quarter & 2) << 62);
}

/* A zero sine takes the sign of the argument. */
SX_MATH float sx_sin_finish(float x, double value) {
  float y = (float)value;
  uint32_t zero = sx_mask32(value == 0.0);
  y = sx_from_bits_f32(sx_pick_u32(zero, sx_bits_f32(x) & 0x80000000u, sx_bits_f32(y)));
  return sx_canonical_f32(y);
}

/* A zero cosine is +0. */
SX_MATH float sx_cos_finish(double value) { return sx_canonical_f32((float)(value + 0.0)); }

/* sin x from x = pi/2 (quarter + y); x = 0x1.33333p+13 is its hard case. */
SX_MATH float sx_sin_from_quarters(float x, double y, uint64_t quarter) {
  float result = sx_sin_finish(x, sx_sin_quarter(y, quarter));
  return sx_hard_case_odd_f32(x, result, 0x46199998u, 0xbeb1fa5du);
}

/* The functions with `small` in their name are for |x| < SX_TRIG_SMALL, where
 * they give the same bits as the full ones without reading a table. */
#define SX_TRIG_SMALL 0x1p33f

SX_MATH float sx_sin_small_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_small(x, &quarter);
  return sx_sin_from_quarters(x, y, quarter);
}

SX_MATH float sx_cos_small_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_small(x, &quarter);
  return sx_cos_finish(sx_sin_quarter(y, quarter + 1));
}

SX_MATH float sx_tan_finish(float x, double y, uint64_t quarter) {
  return sx_sin_finish(x, sx_sin_quarter(y, quarter) / sx_sin_quarter(y, quarter + 1));
}

SX_MATH float sx_tan_small_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_small(x, &quarter);
  return sx_tan_finish(x, y, quarter);
}

SX_MATH float sx_sin_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_any(x, &quarter);
  return sx_sin_from_quarters(x, y, quarter);
}

/* The hard cases are 0x1.4555p+51, 0x1.3170fp+63, 0x1.2b9622p+67. */
SX_MATH float sx_cos_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_any(x, &quarter);
  float result = sx_cos_finish(sx_sin_quarter(y, quarter + 1));
  result = sx_hard_case_even_f32(x, result, 0x5922aa80u, 0x3f08aebfu);
  result = sx_hard_case_even_f32(x, result, 0x5f18b878u, 0x3f7f14bbu);
  return sx_hard_case_even_f32(x, result, 0x6115cb11u, 0x3f78142fu);
}

SX_MATH float sx_tan_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_any(x, &quarter);
  return sx_tan_finish(x, y, quarter);
}

/* 2x = 4n + quarter + y exactly; a finite |x| >= 2^30 is an even integer, an
 * infinite one gives NaN. */
SX_MATH double sx_quarters_pi(float x, uint64_t *quarter) {
  double twice = 2.0 * (double)x;
  twice = sx_pick_f64(sx_mask64(sx_abs_f64(twice) < 0x1p31), twice, twice - twice);
  double shifted = twice + SX_ROUND_F64;
  *quarter = sx_bits_f64(shifted);
  return twice - (shifted - SX_ROUND_F64);
}

/* sin(pi x); at an integer a zero with the sign of x. */
SX_MATH float sx_sinpi_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_pi(x, &quarter);
  return sx_sin_finish(x, sx_sin_quarter(y, quarter));
}

/* cos(pi x); +0 at an integer and a half. */
SX_MATH float sx_cospi_f32(float x) {
  uint64_t quarter;
  double y = sx_quarters_pi(x, &quarter);
  return sx_cos_finish(sx_sin_quarter(y, quarter + 1));
}

/* ---- erf ---------------------------------------------------------------- */

/* erf(x) = x P(x^2/8 - 1), P one polynomial for |x| <= 3.9375, beyond which
 * the result is 1. 0x1.81d5acp-13 is the hard case. */
SX_MATH float sx_erf_f32(float x) {
  double a = sx_clamp_f64(sx_abs_f64((double)x), 0.0, 3.9375);
  double t = (a * a - 8.0) * 0.125;
  double z = t * t;
  double p = 0x1.9fb774d812518p-27 + t * -0x1.2611ea0d8f61bp-28;
  p = p * z + (0x1.31a19520c8d88p-24 + t * -0x1.1832219446601p-26);
  p = p * z + (0x1.c9e7855b7eb50p-21 + t * -0x1.3a061b9146cbcp-22);
  p = p * z + (0x1.cb624130380e9p-18 + t * -0x1.42faad4034399p-19);
  p = p * z + (0x1.916e3b203fa34p-15 + t * -0x1.37aa4bc34a222p-16);
  p = p * z + (0x1.20ec38e20addcp-12 + t * -0x1.ed7558d0757f0p-14);
  p = p * z + (0x1.52d9da8baa78bp-10 + t * -0x1.4161a7fd7a270p-11);
  p = p * z + (0x1.3e150f6e87b03p-8 + t * -0x1.51ee52d872416p-9);
  p = p * z + (0x1.d63529a1c8e95p-7 + t * -0x1.1a023f2098375p-7);
  p = p * z + (0x1.0ed52c0074841p-5 + t * -0x1.7034f9997c691p-6);
  p = p * z + (0x1.ea97f14b7f7bfp-5 + t * -0x1.76e8649d261d6p-5);
  p = p * z + (0x1.717efc78445c9p-4 + t * -0x1.3215d8b73d87cp-4);
  p = p * z + (0x1.0dabaf0613e4cp-3 + t * -0x1.b92e95c19392dp-4);
  p = p * z + (0x1.6a040781a499cp-2 + t * -0x1.69a0ccda3df47p-3);
  float y = sx_with_sign_f32((float)(a * p), x);
  y = sx_hard_case_odd_f32(x, y, 0x3940ead6u, 0x3959af14u);
  return sx_nan_through_f32(x, y);
}

/* ---- sqrt, rsqrt, pow, atan2 -------------------------------------------- */

SX_MATH float sx_sqrt_f32(float x) {
#ifdef __CUDACC_RTC__
  return sx_canonical_f32(__fsqrt_rn(x));
#else
  return sx_canonical_f32(__builtin_sqrtf(x));
#endif
}

/* 1 / sqrt(x), rounded twice. */
SX_MATH float sx_rsqrt_f32(float x) { return sx_canonical_f32(1.0f / sx_sqrt_f32(x)); }

/* log2 |x| in binary64, error below 2^-50 of the result; -inf at 0, +inf at inf. */
SX_MATH double sx_pow_log2(double magnitude) {
  double f;
  double k = sx_log_split(magnitude, &f);
  double half_square = 0.5 * f * f;
  double log_m = f - (half_square - sx_log_tail(f, half_square));
  double y = k + log_m * 0x1.71547652b82fep+0;
  y = sx_pick_f64(sx_mask64(magnitude == 0.0), sx_from_bits_f64((uint64_t)0xfff00000 << 32), y);
  return sx_pick_f64(sx_mask64(magnitude > 0x1p200), magnitude, y);
}

/* x^y = 2^(y log2 |x|) with sign and special cases of C17 F.10.4.4. */
SX_MATH float sx_pow_f32(float x, float y) {
  double yd = (double)y;
  double magnitude = sx_abs_f64((double)x);
  double exponent = sx_clamp_f64(yd * sx_pow_log2(magnitude), -160.0, 160.0);
  float power = (float)sx_exp2_scaled(exponent);

  double y_bounded = sx_clamp_f64(yd, -0x1p25, 0x1p25);
  double shifted = y_bounded + SX_ROUND_F64;
  uint32_t integer = sx_mask32(shifted - SX_ROUND_F64 == y_bounded);
  uint32_t odd = integer & (0u - ((uint32_t)sx_bits_f64(shifted) & 1u));
  uint32_t bits = sx_bits_f32(power) | (sx_bits_f32(x) & odd & 0x80000000u);

  uint32_t finite = sx_mask32(magnitude < 0x1p200);
  uint32_t nan = (sx_mask32(x < 0.0f) & finite & ~integer) | sx_mask32(x != x) | sx_mask32(y != y);
  bits = sx_pick_u32(nan, SX_NAN_F32, bits);
  uint32_t one = sx_mask32(x == 1.0f) | sx_mask32(y == 0.0f) |
                 (sx_mask32(magnitude == 1.0) & sx_mask32(yd - yd != 0.0) & ~sx_mask32(y != y));
  return sx_from_bits_f32(sx_pick_u32(one, 0x3f800000u, bits));
}

/* atan(q) for q in [0, 1], error below 2^-48 of the result. */
SX_MATH double sx_atan_core(double q) {
  double z = q * q;
  double p = -0x1.8cde3d637dfadp-15;
  p = p * z + 0x1.f1be5b9cee4a1p-12;
  p = p * z + -0x1.270e61683c48ep-9;
  p = p * z + 0x1.bb735cf340d01p-8;
  p = p * z + -0x1.e03747758c6e2p-7;
  p = p * z + 0x1.967e3f95790dcp-6;
  p = p * z + -0x1.1f30aa787fa45p-5;
  p = p * z + 0x1.67805c0c352b4p-5;
  p = p * z + -0x1.a47f01039b695p-5;
  p = p * z + 0x1.df041c0bca5d3p-5;
  p = p * z + -0x1.10c6a238eb7p-4;
  p = p * z + 0x1.3b089e1e0ba1cp-4;
  p = p * z + -0x1.745bedcbcb207p-4;
  p = p * z + 0x1.c71c5cf8ccf84p-4;
  p = p * z + -0x1.249248b2a7223p-3;
  p = p * z + 0x1.9999999705514p-3;
  p = p * z + -0x1.55555555525dcp-2;
  return q + q * z * p;
}

/* The angle of the point (x, y) with special cases of C17 F.10.1.4. */
SX_MATH float sx_atan2_f32(float y, float x) {
  double ay = sx_abs_f64((double)y);
  double ax = sx_abs_f64((double)x);
  uint64_t steep = sx_mask64(ay > ax);
  double smaller = sx_pick_f64(steep, ax, ay);
  double larger = sx_pick_f64(steep, ay, ax);
  double q = smaller / larger;
  q = sx_pick_f64(sx_mask64(smaller == larger), 1.0, q);
  q = sx_pick_f64(sx_mask64(smaller == 0.0), 0.0, q);
  double angle = sx_atan_core(q);
  angle = sx_pick_f64(steep, 0x1.921fb54442d18p+0 - angle, angle);
  uint64_t left = sx_mask64((int)(sx_bits_f32(x) >> 31));
  angle = sx_pick_f64(left, 0x1.921fb54442d18p+1 - angle, angle);
  uint32_t bits = sx_bits_f32(sx_with_sign_f32((float)angle, y));
  return sx_from_bits_f32(sx_pick_u32(sx_mask32(x != x) | sx_mask32(y != y), SX_NAN_F32, bits));
}

/* ---- rounding to integers ----------------------------------------------- */

/* Nearest integer, half to even, with the sign of x (so -0.25 gives -0). */
SX_MATH float sx_round_f32(float x) {
  float shift = sx_with_sign_f32(0x1p23f, x);
  float rounded = sx_with_sign_f32((x + shift) - shift, x);
  uint32_t fits = sx_mask32((sx_bits_f32(x) & 0x7fffffffu) < 0x4b000000u);
  return sx_canonical_f32(sx_pick_f32(fits, rounded, x));
}

SX_MATH float sx_floor_f32(float x) {
  float rounded = sx_round_f32(x);
  uint32_t above = sx_mask32(rounded > x);
  float lower = rounded - sx_from_bits_f32(above & 0x3f800000u);
  return sx_canonical_f32(sx_with_sign_f32(lower, x));
}

SX_MATH float sx_ceil_f32(float x) {
  float rounded = sx_round_f32(x);
  uint32_t below = sx_mask32(rounded < x);
  float higher = rounded + sx_from_bits_f32(below & 0x3f800000u);
  return sx_canonical_f32(sx_with_sign_f32(higher, x));
}

/* Truncates; saturates; 0 for NaN. */
SX_MATH int32_t sx_f32_to_i32(float x) {
  uint32_t high = sx_mask32(x >= 0x1p31f);
  uint32_t fits = sx_mask32(x >= -0x1p31f) & ~high;
  float inside = sx_pick_f32(fits, x, 0.0f);
  uint32_t bits = (uint32_t)(int32_t)inside;
  bits = sx_pick_u32(high, 0x7fffffffu, bits);
  return (int32_t)sx_pick_u32(sx_mask32(x < -0x1p31f), 0x80000000u, bits);
}

/* ---- mod, floor division ------------------------------------------------ */

/* a mod b for 0 <= a < 2^28 b, both multiples of an f32 ulp: exact. */
SX_MATH double sx_remainder_step(double a, double b) {
  double n = (a / b + SX_ROUND_F64) - SX_ROUND_F64;
  double r = a - n * b;
  return r + sx_from_bits_f64(sx_bits_f64(b) & sx_mask64(r < 0.0));
}

/* |x| mod |y| exactly, y finite and not 0, x finite. Loops when the quotient
 * is 2^28 or more. */
SX_MATH double sx_remainder_f64(double a, double b) {
  while (a >= b * 0x1p28) {
    double scaled = b * 0x1p28;
    while (a >= scaled * 0x1p28) scaled *= 0x1p28;
    a = sx_remainder_step(a, scaled);
  }
  return sx_remainder_step(a, b);
}

/* C's fmod: exact, sign of x; NaN for x infinite or y zero. */
SX_MATH float sx_fmod_f32(float x, float y) {
  double a = sx_abs_f64((double)x);
  double b = sx_abs_f64((double)y);
  if (!(a < 0x1p200) || !(b > 0.0)) return sx_from_bits_f32(SX_NAN_F32);
  float r = b < 0x1p200 ? (float)sx_remainder_f64(a, b) : (float)a;
  return sx_with_sign_f32(r, x);
}

/* Floor modulo: fmod's exact remainder r, plus y (one f32 addition) where r
 * is not 0 and its sign is not y's; a zero remainder takes y's sign. NaN for
 * y = 0, x infinite, or a NaN. As NumPy's `mod` and Python's %. Branches. */
SX_MATH float sx_mod_f32(float x, float y) {
  float r = sx_fmod_f32(x, y);
  if (r == 0.0f) return sx_with_sign_f32(0.0f, y);
  return sx_canonical_f32((r < 0.0f) != (y < 0.0f) ? r + y : r);
}

/* Floor division as NumPy's floor_divide: (x - r) / y in f32 with fmod's
 * remainder r, less one where mod adjusts, then rounded to the integer it
 * stands for; y = 0 gives x / y. Branches. */
SX_MATH float sx_div_floor_f32(float x, float y) {
  if (y == 0.0f) return sx_canonical_f32(x / y);
  float r = sx_fmod_f32(x, y);
  float quotient = (x - r) / y;
  if (r != 0.0f && (r < 0.0f) != (y < 0.0f)) quotient = quotient - 1.0f;
  if (quotient == 0.0f) return sx_with_sign_f32(0.0f, x / y);
  float whole = sx_floor_f32(quotient);
  return sx_canonical_f32(quotient - whole > 0.5f ? whole + 1.0f : whole);
}

/* ---- max, min, sign ----------------------------------------------------- */

/* Orders f32 as unsigned integers, -0 below +0. */
SX_MATH uint32_t sx_order_f32(uint32_t bits) { return bits ^ ((0u - (bits >> 31)) | 0x80000000u); }

SX_MATH float sx_max_f32(float a, float b) {
  uint32_t ua = sx_bits_f32(a), ub = sx_bits_f32(b);
  uint32_t bits = sx_pick_u32(sx_mask32(sx_order_f32(ua) < sx_order_f32(ub)), ub, ua);
  bits = sx_pick_u32(sx_mask32(a != a) | sx_mask32(b != b), SX_NAN_F32, bits);
  return sx_from_bits_f32(bits);
}

SX_MATH float sx_min_f32(float a, float b) {
  uint32_t ua = sx_bits_f32(a), ub = sx_bits_f32(b);
  uint32_t bits = sx_pick_u32(sx_mask32(sx_order_f32(ub) < sx_order_f32(ua)), ub, ua);
  bits = sx_pick_u32(sx_mask32(a != a) | sx_mask32(b != b), SX_NAN_F32, bits);
  return sx_from_bits_f32(bits);
}

/* -1, 1, the zero itself, or NaN. */
SX_MATH float sx_sign_f32(float x) {
  uint32_t bits = sx_bits_f32(x);
  uint32_t unit = (bits & 0x80000000u) | 0x3f800000u;
  uint32_t zero = sx_mask32((bits & 0x7fffffffu) == 0);
  return sx_nan_through_f32(x, sx_from_bits_f32(sx_pick_u32(zero, bits, unit)));
}

/* ---- bf16, f16 ---------------------------------------------------------- */

SX_MATH float sx_f32_from_bf16(uint16_t h) { return sx_canonical_f32(sx_from_bits_f32((uint32_t)h << 16)); }

SX_MATH uint16_t sx_bf16_from_f32(float x) {
  uint32_t bits = sx_bits_f32(x);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (uint16_t)sx_pick_u32(sx_mask32(x != x), 0x7fc0u, rounded);
}

SX_MATH float sx_f32_from_f16(uint16_t h) {
  uint32_t body = h & 0x7fffu;
  uint32_t normal = (body << 13) + (112u << 23);
  uint32_t special = sx_mask32(body >= 0x7c00u) & (112u << 23);
  float small = (sx_from_bits_f32(0x4b000000u | body) - 0x1p23f) * 0x1p-24f;
  uint32_t bits = sx_pick_u32(sx_mask32(body < 0x400u), sx_bits_f32(small), normal + special);
  return sx_canonical_f32(sx_from_bits_f32(bits | (uint32_t)(h & 0x8000u) << 16));
}

/* Below 2^-14 adding 1/2 rounds to the multiple of 2^-24 that f16 can hold. */
SX_MATH uint16_t sx_f16_from_f32(float x) {
  uint32_t bits = sx_bits_f32(x) & 0x7fffffffu;
  uint32_t sign = sx_bits_f32(x) >> 16 & 0x8000u;
  uint32_t normal = ((bits + 0xfffu + (bits >> 13 & 1u)) >> 13) - (112u << 10);
  uint32_t small = sx_bits_f32(sx_from_bits_f32(bits) + 0.5f) - 0x3f000000u;
  uint32_t h = sx_pick_u32(sx_mask32(bits < 0x38800000u), small, normal);
  h = sx_pick_u32(sx_mask32(bits >= 0x477ff000u), 0x7c00u, h) | sign;
  return (uint16_t)sx_pick_u32(sx_mask32(x != x), 0x7e00u, h);
}

#endif
