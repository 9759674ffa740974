/* A plan's tasks as pieces of work, each by the part that knows its operation. Needs no header of CUDA. */
#ifndef SX_CUDA_LOWER_H
#define SX_CUDA_LOWER_H

#include "work.h"

/* Fills works, kernels, faults and scratch of a lowering whose other fields are set. False: errors are in its diags. */
bool sx_lower(sx_lowering *lowering);

#endif
