/* The handlers of chains (chain.h). A handler ends in a call of the next one with the same arguments, which compilers
 * make a jump: the eight vectors of the accumulator stay in the registers that arguments are passed in. */
#include <math.h>

#include "chain_handler.h"
#include "vector_math.h"
#include "vector_root.h"

enum { FOLD_VECTORS = SX_SUM_LANES / SX_LANES };

/* ---- operations of two --------------------------------------------------------------------------- */

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

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(max, maximum(a, b))
BINARY(min, minimum(a, b))
BINARY(eq, a == b)
BINARY(ne, a != b)
BINARY(lt, a < b)
BINARY(le, a <= b)
BINARY(gt, a > b)
BINARY(ge, a >= b)
BINARY(and, (ints)a &(ints)b)
BINARY(or, (ints)a | (ints)b)

/* ---- operations of the accumulator and a term ---------------------------------------------------- */

#define FIND_SCALED                          \
  const float *x = operand(at, k, table, 0); \
  lanes y = spread(*operand(at, k, table, 1));
#define FIND_PRODUCT const float *x = operand(at, k, table, 0), *y = operand(at, k, table, 1);
#define SCALED(n) two_mul(load(x + n * SX_LANES), y)
#define PRODUCT(n) two_mul(load(x + n * SX_LANES), load(y + n * SX_LANES))
#define QUOTIENT(n) two_div(load(x + n * SX_LANES), y)
#define WITH_SCALED(n, f)    \
  r##n = f(r##n, SCALED(n)); \
  IN_ORDER;
#define SCALED_WITH(n, f)    \
  r##n = f(SCALED(n), r##n); \
  IN_ORDER;
#define WITH_PRODUCT(n, f)    \
  r##n = f(r##n, PRODUCT(n)); \
  IN_ORDER;
#define PRODUCT_WITH(n, f)    \
  r##n = f(PRODUCT(n), r##n); \
  IN_ORDER;
#define WITH_QUOTIENT(n, f)    \
  r##n = f(r##n, QUOTIENT(n)); \
  IN_ORDER;
#define QUOTIENT_WITH(n, f)    \
  r##n = f(QUOTIENT(n), r##n); \
  IN_ORDER;

#define TERM(name, find, with, function) \
  HANDLER(name) { find EACH(with, function) NEXT; }
