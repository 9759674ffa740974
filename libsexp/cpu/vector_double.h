/* Registers of binary64 for functions of f32 (vector_math.h): a register of f32 is two of these, a low and a high half.
 */
#ifndef SX_CPU_VECTOR_DOUBLE_H
#define SX_CPU_VECTOR_DOUBLE_H

#include "level.h"

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#define SX_VECTOR_MATH 1
#define SX_VECTOR_TABLES 1 /* tables of f32 in registers */
#define SX_VECTOR_FUSED 1  /* sx_fused rounds once */
#elif defined(__aarch64__)
#include <arm_neon.h>
#define SX_VECTOR_MATH 1
#define SX_VECTOR_TABLES 0
#define SX_VECTOR_FUSED 1
#elif defined(__SSE2__)
#define SX_VECTOR_MATH 1
#define SX_VECTOR_TABLES 0
#define SX_VECTOR_FUSED 0
#else
#define SX_VECTOR_MATH 0
#endif

#if SX_VECTOR_MATH

typedef double sx_doubles __attribute__((vector_size(SX_LANES * 4)));
typedef uint64_t sx_longs __attribute__((vector_size(SX_LANES * 4)));
typedef uint32_t sx_words __attribute__((vector_size(SX_LANES * 4)));
typedef int32_t sx_ints __attribute__((vector_size(SX_LANES * 4)));

typedef struct sx_halves {
  sx_doubles low, high;
} sx_halves;

/* What is known of a block's results: a lane of 0 says that one of them may be wrong. */
typedef struct sx_doubt {
  sx_words least;
} sx_doubt;

#if defined(__AVX512F__)

SX_INLINE sx_doubles sx_doubles_spread(double x) { return (sx_doubles)_mm512_set1_pd(x); }
SX_INLINE sx_longs sx_longs_spread(uint64_t x) { return (sx_longs)_mm512_set1_epi64((int64_t)x); }
SX_INLINE sx_words sx_words_spread(uint32_t x) { return (sx_words)_mm512_set1_epi32((int32_t)x); }
SX_INLINE sx_doubles sx_fused(sx_doubles a, sx_doubles b, sx_doubles c) {
  return (sx_doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
SX_INLINE sx_halves sx_doubles_of(sx_floats x) {
  __m512d bits = _mm512_castps_pd((__m512)x);
  return (sx_halves){(sx_doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)),
                     (sx_doubles)_mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd(bits, 1)))};
}
SX_INLINE sx_floats sx_floats_of(sx_halves x) {
  __m512d low = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)x.low)));
  return (sx_floats)_mm512_castpd_ps(_mm512_insertf64x4(low, _mm256_castps_pd(_mm512_cvtpd_ps((__m512d)x.high)), 1));
}
/* The low words of all lanes, in some order. */
SX_INLINE sx_words sx_low_words(sx_halves x) {
  return (sx_words)_mm512_shuffle_ps((__m512)x.low, (__m512)x.high, 0x88);
}
/* Doubts the lanes that are 0. */
SX_INLINE void sx_expect_nonzero(sx_doubt *doubt, sx_words x) {
  doubt->least = (sx_words)_mm512_min_epu32((__m512i)doubt->least, (__m512i)x);
}
SX_INLINE bool sx_any_zero(sx_words x) { return _mm512_testn_epi32_mask((__m512i)x, (__m512i)x) != 0; }
/* [low, high]; a NaN stays. */
SX_INLINE sx_floats sx_bounded(sx_floats x, float low, float high) {
  return (sx_floats)_mm512_min_ps(_mm512_set1_ps(high), _mm512_max_ps(_mm512_set1_ps(low), (__m512)x));
}
SX_INLINE sx_floats sx_signed_as(sx_floats x, sx_floats sign) {
  __m512i top = _mm512_set1_epi32(INT32_MIN);
  return (sx_floats)_mm512_ternarylogic_epi32((__m512i)x, (__m512i)sign, top, 0xf8);
}
SX_INLINE sx_floats sx_quiet(sx_floats x, sx_floats result) {
  __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
  return (sx_floats)_mm512_castsi512_ps(
      _mm512_mask_mov_epi32((__m512i)result, is_nan, _mm512_set1_epi32((int32_t)SX_NAN_F32)));
}
/* Doubts the lanes where a < b does not hold. */
SX_INLINE void sx_expect_less(sx_doubt *doubt, sx_ints a, sx_ints b) {
  __mmask16 less = _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b);
  doubt->least = (sx_words)_mm512_maskz_mov_epi32(less, (__m512i)doubt->least);
}
/* Entry 0 or 1 of a table of two, by bit 1 of the index. */
SX_INLINE sx_doubles sx_one_of_two(const double *table, sx_longs index) {
  return (sx_doubles)_mm512_permutevar_pd(_mm512_broadcast_f64x2(_mm_loadu_pd(table)), (__m512i)index);
}
/* Entry (index mod 16) of a table. */
SX_INLINE sx_longs sx_entry(const void *table, sx_longs index) {
  const char *at = table;
  return (sx_longs)_mm512_permutex2var_epi64(_mm512_loadu_si512(at), (__m512i)index, _mm512_loadu_si512(at + 64));
}

