/* For programs of tests/gpu and tests/bench: plans executed on the device that the loader finds, a card or the
 * simulated one. What fails is a text and false; nothing ends the process. */
#ifndef TEST_GPU_ON_DEVICE_H
#define TEST_GPU_ON_DEVICE_H

#ifdef SX_CUDA
#include "../../libsexp/cuda/cuda.h"

typedef struct gpu_device {
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_cuda *cuda; /* NULL: it is not open */
  sx_backend *backend;
  char why[1200]; /* of what returned false last */
} gpu_device;

/* Whether it is the simulated one: then times are none of a card's. */
bool gpu_is_simulated(void);
/* `cubins`: directory of compiled kernels, or NULL. */
bool gpu_open(gpu_device *gpu, const char *cubins, bool portable);
/* With cuBLAS and cuDNN, or, where that fails, as portable with a word on stdout. */
bool gpu_open_any(gpu_device *gpu);
void gpu_close(gpu_device *gpu);

/* An executable with memory of its buffers from outside, on the device and on the host. */
typedef struct gpu_plan {
  gpu_device *gpu;
  const sx_plan *plan;
  sx_made *made;
  void **device, **host; /* one a buffer of the plan; NULL: not from outside */
} gpu_plan;

/* Host memory of the buffers is rubbish until the caller fills it. Everything is released by gpu_plan_free, also after
 * a failure. `deciding` NULL: the first candidates. */
bool gpu_plan_make(gpu_plan *p, gpu_device *gpu, const sx_plan *plan, const sx_deciding *deciding, sx_arena *arena);
/* Without memory of the host. */
bool gpu_plan_make_there(gpu_plan *p, gpu_device *gpu, const sx_plan *plan, const sx_deciding *deciding,
                         sx_arena *arena);
void gpu_plan_free(gpu_plan *p);
enum { GPU_DRAW_SEED = 7 };

/* Enqueue all inputs; all outputs. */
void gpu_plan_upload(gpu_plan *p);
void gpu_plan_download(gpu_plan *p);
/* Inputs brought, executed, outputs brought, to its end. `why` NULL: a stop at a node is a failure. */
bool gpu_plan_run(gpu_plan *p, sx_stopped *why);
bool gpu_finish(gpu_device *gpu, sx_stopped *why);

/* A plan of a graph's text, in the arena; NULL: the text is no graph. */
const sx_plan *gpu_plan_of(const char *text, bool fuse, sx_arena *arena);
#endif

#endif
