/* Convolutions on the simulated cuDNN, and what they should be. */
#ifndef TEST_CUDASIM_DNN_H
#define TEST_CUDASIM_DNN_H

#include "cudasim_mathlib.h"

#ifdef SX_CUDA
#include "../../libsexp/cuda/cudnn_descriptor.h"

#define DNN(ROW)               \
  ROW(cudnnCreate)             \
  ROW(cudnnDestroy)            \
  ROW(cudnnSetStream)          \
  ROW(cudnnGetStream)          \
  ROW(cudnnGetErrorString)     \
  ROW(cudnnGetLastErrorString) \
  ROW(cudnnGetVersion)         \
  ROW(cudnnBackendExecute)
#define FINE(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

/* The product's own selection works on it: offers and plans are made as in a run. */
typedef struct dnn {
#define ROW(function) __typeof__(function) *p_##function;
  DNN(ROW)
#undef ROW
  CUstream stream;
  cudnnHandle_t handle;
  void *library, *workspace;
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_api api;
  sx_device device;
  sx_cudnn cudnn;
} dnn;

enum { DNN_WORKSPACE_N_BYTES = 64 << 20 };

/* Whether the real cuDNN is there; else one line says that the tests are skipped. */
bool dnn_ready(void);

void dnn_begin(dnn *d);
/* With offers and plans for another card than the one that is simulated. */
void dnn_begin_on(dnn *d, const char *card);
void dnn_end(dnn *d);

typedef struct dnn_tensors {
  int64_t n[3]; /* elements of x, w, y */
  float *wide[3];
  void *device[3], *host; /* host: as large as any */
} dnn_tensors;

size_t dnn_size_of(const sx_convolution *c); /* of an element */
/* Filled with numbers that the type has exactly. */
dnn_tensors dnn_take(const sx_convolution *c);
void dnn_give(dnn_tensors *t);

extern const int64_t DNN_IDS[3]; /* of x, w, y */
cudnnBackendDescriptor_t dnn_pack(const dnn *d, const int64_t ids[3], void *const pointers[3], void *workspace);
cudnnStatus_t dnn_execute(const dnn *d, const sx_cudnn_plan *plan, void *const pointers[3], void *workspace);
/* The recorded engine's plan; the case ends where it is refused. */
sx_cudnn_plan dnn_plan_of(dnn *d, const sx_convolution *c, const char *engine);
const char *dnn_engine_text(dnn *d, const sx_engine *engine);

int dnn_result_of(const sx_convolution *c); /* 0: x is written, 1: w, 2: y */
/* The result in host memory against binary64: the case ends where it is not within the bound of its sum. */
void dnn_compare(const sx_convolution *c, const dnn_tensors *t, const void *result);
uint64_t dnn_digest(const void *values, size_t n_bytes);

/* Convolutions of three roles, five shapes and two types. */
enum { DNN_SHAPES = 5, DNN_CASES = 2 * DNN_SHAPES * SX_N_ROLES };
sx_convolution dnn_case_of(int i);
/* One of them, and the plan of its first candidate. */
extern const sx_convolution DNN_LAYER;
sx_cudnn_plan dnn_first_plan(dnn *d);

/* Engines of DNN_LAYER's candidates with settings. */
typedef struct dnn_listed {
  size_t n;
  int64_t version, engines[SX_CUDNN_CANDIDATES];
} dnn_listed;
void dnn_list_engines(void *listed);
dnn_listed *dnn_engines_with(const char *settings);
/* SETTING ENGINE REST as one text, until the next call. */
const char *dnn_with(const char *setting, int64_t engine, const char *rest);
#endif

#endif
