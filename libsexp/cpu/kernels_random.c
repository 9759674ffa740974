/* Draws, a tile of blocks of four elements at a time: their words by registers (Philox, as kernels/draws.h defines it),
 * then loops over the tile. */
#include "../../kernels/draws.h"
#include "vector_math.h"

enum { BLOCK = 4, TILE = 32, PAIRS = 2 * TILE, LEAST_WORK = 1 << 12 };

_Static_assert(LEAST_WORK / BLOCK % TILE == 0 && (int)TILE % (int)SX_LANES == 0, "units of work are whole tiles");

#if SX_VECTOR_MATH

#if defined(__AVX512F__)
#define PRODUCTS(a, b) (sx_longs) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define LOW_WORDS(a, b) (sx_words) _mm512_unpacklo_epi32((__m512i)(a), (__m512i)(b))
#define HIGH_WORDS(a, b) (sx_words) _mm512_unpackhi_epi32((__m512i)(a), (__m512i)(b))
#define LOW_LONGS(a, b) (sx_words) _mm512_unpacklo_epi64((__m512i)(a), (__m512i)(b))
#define HIGH_LONGS(a, b) (sx_words) _mm512_unpackhi_epi64((__m512i)(a), (__m512i)(b))
#elif defined(__AVX2__)
#define PRODUCTS(a, b) (sx_longs) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#define LOW_WORDS(a, b) (sx_words) _mm256_unpacklo_epi32((__m256i)(a), (__m256i)(b))
#define HIGH_WORDS(a, b) (sx_words) _mm256_unpackhi_epi32((__m256i)(a), (__m256i)(b))
#define LOW_LONGS(a, b) (sx_words) _mm256_unpacklo_epi64((__m256i)(a), (__m256i)(b))
#define HIGH_LONGS(a, b) (sx_words) _mm256_unpackhi_epi64((__m256i)(a), (__m256i)(b))
#elif defined(__aarch64__)
#define PRODUCTS(a, b) (sx_longs) vmull_u32(vmovn_u64((uint64x2_t)(a)), vmovn_u64((uint64x2_t)(b)))
#define LOW_WORDS(a, b) (sx_words) vzip1q_u32((uint32x4_t)(a), (uint32x4_t)(b))
#define HIGH_WORDS(a, b) (sx_words) vzip2q_u32((uint32x4_t)(a), (uint32x4_t)(b))
#define LOW_LONGS(a, b) (sx_words) vzip1q_u64((uint64x2_t)(a), (uint64x2_t)(b))
#define HIGH_LONGS(a, b) (sx_words) vzip2q_u64((uint64x2_t)(a), (uint64x2_t)(b))
#else
#define PRODUCTS(a, b) (sx_longs) _mm_mul_epu32((__m128i)(a), (__m128i)(b))
#define LOW_WORDS(a, b) (sx_words) _mm_unpacklo_epi32((__m128i)(a), (__m128i)(b))
#define HIGH_WORDS(a, b) (sx_words) _mm_unpackhi_epi32((__m128i)(a), (__m128i)(b))
#define LOW_LONGS(a, b) (sx_words) _mm_unpacklo_epi64((__m128i)(a), (__m128i)(b))
#define HIGH_LONGS(a, b) (sx_words) _mm_unpackhi_epi64((__m128i)(a), (__m128i)(b))
#endif

/* The high words of the products; *low their low words. */
SX_INLINE sx_words multiply(sx_words x, uint32_t factor, sx_words *low) {
  sx_longs factors = sx_longs_spread(factor), mask = sx_longs_spread(UINT32_MAX);
  sx_longs even = PRODUCTS(x, factors), odd = PRODUCTS((sx_longs)x >> 32, factors);
  *low = (sx_words)((even & mask) | (odd << 32));
  return (sx_words)((even >> 32) | (odd & ~mask));
}

/* The words of SX_LANES blocks. Lane 4 i + j of the counters is block i + j SX_LANES / 4, so that turning each four
 * lanes leaves the words in order. `block` is a multiple of SX_LANES, so that adding to its low word carries nothing.
 */
