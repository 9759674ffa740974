/* The CUDA device as the parts of libsexp/cuda share it: its libraries, its one stream, its failure, its choices.
 *
 * Threads: an sx_cuda belongs to one thread at a time. Whoever enters it from outside (device.c's functions, the
 * backend's calls) calls sx_cuda_enter first; the context stays current on that thread.
 *
 * Failures are sticky: the first one is kept in `failure` with the call that met it, everything enqueued later does
 * nothing, and it is told where the caller has somewhere to tell it (sx_cuda_report). So code that enqueues checks
 * with sx_cuda_check and goes on, or returns.
 */
#ifndef SX_CUDA_CUDA_H
#define SX_CUDA_CUDA_H

#include "../device/backend.h"
#include "../sexp.h"
/* After sexp.h. */
#include "../sexp_device.h"
#include "api.h"
#include "choose.h"
#include "cudnn.h"
#include "product.h"
#include "work.h"

enum { SX_CUDA_ALIGNMENT = 256 }; /* of what sx_cuda_take gives */
static inline int64_t sx_cuda_rounded(int64_t n_bytes) {
  return (n_bytes + SX_CUDA_ALIGNMENT - 1) / SX_CUDA_ALIGNMENT * SX_CUDA_ALIGNMENT;
}
enum { SX_CUDA_PIECES = 8 }; /* of work that measure.c times */

typedef struct sx_cuda_failure {
  bool failed;
  bool memory; /* the device had none left */
  sx_code code;
  char text[1024];
} sx_cuda_failure;

struct sx_kernels;    /* compile.h */
struct sx_cuda_taken; /* cuda.c */

typedef struct sx_cuda {
  sx_memory memory;
  sx_arena arena; /* as long as the device is open */
  sx_api api;     /* driver and NVRTC always; cuBLAS and cuBLASLt unless portable; cuDNN where `cudnn` is set */
  bool portable, patterns;
  int64_t capability, multiprocessors; /* 80, 108 */
  int64_t assumed_bytes;               /* of memory, that plans may count on; 0: as the driver says */
  sx_device properties;                /* the 23 facts that cuDNN selects by */
  sexp_device_facts facts;

  CUdevice device;
  CUcontext context;
  CUstream stream;       /* all work, in order */
  cublasHandle_t cublas; /* pedantic math, no atomics, workspace set; NULL under portable */
  CUdeviceptr blas_workspace;
  int64_t blas_workspace_bytes;
  cudnnHandle_t cudnn;               /* on `stream`; NULL: there is no cuDNN, or portable */
  sx_cudnn session;                  /* selects engines, makes plans; where cudnn is set */
  sx_diags late_diags;               /* of the session, when no call of the backend is under way */
  CUdeviceptr convolution_workspace; /* SX_CUDNN_WORKSPACE_N_BYTES; 0: no convolution has asked for it */
  CUevent begin, end;                /* of sx_cuda_time */
  int64_t timed_ns;                  /* of the device, by all timed spans until now */

  int64_t piece_ns[SX_CUDA_PIECES]; /* measure.c; 0: not timed yet */

  struct sx_kernels *kernels;  /* compiled ones, by name */
  struct sx_cuda_taken *taken; /* memory that is to be given back */
  int64_t taken_bytes;
  sx_backend *backend;
  sx_made *trials; /* executables of candidates, while they are tried */
  sx_cuda_failure failure;
  sx_options options; /* choices of the plans of the run at hand */
  const char *doing;  /* "conv1/w (kernel group_5a1f03c2)": named by failures; NULL: nothing in particular */
} sx_cuda;

/* ---- failures ---- */

/* True: the call succeeded. Else the failure is kept, if it is the first: E-DEVICE-025 with the call's name, the
 * driver's words and what was being done; 026 for want of memory. */
bool sx_cuda_check(sx_cuda *cuda, CUresult result, const char *call);
bool sx_cuda_check_cublas(sx_cuda *cuda, cublasStatus_t status, const char *call); /* 028; 026 */
bool sx_cuda_check_cudnn(sx_cuda *cuda, cudnnStatus_t status, const char *call);   /* 028; 026 */
/* Keeps a failure of another kind; false. */
bool sx_cuda_fail(sx_cuda *cuda, sx_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds the failure to diags, if there is one; true: there was none. */
bool sx_cuda_report(const sx_cuda *cuda, sx_diags *diags);
/* Forgets a failure that left the context whole: memory that was not there, a call that refused. */
void sx_cuda_forgive(sx_cuda *cuda);

/* Makes the context the thread's. */
bool sx_cuda_enter(sx_cuda *cuda);

/* ---- memory: 0 or NULL, and a failure of memory, where there is none ---- */

CUdeviceptr sx_cuda_take(sx_cuda *cuda, int64_t n_bytes); /* a multiple of SX_CUDA_ALIGNMENT */
void sx_cuda_give(sx_cuda *cuda, CUdeviceptr memory);
void sx_cuda_give_all(sx_cuda *cuda);
/* That can still be taken, as far as plans may count on it. */
int64_t sx_cuda_free_bytes(sx_cuda *cuda);
void *sx_cuda_take_host(sx_cuda *cuda, int64_t n_bytes); /* page-locked */
void sx_cuda_give_host(sx_cuda *cuda, void *memory);
/* The fixed workspace of convolutions, taken at the first call. A plan of cuDNN needs at most its bytes. Scratch of the
 * lowering (sx_lowering_scratch) does as well, where what a plan needs is known. */
CUdeviceptr sx_cuda_convolution_workspace(sx_cuda *cuda);

/* ---- time ---- */

/* Time that the stream spends between the two is added to timed_ns; end waits for it. Not within a recorded sequence.
 */
void sx_cuda_time_begin(sx_cuda *cuda);
bool sx_cuda_time_end(sx_cuda *cuda);

/* ---- pieces of work that are no launches: product.c and convolve.c have these ---- */

/* Addresses at hand of a plan's buffers, and of the scratch. */
typedef struct sx_addresses {
  CUdeviceptr *buffers; /* one a buffer of the plan */
  CUdeviceptr scratch;
} sx_addresses;
static inline CUdeviceptr sx_address(const sx_addresses *addresses, sx_place place) {
  return (place.buffer == SX_PLACE_SCRATCH ? addresses->scratch : addresses->buffers[place.buffer]) +
         (CUdeviceptr)place.offset;
}

/* Their choices are found, told and decided before a plan is lowered: sx_options of choose.h. The lowering asks for
 * what is decided. */

/* Makes what running it takes: the plan of cuDNN. False: the failure is kept. */
bool sx_convolve_prepare(sx_cuda *cuda, sx_work *work);
/* Enqueues it; also while a sequence is recorded. Failures are kept. */
void sx_product_run(sx_cuda *cuda, const sx_work *work, const sx_addresses *addresses);
/* One call of cuBLAS, pedantic, on operands in the device's memory. */
bool sx_gemm_run(sx_cuda *cuda, const sx_gemm_call *call, sx_dtype from_dtype, sx_dtype to_dtype, const char *a,
                 const char *b, char *c);
void sx_convolve_run(sx_cuda *cuda, const sx_work *work, const sx_addresses *addresses);
/* Gives back what preparing took, whether or not it succeeded. */
void sx_convolve_release(sx_cuda *cuda, sx_work *work);
/* How it is done, for a line of a report: "768 x 3072 x 65536 n t f32, cuBLAS, split 8". */
void sx_product_print(sx_text *text, const sx_work *work);
void sx_convolve_print(sx_text *text, const sx_work *work);

#endif
