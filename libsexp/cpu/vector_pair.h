/* e^x in pairs of f32, without binary64: 2^(n/STEPS) (1 + r_high + q), every rounding error but the least of the
 * leading product kept beside it. The sum is good to about 2^-36, so that one block of some dozen is in doubt
 * (vector_math.h), and a register takes half the time that two of binary64 do. */
#ifndef SX_CPU_VECTOR_PAIR_H
#define SX_CPU_VECTOR_PAIR_H

#include "vector_double.h"

#if SX_VECTOR_MATH && SX_VECTOR_TABLES

/* The bits of T = 2^(j/STEPS) rounded to f32, less those of the exponent that adding j << SX_PAIR_SHIFT puts in; and
 * j ln 2 / STEPS - log T. */
#if defined(__AVX512F__)
enum { SX_PAIR_STEPS = 32, SX_PAIR_SHIFT = 18 };
static const uint32_t sx_pair_powers[SX_PAIR_STEPS] = {
    0x3f800000u, 0x3f7ecd87u, 0x3f7daac3u, 0x3f7c980fu, 0x3f7b95c2u, 0x3f7aa43au, 0x3f79c3d3u, 0x3f78f4f0u,
    0x3f7837f0u, 0x3f778d3au, 0x3f76f532u, 0x3f767043u, 0x3f75fed7u, 0x3f75a15bu, 0x3f75583fu, 0x3f7523f6u,
    0x3f7504f3u, 0x3f74fbafu, 0x3f7508a4u, 0x3f752c4du, 0x3f75672au, 0x3f75b9beu, 0x3f76248cu, 0x3f76a81eu,
    0x3f7744fdu, 0x3f77fbb8u, 0x3f78ccdfu, 0x3f79b907u, 0x3f7ac0c7u, 0x3f7be4bau, 0x3f7d257du, 0x3f7e83b3u};
static const float sx_pair_rests[SX_PAIR_STEPS] = {
    0x0.0p+0f,        -0x1.947416p-25f, 0x1.8d96d4p-25f,  -0x1.dda2fep-25f, -0x1.9c0c22p-27f, -0x1.a2fbb4p-25f,
    0x1.964902p-25f,  -0x1.2b0dbcp-25f, 0x1.125002p-25f,  -0x1.cde8cep-26f, 0x1.370be4p-25f,  0x1.336de2p-30f,
    -0x1.0a3552p-25f, -0x1.c541b6p-26f, -0x1.00d8acp-27f, -0x1.6cb284p-25f, 0x1.26055cp-26f,  0x1.8b2bb8p-26f,
    -0x1.05cb44p-25f, -0x1.1c2142p-26f, 0x1.67a1cap-28f,  -0x1.348e56p-25f, 0x1.a3b5e4p-28f,  -0x1.0b7ec8p-25f,
    -0x1.f9c306p-27f, -0x1.e4c886p-26f, -0x1.6961b4p-28f, -0x1.b5151ep-28f, -0x1.a5217cp-28f, -0x1.ab7132p-26f,
    0x1.61428ep-28f,  -0x1.2ad5f8p-27f};
/* e^r = 1 + r + r^2 / 2 + r^3 P(r). */
static const float sx_pair_terms[] = {0x1.5555dcp-3f, 0x1.5555aep-5f};
#define SX_PAIR_REACH 0x1p-36f /* more than the error of q */

