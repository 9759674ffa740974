/* Which SIMD levels this machine and build have. The level kernels are compiled once for each, from the same
 * sources; a set may be used only where the processor has the level's instructions. */
#include "reference.h"

static const char *const names[SX_N_SIMD] = {
    [SX_SIMD_REFERENCE] = "reference",
    [SX_SIMD_SCALAR] = "scalar",
    [SX_SIMD_AVX2] = "avx2",
    [SX_SIMD_AVX512] = "avx512",
};

const char *sx_simd_name(sx_simd simd) { return names[simd]; }

extern const sx_kernel_set sx_kernel_set_scalar;
#if defined(__x86_64__)
extern const sx_kernel_set sx_kernel_set_avx2, sx_kernel_set_avx512;

/* f16c and bmi2 came with avx2 on every processor that has it. */
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static bool has_avx512(void) {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const sx_kernel_set *sx_kernels(sx_simd simd) {
  switch (simd) {
    case SX_SIMD_REFERENCE:
      return &sx_kernel_set_reference;
    case SX_SIMD_SCALAR:
      return &sx_kernel_set_scalar;
#if defined(__x86_64__)
    case SX_SIMD_AVX2:
      return has_avx2() ? &sx_kernel_set_avx2 : NULL;
    case SX_SIMD_AVX512:
      return has_avx512() ? &sx_kernel_set_avx512 : NULL;
#endif
    default:
      return NULL;
  }
}

bool sx_simd_available(sx_simd simd) { return sx_kernels(simd) != NULL; }

sx_simd sx_simd_best(void) {
  sx_simd best = SX_SIMD_SCALAR;
  for (sx_simd simd = SX_SIMD_SCALAR; simd < SX_N_SIMD; simd++)
    if (sx_simd_available(simd)) best = simd;
  return best;
}
