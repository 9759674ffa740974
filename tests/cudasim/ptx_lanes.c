/* The rows of ptx_lanes.def as loops over the 32 lanes of a warp, compiled once a SIMD level: all lanes are computed,
 * whoever is active (the caller keeps what inactive lanes hold). */
#include "ptx_internal.h"

typedef uint32_t flag;
__extension__ typedef __int128 sim_int128;
__extension__ typedef unsigned __int128 sim_uint128;

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#define EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < SIM_N_LANES; i++)
#else
#define EACH_LANE _Pragma("GCC ivdep") for (int i = 0; i < SIM_N_LANES; i++)
#endif
#define SIM_FLAG(condition) (0u - (flag)(condition))

/* ---- values ---- */

static inline float sim_nan_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = x != x ? 0x7fffffffu : bits;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline double sim_nan_f64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = x != x ? 0xfff8000000000000u : bits;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float sim_sqrt_f32(float x) { return __builtin_sqrtf(x); }
static inline double sim_sqrt_f64(double x) { return __builtin_sqrt(x); }
static inline float sim_fma_f32(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double sim_fma_f64(double x, double y, double z) { return __builtin_fma(x, y, z); }

/* One NaN gives the other operand; -0 is below +0. */
#define EXTREMES(N, T, U)                                      \
  static inline T sim_min_##N(T x, T y) {                      \
    U ux, uy;                                                  \
    memcpy(&ux, &x, sizeof x);                                 \
    memcpy(&uy, &y, sizeof y);                                 \
    U equal = ux | uy, bits = x < y ? ux : y < x ? uy : equal; \
    bits = x != x ? uy : y != y ? ux : bits;                   \
    memcpy(&x, &bits, sizeof x);                               \
    return sim_nan_##N(x);                                     \
  }                                                            \
  static inline T sim_max_##N(T x, T y) {                      \
    U ux, uy;                                                  \
    memcpy(&ux, &x, sizeof x);                                 \
    memcpy(&uy, &y, sizeof y);                                 \
    U equal = ux & uy, bits = x > y ? ux : y > x ? uy : equal; \
    bits = x != x ? uy : y != y ? ux : bits;                   \
    memcpy(&x, &bits, sizeof x);                               \
    return sim_nan_##N(x);                                     \
  }
EXTREMES(f32, float, uint32_t)
EXTREMES(f64, double, uint64_t)

static inline uint32_t sim_leading(uint64_t x, uint32_t n_bits) {
  return x ? (uint32_t)__builtin_clzll(x) - (64 - n_bits) : n_bits;
}

static inline uint64_t sim_reversed(uint64_t x) {
  x = (x >> 1 & 0x5555555555555555u) | (x & 0x5555555555555555u) << 1;
  x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
  return __builtin_bswap64(x);
}

/* bfe: n bits from begin on; beyond the top come zeros, or the sign of the topmost bit that was taken. */
static inline uint64_t sim_extract(uint64_t x, uint32_t begin, uint32_t n, uint32_t width, bool is_signed) {
  begin &= 255;
  n &= 255;
  if (n == 0) return 0;
  uint32_t top = begin + n - 1 < width - 1 ? begin + n - 1 : width - 1;
  uint64_t sign = is_signed && x >> top & 1 ? ~(uint64_t)0 : 0;
  uint64_t taken = begin < width ? x >> begin : 0, mask = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
  uint32_t n_there = begin < width ? (n < width - begin ? n : width - begin) : 0;
  uint64_t there = n_there < 64 ? ((uint64_t)1 << n_there) - 1 : ~(uint64_t)0;
  return (taken & mask & there) | (sign & ~there);
}

static inline uint64_t sim_insert(uint64_t x, uint64_t into, uint32_t begin, uint32_t n, uint32_t width) {
  begin &= 255;
  n &= 255;
  if (begin >= width || n == 0) return into;
  uint64_t mask = (n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0) << begin;
  return (into & ~mask) | (x << begin & mask);
}

static inline uint32_t sim_lop3(uint32_t x, uint32_t y, uint32_t z, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 8; i++) {
    uint32_t where = (i & 4 ? x : ~x) & (i & 2 ? y : ~y) & (i & 1 ? z : ~z);
    result |= where & (0u - (table >> i & 1));
  }
  return result;
}

