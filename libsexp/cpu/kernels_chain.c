/* The handlers of chains (chain.h). A handler ends in a call of the next one with the same arguments, which compilers
 * make a jump: the eight vectors of the accumulator stay in the registers that arguments are passed in. */
#include <math.h>

#include "chain.h"
#include "vector_math.h"

typedef float lanes __attribute__((vector_size(SX_LANES * 4)));
typedef int32_t ints __attribute__((vector_size(SX_LANES * 4)));
enum { VECTORS = 8, BLOCK = VECTORS * SX_LANES, FOLD_VECTORS = SX_FOLD_LANES / SX_LANES };

#define REGISTERS lanes r0, lanes r1, lanes r2, lanes r3, lanes r4, lanes r5, lanes r6, lanes r7
#define PASSED r0, r1, r2, r3, r4, r5, r6, r7
typedef void handler(const sx_link *at, int64_t k, void *const *table, REGISTERS);

#define HANDLER(name) static void name(const sx_link *at, int64_t k, void *const *table, REGISTERS)
#define NEXT ((handler *)at[1].run)(at + 1, k, table, PASSED)
/* X(n, f) for every vector of the accumulator. */
#define EACH(X, f) X(0, f) X(1, f) X(2, f) X(3, f) X(4, f) X(5, f) X(6, f) X(7, f)

SX_INLINE float *operand(const sx_link *at, int64_t k, void *const *table, int i) {
  return (float *)table[at->at[i]] + (k & at->mask[i]);
}
SX_INLINE lanes load(const float *from) { return (lanes)sx_floats_load(from); }
SX_INLINE void store(float *to, lanes x) { sx_floats_store(to, (sx_floats)x); }
SX_INLINE lanes spread(float x) { return (lanes)sx_floats_spread(x); }

/* Keeps the order in which memory is walked: the processor fetches ahead of what it sees walked upwards. */
#define IN_ORDER __asm__ volatile("" ::: "memory")
#define GET(n, from)                \
  r##n = load(from + n * SX_LANES); \
  IN_ORDER;
