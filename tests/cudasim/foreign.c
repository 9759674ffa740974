/* What the real cuDNN and NVRTC look for in a driver while engines are selected without a device. cuDNN "loads" the
 * kernels that it compiled and never launches them; the rest it calls not at all, or takes a refusal for an answer.
 * None of it is what the product calls, so none of it is a violation. */
#include "driver.h"

static char token;

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values,
                           unsigned n_options, CUlibraryOption *library_options, void **library_values,
                           unsigned n_library_options) {
  (void)code, (void)options, (void)values, (void)n_options;
  (void)library_options, (void)library_values, (void)n_library_options;
  *library = (CUlibrary)(void *)&token;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  (void)library, (void)name;
  *kernel = (CUkernel)(void *)&token;
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library) {
  (void)library;
  return CUDA_SUCCESS;
}

/* NVRTC calls it without asking whether it is there. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}
