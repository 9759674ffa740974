/* The correctly rounded functions of kernels/math.h, a register at a time.
 *
 * A result that is correctly rounded does not depend on how it was found. So these take fused operations, tables in
 * registers and polynomials that are good to about 2^-42, and tell (sx_doubt) when the binary64 value lies so close to
 * a midpoint of f32 that its error could decide, about once in 2^15 elements; then the caller computes the block anew
 * with kernels/math.h, as it does for arguments outside the range that a function here serves. docs/kernels.md has the
 * errors; tests/math/check_math.c walks all inputs. */
#ifndef SX_CPU_VECTOR_MATH_H
#define SX_CPU_VECTOR_MATH_H

#include "vector_pair.h"

#if SX_VECTOR_MATH

/* c[0] + c[1] x + ... + c[n - 1] x^(n - 1). */
SX_INLINE sx_doubles sx_polynomial(const double *c, int n, sx_doubles x) {
  sx_doubles sum = sx_doubles_spread(c[n - 1]);
  SX_UNROLL for (int i = n - 2; i >= 0; i--) sum = sx_fused(sum, x, sx_doubles_spread(c[i]));
  return sum;
}

/* ---- exp, exp2, expm1, tanh ---------------------------------------------------------------------- */

/* e^r = 1 + r P(r). With tables |r| <= ln 2 / 32, without ln 2 / 2. */
#if defined(__AVX512F__)
static const double sx_expm1_terms[] = {0x1.fffffffffffe3p-1, 0x1.fffffffe5a194p-2, 0x1.55555556bef71p-3,
                                        0x1.55570b872d17fp-5, 0x1.11111111616e1p-7};
enum { SX_EXP_STEPS = 16 };

/* The bits of 2^(j/16), less those of the exponent that adding j << 48 puts in. */
static const uint64_t sx_exp_table[16] = {
    0x3ff0000000000000u, 0x3fefb5586cf9890fu, 0x3fef72b83c7d517bu, 0x3fef387a6e756238u,
    0x3fef06fe0a31b715u, 0x3feedea64c123422u, 0x3feebfdad5362a27u, 0x3feeab07dd485429u,
    0x3feea09e667f3bcdu, 0x3feea11473eb0187u, 0x3feeace5422aa0dbu, 0x3feec49182a3f090u,
    0x3feee89f995ad3adu, 0x3fef199bdd85529cu, 0x3fef5818dcfba487u, 0x3fefa4afa2a490dau};

/* 2^(n/16), n the low bits of `shifted`. */
SX_INLINE sx_doubles sx_power(sx_doubles shifted) {
  return (sx_doubles)(sx_entry(sx_exp_table, (sx_longs)shifted) + ((sx_longs)shifted << 48));
}
#else
static const double sx_expm1_terms[] = {0x1.fffffffffff9dp-1,  0x1.fffffffff72bfp-2,  0x1.555555556d7b0p-3,
                                        0x1.555555740a854p-5,  0x1.111110d935c14p-7,  0x1.6c164e316cb5ap-10,
                                        0x1.a01a8d10c9676p-13, 0x1.a15a0933292f2p-16, 0x1.71de9daeea4e8p-19};
enum { SX_EXP_STEPS = 1 };

SX_INLINE sx_doubles sx_power(sx_doubles shifted) {
  return (sx_doubles)(((sx_longs)shifted << 52) + sx_longs_spread((uint64_t)1023 << 52));
}
#endif

enum { SX_EXP_TERMS = sizeof sx_expm1_terms / sizeof *sx_expm1_terms };

/* e^x = scale (1 + result). */
SX_INLINE sx_doubles sx_exp_split(sx_doubles x, sx_doubles *scale) {
  sx_doubles round = sx_doubles_spread(SX_ROUND_F64);
  sx_doubles shifted = sx_fused(x, sx_doubles_spread(SX_EXP_STEPS * 0x1.71547652b82fep+0), round);
  sx_doubles r = sx_fused(shifted - round, sx_doubles_spread(-0x1.62e42fefa39efp-1 / SX_EXP_STEPS), x);
  *scale = sx_power(shifted);
  return r * sx_polynomial(sx_expm1_terms, SX_EXP_TERMS, r);
}

/* The same of 2^x. */
SX_INLINE sx_doubles sx_exp2_split(sx_doubles x, sx_doubles *scale) {
  sx_doubles round = sx_doubles_spread(SX_ROUND_F64 / SX_EXP_STEPS);
  sx_doubles shifted = x + round;
  sx_doubles r = (x - (shifted - round)) * sx_doubles_spread(0x1.62e42fefa39efp-1);
  *scale = sx_power(shifted);
  return r * sx_polynomial(sx_expm1_terms, SX_EXP_TERMS, r);
}

