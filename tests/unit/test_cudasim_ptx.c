/* PTX of the real NVRTC, executed: the bits of the host, for compute_80 and compute_90. */
#include "../../kernels/draws.h"
#include "../../kernels/math_f64.h"
#include "../common/cmocka_all.h"
#include "../cudasim/ptx_case.h"

static const int ARCHITECTURES[] = {80, 90};
#define EACH_ARCHITECTURE(a) for (size_t a = 0; a < 2; a++)

static uint64_t random_state;

static uint64_t random_word(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  uint64_t x = random_state;
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  return x ^ x >> 33;
}

/* ---- kernels/math.h ---- */

#define UNARY(X)                                                                                                    \
  X(exp)                                                                                                            \
  X(exp2)                                                                                                           \
  X(expm1)                                                                                                          \
  X(log)                                                                                                            \
  X(log2) X(log1p) X(sin) X(cos) X(tan) X(sinpi) X(cospi) X(tanh) X(erf) X(sqrt) X(rsqrt) X(round) X(floor) X(ceil) \
      X(sign) X(canonical)
#define BINARY(X) X(pow) X(atan2) X(fmod) X(mod) X(div_floor) X(max) X(min)

typedef struct function {
  const char *name;
  float (*one)(float x);
  float (*two)(float x, float y);
} function;

#define HOST_UNARY(name) \
  static float host_##name(float x) { return sx_##name##_f32(x); }
#define HOST_BINARY(name) \
  static float host_##name(float x, float y) { return sx_##name##_f32(x, y); }
UNARY(HOST_UNARY)
BINARY(HOST_BINARY)

#define ROW_UNARY(name) {"of_" #name, host_##name, NULL},
#define ROW_BINARY(name) {"of_" #name, NULL, host_##name},
static const function FUNCTIONS[] = {UNARY(ROW_UNARY) BINARY(ROW_BINARY)};

#define TEXT_UNARY(name) "ONE(" #name ")\n"
#define TEXT_BINARY(name) "TWO(" #name ")\n"
static const char MATH[] =
    "#include \"kernels/math.h\"\n"
    "#define AT int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)\n"
    "#define ONE(f) extern \"C\" __global__ void of_##f(float *z, const float *x, const float *y, int n) "
    "{ AT z[i] = sx_##f##_f32(x[i]); }\n"
    "#define TWO(f) extern \"C\" __global__ void of_##f(float *z, const float *x, const float *y, int n) "
    "{ AT z[i] = sx_##f##_f32(x[i], y[i]); }\n" UNARY(TEXT_UNARY) BINARY(TEXT_BINARY);

static const uint32_t SPECIAL[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x3f800000,
    0xbf800000, 0x3f7fffff, 0x3f800001, 0x40000000, 0xc0000000, 0x3f000000, 0xbf000000, 0x3fc00000, 0xbfc00000,
    0x40200000, 0x4b000000, 0x4affffff, 0xcb000000, 0x4f000000, 0xcf000000, 0x5f000000, 0x7f7fffff, 0xff7fffff,
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0x42b17218, 0xc2cff1b5, 0x40490fdb};
enum { N_SPECIAL = sizeof SPECIAL / sizeof *SPECIAL, N_SAMPLES = N_SPECIAL * N_SPECIAL + 4000 };

/* All pairs of special values, then any bits, then moderate values. */
static void fill_arguments(uint32_t *x, uint32_t *y) {
  random_state = 1;
  for (size_t i = 0; i < N_SAMPLES; i++) {
    bool is_special = i < N_SPECIAL * N_SPECIAL;
    uint64_t word = random_word();
    x[i] = is_special ? SPECIAL[i / N_SPECIAL] : (uint32_t)word;
    y[i] = is_special ? SPECIAL[i % N_SPECIAL] : (uint32_t)(word >> 32);
    if (!is_special && i % 2) { /* exponents from -16 to 15 */
      x[i] = (x[i] & 0x87ffffff) | 0x38000000;
      y[i] = (y[i] & 0x87ffffff) | 0x38000000;
    }
  }
}

