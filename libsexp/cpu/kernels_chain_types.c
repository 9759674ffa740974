/* Handlers of chains for what is not f32 in memory. Short floats are f32 in registers, rounded after each operation to
 * what they can hold, so that storing them loses nothing; i32 and u8 are integers, bools masks. */
#include "chain_handler.h"

typedef uint32_t words __attribute__((vector_size(SX_LANES * 4)));
#if !defined(__AVX2__)
typedef uint16_t halves __attribute__((vector_size(SX_LANES * 2), aligned(2), may_alias));
typedef uint8_t bytes __attribute__((vector_size(SX_LANES), aligned(1), may_alias));
#endif

/* ---- memory and rounding ------------------------------------------------------------------------- */

#define GET_BY(n, function)          \
  r##n = function(m + n * SX_LANES); \
  IN_ORDER;
#define PUT_BY(n, function)         \
  function(m + n * SX_LANES, r##n); \
  IN_ORDER;
#define LOAD(name, type)                                                \
  HANDLER(load_##name) {                                                \
    const type *m = (const type *)table[at->at[0]] + (k & at->mask[0]); \
    EACH(GET_BY, get_##name)                                            \
    NEXT;                                                               \
  }
#define STORE(name, type)                                   \
  HANDLER(store_##name) {                                   \
    type *m = (type *)table[at->at[0]] + (k & at->mask[0]); \
    EACH(PUT_BY, put_##name)                                \
    NEXT;                                                   \
  }

/* Compilers do not find these instructions. */
#if defined(__AVX512F__)
SX_INLINE lanes get_bytes(const uint8_t *from) {
  return (lanes)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
SX_INLINE void put_bools(uint8_t *to, lanes x) {
  _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtepi32_epi8((__m512i)((words)x & 1)));
}
#elif defined(__AVX2__)
SX_INLINE lanes get_bytes(const uint8_t *from) {
  return (lanes)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
}
SX_INLINE void put_bools(uint8_t *to, lanes x) {
  words bits = (words)x & 1;
  __m256i shorts = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)bits, (__m256i)bits), 0x08);
  _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(_mm256_castsi256_si128(shorts), _mm_setzero_si128()));
}
#else
SX_INLINE lanes get_bytes(const uint8_t *from) { return (lanes) __builtin_convertvector(*(const bytes *)from, words); }
SX_INLINE void put_bools(uint8_t *to, lanes x) { *(bytes *)to = __builtin_convertvector((words)x & 1, bytes); }
#endif
SX_INLINE lanes get_bools(const uint8_t *from) { return (lanes)((ints)get_bytes(from) != 0); }
LOAD(bytes, uint8_t)
LOAD(bools, uint8_t)
STORE(bools, uint8_t)

/* The halves of words. */
#if defined(__AVX512F__)
SX_INLINE words get_halves(const uint16_t *from) {
  return (words)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
SX_INLINE void put_halves(uint16_t *to, words x) {
  _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16((__m512i)x));
}
#elif defined(__AVX2__)
SX_INLINE words get_halves(const uint16_t *from) {
  return (words)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
}
SX_INLINE void put_halves(uint16_t *to, words x) {
  __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)x, (__m256i)x), 0x08);
  _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(packed));
}
#else
SX_INLINE words get_halves(const uint16_t *from) { return __builtin_convertvector(*(const halves *)from, words); }
SX_INLINE void put_halves(uint16_t *to, words x) { *(halves *)to = __builtin_convertvector(x, halves); }
#endif

/* What is stored has been rounded, so its low half is 0. */
SX_INLINE lanes get_bf16(const uint16_t *from) { return (lanes)(get_halves(from) << 16); }
SX_INLINE void put_bf16(uint16_t *to, lanes x) { put_halves(to, (words)x >> 16); }
SX_INLINE lanes to_bf16(lanes x) {
  words bits = (words)x, rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  return pick((ints)(x != x), spread(sx_from_bits_f32(SX_NAN_F32)), (lanes)rounded);
}
LOAD(bf16, uint16_t)
STORE(bf16, uint16_t)
UNARY(round_bf16, to_bf16(x))

#if defined(__AVX512F__)
SX_INLINE lanes get_f16(const uint16_t *from) {
  return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}
SX_INLINE void put_f16(uint16_t *to, lanes x) {
  _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
}
#elif defined(__AVX2__)
SX_INLINE lanes get_f16(const uint16_t *from) {
  return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}
