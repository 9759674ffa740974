/* The device as libsexp/run sees it: the table of ../device/backend.h. */
#ifndef SX_CUDA_BACKEND_H
#define SX_CUDA_BACKEND_H

#include "cuda.h"

/* Needs a guard of cuda->memory. */
void sx_cuda_backend_open(sx_cuda *cuda);
/* Also after a failure: executables that are left, recorded sequences, memory. */
void sx_cuda_backend_close(sx_cuda *cuda);

#endif