static inline uint32_t sim_permute(uint32_t x, uint32_t y, uint32_t selector) {
  uint64_t bytes = (uint64_t)y << 32 | x;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t choice = selector >> 4 * i & 15, byte = (uint32_t)(bytes >> 8 * (choice & 7)) & 255;
    if (choice & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/* ---- rows ---- */

#define SIM_LOOP(name, D, operands, value)                                                     \
  static void name(void *dv, const void *av, const void *bv, const void *cv, const void *ev) { \
    D *d = dv;                                                                                 \
    (void)av, (void)bv, (void)cv, (void)ev;                                                    \
    EACH_LANE { operands d[i] = value; }                                                       \
  }
#define SIM_GIVEN(T, name, from) T name = ((const T *)from)[i];
#define SIM_1(text, name, D, A, value) SIM_LOOP(name, D, SIM_GIVEN(A, x, av), value)
#define SIM_2(text, name, D, A, B, value) SIM_LOOP(name, D, SIM_GIVEN(A, x, av) SIM_GIVEN(B, y, bv), value)
#define SIM_3(text, name, D, A, B, C, value) \
  SIM_LOOP(name, D, SIM_GIVEN(A, x, av) SIM_GIVEN(B, y, bv) SIM_GIVEN(C, z, cv), value)
#define SIM_4(text, name, D, A, B, C, E, value) \
  SIM_LOOP(name, D, SIM_GIVEN(A, x, av) SIM_GIVEN(B, y, bv) SIM_GIVEN(C, z, cv) SIM_GIVEN(E, w, ev), value)
#define SIM_SAME(text, other)
#include "ptx_lanes.def"
#undef SIM_1
#undef SIM_2
#undef SIM_3
#undef SIM_4
#undef SIM_SAME

#define SIM_1(text, name, D, A, value) {text, NULL, name, {sizeof(D), sizeof(A)}},
#define SIM_2(text, name, D, A, B, value) {text, NULL, name, {sizeof(D), sizeof(A), sizeof(B)}},
#define SIM_3(text, name, D, A, B, C, value) {text, NULL, name, {sizeof(D), sizeof(A), sizeof(B), sizeof(C)}},
#define SIM_4(text, name, D, A, B, C, E, value) \
  {text, NULL, name, {sizeof(D), sizeof(A), sizeof(B), sizeof(C), sizeof(E)}},
#define SIM_SAME(text, other) {text, other, NULL, {0}},
static const sim_lane_row ROWS[] = {
#include "ptx_lanes.def"
};

/* ---- what the executing loop needs of a whole warp ---- */

static uint32_t ballot(const uint32_t *flags) {
  static const uint32_t BITS[SIM_N_LANES] = {
      1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,  1u << 8,  1u << 9,  1u << 10,
      1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21,
      1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};
  uint32_t bits = 0;
  EACH_LANE bits |= flags[i] & BITS[i];
  return bits;
}

static void spread(uint32_t *flags, uint32_t bits) { EACH_LANE flags[i] = SIM_FLAG(bits >> i & 1); }

static void blend(void *d, const void *from, const uint32_t *flags, size_t width) {
  if (width == 8) {
    uint64_t *to = d;
    const uint64_t *values = from;
    EACH_LANE to[i] = flags[i] ? values[i] : to[i];
  } else if (width == 4) {
    uint32_t *to = d;
    const uint32_t *values = from;
    EACH_LANE to[i] = flags[i] ? values[i] : to[i];
  } else {
    uint16_t *to = d;
    const uint16_t *values = from;
    EACH_LANE to[i] = flags[i] ? values[i] : to[i];
  }
}

static void place(sim_places *places, const uint64_t *base, uint64_t offset, uint64_t n_bytes) {
  uint64_t *address = places->address, first = base[0] + offset;
  uint64_t least = UINT64_MAX, most = 0, any = 0, uneven = 0, unequal = 0;
  EACH_LANE {
    uint64_t a = base[i] + offset;
    address[i] = a;
    least = a < least ? a : least;
    most = a > most ? a : most;
    any |= a;
    uneven |= a ^ (first + (uint64_t)i * n_bytes);
    unequal |= a ^ first;
  }
  places->least = least;
  places->most = most;
  places->any = any;
  places->is_row = !uneven;
  places->is_one = !unequal;
}

#define NAMED(level) NAMED_AGAIN(level)
#define NAMED_AGAIN(level) sim_level_##level
const sim_level NAMED(SX_LEVEL) = {ROWS, sizeof ROWS / sizeof *ROWS, ballot, spread, blend, place};
