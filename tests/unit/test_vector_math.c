/* The element functions of every SIMD level have the bits of kernels/math.h, alone and in a chain: for a sample of all
 * bit patterns, around every place where the method changes, in short arrays and among arguments that need the exact
 * functions; so have draws those of kernels/draws.h. tests/math/check_math.c walks all inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/draws.h"
#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/chain.h"
#include "../../libsexp/cpu/kernel.h"
#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/quick.h"
#include "../math/hard_cases.h"

enum { BLOCK = 128, SAMPLES = 1 << 20, NEAR = 64 };

typedef struct function {
  sx_op op;
  float (*exact)(float);
} function;

#define FUNCTION(name) \
  static float exact_##name(float x) { return sx_##name##_f32(x); }
FUNCTION(exp)
FUNCTION(exp2)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log2)
FUNCTION(log1p)
FUNCTION(sin)
FUNCTION(cos)
FUNCTION(tan)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(floor)
FUNCTION(ceil)
FUNCTION(round)
FUNCTION(sign)
FUNCTION(sqrt)
FUNCTION(rsqrt)

static const function functions[] = {
    {SX_OP_EXP, exact_exp},     {SX_OP_EXP2, exact_exp2},   {SX_OP_EXPM1, exact_expm1}, {SX_OP_LOG, exact_log},
    {SX_OP_LOG2, exact_log2},   {SX_OP_LOG1P, exact_log1p}, {SX_OP_SIN, exact_sin},     {SX_OP_COS, exact_cos},
    {SX_OP_TAN, exact_tan},     {SX_OP_TANH, exact_tanh},   {SX_OP_ERF, exact_erf},     {SX_OP_FLOOR, exact_floor},
    {SX_OP_CEIL, exact_ceil},   {SX_OP_ROUND, exact_round}, {SX_OP_SIGN, exact_sign},   {SX_OP_SQRT, exact_sqrt},
    {SX_OP_RSQRT, exact_rsqrt},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* Where a method changes, or a result becomes special. */
static const uint32_t boundaries[] = {
    0x00000000u, 0x00706afeu, 0x00000001u, 0x00800000u, 0x0d800000u, 0x33000000u, 0x33800000u, 0x39000000u, 0x3c31721fu,
    0x3c800000u, 0x3d000000u, 0x3e000000u, 0x3e800000u, 0x3eb17218u, 0x3f000000u, 0x3f3504f3u, 0x3f490fdbu, 0x3f780000u,
    0x3f7c0000u, 0x3f800000u, 0x3f820000u, 0x3fb504f3u, 0x3fc90fdbu, 0x40000000u, 0x407c0000u, 0x4102cb04u, 0x41102cb3u,
    0x41200000u, 0x41a00000u, 0x42aeac50u, 0x42b00000u, 0x42b17218u, 0x42b30000u, 0x42ce8ed0u, 0x42cff1b5u, 0x42dc0000u,
    0x42fc0000u, 0x43000000u, 0x43018000u, 0x43150000u, 0x43160000u, 0x43200000u, 0x47800000u, 0x4b000000u, 0x4b800000u,
    0x4c000000u, 0x4f000000u, 0x50000000u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u, 0x7fffffffu,
};
enum { N_BOUNDARIES = sizeof boundaries / sizeof *boundaries };

static void run_alone(sx_simd simd, sx_op op, float *out, const float *in, int64_t n) {
  sx_kernels(simd)->element(op, SX_F32, SX_F32, out, (const void *const[]){in}, n);
}

/* Load, function, store; n is a multiple of the block. */
static void run_chain(sx_simd simd, sx_op op, float *out, const float *in, int64_t n) {
  const sx_chain_kernels *chains = sx_kernels(simd)->chains;
  const sx_link links[] = {
      {chains->load, {-1}, {0}}, {chains->unary[op], {0}, {0}}, {chains->store, {-1}, {1}}, {chains->end, {0}, {0}}};
  float *from = malloc((size_t)n * sizeof *from);
  if (!from) abort();
  memcpy(from, in, (size_t)n * sizeof *from);
  chains->run(links, (void *const[]){from, out}, n);
  free(from);
}

static void expect(const function *f, const char *how, sx_simd simd, const float *in, const float *got,
                   const float *right, int64_t n) {
  if (memcmp(got, right, (size_t)n * sizeof *got) == 0) return;
  for (int64_t k = 0; k < n; k++)
    if (sx_bits_f32(got[k]) != sx_bits_f32(right[k]))
      fail_msg("%s at %s, %s: %a (%08x) gave %08x, not %08x", sx_op_describe(f->op)->name, sx_simd_name(simd), how,
               (double)in[k], sx_bits_f32(in[k]), sx_bits_f32(got[k]), sx_bits_f32(right[k]));
}