#define TERMS(name)                                             \
  TERM(name##_scaled, FIND_SCALED, WITH_SCALED, two_##name)     \
  TERM(scaled_##name, FIND_SCALED, SCALED_WITH, two_##name)     \
  TERM(name##_product, FIND_PRODUCT, WITH_PRODUCT, two_##name)  \
  TERM(product_##name, FIND_PRODUCT, PRODUCT_WITH, two_##name)  \
  TERM(name##_quotient, FIND_SCALED, WITH_QUOTIENT, two_##name) \
  TERM(quotient_##name, FIND_SCALED, QUOTIENT_WITH, two_##name)
TERMS(add)
TERMS(sub)
TERMS(mul)
TERMS(div)

/* The forms of a term, in a table. */
#define TERM_ROW(term)                                                  \
  {                                                                     \
    [SX_OP_ADD] = {(sx_handler *)add_##term, (sx_handler *)term##_add}, \
    [SX_OP_SUB] = {(sx_handler *)sub_##term, (sx_handler *)term##_sub}, \
    [SX_OP_MUL] = {(sx_handler *)mul_##term, (sx_handler *)term##_mul}, \
    [SX_OP_DIV] = {(sx_handler *)div_##term, (sx_handler *)term##_div}, \
  }

/* ---- operations of one --------------------------------------------------------------------------- */

#if defined(__AVX512F__)
#define ROOT(x) (lanes) _mm512_sqrt_ps((__m512)(x))
#define WHOLE(x, way) (lanes) _mm512_roundscale_ps((__m512)(x), (way) | _MM_FROUND_NO_EXC)
#elif defined(__AVX2__)
#define ROOT(x) (lanes) _mm256_sqrt_ps((__m256)(x))
#define WHOLE(x, way) (lanes) _mm256_round_ps((__m256)(x), (way) | _MM_FROUND_NO_EXC)
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
UNARY(inverse_root, canonical(spread(1.0f) / canonical(ROOT(x))))
UNARY(inverted, ~(ints)x)

#if SX_VECTOR_ROOT
UNARY(divider_root, canonical(ROOT(x)))
#define TAKE_RADICAND(n, held) sx_radicands_take(held, (sx_floats)r##n);
#define BY_DIVIDER(n) r##n = ROOT(r##n);
#define BY_FUSING(n) r##n = (lanes)sx_root((sx_floats)r##n);
/* Half of the registers each way, so that the divider and the rest are busy together. */
HANDLER(root) {
  sx_radicands held = sx_radicands_none();
  EACH(TAKE_RADICAND, &held)
  if (sx_radicands_suit(&held)) {
    BY_DIVIDER(0)
    BY_FUSING(1)
    BY_DIVIDER(2)
    BY_FUSING(3)
    BY_DIVIDER(4)
    BY_FUSING(5)
    BY_DIVIDER(6)
    BY_FUSING(7)
    NEXT;
  } else {
    divider_root(at, k, table, PASSED);
  }
}
#else
UNARY(root, canonical(ROOT(x)))
#endif

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
#if defined(WHOLE)
UNARY(down, canonical(WHOLE(x, _MM_FROUND_TO_NEG_INF)))
UNARY(up, canonical(WHOLE(x, _MM_FROUND_TO_POS_INF)))
UNARY(nearest, canonical(WHOLE(x, _MM_FROUND_TO_NEAREST_INT)))
#else
EXACT(down, floor)
EXACT(up, ceil)
EXACT(nearest, round)
#endif
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

#define ADD_TO(n, m)                                               \
  store(m + n * SX_LANES, (lanes)(load(m + n * SX_LANES) + r##n)); \
  IN_ORDER;
HANDLER(add_to_memory) {
  float *m = operand(at, k, table, 0);
  EACH(ADD_TO, m)
  NEXT;
}

HANDLER(store_vector) {
  float *m = operand(at, k, table, 0);
  EACH(PUT, m)
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
enum { QUADS = SX_SUM_LANES / 4 };

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
  if (fold->taken == SX_SUM_CHUNK && fold->left > 0) end_chunk(fold);
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

static void fold_columns(float *table, int64_t room, int64_t begin, int64_t end, float *out) {
  for (int h = SX_SUM_LANES / 2; h > 0; h /= 2)
    for (int j = 0; j < h; j++) {
      float *to = table + j * room;
      const float *from = table + (j + h) * room;
      int64_t k = begin;
      for (; k + SX_LANES <= end; k += SX_LANES) store(to + k, (lanes)(load(to + k) + load(from + k)));
      for (; k < end; k++) to[k] += from[k];
    }
  memcpy(out + begin, table + begin, (size_t)(end - begin) * 4);
}

/* ---- the table ----------------------------------------------------------------------------------- */

extern const sx_chain_kernels SX_AT_LEVEL(sx_chain_kernels);
extern const sx_chain_types SX_AT_LEVEL(sx_chain_types);

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
    .terms = {[SX_TERM_SCALED] = TERM_ROW(scaled),
              [SX_TERM_PRODUCT] = TERM_ROW(product),
              [SX_TERM_QUOTIENT] = TERM_ROW(quotient)},
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
    .store = (sx_handler *)store_vector,
    .add = (sx_handler *)add_to_memory,
    .end = (sx_handler *)end,
    .where = {{(sx_handler *)where_vv, (sx_handler *)where_vs}, {(sx_handler *)where_sv, (sx_handler *)where_ss}},
    .types = &SX_AT_LEVEL(sx_chain_types),
    .folds = {[SX_OP_SUM] = (sx_handler *)fold_sum,
              [SX_OP_REDUCEMAX] = (sx_handler *)fold_max,
              [SX_OP_REDUCEMIN] = (sx_handler *)fold_min},
    .run = run,
    .fold_begin = fold_begin,
    .fold_end = fold_end,
    .fold_columns = fold_columns,
};
