/* cvt, one value at a time, and arithmetic rounded toward one side; which SIMD level there is. */
#include <fenv.h>
#include <math.h>
#include <pthread.h>

#include "ptx_internal.h"

/* ---- levels ---- */

extern const sim_level sim_level_scalar;
#if defined(__x86_64__)
extern const sim_level sim_level_avx2, sim_level_avx512;
#endif

const sim_level *sim_level_at(size_t i) {
  if (i == 0) return &sim_level_scalar;
#if defined(__x86_64__)
  bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (i == 1 && has_avx2) return &sim_level_avx2;
  if (i == 2 && has_avx512) return &sim_level_avx512;
#endif
  return NULL;
}

const sim_level *sim_level_best(void) {
  size_t i = 0;
  while (sim_level_at(i + 1)) i++;
  return sim_level_at(i);
}

enum { N_SLOTS = 2048 };
static const sim_lane_row *slots[N_SLOTS];
static pthread_once_t slots_made = PTHREAD_ONCE_INIT;

static size_t hash(const char *text, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)text[i]) * 16777619u;
  return (h ^ h >> 15) % N_SLOTS;
}

static void make_slots(void) {
  const sim_level *level = sim_level_best();
  for (size_t i = 0; i < level->n_rows; i++) {
    size_t at = hash(level->rows[i].text, strlen(level->rows[i].text));
    while (slots[at]) at = (at + 1) % N_SLOTS;
    slots[at] = &level->rows[i];
  }
}

const sim_lane_row *sim_lane_find(const char *text, size_t n) {
  pthread_once(&slots_made, make_slots);
  for (size_t at = hash(text, n); slots[at]; at = (at + 1) % N_SLOTS)
    if (strncmp(slots[at]->text, text, n) == 0 && !slots[at]->text[n])
      return slots[at]->same ? sim_lane_find(slots[at]->same, strlen(slots[at]->same)) : slots[at];
  return NULL;
}

/* ---- rounding toward one side ---- */

static int fenv_mode(sim_rounding rounding) {
  return rounding == SIM_TO_ZERO ? FE_TOWARDZERO : rounding == SIM_DOWN ? FE_DOWNWARD : FE_UPWARD;
}

/* Volatile keeps the operation between the two changes of mode. */
#define DIRECTED(N, T, root, fused, nan)                                     \
  T sim_directed_##N(char operation, sim_rounding rounding, T x, T y, T z) { \
    volatile T a = x, b = y, c = z, result;                                  \
    int before = fegetround();                                               \
    fesetround(fenv_mode(rounding));                                         \
    switch (operation) {                                                     \
      case '+':                                                              \
        result = a + b;                                                      \
        break;                                                               \
      case '-':                                                              \
        result = a - b;                                                      \
        break;                                                               \
      case '*':                                                              \
        result = a * b;                                                      \
        break;                                                               \
      case '/':                                                              \
        result = a / b;                                                      \
        break;                                                               \
      case 's':                                                              \
        result = root(a);                                                    \
        break;                                                               \
      default:                                                               \
        result = fused(a, b, c);                                             \
        break;                                                               \
    }                                                                        \
    fesetround(before);                                                      \
    T value = result;                                                        \
    if (value != value) memcpy(&value, nan, sizeof value);                   \
    return value;                                                            \
  }
static const uint32_t NAN_F32 = 0x7fffffffu;
static const uint64_t NAN_F64 = 0xfff8000000000000u;
DIRECTED(f32, float, sqrtf, fmaf, &NAN_F32)
DIRECTED(f64, double, sqrt, fma, &NAN_F64)

/* ---- floating point in ---- */

