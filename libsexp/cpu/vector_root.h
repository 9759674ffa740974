/* Square roots without the divider, for processors with a good first guess (AVX-512):
 *
 *   y = 1 / sqrt(x) within 2^-14 of itself   s = RN(x y)        h = y / 2
 *   e = RN(1/2 - s h)                        s' = RN(s + s e)   h' = RN(h + h e)
 *   d = RN(x - s' s')                        sqrt(x) = RN(s' + d h')
 *
 * The processor's y is one of some thousand floats and differs between makers; the result does not: all of them, for
 * all x from 1 to 4 (2^24 of them, 2.4e10 pairs), give the correctly rounded root. Multiplying x by a power of 4 scales
 * every step exactly while nothing overflows or is subnormal: from 2^-100 on, where d, a multiple of 2^-148, is exact.
 * Zero gives zero, its y being that of 2^-100. tests/unit/test_vector_math.c has every y of the nearest cases,
 * check_math what this processor makes of all x. */
#ifndef SX_CPU_VECTOR_ROOT_H
#define SX_CPU_VECTOR_ROOT_H

#include "level.h"

#if defined(__AVX512F__)
#define SX_VECTOR_ROOT 1

#define SX_ROOT_LEAST 0x0d800000 /* 2^-100 */

/* What lanes hold, as integers: the least less 1, so that zeros are the largest there is; the most, where negative
 * numbers and what is not finite are above all others. */
typedef struct sx_radicands {
  __m512i least, most;
} sx_radicands;

SX_INLINE sx_radicands sx_radicands_none(void) { return (sx_radicands){_mm512_set1_epi32(-1), _mm512_setzero_si512()}; }

SX_INLINE void sx_radicands_take(sx_radicands *held, sx_floats x) {
  held->least = _mm512_min_epu32(held->least, _mm512_sub_epi32((__m512i)x, _mm512_set1_epi32(1)));
  held->most = _mm512_max_epu32(held->most, (__m512i)x);
}

/* Whether sx_root serves all that is held. */
SX_INLINE bool sx_radicands_suit(const sx_radicands *held) {
  __mmask16 small = _mm512_cmplt_epu32_mask(held->least, _mm512_set1_epi32(SX_ROOT_LEAST - 1));
  return !(small | _mm512_cmpge_epu32_mask(held->most, _mm512_set1_epi32(0x7f800000)));
}

SX_INLINE sx_floats sx_root(sx_floats radicand) {
  __m512 x = (__m512)radicand;
  __m512 y = _mm512_rsqrt14_ps((__m512)_mm512_max_epi32((__m512i)x, _mm512_set1_epi32(SX_ROOT_LEAST)));
  __m512 s = _mm512_mul_ps(x, y), h = (__m512)_mm512_sub_epi32((__m512i)y, _mm512_set1_epi32(1 << 23));
  __m512 e = _mm512_fnmadd_ps(s, h, _mm512_set1_ps(0.5f));
  s = _mm512_fmadd_ps(s, e, s);
  h = _mm512_fmadd_ps(h, e, h);
  return (sx_floats)_mm512_fmadd_ps(_mm512_fnmadd_ps(s, s, x), h, s);
}

#else
#define SX_VECTOR_ROOT 0
#endif
#endif
