/* What every part of the device does: keeping failures, memory, time. */
#include "cuda.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failures ------------------------------------------------------------------------------------ */

static void keep(sx_cuda *cuda, sx_code code, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
static void keep(sx_cuda *cuda, sx_code code, const char *format, va_list arguments) {
  sx_cuda_failure *failure = &cuda->failure;
  if (failure->failed) return;
  *failure = (sx_cuda_failure){.failed = true, .memory = code == SX_E_DEVICE_MEMORY, .code = code};
  int n = vsnprintf(failure->text, sizeof failure->text, format, arguments);
  if (cuda->doing && n >= 0 && (size_t)n < sizeof failure->text)
    snprintf(failure->text + n, sizeof failure->text - (size_t)n, ", in %s", cuda->doing);
}

bool sx_cuda_fail(sx_cuda *cuda, sx_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  keep(cuda, code, format, arguments);
  va_end(arguments);
  return false;
}

bool sx_cuda_check(sx_cuda *cuda, CUresult result, const char *call) {
  if (result == CUDA_SUCCESS) return true;
  const char *name = NULL, *words = NULL;
  cuda->api.cuGetErrorName(result, &name);
  cuda->api.cuGetErrorString(result, &words);
  return sx_cuda_fail(cuda, result == CUDA_ERROR_OUT_OF_MEMORY ? SX_E_DEVICE_MEMORY : SX_E_DEVICE_CALL,
                      "%s fails with %d %s (%s)", call, (int)result, name ? name : "of no name",
                      words ? words : "no words");
}

bool sx_cuda_check_cublas(sx_cuda *cuda, cublasStatus_t status, const char *call) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  return sx_cuda_fail(cuda, status == CUBLAS_STATUS_ALLOC_FAILED ? SX_E_DEVICE_MEMORY : SX_E_DEVICE_LIBRARY_CALL,
                      "%s fails with %d (%s)", call, (int)status, cuda->api.cublasGetStatusString(status));
}

bool sx_cuda_check_cudnn(sx_cuda *cuda, cudnnStatus_t status, const char *call) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  char words[256] = "";
  cuda->api.cudnnGetLastErrorString(words, sizeof words - 1);
  words[strcspn(words, "\r\n")] = 0;
  return sx_cuda_fail(cuda, memory ? SX_E_DEVICE_MEMORY : SX_E_DEVICE_LIBRARY_CALL, "%s fails with %d %s%s%s", call,
                      (int)status, cuda->api.cudnnGetErrorString(status), *words ? ": " : "", words);
}

bool sx_cuda_report(const sx_cuda *cuda, sx_diags *diags) {
  if (cuda->failure.failed) sx_error(diags, cuda->failure.code, (sx_span){0}, "%s", cuda->failure.text);
  return !cuda->failure.failed;
}

void sx_cuda_forgive(sx_cuda *cuda) { cuda->failure = (sx_cuda_failure){0}; }

bool sx_cuda_enter(sx_cuda *cuda) {
  if (cuda->failure.failed) return false;
  return sx_cuda_check(cuda, cuda->api.cuCtxSetCurrent(cuda->context), "cuCtxSetCurrent");
}

/* ---- memory -------------------------------------------------------------------------------------- */

struct sx_cuda_taken {
  CUdeviceptr address;
  void *host; /* page-locked; NULL: of the device */
  int64_t n_bytes;
  struct sx_cuda_taken *next;
};

/* NULL: no memory, the failure is kept. */
static struct sx_cuda_taken *new_taken(sx_cuda *cuda, int64_t n_bytes) {
  struct sx_cuda_taken *taken = cuda->memory.allocate(cuda->memory.context, sizeof *taken);
  if (taken)
    *taken = (struct sx_cuda_taken){.n_bytes = n_bytes > 0 ? n_bytes : 1, .next = cuda->taken};
  else
    sx_cuda_fail(cuda, SX_E_RUN_MEMORY, "out of memory");
  return taken;
}

/* Also after a failure: what is taken is given back. */
static void give_taken(sx_cuda *cuda, struct sx_cuda_taken **at) {
  struct sx_cuda_taken *taken = *at;
  *at = taken->next;
  cuda->api.cuCtxSetCurrent(cuda->context);
  if (taken->host) {
    cuda->api.cuMemFreeHost(taken->host);
  } else {
    cuda->taken_bytes -= taken->n_bytes;
    cuda->api.cuMemFree(taken->address);
  }
  cuda->memory.release(cuda->memory.context, taken);
}

