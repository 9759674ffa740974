/* Single instructions of PTX, through inline assembly, against what the PTX ISA says of them in C. */
#include <fenv.h>
#include <math.h>

#include "../../kernels/math.h"
#include "../common/cmocka_all.h"
#include "../cudasim/ptx_case.h"
#include "../cudasim/ptx_internal.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef signed __int128 signed_wide;

/* ---- what the rows are written with ---- */

static float f(uint64_t bits) { return sx_from_bits_f32((uint32_t)bits); }
static double d(uint64_t bits) { return sx_from_bits_f64(bits); }
static uint64_t of_f(float x) { return x != x ? 0x7fffffffu : sx_bits_f32(x); }
static uint64_t of_d(double x) { return x != x ? 0xfff8000000000000u : sx_bits_f64(x); }
static int32_t s32(uint64_t x) { return (int32_t)(uint32_t)x; }
static int64_t s64(uint64_t x) { return (int64_t)x; }
static uint32_t u32(uint64_t x) { return (uint32_t)x; }

typedef enum operation { ADD, MUL, DIV, ROOT, FMA, NARROW, FROM_S32, FROM_S64, FROM_U64 } operation;

static uint64_t rounded_f(int mode, operation o, uint64_t x, uint64_t y, uint64_t z) {
  volatile float a = f(x), b = f(y), c = f(z), r = 0;
  volatile double wider = d(x);
  volatile int64_t whole = o == FROM_S32 ? s32(x) : s64(x);
  volatile uint64_t natural = x;
  fesetround(mode);
  switch (o) {
    case ADD:
      r = a + b;
      break;
    case MUL:
      r = a * b;
      break;
    case DIV:
      r = a / b;
      break;
    case ROOT:
      r = sqrtf(a);
      break;
    case FMA:
      r = fmaf(a, b, c);
      break;
    case NARROW:
      r = (float)wider;
      break;
    case FROM_U64:
      r = (float)natural;
      break;
    default:
      r = (float)whole;
      break;
  }
  fesetround(FE_TONEAREST);
  return of_f(r);
}

static uint64_t rounded_d(int mode, operation o, uint64_t x, uint64_t y, uint64_t z) {
  volatile double a = d(x), b = d(y), c = d(z), r = 0;
  volatile int64_t whole = s64(x);
  fesetround(mode);
  switch (o) {
    case ADD:
      r = a + b;
      break;
    case MUL:
      r = a * b;
      break;
    case DIV:
      r = a / b;
      break;
    case ROOT:
      r = sqrt(a);
      break;
    case FMA:
      r = fma(a, b, c);
      break;
    default:
      r = (double)whole;
      break;
  }
  fesetround(FE_TONEAREST);
  return of_d(r);
}