static void functions_have_the_bits_of_the_host(void **state) {
  (void)state;
  static uint32_t x[N_SAMPLES], y[N_SAMPLES];
  fill_arguments(x, y);
  EACH_ARCHITECTURE(a) {
    sim_module *module = ptx_module(MATH, ARCHITECTURES[a]);
    ptx_memory memory = {0};
    float *z = ptx_take(&memory, sizeof x);
    const float *dx = ptx_take_copy(&memory, x, sizeof x), *dy = ptx_take_copy(&memory, y, sizeof y);
    int n = N_SAMPLES;
    for (size_t f = 0; f < sizeof FUNCTIONS / sizeof *FUNCTIONS; f++) {
      const function *row = &FUNCTIONS[f];
      memset(z, 0, sizeof x);
      PTX_RUN(module, row->name, &memory, ((ptx_shape){(N_SAMPLES + 127) / 128, 128, 0, false, false}), PTX_ARGUMENT(z),
              PTX_ARGUMENT(dx), PTX_ARGUMENT(dy), PTX_ARGUMENT(n));
      for (size_t i = 0; i < N_SAMPLES; i++) {
        float expected = row->one ? row->one(dx[i]) : row->two(dx[i], dy[i]);
        if (memcmp(&z[i], &expected, sizeof expected) != 0)
          fail_msg("%s(%#x, %#x) is %#x, on the host %#x", row->name, x[i], y[i], sx_bits_f32(z[i]),
                   sx_bits_f32(expected));
      }
    }
    assert_in_range(memory.n_asked, 1, 400); /* an allocation is asked for once an instruction */
    ptx_free(&memory);
    sim_module_free(module);
  }
}

/* ---- draws, binary64 ---- */

static const char DRAWS[] =
    "#include \"kernels/draws.h\"\n#include \"kernels/math_f64.h\"\n"
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define AT unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)\n"
    "KERNEL draws(float *z, unsigned long long *w, unsigned long long key, unsigned n) {\n"
    "  AT { int salt[2] = {(int)i, 5}; unsigned long long k = sx_draw_salt(key, salt, 2); w[i] = k;\n"
    "    z[2 * i] = sx_draw_normal(key, i); z[2 * i + 1] = sx_draw_uniform(k, i); } }\n"
    "KERNEL normal_block(float4 *z, unsigned long long key, unsigned n) {\n"
    "  AT { float out[4]; sx_draw_normal_block(key, i, out); z[i] = make_float4(out[0], out[1], out[2], out[3]); } }\n"
    "KERNEL shuffle(unsigned long long *w, unsigned long long key, unsigned n) {\n"
    "  AT w[i] = sx_shuffle_index(key, 3, n, i); }\n"
    "KERNEL reals(double *z, const double *x, const double *y, unsigned n) {\n"
    "  AT { z[4 * i] = sx_pow_f64(x[i], y[i]); z[4 * i + 1] = sx_exp_f64(x[i]); z[4 * i + 2] = sx_log_f64(x[i]);\n"
    "    z[4 * i + 3] = sx_sin_f64(x[i]); } }\n";

enum { N_DRAWS = 1000 };

static void expect_draws(const float *z, const uint64_t *w, const float *blocks, const uint64_t *places, uint64_t key) {
  for (uint32_t i = 0; i < N_DRAWS; i++) {
    const int32_t salt[2] = {(int32_t)i, 5};
    uint64_t salted = sx_draw_salt(key, salt, 2);
    float expected[4] = {sx_draw_normal(key, i), sx_draw_uniform(salted, i)};
    assert_int_equal(w[i], salted);
    assert_memory_equal(&z[2 * i], expected, 2 * sizeof(float));
    sx_draw_normal_block(key, i, expected);
    assert_memory_equal(&blocks[4 * i], expected, sizeof expected);
    assert_int_equal(places[i], sx_shuffle_index(key, 3, N_DRAWS, i));
  }
}

static void draws_have_the_bits_of_the_host(void **state) {
  (void)state;
  EACH_ARCHITECTURE(a) {
    sim_module *module = ptx_module(DRAWS, ARCHITECTURES[a]);
    ptx_memory memory = {0};
    float *z = ptx_take(&memory, 2 * N_DRAWS * sizeof *z), *blocks = ptx_take(&memory, 4 * N_DRAWS * sizeof *blocks);
    uint64_t *w = ptx_take(&memory, N_DRAWS * sizeof *w), *places = ptx_take(&memory, N_DRAWS * sizeof *places);
    uint64_t key = 0x0123456789abcdefu;
    uint32_t n = N_DRAWS;
    const ptx_shape shape = {(N_DRAWS + 63) / 64, 64, 0, false, false};
    PTX_RUN(module, "draws", &memory, shape, PTX_ARGUMENT(z), PTX_ARGUMENT(w), PTX_ARGUMENT(key), PTX_ARGUMENT(n));
    PTX_RUN(module, "normal_block", &memory, shape, PTX_ARGUMENT(blocks), PTX_ARGUMENT(key), PTX_ARGUMENT(n));
    PTX_RUN(module, "shuffle", &memory, shape, PTX_ARGUMENT(places), PTX_ARGUMENT(key), PTX_ARGUMENT(n));
    expect_draws(z, w, blocks, places, key);
    ptx_free(&memory);
    sim_module_free(module);
  }
}

