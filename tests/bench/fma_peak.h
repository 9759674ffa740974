/* The machine's peak of fused multiply-adds, from independent ones in registers; 0 where it is not known how
 * to write them. */
#ifndef BENCH_FMA_PEAK_H
#define BENCH_FMA_PEAK_H

#include "../../libsexp/cpu/kernel.h"

#if defined(__x86_64__)
#define CHAINS(instruction, r)                                                                                      \
  instruction " %%" r "0, %%" r "0, %%" r "2\n" instruction " %%" r "0, %%" r "0, %%" r "3\n" instruction " %%" r   \
              "0, %%" r "0, %%" r "4\n" instruction " %%" r "0, %%" r "0, %%" r "5\n" instruction " %%" r "0, %%" r \
              "0, %%" r "6\n" instruction " %%" r "0, %%" r "0, %%" r "7\n" instruction " %%" r "0, %%" r "0, %%" r \
              "8\n" instruction " %%" r "0, %%" r "0, %%" r "9\n" instruction " %%" r "0, %%" r "0, %%" r           \
              "10\n" instruction " %%" r "0, %%" r "0, %%" r "11\n"
#define CLOBBERS "xmm0", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11"
/* Executes n rounds of ten registers' multiply-adds; says how many operations that was. */
static inline double fma_flops(int64_t n) {
  bool wide = sx_simd_available(SX_SIMD_AVX512);
  if (!sx_simd_available(SX_SIMD_AVX2)) return 0.0;
  for (int64_t k = 0; k < n; k++) {
    if (wide)
      __asm__ volatile("vxorps %%xmm0, %%xmm0, %%xmm0\n" CHAINS("vfmadd231ps", "zmm")::: CLOBBERS);
    else
      __asm__ volatile("vxorps %%xmm0, %%xmm0, %%xmm0\n" CHAINS("vfmadd231ps", "ymm")::: CLOBBERS);
  }
  return (double)n * 10.0 * 2.0 * (wide ? 16.0 : 8.0);
}
#undef CHAINS
#undef CLOBBERS
#else
static inline double fma_flops(int64_t n) {
  (void)n;
  return 0.0;
}
#endif

#endif
