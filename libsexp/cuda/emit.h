/* CUDA C of all kernels of the device but products and convolutions, and the launches that run them.
 *
 * Every kernel gives the CPU engine's bits (docs/numerics.md), NaNs apart, which are any NaN in memory as they are on
 * the CPU. Texts are made for the shapes and strides of their task, so indices are computed with constants, in 32 bits
 * where everything fits. A unit is sx_emit_prelude and then texts of sx_lowering.kernels in any order; NVRTC compiles
 * it with --fmad=false --ftz=false --prec-div=true --prec-sqrt=true, without any include path.
 *
 * No kernel looks at the fault cell before it works. An id that is out of range lowers the cell, reads as 0 and adds
 * nothing; nothing is written out of bounds. */
#ifndef SX_CUDA_EMIT_H
#define SX_CUDA_EMIT_H

#include "work.h"

/* kernels/math.h, kernels/draws.h and kernels/device.cuh as one text. */
extern const char sx_emit_prelude[];

/* Kernels of plain arrays for what a backend does outside plans, to be compiled once after the prelude. Each takes
 * n as long long last and is launched with 256 threads a block, one element a thread:
 *   arrays_add(float *out, const float *left, const float *right, n)     out may be one of them
 *   arrays_divide(float *values, float count, n)
 *   arrays_widen_bf16, arrays_widen_f16(float *to, const unsigned short *from, n)
 *   arrays_narrow_bf16, arrays_narrow_f16(unsigned short *to, const float *from, n) */
extern const char sx_emit_arrays[];

/* The type of elements in memory, in the texts of kernels: "float", "sx_bf16". */
const char *sx_emit_type(sx_dtype dtype);

/* Appends the works of the task; none where it has no element. False: its operation is a product or a convolution, and
 * nothing was appended. */
bool sx_emit_task(sx_lowering *lowering, uint32_t task);

/* Makes launches of one elementwise text on different buffers one launch, where none of them needs another's
 * result: the optimizer's update of all parameters. For `patterns`; called once after the last task. Bits stay. */
void sx_emit_merge(sx_lowering *lowering);

#endif