/* Positive results: doubts the subnormal ones, whose midpoints are elsewhere. */
SX_INLINE sx_floats sx_round_positive(sx_halves value, uint32_t reach, sx_doubt *doubt) {
  sx_floats y = sx_round_doubting(value, reach, doubt);
  sx_words normal = ((sx_words)y - sx_words_spread(1)) & sx_words_spread(0xff800000u);
  sx_expect_nonzero(doubt, normal);
  return y;
}

SX_INLINE sx_floats sx_registers_exp(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(sx_bounded(x, -110.0f, 89.5f)), scale;
  sx_doubles low = sx_exp_split(at.low, &scale.low), high = sx_exp_split(at.high, &scale.high);
  sx_halves value = {sx_fused(scale.low, low, scale.low), sx_fused(scale.high, high, scale.high)};
  return sx_quiet(x, sx_round_positive(value, 1u << 10, doubt));
}

SX_INLINE sx_floats sx_registers_exp2(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(sx_bounded(x, -160.0f, 129.5f)), scale;
  sx_doubles low = sx_exp2_split(at.low, &scale.low), high = sx_exp2_split(at.high, &scale.high);
  sx_halves value = {sx_fused(scale.low, low, scale.low), sx_fused(scale.high, high, scale.high)};
  return sx_quiet(x, sx_round_positive(value, 1u << 10, doubt));
}

SX_INLINE sx_halves sx_expm1_halves(sx_floats x) {
  sx_halves at = sx_doubles_of(x), scale;
  sx_doubles one = sx_doubles_spread(1.0);
  sx_doubles low = sx_exp_split(at.low, &scale.low), high = sx_exp_split(at.high, &scale.high);
  return (sx_halves){sx_fused(scale.low, low, scale.low - one), sx_fused(scale.high, high, scale.high - one)};
}

SX_INLINE sx_floats sx_registers_expm1(sx_floats x, sx_doubt *doubt) {
  sx_halves value = sx_expm1_halves(sx_bounded(x, -40.0f, 89.5f));
  return sx_quiet(x, sx_signed_as(sx_round_doubting(value, 1u << 14, doubt), x));
}

/* tanh x = e / (e + 2), e = expm1(2 x). */
SX_INLINE sx_floats sx_registers_tanh(sx_floats x, sx_doubt *doubt) {
  sx_floats bounded = sx_bounded(x, -10.0f, 10.0f);
  sx_halves e = sx_expm1_halves(bounded + bounded);
  sx_doubles two = sx_doubles_spread(2.0);
  sx_halves value = {e.low / (e.low + two), e.high / (e.high + two)};
  return sx_quiet(x, sx_signed_as(sx_round_doubting(value, 1u << 14, doubt), x));
}

/* ---- log, log2, log1p ---------------------------------------------------------------------------- */

/* u = 2^k m. With tables m is within 1/32 of c = 1 + j/16 (1 at both ends), f = m/c - 1, and 1/c is given by 24 bits so
 * that m/c is exact; without, m lies between sqrt(1/2) and sqrt 2, f = m - 1. What is not in `rest`, log(1 + f), is in
 * `whole`: k ln 2 + log c, or k + log2 c. */
typedef struct sx_log_parts {
  sx_doubles whole, f;
} sx_log_parts;

typedef struct sx_log_base {
  double ln2;                 /* log 2 in this base */
  const double *logs, *terms; /* of c; log(1 + f) = f P(f) */
} sx_log_base;

#if defined(__AVX512F__)
enum { SX_LOG_TERMS = 7 };
static const double sx_log_inverses[16] = {
    0x1.0000000000000p+0, 0x1.e1e1e20000000p-1, 0x1.c71c720000000p-1, 0x1.af286c0000000p-1,
    0x1.99999a0000000p-1, 0x1.8618620000000p-1, 0x1.745d180000000p-1, 0x1.642c860000000p-1,
    0x1.5555560000000p-1, 0x1.47ae140000000p-1, 0x1.3b13b20000000p-1, 0x1.2f684c0000000p-1,
    0x1.24924a0000000p-1, 0x1.1a7b960000000p-1, 0x1.1111120000000p-1, 0x1.0842100000000p-1};