SX_INLINE void draw_registers(uint64_t key, uint64_t block, uint32_t *words) {
  uint32_t offsets[SX_LANES];
  SX_UNROLL for (int k = 0; k < SX_LANES; k++) offsets[k] = (uint32_t)(k % 4 * (SX_LANES / 4) + k / 4);
  sx_words offset = (sx_words)sx_floats_load((const float *)offsets);
  sx_words c0 = sx_words_spread((uint32_t)block) + offset, c1 = sx_words_spread((uint32_t)(block >> 32));
  sx_words c2 = sx_words_spread(0), c3 = c2;
  uint32_t key_low = (uint32_t)key, key_high = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    sx_words low0, low1, high0 = multiply(c0, 0xd2511f53u, &low0), high1 = multiply(c2, 0xcd9e8d57u, &low1);
    c0 = high1 ^ c1 ^ sx_words_spread(key_low);
    c2 = high0 ^ c3 ^ sx_words_spread(key_high);
    c1 = low1;
    c3 = low0;
    key_low += 0x9e3779b9u;
    key_high += 0xbb67ae85u;
  }
  sx_words a = LOW_WORDS(c0, c1), b = LOW_WORDS(c2, c3), c = HIGH_WORDS(c0, c1), d = HIGH_WORDS(c2, c3);
  float *to = (float *)words;
  sx_floats_store(to, (sx_floats)(LOW_LONGS(a, b)));
  sx_floats_store(to + SX_LANES, (sx_floats)(HIGH_LONGS(a, b)));
  sx_floats_store(to + 2 * SX_LANES, (sx_floats)(LOW_LONGS(c, d)));
  sx_floats_store(to + 3 * SX_LANES, (sx_floats)(HIGH_LONGS(c, d)));
}

static void draw_tile(uint64_t key, uint64_t block, uint32_t *words) {
  for (int k = 0; k < TILE; k += SX_LANES) draw_registers(key, block + (uint64_t)k, words + k * BLOCK);
}

#else

static void draw_tile(uint64_t key, uint64_t block, uint32_t *words) {
  for (int k = 0; k < TILE; k++) sx_draw_words(key, block + (uint64_t)k, words + k * BLOCK);
}

#endif

static void uniform_tile(const uint32_t *words, float *out) {
  for (int i = 0; i < TILE * BLOCK; i += SX_BLOCK)
    SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) out[j] = sx_uniform_from_word(words[j]);
}

/* sx_normal_pair of the draws, an operation at a time. */
static void normal_tile(const uint32_t *words, float *out) {
  float u[PAIRS], radius[PAIRS], angle[PAIRS], sine[PAIRS], cosine[PAIRS];
  for (int i = 0; i < PAIRS; i += SX_BLOCK) SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) {
      u[j] = (float)(int32_t)((words[2 * j] >> 8) + 1) * 0x1p-24f;
      angle[j] = 2.0f * sx_uniform_from_word(words[2 * j + 1]);
    }
  if (!SX_TRY(log, radius, u, PAIRS)) SX_EACH_EXACT(log, radius, u, PAIRS)
  if (!SX_TRY(sinpi, sine, angle, PAIRS)) SX_EACH_EXACT(sinpi, sine, angle, PAIRS)
  if (!SX_TRY(cospi, cosine, angle, PAIRS)) SX_EACH_EXACT(cospi, cosine, angle, PAIRS)
  for (int i = 0; i < PAIRS; i += SX_BLOCK) SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) {
      float r = sx_sqrt_f32(-2.0f * radius[j]);
      out[2 * j] = r * cosine[j];
      out[2 * j + 1] = r * sine[j];
    }
}

typedef struct draw_job {
  float *out;
  int64_t n;
  uint64_t key;
  bool normal;
} draw_job;

/* Blocks begin to end - 1, begin a multiple of the grain and so of TILE. The last may be cut by the end of the result.
 */
static void draw_blocks(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const draw_job *job = context;
  for (int64_t block = begin; block < end; block += TILE) {
    uint32_t words[TILE * BLOCK];
    float values[TILE * BLOCK];
    draw_tile(job->key, (uint64_t)block, words);
    (job->normal ? normal_tile : uniform_tile)(words, values);
    int64_t blocks = sx_min_i64(TILE, end - block), n = sx_min_i64(blocks * BLOCK, job->n - block * BLOCK);
    memcpy(job->out + block * BLOCK, values, (size_t)n * 4);
  }
}

bool SX_AT_LEVEL(sx_fast_draw)(const sx_call *call) {
  int64_t n = sx_operand_count(&call->out);
  if (call->out.dtype != SX_F32) return false;
  draw_job job = {call->out.data, n, sx_call_stream(call), call->node->op == SX_OP_NORMAL};
  if (n > 0) sx_pool_run(call->pool, sx_ceil_div(n, BLOCK), LEAST_WORK / BLOCK, draw_blocks, &job);
  return true;
}