#elif defined(__AVX2__)

SX_INLINE sx_doubles sx_doubles_spread(double x) { return (sx_doubles)_mm256_set1_pd(x); }
SX_INLINE sx_longs sx_longs_spread(uint64_t x) { return (sx_longs)_mm256_set1_epi64x((int64_t)x); }
SX_INLINE sx_words sx_words_spread(uint32_t x) { return (sx_words)_mm256_set1_epi32((int32_t)x); }
SX_INLINE sx_doubles sx_fused(sx_doubles a, sx_doubles b, sx_doubles c) {
  return (sx_doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
SX_INLINE sx_halves sx_doubles_of(sx_floats x) {
  return (sx_halves){(sx_doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)),
                     (sx_doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1))};
}
SX_INLINE sx_floats sx_floats_of(sx_halves x) {
  return (sx_floats)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)x.low)),
                                         _mm256_cvtpd_ps((__m256d)x.high), 1);
}
SX_INLINE sx_words sx_low_words(sx_halves x) {
  return (sx_words)_mm256_shuffle_ps((__m256)x.low, (__m256)x.high, 0x88);
}
SX_INLINE void sx_expect_nonzero(sx_doubt *doubt, sx_words x) {
  doubt->least = (sx_words)_mm256_min_epu32((__m256i)doubt->least, (__m256i)x);
}
SX_INLINE bool sx_any_zero(sx_words x) {
  return _mm256_movemask_epi8(_mm256_cmpeq_epi32((__m256i)x, _mm256_setzero_si256())) != 0;
}
SX_INLINE sx_floats sx_bounded(sx_floats x, float low, float high) {
  return (sx_floats)_mm256_min_ps(_mm256_set1_ps(high), _mm256_max_ps(_mm256_set1_ps(low), (__m256)x));
}
SX_INLINE sx_floats sx_signed_as(sx_floats x, sx_floats sign) {
  return (sx_floats)((sx_ints)x | ((sx_ints)sign & INT32_MIN));
}
SX_INLINE sx_floats sx_quiet(sx_floats x, sx_floats result) {
  __m256 is_nan = _mm256_cmp_ps((__m256)x, (__m256)x, _CMP_UNORD_Q);
  __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)SX_NAN_F32));
  return (sx_floats)_mm256_blendv_ps((__m256)result, nan, is_nan);
}
SX_INLINE void sx_expect_less(sx_doubt *doubt, sx_ints a, sx_ints b) {
  doubt->least &= (sx_words)_mm256_cmpgt_epi32((__m256i)b, (__m256i)a);
}
SX_INLINE sx_doubles sx_one_of_two(const double *table, sx_longs index) {
  return (sx_doubles)_mm256_permutevar_pd(_mm256_broadcast_pd((const __m128d *)(const void *)table), (__m256i)index);
}

#else