static const double sx_log_natural[16] = {0.0,
                                          0x1.f0a30a01162a7p-5,
                                          0x1.e27074e2af2e8p-4,
                                          0x1.5ff3060a793d5p-3,
                                          0x1.c8ff7a79a9a26p-3,
                                          0x1.1675c97aba611p-2,
                                          0x1.4618ba21c5ecap-2,
                                          0x1.739d7e2bbd00ap-2,
                                          0x1.9f323ccbf9854p-2,
                                          0x1.c8ff7df9a9a26p-2,
                                          0x1.f128f37af06f9p-2,
                                          0x1.0be72e0252a83p-1,
                                          0x1.1e85f467040d9p-1,
                                          0x1.307d7354f10bep-1,
                                          0x1.41d8fcc4672bbp-1,
                                          0x1.52a2d365bc5afp-1};
static const double sx_log_binary[16] = {0.0,
                                         0x1.663f6e3b3cbb2p-4,
                                         0x1.5c01a22e68f24p-3,
                                         0x1.fbc16a1ed20a6p-3,
                                         0x1.49a7834b7d429p-2,
                                         0x1.91bba6c447dcfp-2,
                                         0x1.d6753b2085b50p-2,
                                         0x1.0c104f268ee09p-1,
                                         0x1.2b803302a3372p-1,
                                         0x1.49a785d1d111ap-1,
                                         0x1.66a00716cef96p-1,
                                         0x1.82809cff91e9ap-1,
                                         0x1.9d5d9dab025a9p-1,
                                         0x1.b74949237dbc7p-1,
                                         0x1.d053f44c0cbb7p-1,
                                         0x1.e88c6ca77b1dep-1};
static const double sx_log_natural_terms[SX_LOG_TERMS] = {
    0x1.ffffffffffffap-1, -0x1.000000001c363p-1, 0x1.55555555bfecfp-2, -0x1.fffff1ecc439fp-3,
    0x1.999988650ac55p-3, -0x1.55c5abc85a316p-3, 0x1.2502a2a484725p-3};
static const double sx_log_binary_terms[SX_LOG_TERMS] = {
    0x1.71547652b82fap+0, -0x1.71547652e0e35p-1, 0x1.ec709dc43a079p-2, -0x1.71546c2b89332p-2,
    0x1.2776b8a5c2369p-2, -0x1.ed12af6fb4242p-3, 0x1.a6b978ba6584ep-3};
static const sx_log_base sx_base_e = {0x1.62e42fefa39efp-1, sx_log_natural, sx_log_natural_terms};
static const sx_log_base sx_base_2 = {1.0, sx_log_binary, sx_log_binary_terms};

SX_INLINE sx_log_parts sx_log_split_at(sx_doubles u, const sx_log_base *base) {
  sx_longs half = sx_longs_spread((uint64_t)1 << 47), one = sx_longs_spread((uint64_t)1023 << 52);
  sx_longs shifted = (sx_longs)u + half, place = shifted >> 48;
  sx_doubles m = (sx_doubles)((shifted & sx_longs_spread(((uint64_t)1 << 52) - 1)) + (one - half));
  sx_doubles k = (sx_doubles)_mm512_getexp_pd((__m512d)shifted);
  return (sx_log_parts){sx_fused(k, sx_doubles_spread(base->ln2), (sx_doubles)sx_entry(base->logs, place)),
                        sx_fused(m, (sx_doubles)sx_entry(sx_log_inverses, place), sx_doubles_spread(-1.0))};
}

SX_INLINE sx_doubles sx_log_join(sx_log_parts parts, const sx_log_base *base) {
  return sx_fused(parts.f, sx_polynomial(base->terms, SX_LOG_TERMS, parts.f), parts.whole);
}
#else
enum { SX_LOG_TERMS = 6 };
/* log(1 + f) = s P(s^2), s = f / (2 + f). */
static const double sx_log_natural_terms[SX_LOG_TERMS] = {0x1.fffffffffff0fp+0, 0x1.5555555674531p-1,
                                                          0x1.999996250ce91p-2, 0x1.24943ae734d4ap-2,
                                                          0x1.c620078d13db3p-3, 0x1.919feeb846d71p-3};
static const double sx_log_binary_terms[SX_LOG_TERMS] = {0x1.71547652b8250p+1, 0x1.ec709dc53e4a4p-1,
                                                         0x1.2776c290e86f3p-1, 0x1.a61a30c574268p-2,
                                                         0x1.4794ffa52a317p-2, 0x1.21b60499b8666p-2};
static const sx_log_base sx_base_e = {0x1.62e42fefa39efp-1, NULL, sx_log_natural_terms};
static const sx_log_base sx_base_2 = {1.0, NULL, sx_log_binary_terms};