/* n is a multiple of BLOCK, which is one of every level's block. */
static void check(const function *f, const float *in, int64_t n) {
  float *right = malloc((size_t)n * sizeof *right), *got = malloc((size_t)n * sizeof *got);
  if (!right || !got) abort();
  for (int64_t k = 0; k < n; k++) right[k] = f->exact(in[k]);
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
    if (!sx_simd_available(simd)) continue;
    run_alone(simd, f->op, got, in, n);
    expect(f, "alone", simd, in, got, right, n);
    run_chain(simd, f->op, got, in, n);
    expect(f, "in a chain", simd, in, got, right, n);
  }
  free(right);
  free(got);
}

static void test_sample(void **state) {
  (void)state;
  enum { N = 4096 };
  const char *asked = getenv("QUICK");
  bool quick = asked && *asked && strcmp(asked, "tools");
  uint32_t step = quick ? 16 * 4099 : 4099;
  static float in[N];
  for (int f = 0; f < N_FUNCTIONS; f++) {
    uint32_t bits = 0;
    for (uint32_t done = 0; done < SAMPLES / (quick ? 16 : 1); done += N) {
      for (int k = 0; k < N; k++, bits += step) in[k] = sx_from_bits_f32(bits);
      check(&functions[f], in, N);
    }
  }
}

/* The neighbours of every boundary, with both signs; the rest of each block is 1, so that what is beside a special
 * argument is looked at too. */
static void test_boundaries(void **state) {
  (void)state;
  enum { N = 4 * NEAR };
  float in[N];
  for (int f = 0; f < N_FUNCTIONS; f++)
    for (int b = 0; b < N_BOUNDARIES; b++) {
      for (int k = 0; k < N; k++) in[k] = 1.0f;
      for (int k = 0; k < NEAR; k++) {
        in[2 * k] = sx_from_bits_f32(boundaries[b] - NEAR / 2 + (uint32_t)k);
        in[2 * k + 1] = sx_from_bits_f32((boundaries[b] - NEAR / 2 + (uint32_t)k) ^ 0x80000000u);
      }
      check(&functions[f], in, N);
    }
}

static void test_hard_cases(void **state) {
  (void)state;
  float in[BLOCK];
  for (size_t i = 0; i < sizeof sx_hard_cases / sizeof *sx_hard_cases; i++)
    for (int f = 0; f < N_FUNCTIONS; f++) {
      if (strcmp(sx_op_describe(functions[f].op)->name, sx_hard_cases[i].name) != 0) continue;
      for (int k = 0; k < BLOCK; k++) in[k] = k % 37 ? 0.5f : sx_from_bits_f32(sx_hard_cases[i].input);
      check(&functions[f], in, BLOCK);
    }
}

/* As vector_root.h, from a first guess. */
static float root_from(float x, float y) {
  float s = x * y, h = y * 0.5f, e = fmaf(-s, h, 0.5f);
  s = fmaf(s, e, s);
  h = fmaf(h, e, h);
  return fmaf(fmaf(-s, s, x), h, s);
}

/* x from 1 to 4 whose root lies within some 2^-14 of an ulp of a midpoint, which is an odd multiple m of 2^-24. */
static int64_t find_near_midpoints(float *x, int64_t most) {
  enum { NEAR_ENOUGH = 2000 }; /* of 2 m, about 2^25 */
  int64_t n = 0;
  for (int64_t mantissa = 1 << 23; mantissa < 1 << 24; mantissa++)
    for (int shift = 25; shift <= 26; shift++) {
      int64_t square = mantissa << shift, m = (int64_t)sqrt((double)square) | 1;
      int64_t off = square - m * m;
      if (off < -NEAR_ENOUGH || off > NEAR_ENOUGH || n == most) continue;
      x[n++] = (float)mantissa * (shift == 25 ? 0x1p-23f : 0x1p-22f);
    }
  return n;
}

/* Roots nearest to midpoints: from every first guess that a processor may give, and as kernels have them, at either end
 * of the exponents. */
