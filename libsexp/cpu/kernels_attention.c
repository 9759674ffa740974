/* What attention has to know of matrices before it leaves columns out: how large their elements are, and whether one
 * is -0. */
#include "level.h"

typedef int32_t ints __attribute__((vector_size(SX_LANES * 4), aligned(4), may_alias));

enum { AT_ONCE = 4, STEP = AT_ONCE * SX_LANES, MAGNITUDE = INT32_MAX, MINUS_ZERO = INT32_MIN };

SX_INLINE ints load(const float *from) { return *(const ints *)(const void *)from; }

SX_INLINE int32_t bits(float x) { return (int32_t)sx_bits_f32(x); }

SX_INLINE ints larger(ints a, ints b) {
#if defined(__AVX512F__)
  return (ints)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  ints more = a > b;
  return (a & more) | (b & ~more);
#endif
}

int32_t SX_AT_LEVEL(sx_largest)(const float *from, int64_t rows, int64_t row, int64_t columns) {
  ints most[AT_ONCE] = {{0}};
  int32_t rest = 0;
  for (int64_t i = 0; i < rows; i++, from += row) {
    int64_t j = 0;
    for (; j + STEP <= columns; j += STEP)
      SX_UNROLL for (int v = 0; v < AT_ONCE; v++) most[v] = larger(load(from + j + v * SX_LANES) & MAGNITUDE, most[v]);
    for (; j + SX_LANES <= columns; j += SX_LANES) most[0] = larger(load(from + j) & MAGNITUDE, most[0]);
    for (; j < columns; j++) {
      int32_t one = bits(from[j]) & MAGNITUDE;
      rest = one > rest ? one : rest;
    }
  }
  SX_UNROLL for (int v = 0; v < AT_ONCE; v++) for (int j = 0; j < SX_LANES; j++) rest =
      most[v][j] > rest ? most[v][j] : rest;
  return rest;
}

SX_INLINE ints smaller(ints a, ints b) {
#if defined(__AVX512F__)
  return (ints)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
  ints less = a < b;
  return (a & less) | (b & ~less);
#endif
}

/* As an integer -0 is less than all else. */
bool SX_AT_LEVEL(sx_has_minus_zero)(const float *from, int64_t rows, int64_t row, int64_t columns) {
  ints least[2] = {{0}};
  bool found = false;
  for (int64_t i = 0; i < rows; i++, from += row) {
    int64_t j = 0;
    for (; j + 2 * SX_LANES <= columns; j += 2 * SX_LANES)
      SX_UNROLL for (int v = 0; v < 2; v++) least[v] = smaller(load(from + j + v * SX_LANES), least[v]);
    for (; j < columns; j++) found |= bits(from[j]) == MINUS_ZERO;
  }
  SX_UNROLL for (int v = 0; v < 2; v++) for (int j = 0; j < SX_LANES; j++) found |= least[v][j] == MINUS_ZERO;
  return found;
}

void SX_AT_LEVEL(sx_apply)(float *to, int64_t rows, int64_t row, int64_t columns, bool adds, float value) {
  sx_floats all = (sx_floats){0} + value;
  for (int64_t i = 0; i < rows; i++, to += row) {
    int64_t j = 0;
    for (; j + SX_LANES <= columns; j += SX_LANES) {
      sx_floats x = sx_floats_load(to + j);
      sx_floats_store(to + j, adds ? x + all : x * all);
    }
    for (; j < columns; j++) to[j] = adds ? to[j] + value : to[j] * value;
  }
}