SX_INLINE sx_log_parts sx_log_split_at(sx_doubles u, const sx_log_base *base) {
  sx_longs bits = (sx_longs)u + sx_longs_spread((uint64_t)(0x3ff00000 - 0x3fe6a09e) << 32);
  sx_longs m = (bits & sx_longs_spread(((uint64_t)1 << 52) - 1)) + sx_longs_spread((uint64_t)0x3fe6a09e << 32);
  sx_longs exponent = (bits >> 52) | sx_longs_spread((uint64_t)0x43300000 << 32);
  sx_doubles k = (sx_doubles)exponent - sx_doubles_spread(0x1p52 + 1023.0);
  return (sx_log_parts){k * sx_doubles_spread(base->ln2), (sx_doubles)m - sx_doubles_spread(1.0)};
}

SX_INLINE sx_doubles sx_log_join(sx_log_parts parts, const sx_log_base *base) {
  sx_doubles s = parts.f / (parts.f + sx_doubles_spread(2.0));
  return sx_fused(s, sx_polynomial(base->terms, SX_LOG_TERMS, s * s), parts.whole);
}
#endif

SX_INLINE sx_doubles sx_log_of(sx_doubles u, const sx_log_base *base) {
  return sx_log_join(sx_log_split_at(u, base), base);
}

/* Doubts all but normal positive arguments. */
SX_INLINE sx_floats sx_registers_logarithm(sx_floats x, const sx_log_base *base, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x), value = {sx_log_of(at.low, base), sx_log_of(at.high, base)};
  sx_expect_less(doubt, (sx_ints)((sx_words)x + sx_words_spread(0x7f800000u)), sx_ints_spread(-0x1000000));
  return sx_round_doubting(value, 1u << 12, doubt);
}

SX_INLINE sx_floats sx_registers_log(sx_floats x, sx_doubt *doubt) {
  return sx_registers_logarithm(x, &sx_base_e, doubt);
}
SX_INLINE sx_floats sx_registers_log2(sx_floats x, sx_doubt *doubt) {
  return sx_registers_logarithm(x, &sx_base_2, doubt);
}

/* 1 + x, which is rounded where x is small: there x itself is f. */
SX_INLINE sx_doubles sx_log1p_of(sx_doubles x) {
  sx_log_parts parts = sx_log_split_at(x + sx_doubles_spread(1.0), &sx_base_e);
  sx_longs small = (sx_longs)((sx_doubles)((sx_longs)x & (uint64_t)INT64_MAX) < sx_doubles_spread(0x1p-6));
  parts.f = (sx_doubles)((small & (sx_longs)x) | (~small & (sx_longs)parts.f));
  return sx_log_join(parts, &sx_base_e);
}

/* Doubts x <= -1, infinity and NaN. */
SX_INLINE sx_floats sx_registers_log1p(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x), value = {sx_log1p_of(at.low), sx_log1p_of(at.high)};
  sx_ints positive = (sx_ints)x & INT32_MAX;
  sx_expect_less(doubt, positive, sx_ints_spread(0x7f800000));
  sx_expect_less(doubt, sx_ints_spread(-0x3f800001), (sx_ints)((sx_words)x - sx_words_spread(0x3f800000u)));
  return sx_signed_as(sx_round_doubting(value, 1u << 12, doubt), x);
}

/* ---- sin, cos, tan ------------------------------------------------------------------------------- */

/* Of r = x - n pi/2: base + base r^2 P(r^2), base r and P of the sine for even n, 1 and P of the cosine for odd. */
static const double sx_sine_terms[5][2] = {{-0x1.5555555552e37p-3, -0x1.fffffffff0216p-2},
                                           {0x1.1111110cdb0f2p-7, 0x1.55555547aa777p-5},
                                           {-0x1.a019f9455f855p-13, -0x1.6c16b3dd0bef8p-10},
                                           {0x1.71d75245a3856p-19, 0x1.a00ecbc85948bp-16},
                                           {-0x1.a950515393e7cp-26, -0x1.23c59ea666760p-22}};

