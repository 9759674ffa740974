/* What handlers of chains are written in: kernels_chain.c, kernels_chain_types.c. Internal to the files of a level. */
#ifndef SX_CPU_CHAIN_HANDLER_H
#define SX_CPU_CHAIN_HANDLER_H

#include "chain.h"
#include "level.h"

typedef float lanes __attribute__((vector_size(SX_LANES * 4)));
typedef int32_t ints __attribute__((vector_size(SX_LANES * 4)));
enum { VECTORS = 8, BLOCK = VECTORS * SX_LANES };

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

SX_INLINE lanes pick(ints mask, lanes yes, lanes no) { return (lanes)((mask & (ints)yes) | (~mask & (ints)no)); }

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

#define WITH_VECTOR(n, f)                 \
  r##n = f(r##n, load(m + n * SX_LANES)); \
  IN_ORDER;
#define WITH_VECTOR_REVERSED(n, f)        \
  r##n = f(load(m + n * SX_LANES), r##n); \
  IN_ORDER;
#define WITH_SPREAD(n, f) r##n = f(r##n, y);
#define WITH_SPREAD_REVERSED(n, f) r##n = f(y, r##n);
#define WITH_SELF(n, f) r##n = f(r##n, r##n);

#define BINARY(name, expression)                                               \
  SX_INLINE lanes two_##name(lanes a, lanes b) { return (lanes)(expression); } \
  HANDLER(name##_vector) {                                                     \
    const float *m = operand(at, k, table, 0);                                 \
    EACH(WITH_VECTOR, two_##name)                                              \
    NEXT;                                                                      \
  }                                                                            \
  HANDLER(name##_vector_reversed) {                                            \
    const float *m = operand(at, k, table, 0);                                 \
    EACH(WITH_VECTOR_REVERSED, two_##name)                                     \
    NEXT;                                                                      \
  }                                                                            \
  HANDLER(name##_spread) {                                                     \
    lanes y = spread(*operand(at, k, table, 0));                               \
    EACH(WITH_SPREAD, two_##name)                                              \
    NEXT;                                                                      \
  }                                                                            \
  HANDLER(name##_spread_reversed) {                                            \
    lanes y = spread(*operand(at, k, table, 0));                               \
    EACH(WITH_SPREAD_REVERSED, two_##name)                                     \
    NEXT;                                                                      \
  }                                                                            \
  HANDLER(name##_self) {                                                       \
    EACH(WITH_SELF, two_##name)                                                \
    NEXT;                                                                      \
  }

/* The forms of an operation, in a table. */
#define ROW(name)                                                                                   \
  {                                                                                                 \
    (sx_handler *)name##_vector, (sx_handler *)name##_vector_reversed, (sx_handler *)name##_spread, \
        (sx_handler *)name##_spread_reversed, (sx_handler *)name##_self                             \
  }

#define WITH_ONE(n, f) r##n = f(r##n);
#define UNARY(name, expression)                                       \
  SX_INLINE lanes one_##name(lanes x) { return (lanes)(expression); } \
  HANDLER(name) {                                                     \
    EACH(WITH_ONE, one_##name)                                        \
    NEXT;                                                             \
  }

#endif
