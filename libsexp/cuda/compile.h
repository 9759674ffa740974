/* Kernels of one device, compiled by NVRTC to code of its exact architecture: never to PTX, which the driver would
 * compile, so that the driver's version moved bits. A kernel is compiled once; what is compiled is kept on disk under
 * the hash of everything that decides it. */
#ifndef SX_CUDA_COMPILE_H
#define SX_CUDA_COMPILE_H

#include "cuda.h"

/* `directory` keeps code between processes; NULL: none does. False: an error is in diags. */
bool sx_kernels_open(sx_cuda *cuda, const char *directory, sx_diags *diags);
void sx_kernels_close(sx_cuda *cuda);

/* Makes the kernels callable that are not yet. In the order given, so many a unit: the same units every time. False: an
 * error is in diags (E-DEVICE-027; of the driver). Needs a guard of cuda->memory. */
bool sx_kernels_add(sx_cuda *cuda, const sx_kernel_source *sources, size_t n, sx_diags *diags);
/* The same of one text with several kernels. */
bool sx_kernels_add_text(sx_cuda *cuda, const char *text, const char *const *names, size_t n_names, sx_diags *diags);
/* NULL: there is none of that name. */
CUfunction sx_kernels_find(const sx_cuda *cuda, const char *name);

/* What they came to, for reports: compiled by NVRTC, taken from the directory; in this process. */
typedef struct sx_kernel_counts {
  int64_t n_kernels, n_units, n_compiled, n_taken;
} sx_kernel_counts;
sx_kernel_counts sx_kernels_count(const sx_cuda *cuda);

/* The options of every compilation, the architecture first; 7 of them. */
enum { SX_NVRTC_OPTIONS = 7 };
void sx_nvrtc_options(const char *options[SX_NVRTC_OPTIONS], int64_t capability, sx_arena *arena);

#endif