/* x = pi/2 n + r: gives n in the low bits of the result. */
SX_INLINE sx_longs sx_quarters_of(sx_doubles x, sx_doubles *r) {
  sx_doubles round = sx_doubles_spread(SX_ROUND_F64);
  sx_doubles shifted = sx_fused(x, sx_doubles_spread(0x1.45f306dc9c883p-1), round), n = shifted - round;
#if SX_VECTOR_FUSED
  *r = sx_fused(n, sx_doubles_spread(-0x1.921fb54442d18p+0), x);
  *r = sx_fused(n, sx_doubles_spread(-0x1.1a62633145c07p-54), *r);
#else /* by parts of 33 bits, which leave 20 for n */
  *r = x - n * sx_doubles_spread(0x1.921fb54400000p+0);
  *r = *r - n * sx_doubles_spread(0x1.0b4611a600000p-34);
  *r = *r - n * sx_doubles_spread(0x1.3198a2e037073p-69);
#endif
  return (sx_longs)shifted;
}

/* The sine of pi/2 quarter + r. */
SX_INLINE sx_doubles sx_sine_from(sx_longs quarter, sx_doubles r) {
  sx_longs twice = quarter + quarter, odd = -(quarter & 1);
  sx_doubles z = r * r, p = sx_one_of_two(sx_sine_terms[4], twice);
  SX_UNROLL for (int i = 3; i >= 0; i--) p = sx_fused(p, z, sx_one_of_two(sx_sine_terms[i], twice));
  sx_doubles base = (sx_doubles)((odd & (sx_longs)sx_doubles_spread(1.0)) | (~odd & (sx_longs)r));
  sx_doubles value = sx_fused(base * z, p, base);
  return (sx_doubles)((sx_longs)value ^ ((twice & 4) << 61));
}

SX_INLINE sx_doubles sx_sine_of(sx_doubles x, uint64_t quarters) {
  sx_doubles r;
  sx_longs quarter = sx_quarters_of(x, &r);
  return sx_sine_from(quarter + sx_longs_spread(quarters), r);
}

SX_INLINE sx_doubles sx_tangent_of(sx_doubles x) {
  sx_doubles r;
  sx_longs quarter = sx_quarters_of(x, &r);
  return sx_sine_from(quarter, r) / sx_sine_from(quarter + sx_longs_spread(1), r);
}

/* The bits of the |x| from which on n pi/2 loses what r needs. */
enum { SX_TURNS_MOST = SX_VECTOR_FUSED ? 0x4c000000 : 0x49000000 };

/* Doubts |x| of 2^25 (2^19) and more. A zero is its own sine and tangent. */
SX_INLINE sx_floats sx_round_turned(sx_floats x, sx_halves value, uint32_t reach, sx_doubt *doubt) {
  sx_ints size = (sx_ints)x & INT32_MAX, zero = size == 0;
  sx_expect_less(doubt, size, sx_ints_spread(SX_TURNS_MOST));
  sx_ints y = (sx_ints)sx_round_doubting(value, reach, doubt);
  return (sx_floats)((zero & (sx_ints)x) | (~zero & y));
}

SX_INLINE sx_floats sx_registers_sin(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x), value = {sx_sine_of(at.low, 0), sx_sine_of(at.high, 0)};
  return sx_round_turned(x, value, 1u << 13, doubt);
}

SX_INLINE sx_floats sx_registers_tan(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x), value = {sx_tangent_of(at.low), sx_tangent_of(at.high)};
  return sx_round_turned(x, value, 1u << 14, doubt);
}

SX_INLINE sx_floats sx_registers_cos(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x), value = {sx_sine_of(at.low, 1), sx_sine_of(at.high, 1)};
  sx_expect_less(doubt, (sx_ints)x & INT32_MAX, sx_ints_spread(SX_TURNS_MOST));
  return sx_round_doubting(value, 1u << 13, doubt);
}

/* Of pi x, which needs no parts of pi: 2 x less its nearest integer is exact. A zero is that of `zero`. */
SX_INLINE sx_floats sx_sine_of_pi(sx_floats x, uint64_t quarters, sx_ints zero, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(x + x), value;
  sx_doubles round = sx_doubles_spread(SX_ROUND_F64), half_pi = sx_doubles_spread(0x1.921fb54442d18p+0);
  sx_doubles low = at.low + round, high = at.high + round;
  value.low = sx_sine_from((sx_longs)low + sx_longs_spread(quarters), (at.low - (low - round)) * half_pi);
  value.high = sx_sine_from((sx_longs)high + sx_longs_spread(quarters), (at.high - (high - round)) * half_pi);
  sx_expect_less(doubt, (sx_ints)x & INT32_MAX, sx_ints_spread(SX_TURNS_MOST));
  sx_ints y = (sx_ints)sx_round_doubting(value, 1u << 13, doubt), size = y & INT32_MAX, none = size == 0;
  sx_expect_nonzero(doubt, ((sx_words)size - sx_words_spread(1)) & sx_words_spread(0xff800000u));
  return (sx_floats)((none & zero) | (~none & y));
}

