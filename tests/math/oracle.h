/* The truth about the one-argument functions of kernels/math.h.
 *
 * sx_oracle_table names each function with an array form of it (so that
 * vectorized code is what gets tested), a binary64 form from the platform's
 * libm, and MPFR's. sx_oracle_judge compares one result: the binary64 value
 * decides unless it lies within a few ulp of a rounding boundary of f32 or
 * disagrees; then MPFR decides, with 160 bits. Included by one .c file each.
 */
#ifndef SX_TESTS_ORACLE_H
#define SX_TESTS_ORACLE_H

#include <math.h>
#include <mpfr.h>
#include <stddef.h>
#include <stdint.h>

#include "../../kernels/math.h"

#define SX_ORACLE_PRECISION 160

struct sx_oracle {
  const char *name;
  void (*evaluate)(const float *in, float *out, size_t n);
  double (*libm)(double);
  int (*mpfr)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
};

struct sx_verdict {
  uint32_t right;
  int asked_mpfr;
};

/* The loops keep a constant trip count inside, as an array kernel's tiles. */
#define SX_ORACLE_TILE 256
#define SX_ORACLE_EVALUATE(name)                                                           \
  static void sx_evaluate_##name(const float *in, float *out, size_t n) {                  \
    size_t i = 0;                                                                          \
    for (; i + SX_ORACLE_TILE <= n; i += SX_ORACLE_TILE)                                   \
      for (size_t j = 0; j < SX_ORACLE_TILE; j++) out[i + j] = sx_##name##_f32(in[i + j]); \
    for (; i < n; i++) out[i] = sx_##name##_f32(in[i]);                                    \
  }

SX_ORACLE_EVALUATE(exp)
SX_ORACLE_EVALUATE(exp2)
SX_ORACLE_EVALUATE(expm1)
SX_ORACLE_EVALUATE(log)
SX_ORACLE_EVALUATE(log2)
SX_ORACLE_EVALUATE(log1p)
SX_ORACLE_EVALUATE(sin)
SX_ORACLE_EVALUATE(cos)
SX_ORACLE_EVALUATE(tan)
SX_ORACLE_EVALUATE(sinpi)
SX_ORACLE_EVALUATE(cospi)
SX_ORACLE_EVALUATE(tanh)
SX_ORACLE_EVALUATE(erf)
SX_ORACLE_EVALUATE(sqrt)

/* sin(pi x) for an f32 x by exact folding to |x| <= 1/4. */
static double sx_libm_sinpi(double x) {
  double r = fmod(x, 2.0);
  double a = fabs(r);
  double sign = copysign(1.0, r);
  if (a >= 1.0) {
    a -= 1.0;
    sign = -sign;
  }
  if (a == 0.0) return copysign(0.0, x);
  if (a > 0.5) a = 1.0 - a;
  return sign * (a <= 0.25 ? sin(3.141592653589793 * a) : cos(3.141592653589793 * (0.5 - a)));
}

static double sx_libm_cospi(double x) {
  double a = fmod(fabs(x), 2.0);
  if (a > 1.0) a = 2.0 - a;
  if (a == 0.5) return 0.0;
  double sign = a > 0.5 ? -1.0 : 1.0;
  if (a > 0.5) a = 1.0 - a;
  return sign * (a <= 0.25 ? cos(3.141592653589793 * a) : sin(3.141592653589793 * (0.5 - a)));
}

static const struct sx_oracle sx_oracle_table[] = {
    {"exp", sx_evaluate_exp, exp, mpfr_exp},
    {"exp2", sx_evaluate_exp2, exp2, mpfr_exp2},
    {"expm1", sx_evaluate_expm1, expm1, mpfr_expm1},
    {"log", sx_evaluate_log, log, mpfr_log},
    {"log2", sx_evaluate_log2, log2, mpfr_log2},
    {"log1p", sx_evaluate_log1p, log1p, mpfr_log1p},
    {"sin", sx_evaluate_sin, sin, mpfr_sin},
    {"cos", sx_evaluate_cos, cos, mpfr_cos},
    {"tan", sx_evaluate_tan, tan, mpfr_tan},
    {"sinpi", sx_evaluate_sinpi, sx_libm_sinpi, mpfr_sinpi},
    {"cospi", sx_evaluate_cospi, sx_libm_cospi, mpfr_cospi},
    {"tanh", sx_evaluate_tanh, tanh, mpfr_tanh},
    {"erf", sx_evaluate_erf, erf, mpfr_erf},
    {"sqrt", sx_evaluate_sqrt, sqrt, mpfr_sqrt},
};

#define SX_ORACLE_COUNT (sizeof sx_oracle_table / sizeof sx_oracle_table[0])

static uint32_t sx_oracle_bits(float x) { return x != x ? SX_NAN_F32 : sx_bits_f32(x); }

/* The correctly rounded f32 by MPFR; `scratch` is two initialized numbers. */
static uint32_t sx_oracle_mpfr(const struct sx_oracle *function, float x, mpfr_t scratch[2]) {
  mpfr_set_flt(scratch[0], x, MPFR_RNDN);
  function->mpfr(scratch[1], scratch[0], MPFR_RNDN);
  return sx_oracle_bits(mpfr_get_flt(scratch[1], MPFR_RNDN));
}

/* Whether an f32 rounding boundary lies within 4 ulp of binary64. */
static int sx_oracle_near_boundary(double value) {
  double reach = fabs(value) * 0x1p-50;
  return isfinite(value) && (float)(value - reach) != (float)(value + reach);
}

static struct sx_verdict sx_oracle_judge(const struct sx_oracle *function, float x, float got, mpfr_t scratch[2]) {
  double value = function->libm((double)x);
  struct sx_verdict verdict = {sx_oracle_bits((float)value), 0};
  if (verdict.right != sx_bits_f32(got) || sx_oracle_near_boundary(value)) {
    verdict.right = sx_oracle_mpfr(function, x, scratch);
    verdict.asked_mpfr = 1;
  }
  return verdict;
}

#endif