/* x, already integral, as an integer of that many bits. */
static uint64_t whole(double x, int n_bits, bool is_signed, bool is_long) {
  double least = is_signed ? -ldexp(1, n_bits - 1) : 0, beyond = ldexp(1, n_bits - is_signed);
  if (x != x) return is_long ? (uint64_t)1 << (n_bits - 1) : 0;
  if (x < least) x = least;
  if (x >= beyond) return ((uint64_t)1 << (n_bits - is_signed - 1)) * 2 - 1;
  return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

static uint64_t bits_between(uint64_t x, uint32_t begin, uint32_t n, uint32_t width, bool is_signed) {
  uint64_t result = 0, sign = 0;
  begin &= 255, n &= 255;
  if (n && is_signed) sign = x >> (begin + n - 1 < width - 1 ? begin + n - 1 : width - 1) & 1;
  for (uint32_t i = 0; i < width; i++) result |= (i < n && begin + i < width ? x >> (begin + i) & 1 : sign) << i;
  return result;
}

static uint64_t bits_set(uint64_t x, uint64_t into, uint32_t begin, uint32_t n, uint32_t width) {
  begin &= 255, n &= 255;
  for (uint32_t i = 0; i < n && begin + i < width; i++)
    into = (into & ~((uint64_t)1 << (begin + i))) | (x >> i & 1) << (begin + i);
  return into;
}

static uint64_t reversed(uint64_t x, int n) {
  uint64_t result = 0;
  for (int i = 0; i < n; i++) result |= (x >> i & 1) << (n - 1 - i);
  return result;
}

static uint32_t top(uint64_t x, uint32_t otherwise) {
  uint32_t i = 64;
  while (i-- > 0)
    if (x >> i & 1) return i;
  return otherwise;
}

static uint32_t permuted(uint32_t x, uint32_t y, uint32_t selector) {
  uint8_t bytes[8], result[4];
  uint32_t word;
  memcpy(bytes, &x, 4);
  memcpy(bytes + 4, &y, 4);
  for (int i = 0; i < 4; i++) {
    uint8_t byte = bytes[selector >> 4 * i & 7];
    result[i] = selector >> 4 * i & 8 ? (uint8_t)(byte & 128 ? 255 : 0) : byte;
  }
  memcpy(&word, result, 4);
  return word;
}

static float least_of(float x, float y) {
  return x != x ? y : y != y ? x : x == y ? (signbit(x) ? x : y) : x < y ? x : y;
}
static float most_of(float x, float y) {
  return x != x ? y : y != y ? x : x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

static uint64_t f16_of(float x) { return x != x ? 0x7fff : sx_f16_from_f32(x); }
static uint64_t bf16_of(float x) { return x != x ? 0x7fff : sx_bf16_from_f32(x); }

/* ---- rows: name, letters of the operands (r l h f d; the result first), text, value of a b c e ---- */

#define PREDICATE(text) "{ .reg .pred p, q; setp.ne.s32 q, %3, 0; " text " selp.u32 %0, 1, 0, p; }"
#define ROWS(X)                                                                                                        \
  X(add_s32, "rrr", "add.s32 %0, %1, %2;", u32(a + b))                                                                 \
  X(add_s16, "hhh", "add.s16 %0, %1, %2;", (uint16_t)(a + b))                                                          \
  X(sub_s64, "lll", "sub.s64 %0, %1, %2;", a - b)                                                                      \
  X(mul_lo_s32, "rrr", "mul.lo.s32 %0, %1, %2;", u32(a *b))                                                            \
  X(mul_lo_s16, "hhh", "mul.lo.s16 %0, %1, %2;", (uint16_t)(a * b))                                                    \
  X(mul_hi_s32, "rrr", "mul.hi.s32 %0, %1, %2;", u32((uint64_t)(((int64_t)s32(a) * s32(b)) >> 32)))                    \
  X(mul_hi_u32, "rrr", "mul.hi.u32 %0, %1, %2;", ((uint64_t)u32(a) * u32(b)) >> 32)                                    \
  X(mul_hi_s64, "lll", "mul.hi.s64 %0, %1, %2;", (uint64_t)(((signed_wide)s64(a) * s64(b)) >> 64))                     \
  X(mul_hi_u64, "lll", "mul.hi.u64 %0, %1, %2;", (uint64_t)(((wide)a * b) >> 64))                                      \
  X(mul_wide_s32, "lrr", "mul.wide.s32 %0, %1, %2;", (uint64_t)((int64_t)s32(a) * s32(b)))                             \
  X(mul_wide_u16, "rhh", "mul.wide.u16 %0, %1, %2;", (uint32_t)(uint16_t)a *(uint16_t)b)                               \
  X(mul_wide_s16, "rhh", "mul.wide.s16 %0, %1, %2;", u32((uint64_t)((int16_t)(uint16_t)a * (int16_t)(uint16_t)b)))     \
  X(mad_lo_s32, "rrrr", "mad.lo.s32 %0, %1, %2, %3;", u32(a *b + c))                                                   \
  X(mad_lo_u64, "llll", "mad.lo.u64 %0, %1, %2, %3;", a *b + c)                                                        \
  X(mad_wide_u32, "lrrl", "mad.wide.u32 %0, %1, %2, %3;", (uint64_t)u32(a) * u32(b) + c)                               \
  X(mad_hi_u32, "rrrr", "mad.hi.u32 %0, %1, %2, %3;", u32((((uint64_t)u32(a) * u32(b)) >> 32) + c))                    \
  X(div_s32, "rrr", "div.s32 %0, %1, %2;",                                                                             \
    u32(b) == 0 ? ~0u : u32((uint64_t)((int64_t)s32(a) / (u32(b) ? s32(b) : 1))))                                      \
  X(rem_s32, "rrr", "rem.s32 %0, %1, %2;", u32(b) == 0 ? u32(a) : u32((uint64_t)((int64_t)s32(a) % s32(b))))           \
  X(div_u64, "lll", "div.u64 %0, %1, %2;", b == 0 ? ~(uint64_t)0 : a / b)                                              \
  X(rem_u64, "lll", "rem.u64 %0, %1, %2;", b == 0 ? a : a % b)                                                         \
  X(div_s64, "lll", "div.s64 %0, %1, %2;", b == 0 ? ~(uint64_t)0 : (uint64_t)((signed_wide)s64(a) / (b ? s64(b) : 1))) \
  X(rem_s64, "lll", "rem.s64 %0, %1, %2;", b == 0 ? a : (uint64_t)((signed_wide)s64(a) % s64(b)))                      \
  X(min_s32, "rrr", "min.s32 %0, %1, %2;", s32(a) < s32(b) ? u32(a) : u32(b))                                          \
  X(max_u64, "lll", "max.u64 %0, %1, %2;", a > b ? a : b)                                                              \
  X(abs_s64, "ll", "abs.s64 %0, %1;", s64(a) < 0 ? 0 - a : a)                                                          \
  X(neg_s32, "rr", "neg.s32 %0, %1;", u32(0 - a))                                                                      \
  X(shl_b32, "rrr", "shl.b32 %0, %1, %2;", u32(b) < 32 ? u32(a << u32(b)) : 0)                                         \
  X(shr_s32, "rrr", "shr.s32 %0, %1, %2;", u32((uint64_t)((int64_t)s32(a) >> (u32(b) < 32 ? u32(b) : 31))))            \
  X(shl_b64, "llr", "shl.b64 %0, %1, %2;", u32(b) < 64 ? a << (b & 63) : 0)                                            \
  X(shr_u64, "llr", "shr.u64 %0, %1, %2;", u32(b) < 64 ? a >> (b & 63) : 0)                                            \
  X(shr_s64, "llr", "shr.s64 %0, %1, %2;", (uint64_t)(s64(a) >> (u32(b) < 64 ? u32(b) : 63)))                          \
  X(popc_b64, "rl", "popc.b64 %0, %1;", (uint32_t)__builtin_popcountll(a))                                             \
  X(clz_b32, "rr", "clz.b32 %0, %1;", 31u - top(u32(a), ~0u))                                                          \
  X(clz_b64, "rl", "clz.b64 %0, %1;", 63u - top(a, ~0u))                                                               \
  X(brev_b32, "rr", "brev.b32 %0, %1;", reversed(a, 32))                                                               \
  X(brev_b64, "ll", "brev.b64 %0, %1;", reversed(a, 64))                                                               \
  X(bfind_u32, "rr", "bfind.u32 %0, %1;", top(u32(a), ~0u))                                                            \
  X(bfind_s32, "rr", "bfind.s32 %0, %1;", top(s32(a) < 0 ? ~u32(a) : u32(a), ~0u))                                     \
  X(bfind_s64, "rl", "bfind.s64 %0, %1;", top(s64(a) < 0 ? ~a : a, ~0u))                                               \
  X(bfind_shift, "rr", "bfind.shiftamt.u32 %0, %1;", u32(a) ? 31 - top(u32(a), 0) : ~0u)                               \
  X(bfe_u32, "rrrr", "bfe.u32 %0, %1, %2, %3;", bits_between(u32(a), u32(b), u32(c), 32, false))                       \
  X(bfe_s32, "rrrr", "bfe.s32 %0, %1, %2, %3;", bits_between(u32(a), u32(b), u32(c), 32, true))                        \
  X(bfe_s64, "llrr", "bfe.s64 %0, %1, %2, %3;", bits_between(a, u32(b), u32(c), 64, true))                             \
  X(bfi_b32, "rrrrr", "bfi.b32 %0, %1, %2, %3, %4;", bits_set(u32(a), u32(b), u32(c), u32(e), 32))                     \
  X(bfi_b64, "lllrr", "bfi.b64 %0, %1, %2, %3, %4;", bits_set(a, b, u32(c), u32(e), 64))                               \
  X(prmt, "rrrr", "prmt.b32 %0, %1, %2, %3;", permuted(u32(a), u32(b), u32(c)))                                        \
  X(lop3, "rrrr", "lop3.b32 %0, %1, %2, %3, 0xca;", u32((a & b) | (~a & c)))                                           \
  X(shf_l, "rrrr", "shf.l.wrap.b32 %0, %1, %2, %3;", u32((b << 32 | u32(a)) << (c & 31) >> 32))                        \
  X(shf_r, "rrrr", "shf.r.clamp.b32 %0, %1, %2, %3;", u32((b << 32 | u32(a)) >> (u32(c) < 32 ? u32(c) : 32)))          \
  X(pack, "lrr", "mov.b64 %0, {%1, %2};", u32(a) | b << 32)                                                            \
  X(unpack, "rl", "{ .reg .b32 low; mov.b64 {low, %0}, %1; }", a >> 32)                                                \
  X(set_lt_s32, "rrrr", PREDICATE("setp.lt.s32 p, %1, %2;"), s32(a) < s32(b))                                          \
  X(set_hi_u64, "rllr", PREDICATE("setp.hi.u64 p, %1, %2;"), a > b)                                                    \
  X(set_and, "rrrr", PREDICATE("setp.le.and.s32 p, %1, %2, q;"), s32(a) <= s32(b) && u32(c) != 0)                      \
  X(set_xor, "rrrr", PREDICATE("setp.eq.xor.b32 p, %1, %2, !q;"), (u32(a) == u32(b)) != (u32(c) == 0))                 \
  X(set_ne_f32, "rffr", PREDICATE("setp.ne.f32 p, %1, %2;"), f(a) < f(b) || f(a) > f(b))                               \
  X(set_neu_f32, "rffr", PREDICATE("setp.neu.f32 p, %1, %2;"), !(f(a) == f(b)))                                        \
  X(set_equ_f32, "rffr", PREDICATE("setp.equ.f32 p, %1, %2;"), !(f(a) < f(b)) && !(f(a) > f(b)))                       \
  X(set_ltu_f32, "rffr", PREDICATE("setp.ltu.f32 p, %1, %2;"), !(f(a) >= f(b)))                                        \
  X(set_leu_f64, "rddr", PREDICATE("setp.leu.f64 p, %1, %2;"), !(d(a) > d(b)))                                         \
  X(set_gtu_f64, "rddr", PREDICATE("setp.gtu.f64 p, %1, %2;"), !(d(a) <= d(b)))                                        \
  X(set_geu_f32, "rffr", PREDICATE("setp.geu.f32 p, %1, %2;"), !(f(a) < f(b)))                                         \
  X(set_num_f64, "rddr", PREDICATE("setp.num.f64 p, %1, %2;"), d(a) == d(a) && d(b) == d(b))                           \
  X(set_nan_f32, "rffr", PREDICATE("setp.nan.f32 p, %1, %2;"), f(a) != f(a) || f(b) != f(b))                           \
  X(guarded, "rrrr", "{ .reg .pred q; setp.ne.s32 q, %3, 0; mov.u32 %0, %1; @!q add.s32 %0, %0, %2; }",                \
    u32(c) ? u32(a) : u32(a + b))                                                                                      \
  X(add_f32, "fff", "add.rn.f32 %0, %1, %2;", of_f(f(a) + f(b)))                                                       \
  X(mul_f64, "ddd", "mul.rn.f64 %0, %1, %2;", of_d(d(a) * d(b)))                                                       \
  X(div_f32, "fff", "div.rn.f32 %0, %1, %2;", of_f(f(a) / f(b)))                                                       \
  X(div_f64, "ddd", "div.rn.f64 %0, %1, %2;", of_d(d(a) / d(b)))                                                       \
  X(rcp_f32, "ff", "rcp.rn.f32 %0, %1;", of_f(1 / f(a)))                                                               \
  X(sqrt_f32, "ff", "sqrt.rn.f32 %0, %1;", of_f(sqrtf(f(a))))                                                          \
  X(sqrt_f64, "dd", "sqrt.rn.f64 %0, %1;", of_d(sqrt(d(a))))                                                           \
  X(fma_f32, "ffff", "fma.rn.f32 %0, %1, %2, %3;", of_f(fmaf(f(a), f(b), f(c))))                                       \
  X(fma_f64, "dddd", "fma.rn.f64 %0, %1, %2, %3;", of_d(fma(d(a), d(b), d(c))))                                        \
  X(min_f32, "fff", "min.f32 %0, %1, %2;", of_f(least_of(f(a), f(b))))                                                 \
  X(max_f32, "fff", "max.f32 %0, %1, %2;", of_f(most_of(f(a), f(b))))                                                  \
  X(neg_f64, "dd", "neg.f64 %0, %1;", a ^ (uint64_t)1 << 63)                                                           \
  X(copysign_f32, "fff", "copysign.f32 %0, %1, %2;", (b & 0x7fffffff) | (a & 0x80000000))                              \
  X(add_rz, "fff", "add.rz.f32 %0, %1, %2;", rounded_f(FE_TOWARDZERO, ADD, a, b, 0))                                   \
  X(mul_rm, "fff", "mul.rm.f32 %0, %1, %2;", rounded_f(FE_DOWNWARD, MUL, a, b, 0))                                     \
  X(div_rp, "fff", "div.rp.f32 %0, %1, %2;", rounded_f(FE_UPWARD, DIV, a, b, 0))                                       \
  X(sqrt_rp, "ff", "sqrt.rp.f32 %0, %1;", rounded_f(FE_UPWARD, ROOT, a, 0, 0))                                         \
  X(fma_rm, "ffff", "fma.rm.f32 %0, %1, %2, %3;", rounded_f(FE_DOWNWARD, FMA, a, b, c))                                \
  X(add_rp_d, "ddd", "add.rp.f64 %0, %1, %2;", rounded_d(FE_UPWARD, ADD, a, b, 0))                                     \
  X(mul_rz_d, "ddd", "mul.rz.f64 %0, %1, %2;", rounded_d(FE_TOWARDZERO, MUL, a, b, 0))                                 \
  X(div_rm_d, "ddd", "div.rm.f64 %0, %1, %2;", rounded_d(FE_DOWNWARD, DIV, a, b, 0))                                   \
  X(fma_rz_d, "dddd", "fma.rz.f64 %0, %1, %2, %3;", rounded_d(FE_TOWARDZERO, FMA, a, b, c))                            \
  X(narrow_rn, "fd", "cvt.rn.f32.f64 %0, %1;", of_f((float)d(a)))                                                      \
  X(narrow_rz, "fd", "cvt.rz.f32.f64 %0, %1;", rounded_f(FE_TOWARDZERO, NARROW, a, 0, 0))                              \
  X(narrow_rm, "fd", "cvt.rm.f32.f64 %0, %1;", rounded_f(FE_DOWNWARD, NARROW, a, 0, 0))                                \
  X(narrow_rp, "fd", "cvt.rp.f32.f64 %0, %1;", rounded_f(FE_UPWARD, NARROW, a, 0, 0))                                  \
  X(widen, "df", "cvt.f64.f32 %0, %1;", of_d((double)f(a)))                                                            \
  X(f32_s64, "fl", "cvt.rn.f32.s64 %0, %1;", of_f((float)s64(a)))                                                      \
  X(f32_u64, "fl", "cvt.rn.f32.u64 %0, %1;", of_f((float)a))                                                           \
  X(f64_u64, "dl", "cvt.rn.f64.u64 %0, %1;", of_d((double)a))                                                          \
  X(f32_u64_rz, "fl", "cvt.rz.f32.u64 %0, %1;", rounded_f(FE_TOWARDZERO, FROM_U64, a, 0, 0))                           \
  X(f32_s32_rm, "fr", "cvt.rm.f32.s32 %0, %1;", rounded_f(FE_DOWNWARD, FROM_S32, a, 0, 0) & (s32(a) ? ~0u : 0))        \
  X(f32_s64_rp, "fl", "cvt.rp.f32.s64 %0, %1;", rounded_f(FE_UPWARD, FROM_S64, a, 0, 0))                               \
  X(f64_s64_rz, "dl", "cvt.rz.f64.s64 %0, %1;", rounded_d(FE_TOWARDZERO, FROM_S64, a, 0, 0))                           \
  X(f64_s32, "dr", "cvt.rn.f64.s32 %0, %1;", of_d(s32(a)))                                                             \
  X(f32_u8, "fh", "cvt.rn.f32.u8 %0, %1;", of_f((uint8_t)a))                                                           \
  X(f32_s8, "fr", "cvt.rn.f32.s8 %0, %1;", of_f((int8_t)(uint8_t)a))                                                   \
  X(s32_f32, "rf", "cvt.rzi.s32.f32 %0, %1;", u32(whole((double)truncf(f(a)), 32, true, false)))                       \
  X(u32_f32, "rf", "cvt.rmi.u32.f32 %0, %1;", u32(whole((double)floorf(f(a)), 32, false, false)))                      \
  X(s64_f32, "lf", "cvt.rni.s64.f32 %0, %1;", whole((double)rintf(f(a)), 64, true, true))                              \
  X(u64_f64, "ld", "cvt.rpi.u64.f64 %0, %1;", whole(ceil(d(a)), 64, false, true))                                      \
  X(s32_f64, "rd", "cvt.rzi.s32.f64 %0, %1;", u32(whole(trunc(d(a)), 32, true, true)))                                 \
  X(u8_f32, "hf", "cvt.rni.u8.f32 %0, %1;", whole((double)rintf(f(a)), 8, false, false))                               \
  X(s16_f64, "hd", "cvt.rzi.s16.f64 %0, %1;", (uint16_t)whole(trunc(d(a)), 16, true, true))                            \
  X(s32_s8, "rr", "cvt.s32.s8 %0, %1;", u32((uint64_t)(int8_t)(uint8_t)a))                                             \
  X(s64_s16, "lh", "cvt.s64.s16 %0, %1;", (uint64_t)(int16_t)(uint16_t)a)                                              \
  X(u16_u8, "hh", "cvt.u16.u8 %0, %1;", (uint8_t)a)                                                                    \
  X(u8_s32_sat, "hr", "cvt.sat.u8.s32 %0, %1;", s32(a) < 0 ? 0 : s32(a) > 255 ? 255 : u32(a))                          \
  X(s16_s64_sat, "hl", "cvt.sat.s16.s64 %0, %1;", s64(a) < -32768 ? 0x8000 : s64(a) > 32767 ? 0x7fff : (uint16_t)a)    \
  X(f16_f32, "hf", "cvt.rn.f16.f32 %0, %1;", f16_of(f(a)))                                                             \
  X(bf16_f32, "hf", "cvt.rn.bf16.f32 %0, %1;", bf16_of(f(a)))                                                          \
  X(f32_f16, "fh", "cvt.f32.f16 %0, %1;", of_f(sx_f32_from_f16((uint16_t)a)))                                          \
  X(f32_bf16, "fh", "cvt.f32.bf16 %0, %1;", of_f(sx_f32_from_bf16((uint16_t)a)))                                       \
  X(rni_f32, "ff", "cvt.rni.f32.f32 %0, %1;", of_f(rintf(f(a))))                                                       \
  X(rzi_f64, "dd", "cvt.rzi.f64.f64 %0, %1;", of_d(trunc(d(a))))                                                       \
  X(sat_f32, "ff", "cvt.sat.f32.f32 %0, %1;", of_f(f(a) > 0 ? (f(a) < 1 ? f(a) : 1) : 0))

#define HOST(name, letters, text, value)                                        \
  static uint64_t host_##name(uint64_t a, uint64_t b, uint64_t c, uint64_t e) { \
    (void)a, (void)b, (void)c, (void)e;                                         \
    return value;                                                               \
  }
ROWS(HOST)

static const struct {
  const char *name, *letters, *text;
  uint64_t (*host)(uint64_t a, uint64_t b, uint64_t c, uint64_t e);
} TABLE[] = {
#define ENTRY(name, letters, text, value) {#name, letters, text, host_##name},
    ROWS(ENTRY)};
enum { N_ROWS = sizeof TABLE / sizeof *TABLE };

/* ---- the module: a kernel a row ---- */

enum { ROOM = 1 << 17, N = 1024 };

static const char *constraint(char letter) {
  return letter == 'r' ? "r" : letter == 'l' ? "l" : letter == 'h' ? "h" : letter == 'f' ? "f" : "d";
}

static const char *type_name(char letter) {
  return letter == 'r'   ? "unsigned"
         : letter == 'l' ? "unsigned long long"
         : letter == 'h' ? "unsigned short"
         : letter == 'f' ? "float"
                         : "double";
}

static const char *value_text(char letter) {
  return letter == 'f'   ? "__uint_as_float((unsigned)x[4 * i + %zu])"
         : letter == 'd' ? "__longlong_as_double((long long)x[4 * i + %zu])"
                         : "x[4 * i + %zu]";
}

static size_t write_kernel(char *to, size_t room, size_t row) {
  const char *letters = TABLE[row].letters;
  size_t n =
      (size_t)snprintf(to, room,
                       "extern \"C\" __global__ void k_%s(unsigned long long *z, const unsigned long long *x) {\n"
                       "  int i = blockIdx.x * blockDim.x + threadIdx.x; %s r;\n  asm(\"%s\" : \"=%s\"(r) : ",
                       TABLE[row].name, type_name(letters[0]), TABLE[row].text, constraint(letters[0]));
  for (size_t i = 1; letters[i]; i++) {
    n += (size_t)snprintf(to + n, room - n, "%s\"%s\"((%s)", i > 1 ? ", " : "", constraint(letters[i]),
                          type_name(letters[i]));
    n += (size_t)snprintf(to + n, room - n, value_text(letters[i]), i - 1);
    n += (size_t)snprintf(to + n, room - n, ")");
  }
  const char *result = letters[0] == 'f' ? "__float_as_uint(r)" : letters[0] == 'd' ? "__double_as_longlong(r)" : "r";
  return n + (size_t)snprintf(to + n, room - n, ");\n  z[i] = %s; }\n", result);
}

static const uint64_t SPECIAL[] = {0,
                                   1,
                                   2,
                                   31,
                                   32,
                                   63,
                                   64,
                                   255,
                                   0x7fffffff,
                                   0x80000000,
                                   0xffffffff,
                                   0xfffffffffffffffe,
                                   0x8000000000000000,
                                   0x7fffffffffffffff,
                                   0x3f800000bf800000,
                                   0x3ff0000000000000,
                                   0xbff00000c0200000,
                                   0x7ff000007f800000,
                                   0xfff00000ff800000,
                                   0x7ff800007fc00001,
                                   0x000000017f7fffff,
                                   0x47efffffe0000000,
                                   0x3690000080000001,
                                   0x41dfffffffc00000,
                                   0x387fffff477fefff,
                                   0x43f000004f7fffff,
                                   0x3c0033ff387fc000,
                                   0x43e0000000000000,
                                   0x3f8010003f803000,
                                   0x3f8080003f818000,
                                   0x3f8180003f801000,
                                   0x3f8030003f808000};
enum { N_SPECIAL = sizeof SPECIAL / sizeof *SPECIAL };

static uint64_t random_word(void) {
  static uint64_t state = 11;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1du;
}

/* Pairs of special values, small shifts, numbers near 1 in both formats, any bits. */
static uint64_t sample(size_t i, size_t k) {
  if (i < N_SPECIAL * N_SPECIAL / 2)
    return k == 0 ? SPECIAL[i % N_SPECIAL] : k == 1 ? SPECIAL[(i + i / N_SPECIAL) % N_SPECIAL] : random_word() % 40;
  uint64_t word = random_word();
  if (i % 4 == 0) return word >> random_word() % 60;
  if (i % 4 == 1) return (word & 0x87ffffff87ffffffu) | 0x3800000038000000u;
  if (i % 4 == 2 && k) return word % 70;
  return word;
}

static void instructions_do_what_the_isa_says(void **state) {
  (void)state;
  static char source[ROOM];
  static uint64_t x[4 * N];
  size_t n_source = 0;
  for (size_t row = 0; row < N_ROWS; row++) n_source += write_kernel(source + n_source, ROOM - n_source, row);
  assert_true(n_source < ROOM - 1);
  for (size_t i = 0; i < 4 * N; i++) x[i] = sample(i / 4, i % 4);
  for (int architecture = 80; architecture <= 90; architecture += 10) {
    sim_module *module = ptx_module(source, architecture);
    ptx_memory memory = {0};
    uint64_t *z = ptx_take(&memory, N * sizeof *z);
    const uint64_t *dx = ptx_take_copy(&memory, x, sizeof x);
    for (size_t row = 0; row < N_ROWS; row++) {
      char kernel[64];
      snprintf(kernel, sizeof kernel, "k_%s", TABLE[row].name);

      PTX_RUN(module, kernel, &memory, ((ptx_shape){N / 64, 64, 0, false, false}), PTX_ARGUMENT(z), PTX_ARGUMENT(dx));
      for (size_t i = 0; i < N; i++) {
        uint64_t expected = TABLE[row].host(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        if (z[i] != expected)
          fail_msg("%s of %#llx, %#llx, %#llx, %#llx: %#llx where %#llx belongs", TABLE[row].name,
                   (unsigned long long)x[4 * i], (unsigned long long)x[4 * i + 1], (unsigned long long)x[4 * i + 2],
                   (unsigned long long)x[4 * i + 3], (unsigned long long)z[i], (unsigned long long)expected);
      }
    }
    ptx_free(&memory);
    sim_module_free(module);
  }
}

/* ---- levels ---- */

static void every_level_gives_the_same(void **state) {
  (void)state;
  const sim_level *plain = sim_level_at(0);
  _Alignas(64) uint64_t operands[4][SIM_N_LANES], expected[SIM_N_LANES], got[SIM_N_LANES];
  size_t n_levels = 1;
  for (const sim_level *level; (level = sim_level_at(n_levels)); n_levels++) {
    assert_int_equal(level->n_rows, plain->n_rows);
    for (size_t row = 0; row < plain->n_rows; row++) {
      assert_string_equal(level->rows[row].text, plain->rows[row].text);
      if (plain->rows[row].same) continue;
      for (size_t round = 0; round < 40; round++) {
        for (size_t i = 0; i < 4 * SIM_N_LANES; i++)
          operands[i % 4][i / 4] = sample(round * SIM_N_LANES + i / 4, i % 4);
        memset(expected, 0, sizeof expected);
        memset(got, 0, sizeof got);
        plain->rows[row].function(expected, operands[0], operands[1], operands[2], operands[3]);
        level->rows[row].function(got, operands[0], operands[1], operands[2], operands[3]);
        if (memcmp(expected, got, sizeof got) != 0)
          fail_msg("%s differs at level %zu", plain->rows[row].text, n_levels);
      }
    }
  }
  printf("%zu levels, %zu rows\n", n_levels, plain->n_rows);
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(instructions_do_what_the_isa_says),
                                     cmocka_unit_test(every_level_gives_the_same)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
