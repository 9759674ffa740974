/* Convolutions as the stand-in of cuDNN computes them: three roles, any strides of tensors, sums in f32. */
#ifndef SIM_CONVOLVE_H
#define SIM_CONVOLVE_H

#include "fold.h"
#include "sim.h"

/* Of four dimensions in cuDNN's order [n c h w], or [k c r s] for weights. */
typedef struct sim_tensor {
  int64_t id, alignment, dims[4], strides[4];
  sim_dtype dtype;
} sim_tensor;

typedef enum sim_role { SIM_FORWARD, SIM_DATA, SIM_WEIGHT, SIM_N_ROLES } sim_role;

typedef struct sim_convolution {
  sim_role role;
  sim_tensor x, w, y; /* SIM_DATA writes x, SIM_WEIGHT writes w */
  int64_t stride[2], before[2], after[2], dilation[2];
  float alpha, beta;
} sim_convolution;

/* Bytes from the first element to the last. */
size_t sim_tensor_n_bytes(const sim_tensor *tensor);
const sim_tensor *sim_convolution_result(const sim_convolution *convolution);
/* NULL: computable; else what is wrong or not simulated. */
const char *sim_convolution_check(const sim_convolution *convolution);

/* Order of the terms of one sum: channels inside pixels of the filter (or pixels inside images), or the other way. */
typedef struct sim_convolution_order {
  sim_fold_order fold;
  bool channels_first;
} sim_convolution_order;

typedef struct sim_knob {
  int type;
  int64_t value;
} sim_knob;
enum { SIM_KNOBS_MAX = 64 };

/* An engine's order depends on its number, its knobs, the card's compute capability and the version, in bits really. */
sim_convolution_order sim_convolution_order_of(int64_t engine, const sim_knob *knobs, int64_t n_knobs, int version);

typedef struct sim_convolution_call {
  sim_convolution convolution;
  sim_convolution_order order;
  int64_t engine;
  bool differs; /* from call to call */
  void *x, *w, *y, *workspace;
  size_t workspace_n_bytes;
} sim_convolution_call;
CUresult sim_convolution_enqueue(CUstream stream, const sim_convolution_call *call);

#endif
