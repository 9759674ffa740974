/* Candidates of a choice, executed in memory of their own. */
#include <string.h>

#include "executable.h"

/* A want of memory or a library's refusal is the candidate's; other failures are the device's and stay. */
static sexp_ran ran(sx_cuda *cuda) {
  if (!cuda->failure.failed) return SEXP_RAN;
  sexp_ran how = cuda->failure.memory ? SEXP_RAN_OUT_OF_MEMORY : SEXP_RAN_REFUSED;
  sx_code code = cuda->failure.code;
  if (cuda->failure.memory || code == SX_E_DEVICE_LIBRARY_CALL || code == SX_E_DEVICE_ENGINE) sx_cuda_forgive(cuda);
  return how;
}

static bool is_outside(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
}

/* Scratch, the block, then each buffer from outside. */
static bool take_own(sx_made *made) {
  const sx_plan *plan = made->plan;
  int64_t scratch = sx_cuda_rounded(made->lowering.scratch_bytes),
          n_bytes = scratch + sx_cuda_rounded(plan->block_bytes);
  for (size_t b = 0; b < plan->buffers.n; b++)
    if (is_outside(&plan->buffers.items[b])) n_bytes += sx_cuda_rounded(plan->buffers.items[b].n_bytes);
  made->own = sx_cuda_take(made->cuda, n_bytes);
  if (!made->own) return false;
  sx_made_place(made, made->own + (CUdeviceptr)scratch, made->own);
  CUdeviceptr at = made->own + (CUdeviceptr)(scratch + sx_cuda_rounded(plan->block_bytes));
  for (size_t b = 0; b < plan->buffers.n; b++) {
    if (!is_outside(&plan->buffers.items[b])) continue;
    made->addresses.buffers[b] = at;
    at += (CUdeviceptr)sx_cuda_rounded(plan->buffers.items[b].n_bytes);
  }
  return true;
}

static sexp_ran make(void *context, void **made, const sx_plan *plan) {
  sx_cuda *cuda = context;
  sx_made *trial = sx_made_new(cuda);
  *made = NULL;
  if (!trial) return SEXP_RAN_OUT_OF_MEMORY;
  trial->next = cuda->trials; /* released with the device, should an allocation not return */
  cuda->trials = *made = trial;
  sx_diags diags;
  sx_diags_init(&diags, &trial->arena);
  bool good = sx_made_fill(trial, plan, 0, &diags) && take_own(trial);
  sexp_ran how = ran(cuda);
  return good || how != SEXP_RAN ? how : SEXP_RAN_REFUSED;
}

static void unmake(void *context, void *made) {
  sx_cuda *cuda = context;
  if (!made) return;
  sx_made **at = &cuda->trials;
  while (*at != made) at = &(*at)->next;
  *at = (*at)->next;
  sx_made_free(made);
}

static bool wait(sx_cuda *cuda) {
  return sx_cuda_check(cuda, cuda->api.cuStreamSynchronize(cuda->stream), "cuStreamSynchronize");
}

/* Copies go by way of page-locked memory. */
static sexp_ran upload(void *context, void *made, uint32_t buffer, const void *from, int64_t n_bytes) {
  sx_cuda *cuda = context;
  CUdeviceptr to = ((const sx_made *)made)->addresses.buffers[buffer];
  void *host = n_bytes ? sx_cuda_take_host(cuda, n_bytes) : NULL;
  if (host) {
    memcpy(host, from, (size_t)n_bytes);
    sx_cuda_check(cuda, cuda->api.cuMemcpyHtoDAsync(to, host, (size_t)n_bytes, cuda->stream), "cuMemcpyHtoDAsync");
    wait(cuda);
  }
  sx_cuda_give_host(cuda, host);
  return ran(cuda);
}

static sexp_ran download(void *context, void *made, uint32_t buffer, void *to, int64_t n_bytes) {
  sx_cuda *cuda = context;
  CUdeviceptr from = ((const sx_made *)made)->addresses.buffers[buffer];
  void *host = n_bytes ? sx_cuda_take_host(cuda, n_bytes) : NULL;
  if (host &&
      sx_cuda_check(cuda, cuda->api.cuMemcpyDtoHAsync(host, from, (size_t)n_bytes, cuda->stream),
                    "cuMemcpyDtoHAsync") &&
      wait(cuda))
    memcpy(to, host, (size_t)n_bytes);
  sx_cuda_give_host(cuda, host);
  return ran(cuda);
}

static sexp_ran execute(void *context, void *made) {
  sx_cuda *cuda = context;
  sx_cuda_time_begin(cuda);
  sx_made_execute(made, 0);
  sx_cuda_time_end(cuda);
  return ran(cuda);
}

static int64_t now_ns(void *context) {
  const sx_cuda *cuda = context;
  return cuda->timed_ns;
}

sx_trial_calls sx_cuda_trials(sx_cuda *cuda) {
  return (sx_trial_calls){.context = cuda,
                          .make = make,
                          .unmake = unmake,
                          .upload = upload,
                          .download = download,
                          .execute = execute,
                          .now_ns = now_ns};
}