SX_INLINE sx_floats sx_registers_sinpi(sx_floats x, sx_doubt *doubt) {
  return sx_sine_of_pi(x, 0, (sx_ints)x & INT32_MIN, doubt);
}

SX_INLINE sx_floats sx_registers_cospi(sx_floats x, sx_doubt *doubt) {
  return sx_sine_of_pi(x, 1, sx_ints_spread(0), doubt);
}

/* ---- erf ----------------------------------------------------------------------------------------- */

/* erf x = |x| P(|x|) with the sign of x, up to 3.9375, beyond which it is 1. With tables P is a polynomial of
 * |x| - n/3.9, n the nearest; without, one of x^2/8 - 1. */
#if defined(__AVX512F__)
enum { SX_ERF_TERMS = 9 };
static const double sx_erf_terms[SX_ERF_TERMS][16] = {
    {0x1.20dd750429b5bp+0, 0x1.1aa84bb762f56p+0, 0x1.096bea42d4a6ep+0, 0x1.e174c66ff3e9bp-1, 0x1.a9dac3d085ab3p-1,
     0x1.737a4f4b960bcp-1, 0x1.42f4f5645f44ap-1, 0x1.1a14734f76405p-1, 0x1.f157c2c019f08p-2, 0x1.bb3ec1e994807p-2,
     0x1.8f3ec0d67d928p-2, 0x1.6b07caad3a4dcp-2, 0x1.4ccba5cde17d7p-2, 0x1.3333024ef954cp-2, 0x1.1d41cceeee91ep-2,
     0x1.0a3d6fb4e36cap-2},
    {-0x1.15c4bf201f102p-156, -0x1.7bce4f19c8de7p-3, -0x1.522c46256f401p-2, -0x1.a48f3aa9890d9p-2,
     -0x1.b4f3167fac83ep-2, -0x1.9551252bdb54ap-2, -0x1.5d6a2f1e7d977p-2, -0x1.20a2f016bb74ep-2, -0x1.d4256bcddf90dp-3,
     -0x1.7b45d5e881927p-3, -0x1.36275541acafep-3, -0x1.012258700db7bp-3, -0x1.b0849b44d208cp-4, -0x1.709e4e4d04235p-4,
     -0x1.3ddac5837461cp-4, -0x1.14e39e387aeaap-4},
    {-0x1.812746b00b3f0p-2, -0x1.5550a803baf61p-2, -0x1.c9a76048def14p-3, -0x1.72b5ef6f1f6acp-4, 0x1.67859bb0cd22bp-6,
     0x1.7350bb6224392p-4, 0x1.db117b2ee0643p-4, 0x1.cadeaba0c61a3p-4, 0x1.83abc3de789ffp-4, 0x1.32365b1e829afp-4,
     0x1.d6f111287d321p-5, 0x1.696b990b53212p-5, 0x1.186c01bec33c9p-5, 0x1.ba10d591d3a43p-6, 0x1.62224d5152803p-6,
     0x1.1ff52e8ee429dp-6},
    {0x1.36e850dbc27e9p-147, 0x1.b63b05d660261p-4, 0x1.590aa89ff1d62p-3, 0x1.569c66e9fe540p-3, 0x1.eb7c793a0b2eap-4,
     0x1.e3358e262acbep-5, 0x1.4e96243606a6ep-7, -0x1.1519d5ba9ccfdp-6, -0x1.a8793b2ff9c4ap-6, -0x1.955ba6f8551a6p-6,
     -0x1.46979a5b0912dp-6, -0x1.e9b401b5d6213p-7, -0x1.66fe4486c6604p-7, -0x1.081114389b44fp-7, -0x1.8a2cf6639193cp-8,
     -0x1.2b683888983bbp-8},
    {0x1.ce2f208141c92p-4, 0x1.67edf718e5ecbp-4, 0x1.dd98c1767dbdep-6, -0x1.d1c289b78f1bbp-6, -0x1.dc37ed090b295p-5,
     -0x1.ce73c798a3c33p-5, -0x1.30d790ad6ececp-5, -0x1.0cd698cee3edfp-6, -0x1.4add81853ab44p-9, 0x1.e782f870ca5f4p-9,
     0x1.4ef1945bef145p-8, 0x1.236c8d9d2c04ep-8, 0x1.b4513f0bd3509p-9, 0x1.35cc708d652f1p-9, 0x1.b461875387b8dp-10,
     0x1.36e3e43b6c48fp-10},
    {-0x1.462f097521d78p-140, -0x1.2c16e5fde00ebp-5, -0x1.99d760e46201bp-5, -0x1.27c19bbac2244p-5,
     -0x1.43eb619c7ffd4p-7, 0x1.575e62840e7b7p-7, 0x1.1bd3157c0143ap-6, 0x1.cbf51e7e961c0p-7, 0x1.f1c5dc9a5a1d9p-8,
     0x1.4ee76035f244bp-9, -0x1.01a1979e61ff5p-17, -0x1.b07e49627f415p-11, -0x1.bc5a046132a5ap-11,
     -0x1.539f614ca2f5ap-11, -0x1.d7fdea45b6630p-12, -0x1.409f2fe7ba3a5p-12},
    {-0x1.b82a46f382fd8p-6, -0x1.26d0e90a356e6p-6, 0x1.0975d538f95d2p-10, 0x1.f3d34d003dfc9p-7, 0x1.11954981f6953p-6,
     0x1.2545b640fa178p-7, 0x1.b1b44d55303adp-12, -0x1.f9fdb859e9312p-9, -0x1.070671126f0d5p-8, -0x1.4083a3039c757p-9,
     -0x1.01ea54c8ac312p-10, -0x1.886c7e6e16309p-13, 0x1.965a282799389p-14, 0x1.26ecbc5080be2p-13,
     0x1.d5cd4889f57adp-14, 0x1.41af61974782bp-14},
    {0x1.6cb77965d2cebp-135, 0x1.27aaa588f89bdp-7, 0x1.5798383c1d424p-7, 0x1.2848b715fdce2p-8, -0x1.42fe555e25858p-9,
     -0x1.56b229c79ab6cp-8, -0x1.ec692eef49e94p-9, -0x1.148e36b7281c6p-10, 0x1.40f2629f6733cp-11, 0x1.ef678f7fe8466p-11,
     0x1.4c52cd6e99302p-11, 0x1.2092c42decd3cp-12, 0x1.289f6b9530e80p-14, -0x1.5c17a098e88bcp-18,
     -0x1.596520c7c6150p-16, -0x1.24f213a5bffb9p-16},
    {0x1.53d3a12c6e545p-8, 0x1.7ec47ac35e47dp-9, -0x1.823dc9dfe3ecbp-10, -0x1.ebef8ff4f781dp-9, -0x1.53d50e1289b34p-9,
     -0x1.f2028100893c3p-14, 0x1.4f6c875499b52p-10, 0x1.30bceac23a476p-10, 0x1.d527855c7d2ddp-12,
     -0x1.edeb119ac9e8cp-15, -0x1.98803f6930517p-13, -0x1.2683c26d04f2cp-13, -0x1.05e28075d2e63p-14,
     -0x1.24c9572c158c2p-16, -0x1.cdef22b5509dep-21, 0x1.708eb8b26f377p-19},
};

