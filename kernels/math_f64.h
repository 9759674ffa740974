/* exp, log, sin, cos, pow of binary64 for compile-time reals.
 *
 * The same bits on every machine, error under 1 ulp, special cases of C17
 * Annex F, every NaN 0x7ff8000000000000. Only + - * / and integer operations;
 * sums that need more than 53 bits are carried as an unevaluated pair
 * hi + lo (Dekker, "A floating-point technique for extending the available
 * precision", 1971). Scalar code with branches; the build rules of math.h
 * hold. For the host; NVRTC compiles it too.
 */
#ifndef SX_KERNELS_MATH_F64_H
#define SX_KERNELS_MATH_F64_H

#include "math.h"

#ifdef __CUDACC_RTC__
#define SX_MATH_F64 static __device__
#else
#define SX_MATH_F64 static inline
#endif

#define SX_NAN_F64 0x7ff8000000000000u
#define SX_INFINITY_F64 0x7ff0000000000000u

struct sx_pair {
  double hi, lo;
};

/* ---- Pairs -------------------------------------------------------------- */

/* a + b exactly, |a| >= |b| or a = 0. */
SX_MATH struct sx_pair sx_pair_fast_sum(double a, double b) {
  struct sx_pair r;
  r.hi = a + b;
  r.lo = b - (r.hi - a);
  return r;
}

/* a + b exactly. */
SX_MATH struct sx_pair sx_pair_sum(double a, double b) {
  struct sx_pair r;
  r.hi = sx_two_sum(a, b, &r.lo);
  return r;
}