static CUdeviceptr out_of_memory(sx_cuda *cuda, int64_t n_bytes) {
  int64_t free_bytes = sx_cuda_free_bytes(cuda);
  sx_cuda_fail(cuda, SX_E_DEVICE_MEMORY, "%" PRId64 " bytes are asked for, and %" PRId64 " are free", n_bytes,
               free_bytes);
  return 0;
}

CUdeviceptr sx_cuda_take(sx_cuda *cuda, int64_t n_bytes) {
  if (!sx_cuda_enter(cuda)) return 0;
  if (cuda->assumed_bytes && n_bytes > sx_cuda_free_bytes(cuda)) return out_of_memory(cuda, n_bytes);
  struct sx_cuda_taken *taken = new_taken(cuda, n_bytes);
  if (!taken) return 0;
  CUresult result = cuda->api.cuMemAlloc(&taken->address, (size_t)taken->n_bytes);
  if (result == CUDA_SUCCESS) {
    cuda->taken = taken;
    cuda->taken_bytes += taken->n_bytes;
    return taken->address;
  }
  cuda->memory.release(cuda->memory.context, taken);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return out_of_memory(cuda, n_bytes);
  sx_cuda_check(cuda, result, "cuMemAlloc");
  return 0;
}

void sx_cuda_give(sx_cuda *cuda, CUdeviceptr memory) {
  struct sx_cuda_taken **at = &cuda->taken;
  while (*at && ((*at)->host || (*at)->address != memory)) at = &(*at)->next;
  if (memory && *at) give_taken(cuda, at);
}

void sx_cuda_give_all(sx_cuda *cuda) {
  while (cuda->taken) give_taken(cuda, &cuda->taken);
}

int64_t sx_cuda_free_bytes(sx_cuda *cuda) {
  if (cuda->assumed_bytes) return cuda->assumed_bytes > cuda->taken_bytes ? cuda->assumed_bytes - cuda->taken_bytes : 0;
  size_t free_bytes = 0, total_bytes = 0;
  cuda->api.cuCtxSetCurrent(cuda->context);
  return cuda->api.cuMemGetInfo(&free_bytes, &total_bytes) == CUDA_SUCCESS ? (int64_t)free_bytes : 0;
}

void *sx_cuda_take_host(sx_cuda *cuda, int64_t n_bytes) {
  if (!sx_cuda_enter(cuda)) return NULL;
  struct sx_cuda_taken *taken = new_taken(cuda, n_bytes);
  if (!taken) return NULL;
  if (sx_cuda_check(cuda, cuda->api.cuMemHostAlloc(&taken->host, (size_t)taken->n_bytes, 0), "cuMemHostAlloc")) {
    cuda->taken = taken;
    return taken->host;
  }
  cuda->memory.release(cuda->memory.context, taken);
  return NULL;
}

void sx_cuda_give_host(sx_cuda *cuda, void *memory) {
  struct sx_cuda_taken **at = &cuda->taken;
  while (*at && (*at)->host != memory) at = &(*at)->next;
  if (memory && *at) give_taken(cuda, at);
}

CUdeviceptr sx_cuda_convolution_workspace(sx_cuda *cuda) {
  if (!cuda->convolution_workspace) cuda->convolution_workspace = sx_cuda_take(cuda, SX_CUDNN_WORKSPACE_N_BYTES);
  return cuda->convolution_workspace;
}

/* ---- time ---------------------------------------------------------------------------------------- */

void sx_cuda_time_begin(sx_cuda *cuda) {
  if (sx_cuda_enter(cuda)) sx_cuda_check(cuda, cuda->api.cuEventRecord(cuda->begin, cuda->stream), "cuEventRecord");
}

bool sx_cuda_time_end(sx_cuda *cuda) {
  float milliseconds = 0;
  const sx_api *api = &cuda->api;
  if (!sx_cuda_enter(cuda) || !sx_cuda_check(cuda, api->cuEventRecord(cuda->end, cuda->stream), "cuEventRecord") ||
      !sx_cuda_check(cuda, api->cuEventSynchronize(cuda->end), "cuEventSynchronize") ||
      !sx_cuda_check(cuda, api->cuEventElapsedTime(&milliseconds, cuda->begin, cuda->end), "cuEventElapsedTime"))
    return false;
  cuda->timed_ns += (int64_t)((double)milliseconds * 1e6);
  return true;
}
