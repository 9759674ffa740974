/* Numbers of a device that are measured, for the passes that weigh arithmetic against memory. */
#ifndef SX_CUDA_MEASURE_H
#define SX_CUDA_MEASURE_H

#include "cuda.h"

/* "recompute": f32 operations that the device does in the time in which it moves a byte of its memory, "10.99". False:
 * an error is in diags. */
bool sx_cuda_measure(sx_cuda *cuda, const char *what, char *text, size_t n_text, sx_diags *diags);

#endif