SX_INLINE sx_doubles sx_erf_of(sx_doubles a) {
  sx_doubles round = sx_doubles_spread(SX_ROUND_F64);
  sx_doubles shifted = sx_fused(a, sx_doubles_spread(3.9), round);
  sx_doubles h = sx_fused(shifted - round, sx_doubles_spread(-1.0 / 3.9), a);
  sx_longs n = (sx_longs)shifted;
  sx_doubles sum = (sx_doubles)sx_entry(sx_erf_terms[SX_ERF_TERMS - 1], n);
  SX_UNROLL for (int i = SX_ERF_TERMS - 2; i >= 0; i--) sum =
      sx_fused(sum, h, (sx_doubles)sx_entry(sx_erf_terms[i], n));
  return a * sum;
}
#else
enum { SX_ERF_TERMS = 23 };
static const double sx_erf_terms[SX_ERF_TERMS] = {
    0x1.6a040781a4813p-2,  -0x1.69a0ccda47e17p-3,  0x1.0dabaf06501d9p-3,  -0x1.b92e95ba4976cp-4,
    0x1.717efc60529eep-4,  -0x1.3215d98133df7p-4,  0x1.ea97f4f521a7ep-5,  -0x1.76e8507923485p-5,
    0x1.0ed5078ef1d0bp-5,  -0x1.703616dda65d1p-6,  0x1.d63873af7954cp-7,  -0x1.19f89e0510c13p-7,
    0x1.3dfd6049f17fap-8,  -0x1.525902b6ae2ddp-9,  0x1.53b61d4857b51p-10, -0x1.3e5d314c6ac14p-11,
    0x1.1bb5708aaccabp-12, -0x1.04e3571ca8893p-13, 0x1.b9dc826efe337p-15, -0x1.cab03d83f04ecp-17,
    0x1.0e50db8bea640p-18, -0x1.2516389782bbbp-18, 0x1.c9b5be00d6283p-20};

