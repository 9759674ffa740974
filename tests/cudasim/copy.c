/* Copies and fills. A copy reads and writes when it runs, not when it is asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

typedef struct copy {
  char *to;
  const char *from; /* NULL: value is written */
  size_t n_bytes;   /* of all */
  uint32_t value;
  size_t width; /* of value, 1, 2 or 4 */
} copy;

static void run_copy(void *context) {
  const copy *c = context;
  memcpy(c->to, c->from, c->n_bytes);
}

static void run_set(void *context) {
  const copy *c = context;
  for (size_t at = 0; at < c->n_bytes; at += c->width) memcpy(c->to + at, &c->value, c->width);
}

/* Ranges of what only the host owns (a synchronous copy's) are left out. */
static CUresult enqueue(sim_stream *stream, copy c, const char *name, bool from_checked, bool to_checked) {
  copy *context = sim_allocate(sizeof *context);
  *context = c;
  sim_range ranges[2];
  size_t n = 0;
  if (c.from && from_checked) ranges[n++] = (sim_range){c.from, c.n_bytes, false};
  if (to_checked) ranges[n++] = (sim_range){c.to, c.n_bytes, true};
  sim_task task = {.name = name,
                   .run = c.from ? run_copy : run_set,
                   .drop = free,
                   .context = context,
                   .ranges = ranges,
                   .n_ranges = n};
  sim_work *work = sim_work_make(&task, c.from ? SIM_WORK_COPY : SIM_WORK_SET);
  if (strcmp(name, "copy.htod") == 0 || strcmp(name, "copy.dtoh") == 0)
    work->n_bytes_a_second = sim_bus_bytes_a_second();
  return sim_stream_enqueue(stream, work);
}

static CUresult wrong_memory(const char *what, const void *address, size_t n_bytes, bool host) {
  const char *wrong = sim_memory_wrong(address, n_bytes, host);
  if (!wrong) return CUDA_SUCCESS;
  const char *because = host && !sim_memory_find(address) ? " (an asynchronous copy needs page-locked memory)" : "";
  return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %s%s", what, wrong, because);
}

static CUresult wrong_direction(copy c, bool from_host, bool to_host, bool synchronous) {
  CUresult status = CUDA_SUCCESS;
  if (from_host && synchronous) {
    if (!c.from) status = sim_refuse(CUDA_ERROR_INVALID_VALUE, "the source is NULL");
  } else {
    status = wrong_memory("the source", c.from, c.n_bytes, from_host);
  }
  if (status) return status;
  if (to_host && synchronous)
    return c.to ? CUDA_SUCCESS : sim_refuse(CUDA_ERROR_INVALID_VALUE, "the destination is NULL");
  status = wrong_memory("the destination", c.to, c.n_bytes, to_host);
  if (status) return status;
  if (!from_host && !to_host && c.to < c.from + c.n_bytes && c.from < c.to + c.n_bytes)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "source and destination overlap");
  return CUDA_SUCCESS;
}

static CUresult begin_copy(copy c, CUstream handle, bool from_host, bool to_host, bool synchronous) {
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (c.n_bytes == 0) return CUDA_SUCCESS;
  CUresult status = wrong_direction(c, from_host, to_host, synchronous);
  if (status) return status;
  const char *name = from_host ? "copy.htod" : to_host ? "copy.dtoh" : "copy.dtod";
  status = enqueue(stream, c, name, !(from_host && synchronous), !(to_host && synchronous));
  return status || !synchronous ? status : sim_stream_drain(stream);
}

static char *device(CUdeviceptr address) { return (char *)(uintptr_t)address; }

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = device(to), .from = from, .n_bytes = n_bytes}, NULL, true, false, true);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = to, .from = device(from), .n_bytes = n_bytes}, NULL, false, true, true);
}

/* Between two places of the device the driver does not wait. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n_bytes) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = device(to), .from = device(from), .n_bytes = n_bytes}, NULL, false, false, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = device(to), .from = from, .n_bytes = n_bytes}, stream, true, false, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n_bytes, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = to, .from = device(from), .n_bytes = n_bytes}, stream, false, true, false);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return begin_copy((copy){.to = device(to), .from = device(from), .n_bytes = n_bytes}, stream, false, false, false);
}

/* ---- fills ---------------------------------------------------------------------------------------- */

static CUresult fill(CUdeviceptr to, uint32_t value, size_t width, size_t n, CUstream handle) {
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (to % width) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%p is not a multiple of %zu", (void *)device(to), width);
  if (n > SIZE_MAX / width) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "%zu values of %zu bytes", n, width);
  if (n == 0) return CUDA_SUCCESS;
  CUresult status = wrong_memory("the destination", device(to), n * width, false);
  if (status) return status;
  return enqueue(stream, (copy){.to = device(to), .n_bytes = n * width, .value = value, .width = width}, "set", false,
                 true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return fill(to, value, 1, n, stream);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return fill(to, value, 2, n, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return fill(to, value, 4, n, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return fill(to, value, 1, n, NULL);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return fill(to, value, 4, n, NULL);
}
