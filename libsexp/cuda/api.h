/* Entry points of loaded libraries, one pointer a row of api.def. Written by loading, read only afterwards: threads
 * may share it. */
#ifndef SX_CUDA_API_H
#define SX_CUDA_API_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cudnn_backend.h>
#include <nvrtc.h>

#include "library.h"

typedef struct sx_api {
#define SX_ENTRY(library, function) __typeof__(function) *function;
#include "api.def"
  sx_library_found found[SX_N_LIBRARIES];
} sx_api;

/* Loads one library and fills its entry points. Errors: E-DEVICE-010 not found, 011 it lacks an entry point, 012 too
 * old. `path` as in library.h, or NULL. */
bool sx_api_load(sx_api *api, sx_library library, const char *path, sx_arena *arena, sx_diags *diags);

#endif
