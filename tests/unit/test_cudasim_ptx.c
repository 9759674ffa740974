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

#define UNARY(X)                                                                                                  \
  X(exp)                                                                                                          \
  X(exp2) X(expm1) X(log) X(log2) X(log1p) X(sin) X(cos) X(tan) X(sinpi) X(cospi) X(tanh) X(erf) X(sqrt) X(rsqrt) \
      X(round) X(floor) X(ceil) X(sign) X(canonical)
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

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_have_the_bits_of_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