static void reals_have_the_bits_of_the_host(void **state) {
  (void)state;
  static double x[N_DRAWS], y[N_DRAWS];
  static const double special[] = {0, -0.0, 1, -1, 2, -2, 0.5, 1e308, -1e308, 5e-324, 1e22, -3, 700, -745};
  random_state = 3;
  for (size_t i = 0; i < N_DRAWS; i++) {
    uint64_t bits = random_word();
    x[i] = sx_from_bits_f64(i % 4 ? (bits & 0x803fffffffffffffu) | 0x3fc0000000000000u : bits);
    y[i] = (double)(int64_t)random_word() * 0x1p-60;
    if (i < 196) x[i] = special[i / 14], y[i] = special[i % 14];
  }
  EACH_ARCHITECTURE(a) {
    sim_module *module = ptx_module(DRAWS, ARCHITECTURES[a]);
    ptx_memory memory = {0};
    double *z = ptx_take(&memory, 4 * sizeof x);
    const double *dx = ptx_take_copy(&memory, x, sizeof x), *dy = ptx_take_copy(&memory, y, sizeof y);
    uint32_t n = N_DRAWS;
    PTX_RUN(module, "reals", &memory, ((ptx_shape){(N_DRAWS + 255) / 256, 256, 0, false, false}), PTX_ARGUMENT(z),
            PTX_ARGUMENT(dx), PTX_ARGUMENT(dy), PTX_ARGUMENT(n));
    for (size_t i = 0; i < N_DRAWS; i++) {
      const double expected[4] = {sx_pow_f64(x[i], y[i]), sx_exp_f64(x[i]), sx_log_f64(x[i]), sx_sin_f64(x[i])};
      assert_memory_equal(&z[4 * i], expected, sizeof expected);
    }
    ptx_free(&memory);
    sim_module_free(module);
  }
}

/* ---- sums: the order of numerics 1 ---- */