SX_INLINE sx_doubles sx_erf_of(sx_doubles a) {
  sx_doubles t = sx_fused(a * a, sx_doubles_spread(0.125), sx_doubles_spread(-1.0)), z = t * t;
  sx_doubles even = sx_doubles_spread(sx_erf_terms[SX_ERF_TERMS - 1]);
  sx_doubles odd = sx_doubles_spread(sx_erf_terms[SX_ERF_TERMS - 2]);
  SX_UNROLL for (int i = SX_ERF_TERMS - 3; i > 0; i -= 2) {
    even = sx_fused(even, z, sx_doubles_spread(sx_erf_terms[i]));
    odd = sx_fused(odd, z, sx_doubles_spread(sx_erf_terms[i - 1]));
  }
  even = sx_fused(even, z, sx_doubles_spread(sx_erf_terms[0]));
  return a * sx_fused(odd, t, even);
}
#endif

SX_INLINE sx_floats sx_registers_erf(sx_floats x, sx_doubt *doubt) {
  sx_halves at = sx_doubles_of(sx_bounded((sx_floats)((sx_ints)x & INT32_MAX), 0.0f, 3.9375f));
  sx_halves value = {sx_erf_of(at.low), sx_erf_of(at.high)};
  return sx_quiet(x, sx_signed_as(sx_round_positive(value, 1u << 13, doubt), x));
}

/* ---- blocks -------------------------------------------------------------------------------------- */

/* sx_try_NAME(y, x, n) fills y with the function of x, n a multiple of two registers, y and x apart; false where an
 * element may be wrong. */
#define SX_TRY_FUNCTION(name, registers)                              \
  SX_INLINE bool sx_try_##name(float *y, const float *x, int64_t n) { \
    sx_doubt doubt = {sx_words_spread(UINT32_MAX)};                   \
    for (int64_t i = 0; i < n; i += 2 * SX_LANES) {                   \
      sx_floats first = registers(sx_floats_load(x + i), &doubt);     \
      sx_floats second = sx_floats_load(x + i + SX_LANES);            \
      sx_floats_store(y + i, first);                                  \
      second = registers(second, &doubt);                             \
      sx_floats_store(y + i + SX_LANES, second);                      \
    }                                                                 \
    return !sx_any_zero(doubt.least);                                 \
  }
#if SX_VECTOR_TABLES
SX_TRY_FUNCTION(exp_in_pairs, sx_pair_exp)
SX_TRY_FUNCTION(exp_in_doubles, sx_registers_exp)
SX_INLINE bool sx_try_exp(float *y, const float *x, int64_t n) {
  return sx_try_exp_in_pairs(y, x, n) || sx_try_exp_in_doubles(y, x, n);
}
#else
SX_TRY_FUNCTION(exp, sx_registers_exp)
#endif
SX_TRY_FUNCTION(exp2, sx_registers_exp2)
SX_TRY_FUNCTION(expm1, sx_registers_expm1)
SX_TRY_FUNCTION(tanh, sx_registers_tanh)
SX_TRY_FUNCTION(erf, sx_registers_erf)
SX_TRY_FUNCTION(log, sx_registers_log)
SX_TRY_FUNCTION(log2, sx_registers_log2)
SX_TRY_FUNCTION(log1p, sx_registers_log1p)
SX_TRY_FUNCTION(sin, sx_registers_sin)
SX_TRY_FUNCTION(cos, sx_registers_cos)
SX_TRY_FUNCTION(tan, sx_registers_tan)
SX_TRY_FUNCTION(sinpi, sx_registers_sinpi)
SX_TRY_FUNCTION(cospi, sx_registers_cospi)
#define SX_TRY(name, y, x, n) sx_try_##name(y, x, n)

#else
#define SX_TRY(name, y, x, n) ((void)(y), (void)(x), false)
#endif

/* y = the function of x for n elements, a multiple of SX_BLOCK; y and x are the same or apart. */
#define SX_EACH_EXACT(name, y, x, n)                   \
  for (int64_t each = 0; each < (n); each += SX_BLOCK) \
    SX_VECTOR_LOOP for (int64_t j = each; j < each + SX_BLOCK; j++)(y)[j] = sx_##name##_f32((x)[j]);

#endif