#define PUT(n, to)                \
  store(to + n * SX_LANES, r##n); \
  IN_ORDER;

/* ---- operations of two --------------------------------------------------------------------------- */

SX_INLINE lanes pick(ints mask, lanes yes, lanes no) { return (lanes)((mask & (ints)yes) | (~mask & (ints)no)); }

SX_INLINE lanes nan_through(lanes a, lanes b, lanes result) {
  return pick((ints)(a != a) | (ints)(b != b), spread(sx_from_bits_f32(SX_NAN_F32)), result);
}

/* Equal numbers have equal bits, or are zeros: their signs decide. */
SX_INLINE lanes maximum(lanes a, lanes b) {
  lanes equal = (lanes)((ints)a & (ints)b);
  return nan_through(a, b, pick((ints)(a > b), a, pick((ints)(a < b), b, equal)));
}

SX_INLINE lanes minimum(lanes a, lanes b) {
  lanes equal = (lanes)((ints)a | (ints)b);
  return nan_through(a, b, pick((ints)(a < b), a, pick((ints)(a > b), b, equal)));
}

#define TWO(name, expression) \
  SX_INLINE lanes two_##name(lanes a, lanes b) { return (lanes)(expression); }
TWO(add, a + b)
TWO(sub, a - b)
TWO(mul, a *b)
TWO(div, a / b)
TWO(max, maximum(a, b))
TWO(min, minimum(a, b))
TWO(eq, a == b)
TWO(ne, a != b)
TWO(lt, a < b)
TWO(le, a <= b)
TWO(gt, a > b)
TWO(ge, a >= b)
TWO(and, (ints)a &(ints)b)
TWO(or, (ints)a | (ints)b)

#define WITH_VECTOR(n, f)                 \
  r##n = f(r##n, load(m + n * SX_LANES)); \
  IN_ORDER;
#define WITH_VECTOR_REVERSED(n, f)        \
  r##n = f(load(m + n * SX_LANES), r##n); \
  IN_ORDER;
#define WITH_SPREAD(n, f) r##n = f(r##n, y);
#define WITH_SPREAD_REVERSED(n, f) r##n = f(y, r##n);
#define WITH_SELF(n, f) r##n = f(r##n, r##n);

#define BINARY(name)                             \
  HANDLER(name##_vector) {                       \
    const float *m = operand(at, k, table, 0);   \
    EACH(WITH_VECTOR, two_##name)                \
    NEXT;                                        \
  }                                              \
  HANDLER(name##_vector_reversed) {              \
    const float *m = operand(at, k, table, 0);   \
    EACH(WITH_VECTOR_REVERSED, two_##name)       \
    NEXT;                                        \
  }                                              \
  HANDLER(name##_spread) {                       \
    lanes y = spread(*operand(at, k, table, 0)); \
    EACH(WITH_SPREAD, two_##name)                \
    NEXT;                                        \
  }                                              \
  HANDLER(name##_spread_reversed) {              \
    lanes y = spread(*operand(at, k, table, 0)); \
    EACH(WITH_SPREAD_REVERSED, two_##name)       \
    NEXT;                                        \
  }                                              \
  HANDLER(name##_self) {                         \
    EACH(WITH_SELF, two_##name)                  \
    NEXT;                                        \
  }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(max)
BINARY(min)
BINARY(eq)
BINARY(ne)
BINARY(lt)
BINARY(le)
BINARY(gt)
BINARY(ge)
BINARY(and)
BINARY(or)

/* ---- operations of one --------------------------------------------------------------------------- */

#define WITH_ONE(n, f) r##n = f(r##n);
#define UNARY(name, expression)                                       \
  SX_INLINE lanes one_##name(lanes x) { return (lanes)(expression); } \
  HANDLER(name) {                                                     \
    EACH(WITH_ONE, one_##name)                                        \
    NEXT;                                                             \
  }

#if defined(__AVX512F__)
#define ROOT(x) (lanes) _mm512_sqrt_ps((__m512)(x))
#elif defined(__AVX2__)
#define ROOT(x) (lanes) _mm256_sqrt_ps((__m256)(x))
#elif defined(__SSE2__)
#define ROOT(x) (lanes) _mm_sqrt_ps((__m128)(x))
#else
SX_INLINE lanes root_of(lanes x) {
  for (int j = 0; j < SX_LANES; j++) x[j] = sx_sqrt_f32(x[j]);
  return x;
}
#define ROOT(x) root_of(x)
#endif

SX_INLINE lanes canonical(lanes x) { return nan_through(x, x, x); }

UNARY(negated, (ints)x ^ INT32_MIN)
UNARY(absolute, (ints)x &INT32_MAX)
UNARY(root, canonical(ROOT(x)))
UNARY(inverse_root, canonical(spread(1.0f) / canonical(ROOT(x))))
UNARY(inverted, ~(ints)x)
UNARY(bool_from_float, x != 0.0f)
UNARY(float_from_bool, (ints)x &(ints)spread(1.0f))

/* By the functions of vector_math.h, or where those may be wrong by the ones of kernels/math.h, in loops that compilers
 * vectorize. */
#define FUNCTION(name, function)                                             \
  HANDLER(name) {                                                            \
    float x[BLOCK], y[BLOCK];                                                \
    EACH(PUT, x)                                                             \
    if (!SX_TRY(function, y, x, BLOCK)) SX_EACH_EXACT(function, y, x, BLOCK) \
    EACH(GET, y)                                                             \
    NEXT;                                                                    \
  }

/* These only by the latter. */
#define EXACT(name, function)            \
  HANDLER(name) {                        \
    float x[BLOCK];                      \
    EACH(PUT, x)                         \
    SX_EACH_EXACT(function, x, x, BLOCK) \
    EACH(GET, x)                         \
    NEXT;                                \
  }

/* The exact form without a table serves |x| < SX_TRIG_SMALL; the rare other elements are done anew. */
#define TRIGONOMETRIC(name, small, any)                                                                        \
  HANDLER(name) {                                                                                              \
    float x[BLOCK], y[BLOCK];                                                                                  \
    EACH(PUT, x)                                                                                               \
    if (!SX_TRY(any, y, x, BLOCK)) {                                                                           \
      SX_EACH_EXACT(small, y, x, BLOCK)                                                                        \
      for (int j = 0; j < BLOCK; j++)                                                                          \
        if (!(sx_from_bits_f32(sx_bits_f32(x[j]) & 0x7fffffffu) < SX_TRIG_SMALL)) y[j] = sx_##any##_f32(x[j]); \
    }                                                                                                          \
    EACH(GET, y)                                                                                               \
    NEXT;                                                                                                      \
  }

EXACT(signs, sign)
FUNCTION(exponential, exp)
FUNCTION(exponential2, exp2)
FUNCTION(exponential_less_1, expm1)
FUNCTION(logarithm, log)
FUNCTION(logarithm2, log2)
FUNCTION(logarithm_1p, log1p)
FUNCTION(tangent_h, tanh)
FUNCTION(error_function, erf)
EXACT(down, floor)
EXACT(up, ceil)
EXACT(nearest, round)
TRIGONOMETRIC(sine, sin_small, sin)
TRIGONOMETRIC(cosine, cos_small, cos)
TRIGONOMETRIC(tangent, tan_small, tan)

/* ---- memory -------------------------------------------------------------------------------------- */

HANDLER(load_vector) {
  const float *m = operand(at, k, table, 0);
  EACH(GET, m)
  NEXT;
}

#define SPREAD(n, x) r##n = x;
HANDLER(load_spread) {
  lanes x = spread(*operand(at, k, table, 0));
  EACH(SPREAD, x)
  NEXT;
}

HANDLER(store_vector) {
  float *m = operand(at, k, table, 0);
  EACH(PUT, m)
  NEXT;
}

HANDLER(load_bools) {
  const uint8_t *m = (const uint8_t *)table[at->at[0]] + (k & at->mask[0]);
  int32_t x[BLOCK];
  for (int i = 0; i < BLOCK; i += SX_BLOCK)
    SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) x[j] = -(int32_t)(m[j] != 0);
  const float *from = (const float *)x;
  EACH(GET, from)
  NEXT;
}

HANDLER(store_bools) {
  uint8_t *m = (uint8_t *)table[at->at[0]] + (k & at->mask[0]);
  int32_t x[BLOCK];
  float *to = (float *)x;
  EACH(PUT, to)
  for (int i = 0; i < BLOCK; i += SX_BLOCK)
    SX_VECTOR_LOOP for (int j = i; j < i + SX_BLOCK; j++) m[j] = (uint8_t)(x[j] & 1);
  NEXT;
}

#define CHOICE_VV(n, _) r##n = pick((ints)r##n, load(x + n * SX_LANES), load(y + n * SX_LANES));
#define CHOICE_VS(n, _) r##n = pick((ints)r##n, load(x + n * SX_LANES), spread(*y));
#define CHOICE_SV(n, _) r##n = pick((ints)r##n, spread(*x), load(y + n * SX_LANES));
#define CHOICE_SS(n, _) r##n = pick((ints)r##n, spread(*x), spread(*y));
#define WHERE(name, choice)                                                   \
  HANDLER(name) {                                                             \
    const float *x = operand(at, k, table, 0), *y = operand(at, k, table, 1); \
    EACH(choice, _)                                                           \
    NEXT;                                                                     \
  }
WHERE(where_vv, CHOICE_VV)
WHERE(where_vs, CHOICE_VS)
WHERE(where_sv, CHOICE_SV)
WHERE(where_ss, CHOICE_SS)

HANDLER(end) {
  (void)at;
  (void)k;
  (void)table;
  (void)r0, (void)r1, (void)r2, (void)r3, (void)r4, (void)r5, (void)r6, (void)r7;
}

static void run(const sx_link *links, void *const *table, int64_t n) {
  lanes zero = {0};
  for (int64_t k = 0; k < n; k += BLOCK)
    ((handler *)links->run)(links, k, table, zero, zero, zero, zero, zero, zero, zero, zero);
}

/* ---- reductions ---------------------------------------------------------------------------------- */

/* A sum's lanes hold sums; an extreme's hold keys, integers in the order of the numbers (of the opposite ones for a
 * minimum) with -0 below +0, and `nans` the lanes that met a NaN. The neutral element changes no lane: x + -0 is x for
 * every x. */
static float neutral(sx_op op) { return op == SX_OP_SUM ? -0.0f : op == SX_OP_REDUCEMAX ? -INFINITY : INFINITY; }

static int32_t key_of(float x) {
  int32_t bits = (int32_t)sx_bits_f32(x);
  return bits ^ ((bits >> 31) & INT32_MAX);
}

static void start_lanes(sx_op op, sx_fold *fold) {
  int32_t start = op == SX_OP_SUM ? INT32_MIN : key_of(-INFINITY);
  lanes all = spread(sx_from_bits_f32((uint32_t)start)), none = {0};
  SX_UNROLL for (int v = 0; v < FOLD_VECTORS; v++) {
    store(fold->lanes + v * SX_LANES, all);
    store((float *)fold->nans + v * SX_LANES, none);
  }
  fold->taken = 0;
}

/* Four lanes of a fold. */
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t keys __attribute__((vector_size(16), aligned(4), may_alias));
enum { QUADS = SX_FOLD_LANES / 4 };

/* The lanes as a tree. Those that no element came to hold the neutral value, which changes nothing. */
static float fold_sums(const float *x) {
  quad sums[QUADS];
  SX_UNROLL for (int i = 0; i < QUADS; i++) sums[i] = *(const quad *)(x + 4 * i);
  SX_UNROLL for (int h = QUADS / 2; h > 0; h /= 2) SX_UNROLL for (int i = 0; i < h; i++) sums[i] += sums[i + h];
  return (sums[0][0] + sums[0][2]) + (sums[0][1] + sums[0][3]);
}

static float fold_keys(sx_op op, const sx_fold *fold) {
  keys most = *(const keys *)(const void *)fold->lanes, nans = *(const keys *)fold->nans;
  SX_UNROLL for (int i = 1; i < QUADS; i++) {
    keys key = *(const keys *)(const void *)(fold->lanes + 4 * i), more = key > most;
    most = (more & key) | (~more & most);
    nans |= *(const keys *)(fold->nans + 4 * i);
  }
  int32_t first = most[0] > most[1] ? most[0] : most[1], last = most[2] > most[3] ? most[2] : most[3];
  int32_t key = first > last ? first : last;
  if (nans[0] | nans[1] | nans[2] | nans[3]) return sx_from_bits_f32(SX_NAN_F32);
  if (op == SX_OP_REDUCEMIN) key = ~key;
  return sx_from_bits_f32((uint32_t)key ^ ((uint32_t)(key >> 31) & INT32_MAX));
}

static void end_chunk(sx_fold *fold) {
  fold->chunks[fold->n_chunks++] = fold_sums(fold->lanes);
  start_lanes(SX_OP_SUM, fold);
}

static void fold_begin(sx_op op, sx_fold *fold, int64_t n) {
  fold->left = n;
  fold->n_chunks = 0;
  start_lanes(op, fold);
}

static float fold_end(sx_op op, sx_fold *fold) {
  if (op != SX_OP_SUM) return fold_keys(op, fold);
  if (fold->n_chunks == 0) return fold_sums(fold->lanes);
  if (fold->taken > 0) end_chunk(fold);
  for (int i = 0; i < fold->n_chunks; i++) fold->lanes[i] = fold->chunks[i];
  return fold_sums(fold->lanes);
}

#define ADD_ONE(n, _) s[n % FOLD_VECTORS] += r##n;
SX_INLINE void take_sum(sx_fold *fold, REGISTERS) {
  lanes s[FOLD_VECTORS];
  SX_UNROLL for (int v = 0; v < FOLD_VECTORS; v++) s[v] = load(fold->lanes + v * SX_LANES);
  EACH(ADD_ONE, _)
  SX_UNROLL for (int v = 0; v < FOLD_VECTORS; v++) store(fold->lanes + v * SX_LANES, s[v]);
  fold->left -= BLOCK;
  fold->taken += BLOCK;
  if (fold->taken == SX_FOLD_CHUNK && fold->left > 0) end_chunk(fold);
}

SX_INLINE ints larger(ints a, ints b) {
#if defined(__AVX512F__)
  return (ints)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  ints more = a > b;
  return (more & a) | (~more & b);
#endif
}

#define LARGER_ONE(n, flip)                                                                                \
  s[n % FOLD_VECTORS] = larger(s[n % FOLD_VECTORS], (ints)r##n ^ (((ints)r##n >> 31) & INT32_MAX) ^ flip); \
  nans |= (ints)(r##n != r##n);
SX_INLINE void take_extreme(sx_fold *fold, int32_t flip, REGISTERS) {
  ints s[FOLD_VECTORS], nans = (ints)load((const float *)fold->nans);
  SX_UNROLL for (int v = 0; v < FOLD_VECTORS; v++) s[v] = (ints)load(fold->lanes + v * SX_LANES);
  EACH(LARGER_ONE, flip)
  SX_UNROLL for (int v = 0; v < FOLD_VECTORS; v++) store(fold->lanes + v * SX_LANES, (lanes)s[v]);
  store((float *)fold->nans, (lanes)nans);
  fold->left -= BLOCK;
}

SX_INLINE void take_max(sx_fold *fold, REGISTERS) { take_extreme(fold, 0, PASSED); }
SX_INLINE void take_min(sx_fold *fold, REGISTERS) { take_extreme(fold, -1, PASSED); }

#define FOLD(name, op)                                                         \
  static __attribute__((noinline)) void rest_##name(sx_fold *fold, float *x) { \
    lanes r0, r1, r2, r3, r4, r5, r6, r7;                                      \
    for (int64_t j = fold->left; j < BLOCK; j++) x[j] = neutral(op);           \
    EACH(GET, x)                                                               \
    take_##name(fold, PASSED);                                                 \
  }                                                                            \
  HANDLER(fold_##name) {                                                       \
    sx_fold *fold = table[at->at[0]];                                          \
    if (fold->left >= BLOCK) {                                                 \
      take_##name(fold, PASSED);                                               \
    } else {                                                                   \
      float x[BLOCK];                                                          \
      EACH(PUT, x)                                                             \
      rest_##name(fold, x);                                                    \
    }                                                                          \
    NEXT;                                                                      \
  }
FOLD(sum, SX_OP_SUM)
FOLD(max, SX_OP_REDUCEMAX)
FOLD(min, SX_OP_REDUCEMIN)

/* ---- the table ----------------------------------------------------------------------------------- */

#define ROW(name)                                                                                   \
  {                                                                                                 \
    (sx_handler *)name##_vector, (sx_handler *)name##_vector_reversed, (sx_handler *)name##_spread, \
        (sx_handler *)name##_spread_reversed, (sx_handler *)name##_self                             \
  }

extern const sx_chain_kernels SX_AT_LEVEL(sx_chain_kernels);

const sx_chain_kernels SX_AT_LEVEL(sx_chain_kernels) = {
    .block = BLOCK,
    .binary =
        {
            [SX_OP_ADD] = ROW(add),
            [SX_OP_SUB] = ROW(sub),
            [SX_OP_MUL] = ROW(mul),
            [SX_OP_DIV] = ROW(div),
            [SX_OP_MAX] = ROW(max),
            [SX_OP_MIN] = ROW(min),
            [SX_OP_EQ] = ROW(eq),
            [SX_OP_NE] = ROW(ne),
            [SX_OP_LT] = ROW(lt),
            [SX_OP_LE] = ROW(le),
            [SX_OP_GT] = ROW(gt),
            [SX_OP_GE] = ROW(ge),
            [SX_OP_AND] = ROW(and),
            [SX_OP_OR] = ROW(or),
        },
    .unary =
        {
            [SX_OP_NEG] = (sx_handler *)negated,        [SX_OP_ABS] = (sx_handler *)absolute,
            [SX_OP_SIGN] = (sx_handler *)signs,         [SX_OP_SQRT] = (sx_handler *)root,
            [SX_OP_RSQRT] = (sx_handler *)inverse_root, [SX_OP_EXP] = (sx_handler *)exponential,
            [SX_OP_EXP2] = (sx_handler *)exponential2,  [SX_OP_EXPM1] = (sx_handler *)exponential_less_1,
            [SX_OP_LOG] = (sx_handler *)logarithm,      [SX_OP_LOG2] = (sx_handler *)logarithm2,
            [SX_OP_LOG1P] = (sx_handler *)logarithm_1p, [SX_OP_SIN] = (sx_handler *)sine,
            [SX_OP_COS] = (sx_handler *)cosine,         [SX_OP_TAN] = (sx_handler *)tangent,
            [SX_OP_TANH] = (sx_handler *)tangent_h,     [SX_OP_ERF] = (sx_handler *)error_function,
            [SX_OP_FLOOR] = (sx_handler *)down,         [SX_OP_CEIL] = (sx_handler *)up,
            [SX_OP_ROUND] = (sx_handler *)nearest,      [SX_OP_NOT] = (sx_handler *)inverted,
        },
    .load = (sx_handler *)load_vector,
    .spread = (sx_handler *)load_spread,
    .load_bools = (sx_handler *)load_bools,
    .store = (sx_handler *)store_vector,
    .store_bools = (sx_handler *)store_bools,
    .end = (sx_handler *)end,
    .where = {{(sx_handler *)where_vv, (sx_handler *)where_vs}, {(sx_handler *)where_sv, (sx_handler *)where_ss}},
    .bool_from_float = (sx_handler *)bool_from_float,
    .float_from_bool = (sx_handler *)float_from_bool,
    .folds = {[SX_OP_SUM] = (sx_handler *)fold_sum,
              [SX_OP_REDUCEMAX] = (sx_handler *)fold_max,
              [SX_OP_REDUCEMIN] = (sx_handler *)fold_min},
    .run = run,
    .fold_begin = fold_begin,
    .fold_end = fold_end,
};