static void test_roots(void **state) {
  (void)state;
  enum { MOST = 8192 };
  static float near[MOST], in[MOST];
  int64_t n = find_near_midpoints(near, MOST);
  assert_in_range(n, 500, MOST - 1);
  for (int64_t k = 0; k < n; k++) {
    double y = 1 / sqrt((double)near[k]);
    uint32_t first = sx_bits_f32((float)(y - y * 0x1p-14)) - 1, last = sx_bits_f32((float)(y + y * 0x1p-14)) + 1;
    float right = sx_sqrt_f32(near[k]);
    for (uint32_t guess = first; guess <= last; guess += test_is_quick() ? 16 : 1)
      assert_true(root_from(near[k], sx_from_bits_f32(guess)) == right);
  }
  for (int exponent = -100; exponent <= 126; exponent += 226) {
    for (int64_t k = 0; k < MOST; k++) in[k] = k % 100 ? ldexpf(near[k % n], exponent) : 0.0f;
    check(&(function){SX_OP_SQRT, exact_sqrt}, in, MOST);
  }
}

/* Chains round to short floats as storing them does: ties, overflow, and NaN of any payload. */
static void test_rounding(void **state) {
  (void)state;
  enum { N = 1 << 16 };
  static float in[N], got[N], right[N];
  for (uint32_t k = 0; k < N; k++) in[k] = sx_from_bits_f32((k << 16) ^ (k % 5 == 0 ? 0x8000u : k % 5 * 0x3fffu));
  for (sx_dtype dtype = SX_BF16; dtype <= SX_F16; dtype++) {
    for (int k = 0; k < N; k++) {
      uint16_t half;
      sx_store(&half, dtype, 0, (sx_value){.f = in[k]});
      right[k] = sx_load(&half, dtype, 0).f;
    }
    for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
      if (!sx_simd_available(simd)) continue;
      const sx_chain_kernels *chains = sx_kernels(simd)->chains;
      const sx_link links[] = {{chains->load, {-1}, {0}},
                               {chains->types->round[dtype], {0}, {0}},
                               {chains->store, {-1}, {1}},
                               {chains->end, {0}, {0}}};
      chains->run(links, (void *const[]){in, got}, N);
      sx_canonical_nans(got, SX_F32, N);
      sx_canonical_nans(right, SX_F32, N);
      assert_memory_equal(got, right, sizeof got);
    }
  }
}

/* Every length, and in place. */
static void test_lengths(void **state) {
  (void)state;
  enum { N = 300 };
  float in[N], right[N], got[N + 1];
  for (int k = 0; k < N; k++) in[k] = (float)(k * 37 % N) * 0.03125f - 4.0f;
  in[40] = sx_from_bits_f32(0x7f800001u);
  in[200] = -100.0f;
  for (int f = 0; f < N_FUNCTIONS; f++) {
    for (int k = 0; k < N; k++) right[k] = functions[f].exact(in[k]);
    for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
      if (!sx_simd_available(simd)) continue;
      for (int n = 0; n <= N; n++) {
        memcpy(got, in, sizeof in);
        got[n] = 7.0f;
        run_alone(simd, functions[f].op, got, got, n);
        expect(&functions[f], "in place", simd, in, got, right, n);
        assert_true(got[n] == 7.0f);
      }
    }
  }
}

/* Draws, whose sines and cosines of multiples of pi no operation gives; a length that is no multiple of anything. */
static void test_draws(void **state) {
  (void)state;
  enum { N = (1 << 16) + 77 };
  static float got[N], right[N];
  sx_pool *pool = sx_pool_new(2);
  for (int normal = 0; normal < 2; normal++) {
    const sx_node node = {.op = normal ? SX_OP_NORMAL : SX_OP_UNIFORM};
    const int64_t dims[] = {N}, strides[] = {1};
    const sx_call call = {
        .node = &node, .out = {got, SX_F32, 1, dims, strides}, .stream_key = 0x9e3779b97f4a7c15u, .pool = pool};
    for (int k = 0; k < N; k++) right[k] = (normal ? sx_draw_normal : sx_draw_uniform)(call.stream_key, (uint64_t)k);
    for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++) {
      if (!sx_simd_available(simd)) continue;
      memset(got, 0, sizeof got);
      assert_true(sx_kernels(simd)->fast[node.op](&call));
      assert_memory_equal(got, right, sizeof got);
    }
  }
  sx_pool_free(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample),     cmocka_unit_test(test_boundaries),
                                     cmocka_unit_test(test_hard_cases), cmocka_unit_test(test_rounding),
                                     cmocka_unit_test(test_roots),      cmocka_unit_test(test_lengths),
                                     cmocka_unit_test(test_draws)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
