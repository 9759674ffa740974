/* Convolutions on the device: by cuDNN with the engine that was chosen, or by the project's own kernel, which sums in
 * the order of numerics 1. cuDNN computes f32 and bf16 where it takes an engine (cudnn.h); f16, a convolution that it
 * takes no engine for, an empty one, and everything when the lowering is portable, are the project's.
 *
 * cuDNN reads NHWC tensors without gaps: an operand that lies otherwise is copied into scratch before. */
#ifndef SX_CUDA_CONVOLVE_H
#define SX_CUDA_CONVOLVE_H

#include "convolution.h"
#include "product.h"

typedef struct sx_convolve {
  sx_convolution convolution;
  const char *engine; /* as recorded: "engine 47 knobs 0=3" */
  sx_place x, w, y;   /* in all roles; one of them is written */
  const char *text;   /* for reports: "Forward 8 x 8 x 256 to 512, 3 x 3 bf16, engine 47 knobs 0=3" */
  sx_arena *arena;    /* of the lowering */
  /* Made by sx_convolve_prepare. */
  struct sx_cudnn *session;
  struct sx_cudnn_plan *plan;
} sx_convolve;

/* Adds the works of a NODE task that is a CONV, CONVDATA or CONVWEIGHT. */
bool sx_lower_convolution(sx_lowering *lowering, uint32_t task);

/* Whether the task is a convolution of a dtype and of sizes that cuDNN is asked about; its key. */
bool sx_convolution_of(sx_convolution *convolution, const sx_plan *plan, uint32_t task);

#endif