SX_INLINE void put_f16(uint16_t *to, lanes x) {
  _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}
#else
SX_INLINE lanes get_f16(const uint16_t *from) {
  lanes x;
  for (int j = 0; j < SX_LANES; j++) x[j] = sx_f32_from_f16(from[j]);
  return x;
}
SX_INLINE void put_f16(uint16_t *to, lanes x) {
  for (int j = 0; j < SX_LANES; j++) to[j] = sx_f16_from_f32(x[j]);
}
#endif
SX_INLINE lanes to_f16(lanes x) {
  uint16_t rounded[SX_LANES];
  put_f16(rounded, x);
  return get_f16(rounded);
}
LOAD(f16, uint16_t)
STORE(f16, uint16_t)
UNARY(round_f16, to_f16(x))

/* ---- casts --------------------------------------------------------------------------------------- */

HANDLER(integer_from_float) {
  float x[BLOCK];
  int32_t y[BLOCK];
  EACH(PUT, x)
  for (int i = 0; i < BLOCK; i += SX_BLOCK)
    SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) y[j] = sx_f32_to_i32(x[j]);
  const float *got = (const float *)y;
  EACH(GET, got)
  NEXT;
}
UNARY(float_from_integer, __builtin_convertvector((ints)x, lanes))
UNARY(bool_from_float, x != 0.0f)
UNARY(float_from_bool, (ints)x &(ints)spread(1.0f))
UNARY(bool_from_integer, (ints)x != 0)
UNARY(integer_from_bool, (ints)x & 1)

/* ---- integers, which wrap ------------------------------------------------------------------------ */

BINARY(added, (words)a + (words)b)
BINARY(subtracted, (words)a - (words)b)
BINARY(multiplied, (words)a *(words)b)
BINARY(larger, larger((ints)a, (ints)b))
BINARY(smaller, ~larger(~(ints)a, ~(ints)b))
BINARY(eq, (ints)a == (ints)b)
BINARY(ne, (ints)a != (ints)b)
BINARY(lt, (ints)a < (ints)b)
BINARY(le, (ints)a <= (ints)b)
BINARY(gt, (ints)a > (ints)b)
BINARY(ge, (ints)a >= (ints)b)
UNARY(negated, -(words)x)
UNARY(absolute, ((words)x ^ (words)((ints)x >> 31)) - (words)((ints)x >> 31))

/* ---- the table ----------------------------------------------------------------------------------- */

extern const sx_chain_types SX_AT_LEVEL(sx_chain_types);

const sx_chain_types SX_AT_LEVEL(sx_chain_types) = {
    .load = {[SX_BOOL] = (sx_handler *)load_bools,
             [SX_U8] = (sx_handler *)load_bytes,
             [SX_BF16] = (sx_handler *)load_bf16,
             [SX_F16] = (sx_handler *)load_f16},
    .store = {[SX_BOOL] = (sx_handler *)store_bools,
              [SX_BF16] = (sx_handler *)store_bf16,
              [SX_F16] = (sx_handler *)store_f16},
    .round = {[SX_BF16] = (sx_handler *)round_bf16, [SX_F16] = (sx_handler *)round_f16},
    .cast =
        {[SX_LANE_FLOAT] =
             {[SX_LANE_INTEGER] = (sx_handler *)integer_from_float, [SX_LANE_MASK] = (sx_handler *)bool_from_float},
         [SX_LANE_INTEGER] =
             {[SX_LANE_FLOAT] = (sx_handler *)float_from_integer, [SX_LANE_MASK] = (sx_handler *)bool_from_integer},
         [SX_LANE_MASK] =
             {[SX_LANE_FLOAT] = (sx_handler *)float_from_bool, [SX_LANE_INTEGER] = (sx_handler *)integer_from_bool}},
    .binary = {[SX_OP_ADD] = ROW(added),
               [SX_OP_SUB] = ROW(subtracted),
               [SX_OP_MUL] = ROW(multiplied),
               [SX_OP_MAX] = ROW(larger),
               [SX_OP_MIN] = ROW(smaller),
               [SX_OP_EQ] = ROW(eq),
               [SX_OP_NE] = ROW(ne),
               [SX_OP_LT] = ROW(lt),
               [SX_OP_LE] = ROW(le),
               [SX_OP_GT] = ROW(gt),
               [SX_OP_GE] = ROW(ge)},
    .unary = {[SX_OP_NEG] = (sx_handler *)negated, [SX_OP_ABS] = (sx_handler *)absolute},
};