SX_INLINE sx_doubles sx_doubles_spread(double x) { return (sx_doubles){x, x}; }
SX_INLINE sx_longs sx_longs_spread(uint64_t x) { return (sx_longs){x, x}; }
SX_INLINE sx_words sx_words_spread(uint32_t x) { return (sx_words){x, x, x, x}; }
#if defined(__aarch64__)
SX_INLINE sx_doubles sx_fused(sx_doubles a, sx_doubles b, sx_doubles c) {
  return (sx_doubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
SX_INLINE sx_halves sx_doubles_of(sx_floats x) {
  return (sx_halves){(sx_doubles)vcvt_f64_f32(vget_low_f32((float32x4_t)x)),
                     (sx_doubles)vcvt_high_f64_f32((float32x4_t)x)};
}
SX_INLINE sx_floats sx_floats_of(sx_halves x) {
  return (sx_floats)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)x.low), (float64x2_t)x.high);
}
SX_INLINE sx_words sx_low_words(sx_halves x) { return (sx_words)vuzp1q_u32((uint32x4_t)x.low, (uint32x4_t)x.high); }
SX_INLINE bool sx_any_zero(sx_words x) { return vminvq_u32((uint32x4_t)x) == 0; }
SX_INLINE sx_floats sx_bounded(sx_floats x, float low, float high) {
  return (sx_floats)vminq_f32(vdupq_n_f32(high), vmaxq_f32(vdupq_n_f32(low), (float32x4_t)x));
}
#else
/* Rounded twice: what is computed with it has an error of some 2^-46 to spare. */
SX_INLINE sx_doubles sx_fused(sx_doubles a, sx_doubles b, sx_doubles c) { return a * b + c; }
SX_INLINE sx_halves sx_doubles_of(sx_floats x) {
  return (sx_halves){(sx_doubles)_mm_cvtps_pd((__m128)x),
                     (sx_doubles)_mm_cvtps_pd(_mm_movehl_ps((__m128)x, (__m128)x))};
}
SX_INLINE sx_floats sx_floats_of(sx_halves x) {
  return (sx_floats)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)x.low), _mm_cvtpd_ps((__m128d)x.high));
}
SX_INLINE sx_words sx_low_words(sx_halves x) { return (sx_words)_mm_shuffle_ps((__m128)x.low, (__m128)x.high, 0x88); }
SX_INLINE bool sx_any_zero(sx_words x) {
  return _mm_movemask_epi8(_mm_cmpeq_epi32((__m128i)x, _mm_setzero_si128())) != 0;
}
SX_INLINE sx_floats sx_bounded(sx_floats x, float low, float high) {
  return (sx_floats)_mm_min_ps(_mm_set1_ps(high), _mm_max_ps(_mm_set1_ps(low), (__m128)x));
}
#endif
SX_INLINE void sx_expect_nonzero(sx_doubt *doubt, sx_words x) { doubt->least &= (sx_words)(x != 0); }
SX_INLINE void sx_expect_less(sx_doubt *doubt, sx_ints a, sx_ints b) { doubt->least &= (sx_words)(a < b); }
SX_INLINE sx_floats sx_signed_as(sx_floats x, sx_floats sign) {
  return (sx_floats)((sx_ints)x | ((sx_ints)sign & INT32_MIN));
}
SX_INLINE sx_floats sx_quiet(sx_floats x, sx_floats result) {
  sx_ints is_nan = x != x;
  return (sx_floats)((is_nan & (int32_t)SX_NAN_F32) | (~is_nan & (sx_ints)result));
}
SX_INLINE sx_doubles sx_one_of_two(const double *table, sx_longs index) {
  sx_longs second = -(index >> 1 & 1), yes = (sx_longs)sx_doubles_spread(table[1]);
  return (sx_doubles)((second & yes) | (~second & (sx_longs)sx_doubles_spread(table[0])));
}

#endif

SX_INLINE sx_ints sx_ints_spread(int32_t x) { return (sx_ints)sx_words_spread((uint32_t)x); }

/* Rounds to f32. Doubts a result whose distance from a midpoint between two normal f32 is at most `reach` units in its
 * last place, of binary64: off by as much, it could round to the other. reach is a power of two below 2^27. */
SX_INLINE sx_floats sx_round_doubting(sx_halves value, uint32_t reach, sx_doubt *doubt) {
  sx_words from_midpoint = sx_low_words(value) + sx_words_spread(0x10000000u + reach);
  sx_expect_nonzero(doubt, from_midpoint & sx_words_spread(0x1fffffffu & ~(2 * reach - 1)));
  return sx_floats_of(value);
}

#endif
#endif