static double f64_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float f32_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t bits_of_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double widen_f16(uint32_t bits) {
  int exponent = (int)(bits >> 10 & 31);
  double fraction = bits & 1023;
  double magnitude = exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                     : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                    : ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

/* Exact: every type but the 64-bit integers fits. */
static double value_of(sim_type type, uint64_t bits) {
  if (type.kind == SIM_BFLOAT) return (double)f32_of((uint32_t)bits << 16);
  if (type.kind == SIM_FLOAT)
    return type.size == 8 ? f64_of(bits) : type.size == 4 ? (double)f32_of((uint32_t)bits) : widen_f16((uint32_t)bits);
  return type.kind == SIM_SIGNED ? (double)(int64_t)bits : (double)bits;
}

/* ---- floating point out ---- */

static bool goes_up(sim_rounding rounding, bool is_negative, bool is_below) {
  return is_below && (rounding == SIM_UP ? !is_negative : rounding == SIM_DOWN ? is_negative : false);
}

/* x as sign, exponent and fraction of n_fraction bits; what is cut off decides by the rounding. */
static uint32_t narrow(double x, int n_fraction, int n_exponent, sim_rounding rounding) {
  uint32_t n_bits = (uint32_t)(1 + n_exponent + n_fraction), sign = (uint32_t)(bits_of(x) >> 63) << (n_bits - 1);
  uint32_t infinity = ((1u << n_exponent) - 1) << n_fraction;
  if (isnan(x)) return (1u << (n_bits - 1)) - 1;
  if (isinf(x)) return sign | infinity;
  if (x == 0) return sign;
  int exponent, least = 2 - (1 << (n_exponent - 1)); /* of the least normal number */
  frexp(x, &exponent);
  exponent = exponent - 1 > least ? exponent - 1 : least;
  double scaled = ldexp(fabs(x), n_fraction - exponent), whole = floor(scaled), rest = scaled - whole;
  uint64_t n = (uint64_t)whole;
  if (rounding == SIM_NEAREST ? rest > 0.5 || (rest == 0.5 && n & 1) : goes_up(rounding, sign != 0, rest > 0)) n++;
  uint64_t body = n + ((uint64_t)(exponent - least) << n_fraction); /* a carry goes on into the exponent */
  bool down = rounding == SIM_TO_ZERO || (rounding == SIM_DOWN && !sign) || (rounding == SIM_UP && sign);
  if (body >= infinity) body = down ? infinity - 1 : infinity;
  return sign | (uint32_t)body;
}

static uint32_t step_f32(float x, bool up) { return bits_of_f32(nextafterf(x, up ? INFINITY : -INFINITY)); }

static uint64_t f32_from(double x, sim_rounding rounding) {
  if (isnan(x)) return NAN_F32;
  float nearest = (float)x;
  if (rounding == SIM_DOWN || (rounding == SIM_TO_ZERO && x > 0)) {
    if ((double)nearest > x) return step_f32(nearest, false);
  } else if (rounding != SIM_NEAREST) {
    if ((double)nearest < x) return step_f32(nearest, true);
  }
  return bits_of_f32(nearest);
}

__extension__ typedef __int128 wide;

/* Of an integer; the float nearest to it is an integer too, so that the two compare exactly. */
static uint64_t float_from_integer(sim_type to, wide x, sim_rounding rounding) {
  double nearest = to.size == 4 ? (double)(x < 0 ? (float)(int64_t)x : (float)(uint64_t)x)
                                : (x < 0 ? (double)(int64_t)x : (double)(uint64_t)x);
  wide got = (wide)nearest;
  bool above = got > x, below = got < x;
  bool down = above && (rounding == SIM_DOWN || (rounding == SIM_TO_ZERO && x > 0));
  bool up = below && (rounding == SIM_UP || (rounding == SIM_TO_ZERO && x < 0));
  if (to.size == 4) return down || up ? step_f32((float)nearest, up) : bits_of_f32((float)nearest);
  if (down || up) nearest = nextafter(nearest, up ? (double)INFINITY : -(double)INFINITY);
  return bits_of(nearest);
}

static double to_integral(double x, sim_rounding rounding) {
  return rounding == SIM_NEAREST   ? rint(x)
         : rounding == SIM_TO_ZERO ? trunc(x)
         : rounding == SIM_DOWN    ? floor(x)
                                   : ceil(x);
}

static uint64_t to_float(const sim_conversion *c, double x) {
  if (c->to_integer) x = to_integral(x, c->rounding);
  if (c->saturates) x = x > 0 ? (x < 1 ? x : 1) : 0; /* a NaN and -0 give +0 */
  sim_rounding rounding = c->to_integer ? SIM_NEAREST : c->rounding;
  if (c->to.kind == SIM_BFLOAT) return narrow(x, 7, 8, rounding);
  if (c->to.size == 2) return narrow(x, 10, 5, rounding);
  if (c->to.size == 4) return f32_from(x, rounding);
  return isnan(x) ? NAN_F64 : bits_of(x);
}

/* ---- integers out ---- */

static wide least_of(sim_type type) { return type.kind == SIM_SIGNED ? -((wide)1 << (8 * type.size - 1)) : 0; }
static wide most_of(sim_type type) { return ((wide)1 << (8 * type.size - (type.kind == SIM_SIGNED))) - 1; }

static uint64_t extended(sim_type type, uint64_t bits) {
  int n = 64 - 8 * type.size;
  return type.kind == SIM_SIGNED ? (uint64_t)((int64_t)(bits << n) >> n) : bits << n >> n;
}

/* Saturates; a NaN gives 0, or the sign bit alone where 64 bits are on either side. */
static uint64_t integer_from(const sim_conversion *c, double x) {
  if (isnan(x)) return c->from.size == 8 || c->to.size == 8 ? (uint64_t)1 << (8 * c->to.size - 1) : 0;
  x = to_integral(x, c->rounding);
  wide least = least_of(c->to), most = most_of(c->to);
  if (x < (double)least) return extended(c->to, (uint64_t)least);
  if (x > (double)most || (wide)x > most) return extended(c->to, (uint64_t)most);
  return extended(c->to, (uint64_t)(wide)x);
}

uint64_t sim_convert(const sim_conversion *c, uint64_t bits) {
  bool from_float = c->from.kind >= SIM_FLOAT, is_float = c->to.kind >= SIM_FLOAT;
  if (from_float) return is_float ? to_float(c, value_of(c->from, bits)) : integer_from(c, value_of(c->from, bits));
  uint64_t whole = extended(c->from, bits);
  wide x = c->from.kind == SIM_SIGNED ? (wide)(int64_t)whole : (wide)whole;
  if (is_float && c->to.size >= 4 && c->to.kind == SIM_FLOAT && !c->saturates)
    return float_from_integer(c->to, x, c->rounding);
  if (is_float) return to_float(c, (double)x);
  if (c->saturates) x = x < least_of(c->to) ? least_of(c->to) : x > most_of(c->to) ? most_of(c->to) : x;
  return extended(c->to, (uint64_t)x);
}