static const char SUMS[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "KERNEL warp_down(float *z, const float *x, int n) {\n"
    "  float s = x[threadIdx.x]; for (int i = threadIdx.x + 32; i < n; i += 32) s += x[i];\n"
    "  for (int h = 16; h; h >>= 1) s += __shfl_down_sync(~0u, s, h);\n"
    "  if (threadIdx.x == 0) *z = s; }\n"
    "KERNEL warp_xor(float *z, const float *x, int n) {\n"
    "  float s = x[threadIdx.x]; for (int i = threadIdx.x + 32; i < n; i += 32) s += x[i];\n"
    "  for (int h = 16; h; h >>= 1) s += __shfl_xor_sync(~0u, s, h);\n"
    "  z[threadIdx.x] = s; }\n"
    "KERNEL segments(int *z, const int *x) {\n"
    "  int i = threadIdx.x; z[4 * i] = __shfl_sync(~0u, x[i], i * 7); z[4 * i + 1] = __shfl_up_sync(~0u, x[i], 3);\n"
    "  z[4 * i + 2] = __shfl_down_sync(~0u, x[i], 5, 8); z[4 * i + 3] = __shfl_xor_sync(~0u, x[i], 9, 16); }\n"
    "KERNEL block_tree(float *z, const float *x, int n) {\n"
    "  extern __shared__ float4 whole[]; float *s = (float *)whole; __shared__ float first[2];\n"
    "  int t = threadIdx.x; s[t] = t < n ? x[blockIdx.x * n + t] : 0.0f; __syncthreads();\n"
    "  for (int h = blockDim.x / 2; h; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); }\n"
    "  if (t == 0) first[0] = s[0]; __syncthreads();\n"
    "  if (t == blockDim.x - 1) z[blockIdx.x] = first[0]; }\n";

/* Lanes 0 to 31 fold every 32nd element, then as a tree. */
static float sum_of(const float *x, int n) {
  float lanes[32];
  for (int j = 0; j < 32; j++) {
    lanes[j] = x[j];
    for (int i = j + 32; i < n; i += 32) lanes[j] += x[i];
  }
  for (int h = 16; h; h >>= 1)
    for (int j = 0; j < h; j++) lanes[j] += lanes[j + h];
  return lanes[0];
}

static float tree_of(const float *x, int n, int room) {
  static float s[1024];
  for (int i = 0; i < room; i++) s[i] = i < n ? x[i] : 0.0f;
  for (int h = room / 2; h; h >>= 1)
    for (int i = 0; i < h; i++) s[i] += s[i + h];
  return s[0];
}

static int segment_of(const int *x, int i, int which) {
  switch (which) {
    case 0:
      return x[i * 7 % 32];
    case 1:
      return i >= 3 ? x[i - 3] : x[i];
    case 2:
      return i % 8 + 5 < 8 ? x[i + 5] : x[i];
    default:
      return x[(i & ~15) | ((i ^ 9) & 15)];
  }
}

static void sums_fold_in_the_order_of_the_host(void **state) {
  (void)state;
  enum { N = 4000, N_BLOCKS = 9, N_EACH = 200 };
  static float x[N];
  int values[32], n = N, n_each = N_EACH;
  random_state = 5;
  for (int i = 0; i < N; i++) x[i] = (float)(int32_t)random_word() * (i % 3 ? 1e-3f : 1e4f);
  for (int i = 0; i < 32; i++) values[i] = 100 + i;
  EACH_ARCHITECTURE(a) {
    sim_module *module = ptx_module(SUMS, ARCHITECTURES[a]);
    ptx_memory memory = {0};
    const float *dx = ptx_take_copy(&memory, x, sizeof x);
    const int *dv = ptx_take_copy(&memory, values, sizeof values);
    float *z = ptx_take(&memory, 32 * sizeof *z), expected = sum_of(x, N);
    int *places = ptx_take(&memory, 128 * sizeof *places);
    PTX_RUN(module, "warp_down", &memory, ((ptx_shape){1, 32, 0, true, true}), PTX_ARGUMENT(z), PTX_ARGUMENT(dx),
            PTX_ARGUMENT(n));
    assert_memory_equal(z, &expected, sizeof expected);
    PTX_RUN(module, "warp_xor", &memory, ((ptx_shape){1, 32, 0, true, true}), PTX_ARGUMENT(z), PTX_ARGUMENT(dx),
            PTX_ARGUMENT(n));
    for (int i = 0; i < 32; i++) assert_memory_equal(&z[i], &expected, sizeof expected);
    PTX_RUN(module, "segments", &memory, ((ptx_shape){1, 32, 0, true, true}), PTX_ARGUMENT(places), PTX_ARGUMENT(dv));
    for (int i = 0; i < 128; i++) assert_int_equal(places[i], segment_of(values, i / 4, i % 4));
    PTX_RUN(module, "block_tree", &memory, ((ptx_shape){N_BLOCKS, 256, 1024, true, true}), PTX_ARGUMENT(z),
            PTX_ARGUMENT(dx), PTX_ARGUMENT(n_each));
    for (int i = 0; i < N_BLOCKS; i++) {
      expected = tree_of(x + i * N_EACH, N_EACH, 256);
      assert_memory_equal(&z[i], &expected, sizeof expected);
    }
    ptx_free(&memory);
    sim_module_free(module);
  }
}

/* ---- divergence ---- */

static const char DIVERGENT[] =
    "extern \"C\" __global__ void walk(unsigned *z, const unsigned *from, unsigned n) {\n"
    "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, continue_at = 0; if (i >= n) return;\n"
    "  unsigned x = from[i];\n"
    "unsigned s = x, steps = 0;\n"
    "for (unsigned j = 0; j < 100; j++) {\n"
    "  if (s == 1) break;\n"
    "  if (s % 7 == 3) { steps += 1000; continue_at = j; }\n"
    "  switch (s % 6) { case 0: s = s / 2 + 1; break; case 1: s = 3 * s + 1; z[i] += 5; break;\n"
    "    case 2: for (unsigned k = 0; k < s % 5; k++) { steps += k * s; if (steps % 11 == 0) goto out; } s /= 2; "
    "break;\n"
    "    case 3: if (steps > 5000) return; s = s * 5 + 3; break; case 4: s >>= 2; z[i] ^= s; break;\n"
    "    default: s = s - 1; break; }\n"
    "  steps++;\n"
    "}\n"
    "out: z[i] += steps * 31 + s + continue_at;\n"
    "}\n"
    "extern \"C\" __global__ void meet(unsigned *z, const unsigned *from, unsigned n) {\n"
    "  unsigned i = threadIdx.x, x = from[i], s = 0;\n"
    "  for (unsigned j = 0; j < x % 9; j++) s += j * x;\n"
    "  if (x % 2) s += 7; else { s *= 3; if (x % 3 == 0) s ^= 0x55; }\n"
    "  s += __shfl_xor_sync(~0u, s, 1); __syncthreads();\n"
    "  z[i] = s + __popc(__ballot_sync(~0u, x % 5 == 0)) + __syncthreads_count(x % 3 == 1); }\n";

/* The same text by the host's compiler: text cannot be shared with NVRTC other than so. */
static void walk_on_host(unsigned *z, unsigned i, unsigned x) {
  unsigned continue_at = 0, s = x, steps = 0;
  for (unsigned j = 0; j < 100; j++) {
    if (s == 1) break;
    if (s % 7 == 3) {
      steps += 1000;
      continue_at = j;
    }
    switch (s % 6) {
      case 0:
        s = s / 2 + 1;
        break;
      case 1:
        s = 3 * s + 1;
        z[i] += 5;
        break;
      case 2:
        for (unsigned k = 0; k < s % 5; k++) {
          steps += k * s;
          if (steps % 11 == 0) goto out;
        }
        s /= 2;
        break;
      case 3:
        if (steps > 5000) return;
        s = s * 5 + 3;
        break;
      case 4:
        s >>= 2;
        z[i] ^= s;
        break;
      default:
        s = s - 1;
        break;
    }
    steps++;
  }
out:
  z[i] += steps * 31 + s + continue_at;
}

static unsigned meet_on_host(const unsigned *from, unsigned n, unsigned i) {
  unsigned s[2], ballot = 0, count = 0;
  for (unsigned lane = 0; lane < 2; lane++) {
    unsigned x = from[i ^ lane], sum = 0;
    for (unsigned j = 0; j < x % 9; j++) sum += j * x;
    s[lane] = x % 2 ? sum + 7 : x % 3 == 0 ? (sum * 3) ^ 0x55 : sum * 3;
  }
  for (unsigned lane = 0; lane < 32; lane++) ballot += from[(i & ~31u) | lane] % 5 == 0;
  for (unsigned j = 0; j < n; j++) count += from[j] % 3 == 1;
  return s[0] + s[1] + ballot + count;
}

static void lanes_part_and_meet(void **state) {
  (void)state;
  enum { N = 2000, N_TOGETHER = 256 };
  static unsigned from[N], expected[N];
  unsigned n = N;
  random_state = 9;
  for (unsigned i = 0; i < N; i++) from[i] = (unsigned)random_word() >> i % 30;
  memset(expected, 0, sizeof expected);
  for (unsigned i = 0; i < N; i++) walk_on_host(expected, i, from[i]);
  EACH_ARCHITECTURE(a) {
    sim_module *module = ptx_module(DIVERGENT, ARCHITECTURES[a]);
    ptx_memory memory = {0};
    unsigned *z = ptx_take(&memory, sizeof from);
    const unsigned *dx = ptx_take_copy(&memory, from, sizeof from);
    PTX_RUN(module, "walk", &memory, ((ptx_shape){(N + 95) / 96, 96, 0, false, false}), PTX_ARGUMENT(z),
            PTX_ARGUMENT(dx), PTX_ARGUMENT(n));
    assert_memory_equal(z, expected, sizeof expected);
    PTX_RUN(module, "meet", &memory, ((ptx_shape){1, N_TOGETHER, 0, false, false}), PTX_ARGUMENT(z), PTX_ARGUMENT(dx),
            PTX_ARGUMENT(n));
    for (unsigned i = 0; i < N_TOGETHER; i++) assert_int_equal(z[i], meet_on_host(from, N_TOGETHER, i));
    ptx_free(&memory);
    sim_module_free(module);
  }
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_have_the_bits_of_the_host),
      cmocka_unit_test(draws_have_the_bits_of_the_host),
      cmocka_unit_test(reals_have_the_bits_of_the_host),
      cmocka_unit_test(sums_fold_in_the_order_of_the_host),
      cmocka_unit_test(lanes_part_and_meet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