SX_INLINE sx_floats sx_fused_floats(sx_floats a, sx_floats b, sx_floats c) {
  return (sx_floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
SX_INLINE sx_words sx_pair_entry(const void *table, sx_words index) {
  const char *at = table;
  return (sx_words)_mm512_permutex2var_epi32(_mm512_loadu_si512(at), (__m512i)index, _mm512_loadu_si512(at + 64));
}
/* least where |x| is at most `most` and low equals high, or where x is below `vanishes`; there the result is 0. */
SX_INLINE sx_floats sx_pair_judge(sx_floats x, sx_floats low, sx_floats high, float most, float vanishes,
                                  sx_doubt *doubt) {
  __mmask16 fits = _mm512_cmp_ps_mask(_mm512_abs_ps((__m512)x), _mm512_set1_ps(most), _CMP_LE_OQ);
  __mmask16 none = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(vanishes), _CMP_LT_OQ);
  __mmask16 sure = _mm512_mask_cmpeq_epi32_mask(fits, (__m512i)low, (__m512i)high) | none;
  doubt->least = (sx_words)_mm512_maskz_mov_epi32(sure, (__m512i)doubt->least);
  return (sx_floats)_mm512_maskz_mov_ps((__mmask16)~none, (__m512)low);
}
#else
enum { SX_PAIR_STEPS = 16, SX_PAIR_SHIFT = 19 };
static const uint32_t sx_pair_powers[SX_PAIR_STEPS] = {
    0x3f800000u, 0x3f7daac3u, 0x3f7b95c2u, 0x3f79c3d3u, 0x3f7837f0u, 0x3f76f532u, 0x3f75fed7u, 0x3f75583fu,
    0x3f7504f3u, 0x3f7508a4u, 0x3f75672au, 0x3f76248cu, 0x3f7744fdu, 0x3f78ccdfu, 0x3f7ac0c7u, 0x3f7d257du};
static const float sx_pair_rests[SX_PAIR_STEPS] = {
    0x0.0p+0f,        0x1.8d96d4p-25f,  -0x1.9c0c22p-27f, 0x1.964902p-25f,  0x1.125002p-25f, 0x1.370be4p-25f,
    -0x1.0a3552p-25f, -0x1.00d8acp-27f, 0x1.26055cp-26f,  -0x1.05cb44p-25f, 0x1.67a1cap-28f, 0x1.a3b5e4p-28f,
    -0x1.f9c306p-27f, -0x1.6961b4p-28f, -0x1.a5217cp-28f, 0x1.61428ep-28f};
static const float sx_pair_terms[] = {0x1.555556p-3f, 0x1.555694p-5f, 0x1.11126p-7f};
#define SX_PAIR_REACH 0x1p-34f

SX_INLINE sx_floats sx_fused_floats(sx_floats a, sx_floats b, sx_floats c) {
  return (sx_floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
SX_INLINE sx_words sx_pair_entry(const void *table, sx_words index) {
  const char *at = table;
  __m256i first = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)at), (__m256i)index);
  __m256i last =
      _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(at + 32)), (__m256i)index);
  __m256 eighth = _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)index, 28));
  return (sx_words)_mm256_blendv_ps(_mm256_castsi256_ps(first), _mm256_castsi256_ps(last), eighth);
}
SX_INLINE sx_floats sx_pair_judge(sx_floats x, sx_floats low, sx_floats high, float most, float vanishes,
                                  sx_doubt *doubt) {
  sx_ints fits = (sx_floats)((sx_ints)x & INT32_MAX) <= (sx_floats)_mm256_set1_ps(most);
  sx_ints none = x < (sx_floats)_mm256_set1_ps(vanishes);
  doubt->least &= (sx_words)((((sx_ints)low == (sx_ints)high) & fits) | none);
  return (sx_floats)(~none & (sx_ints)low);
}
#endif

enum { SX_PAIR_TERMS = sizeof sx_pair_terms / sizeof *sx_pair_terms };

/* Doubts |x| > 75, where low parts of the product would be subnormal; below -104 the result is 0. */
SX_INLINE sx_floats sx_pair_exp(sx_floats x, sx_doubt *doubt) {
  sx_floats round = sx_floats_spread(0x1.8p23f);
  sx_floats shifted = sx_fused_floats(x, sx_floats_spread(SX_PAIR_STEPS * 0x1.715476p+0f), round), n = shifted - round;
  /* 20 bits of ln 2 make r_high exact. */
  sx_floats r_high = sx_fused_floats(n, sx_floats_spread(-0x1.62e43p-1f / SX_PAIR_STEPS), x);
  sx_floats rest = (sx_floats)sx_pair_entry(sx_pair_rests, (sx_words)shifted);
  sx_floats r_low = sx_fused_floats(n, sx_floats_spread(0x1.05c61p-29f / SX_PAIR_STEPS), rest);
  sx_floats power =
      (sx_floats)(sx_pair_entry(sx_pair_powers, (sx_words)shifted) + ((sx_words)shifted << SX_PAIR_SHIFT));
  sx_floats r = r_high + r_low, p = sx_floats_spread(sx_pair_terms[SX_PAIR_TERMS - 1]);
  SX_UNROLL for (int i = SX_PAIR_TERMS - 2; i >= 0; i--) p = sx_fused_floats(p, r, sx_floats_spread(sx_pair_terms[i]));
  sx_floats q = sx_fused_floats(r * r, sx_fused_floats(r, p, sx_floats_spread(0.5f)), r_low);
  sx_floats high = sx_fused_floats(power, r_high, power);
  sx_floats error = sx_fused_floats(power, r_high, power - high), reach = sx_floats_spread(SX_PAIR_REACH);
  return sx_pair_judge(x, high + sx_fused_floats(power, q - reach, error),
                       high + sx_fused_floats(power, q + reach, error), 75.0f, -104.0f, doubt);
}

#endif
#endif