/* a b exactly, where neither the products nor 2^27 a, 2^27 b leave the range. */
SX_MATH struct sx_pair sx_pair_product(double a, double b) {
  double a_scaled = a * 134217729.0, b_scaled = b * 134217729.0;
  double a_hi = a_scaled - (a_scaled - a), b_hi = b_scaled - (b_scaled - b);
  double a_lo = a - a_hi, b_lo = b - b_hi;
  struct sx_pair r;
  r.hi = a * b;
  r.lo = ((a_hi * b_hi - r.hi) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo;
  return r;
}

SX_MATH struct sx_pair sx_pair_add(struct sx_pair a, struct sx_pair b) {
  struct sx_pair sum = sx_pair_sum(a.hi, b.hi);
  return sx_pair_fast_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

SX_MATH struct sx_pair sx_pair_multiply(struct sx_pair a, struct sx_pair b) {
  struct sx_pair product = sx_pair_product(a.hi, b.hi);
  return sx_pair_fast_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

/* ---- exp ---------------------------------------------------------------- */

/* 2^k, -1022 <= k <= 1023. */
SX_MATH double sx_power_of_two_f64(int k) { return sx_from_bits_f64((uint64_t)(k + 1023) << 52); }

/* exp(hi + lo), |lo| <= ulp(hi). */
SX_MATH_F64 double sx_exp_pair_f64(double hi, double lo) {
  if (hi > 710.0) return sx_from_bits_f64(SX_INFINITY_F64);
  if (hi < -746.0) return 0.0;
  double shifted = hi * 0x1.71547652b82fep+0 + SX_ROUND_F64;
  double kd = shifted - SX_ROUND_F64;
  int k = (int)kd;
  struct sx_pair r = sx_pair_sum(hi - kd * 0x1.62e42fefa2p-1, lo - kd * 0x1.9ef35793c7673p-41);
  double tail = r.hi * r.hi * sx_expm1_series(r.hi);
  struct sx_pair sum = sx_pair_fast_sum(1.0, r.hi);
  double value = sum.hi + (sum.lo + (tail + r.lo * sum.hi));
  int half = k / 2;
  return value * sx_power_of_two_f64(half) * sx_power_of_two_f64(k - half);
}

SX_MATH_F64 double sx_exp_f64(double x) {
  if (x != x) return sx_from_bits_f64(SX_NAN_F64);
  return sx_exp_pair_f64(x, 0.0);
}

/* ---- log ---------------------------------------------------------------- */

/* x = 2^k (1 + f) for a positive finite x. */
SX_MATH_F64 double sx_log_split_any(double x, double *f) {
  if (x < 0x1p-1022) return sx_log_split(x * 0x1p54, f) - 54.0;
  return sx_log_split(x, f);
}

/* The logarithm of a number that has no finite one. */
SX_MATH_F64 double sx_log_special_f64(double x) {
  if (x == 0.0) return sx_from_bits_f64(SX_INFINITY_F64 | (uint64_t)1 << 63);
  return x > 0.0 ? x : sx_from_bits_f64(SX_NAN_F64);
}

SX_MATH_F64 int sx_log_is_special_f64(double x) { return !(x > 0.0) || sx_bits_f64(x) == SX_INFINITY_F64; }

SX_MATH_F64 double sx_log_f64(double x) {
  if (sx_log_is_special_f64(x)) return sx_log_special_f64(x);
  double f;
  double k = sx_log_split_any(x, &f);
  double half_square = 0.5 * f * f;
  double tail = sx_log_tail(f, half_square);
  struct sx_pair sum = sx_pair_fast_sum(k * 0x1.62e42fefa2p-1, f);
  return sum.hi + (sum.lo + (k * 0x1.9ef35793c7673p-41 + (tail - half_square)));
}

/* log x to about 2^-68 of itself, x positive and finite:
 * k ln 2 + 2 s + s z (2/3 + z (2/5 + z P(z))), s = f / (2 + f), z = s^2. */
SX_MATH_F64 struct sx_pair sx_log_pair_f64(double x) {
  double f;
  double k = sx_log_split_any(x, &f);
  struct sx_pair divisor = sx_pair_fast_sum(2.0, f);
  struct sx_pair s;
  s.hi = f / divisor.hi;
  struct sx_pair product = sx_pair_product(s.hi, divisor.hi);
  s.lo = (((f - product.hi) - product.lo) - s.hi * divisor.lo) / divisor.hi;
  struct sx_pair z = sx_pair_multiply(s, s);
  double p = 0x1.b63d03f32b796p-4;
  p = p * z.hi + 0x1.ac9968d9792bbp-4;
  p = p * z.hi + 0x1.e1f429bdf2559p-4;
  p = p * z.hi + 0x1.1110ebfed26bdp-3;
  p = p * z.hi + 0x1.3b13b1904e7b5p-3;
  p = p * z.hi + 0x1.745d1745697acp-3;
  p = p * z.hi + 0x1.c71c71c71caadp-3;
  p = p * z.hi + 0x1.2492492492492p-2;
  struct sx_pair two_fifths = {0x1.999999999999ap-2, -0x1.999999999999ap-56};
  struct sx_pair two_thirds = {0x1.5555555555555p-1, 0x1.5555555555555p-55};
  struct sx_pair series = sx_pair_add(two_fifths, sx_pair_product(z.hi, p));
  series = sx_pair_add(two_thirds, sx_pair_multiply(z, series));
  series = sx_pair_multiply(sx_pair_multiply(s, z), series);
  struct sx_pair twice_s = {2.0 * s.hi, 2.0 * s.lo};
  struct sx_pair log_m = sx_pair_add(twice_s, series);
  struct sx_pair k_ln2_hi = {k * 0x1.62e42fefa3p-1, 0.0};
  struct sx_pair k_ln2 = sx_pair_add(k_ln2_hi, sx_pair_product(k, 0x1.3de6af278ece6p-42));
  return sx_pair_add(k_ln2, log_m);
}

/* ---- sin, cos ----------------------------------------------------------- */

/* 64 zero bits, then the first 1216 bits of 2/pi. */
SX_TABLE uint64_t sx_two_over_pi_bits[20] = {
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, 0xfe5163abdebbc561u,
    0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, 0xe88235f52ebb4484u, 0xe99c7026b45f7e41u,
    0x3991d639835339f4u, 0x9c845f8bbdf9283bu, 0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u,
    0x4f463f669e5fea2du, 0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu,
};

/* m times the 192 bits from bit `start` of sx_two_over_pi_bits, modulo 2^192,
 * in 32-bit limbs, lowest first; m < 2^53. */
SX_MATH_F64 void sx_pi_window_product(uint64_t m, uint32_t start, uint32_t limbs[6]) {
  uint64_t carry = 0;
  uint64_t m_lo = m & 0xffffffffu, m_hi = m >> 32, previous = 0;
  for (int i = 0; i < 6; i++) {
    uint32_t bit = start + 160 - 32 * (uint32_t)i;
    uint64_t word = sx_two_over_pi_bits[bit / 64] << bit % 64;
    if (bit % 64 != 0 && bit / 64 + 1 < 20) word |= sx_two_over_pi_bits[bit / 64 + 1] >> (64 - bit % 64);
    uint64_t limb = word >> 32;
    uint64_t low = limb * m_lo, high = previous * m_hi;
    uint64_t sum = (low & 0xffffffffu) + (high & 0xffffffffu) + (carry & 0xffffffffu);
    limbs[i] = (uint32_t)sum;
    carry = (sum >> 32) + (low >> 32) + (high >> 32) + (carry >> 32);
    previous = limb;
  }
}

/* x = pi/2 (4n + quarter) + r, |r| <= pi/4, pi/4 < |x| finite. The product of
 * x and 2/pi is formed in integers modulo 4 with 190 bits of fraction, from
 * the bits of 2/pi that matter at this exponent (Payne and Hanek, 1983). */
SX_MATH_F64 struct sx_pair sx_pi_reduce_f64(double x, uint32_t *quarter) {
  uint64_t bits = sx_bits_f64(x);
  uint64_t m = (bits & 0x000fffffffffffffu) | 0x0010000000000000u;
  int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  uint32_t limbs[6];
  sx_pi_window_product(m, (uint32_t)(exponent + 62), limbs);
  uint32_t turns = limbs[5] >> 30;
  uint32_t past_half = limbs[5] >> 29 & 1;
  uint32_t flip = 0u - past_half;
  double weight = 0x1p-190;
  struct sx_pair y = {0.0, 0.0};
  uint64_t carry = past_half;
  limbs[5] &= 0x3fffffffu;
  for (int i = 0; i < 6; i++) {
    uint64_t limb = (uint64_t)(limbs[i] ^ (i == 5 ? flip & 0x3fffffffu : flip)) + carry;
    carry = limb >> 32;
    struct sx_pair sum = sx_pair_fast_sum((double)(limb & 0xffffffffu) * weight, y.hi);
    y = sx_pair_fast_sum(sum.hi, sum.lo + y.lo);
    weight = weight * 0x1p32;
  }
  double sign = past_half != 0 ? -1.0 : 1.0;
  *quarter = turns + past_half;
  if (bits >> 63 != 0) {
    sign = -sign;
    *quarter = 0u - *quarter;
  }
  struct sx_pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
  y.hi = y.hi * sign;
  y.lo = y.lo * sign;
  return sx_pair_multiply(y, half_pi);
}

/* sin(hi + lo), |hi| <= pi/4. */
SX_MATH_F64 double sx_sin_pair_f64(struct sx_pair r) {
  double z = r.hi * r.hi;
  double p = -0x1.8dbfe03ada7bfp-41;
  p = p * z + 0x1.60e68e35f2e65p-33;
  p = p * z + -0x1.ae63f8fff3016p-26;
  p = p * z + 0x1.71de3a10d3473p-19;
  p = p * z + -0x1.a01a019fe8db5p-13;
  p = p * z + 0x1.111111111101fp-7;
  p = p * z + -0x1.5555555555555p-3;
  return r.hi + (r.lo * (1.0 - 0.5 * z) + r.hi * z * p);
}

/* cos(hi + lo), |hi| <= pi/4. */
SX_MATH_F64 double sx_cos_pair_f64(struct sx_pair r) {
  struct sx_pair z = sx_pair_product(r.hi, r.hi);
  double p = 0x1.359a2063e29c9p-45;
  p = p * z.hi + -0x1.92a7ff17726a3p-37;
  p = p * z.hi + 0x1.1eecd70dbb05cp-29;
  p = p * z.hi + -0x1.27e4faef77945p-22;
  p = p * z.hi + 0x1.a01a019fb80cfp-16;
  p = p * z.hi + -0x1.6c16c16c16a33p-10;
  p = p * z.hi + 0x1.5555555555555p-5;
  struct sx_pair first = sx_pair_fast_sum(1.0, -0.5 * z.hi);
  return first.hi + (first.lo + (z.hi * z.hi * p - (0.5 * z.lo + r.hi * r.lo)));
}

/* sin(x + shift pi/2). */
SX_MATH_F64 double sx_sin_shifted_f64(double x, uint32_t shift) {
  double magnitude = sx_abs_f64(x);
  if (!(magnitude < sx_from_bits_f64(SX_INFINITY_F64))) return sx_from_bits_f64(SX_NAN_F64);
  struct sx_pair r = {x, 0.0};
  uint32_t quarter = 0;
  if (magnitude > 0.785) r = sx_pi_reduce_f64(x, &quarter);
  quarter = quarter + shift;
  double value = (quarter & 1) != 0 ? sx_cos_pair_f64(r) : sx_sin_pair_f64(r);
  return (quarter & 2) != 0 ? -value : value;
}

SX_MATH_F64 double sx_sin_f64(double x) { return sx_abs_f64(x) < 0x1p-27 ? x : sx_sin_shifted_f64(x, 0); }

SX_MATH_F64 double sx_cos_f64(double x) { return sx_sin_shifted_f64(x, 1); }

/* ---- pow ---------------------------------------------------------------- */

/* 0 for a y that is no integer, 1 for an odd, 2 for an even one. */
SX_MATH_F64 int sx_integer_kind_f64(double y) {
  double a = sx_abs_f64(y);
  if (a >= 0x1p53) return 2;
  double whole = (double)(int64_t)a;
  if (whole != a) return 0;
  return ((int64_t)a & 1) != 0 ? 1 : 2;
}

/* |x|^y where the sign is settled and x, y are neither NaN nor trivial. */
SX_MATH_F64 double sx_pow_magnitude_f64(double a, double y) {
  double infinity = sx_from_bits_f64(SX_INFINITY_F64);
  if (a == 0.0 || a == infinity) return (a == 0.0) == (y < 0.0) ? infinity : 0.0;
  if (sx_abs_f64(y) == infinity) return (a > 1.0) == (y > 0.0) ? infinity : 0.0;
  struct sx_pair log_a = sx_log_pair_f64(a);
  double estimate = y * log_a.hi;
  if (sx_abs_f64(estimate) > 800.0) return estimate > 0.0 ? infinity : 0.0;
  if (sx_abs_f64(estimate) < 0x1p-60) return 1.0 + estimate;
  struct sx_pair exponent = sx_pair_product(y, log_a.hi);
  exponent = sx_pair_fast_sum(exponent.hi, exponent.lo + y * log_a.lo);
  return sx_exp_pair_f64(exponent.hi, exponent.lo);
}

SX_MATH_F64 double sx_pow_f64(double x, double y) {
  double a = sx_abs_f64(x);
  if (x == 1.0 || y == 0.0) return 1.0;
  if (x != x || y != y) return sx_from_bits_f64(SX_NAN_F64);
  if (a == 1.0 && sx_abs_f64(y) == sx_from_bits_f64(SX_INFINITY_F64)) return 1.0;
  int kind = sx_integer_kind_f64(y);
  int negative = (int)(sx_bits_f64(x) >> 63);
  if (negative && kind == 0 && a != 0.0 && sx_bits_f64(a) != SX_INFINITY_F64) return sx_from_bits_f64(SX_NAN_F64);
  double power = a == 1.0 ? 1.0 : sx_pow_magnitude_f64(a, y);
  return negative && kind == 1 ? -power : power;
}

#endif
