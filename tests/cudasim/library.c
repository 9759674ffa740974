/* What the stand-ins of the libraries call: sim.h. */
#include <stdlib.h>

#include "driver.h"

static CUresult check_ranges(const sim_task *task) {
  for (size_t i = 0; i < task->n_ranges; i++) {
    const char *wrong =
        task->ranges[i].n_bytes ? sim_memory_wrong(task->ranges[i].address, task->ranges[i].n_bytes, false) : NULL;
    if (!wrong) continue;
    sim_violation("%s %s: %s", task->name, task->ranges[i].writes ? "writes" : "reads", wrong);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

static CUresult enqueue(CUstream handle, const sim_task *task, bool *taken) {
  SIM_CALL_AS(task->name, SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult status = check_ranges(task);
  if (status) return status;
  *taken = true;
  return sim_stream_enqueue(stream, sim_work_make(task, SIM_WORK_KERNEL));
}

CUresult sim_enqueue(CUstream stream, const sim_task *task) {
  bool taken = false;
  CUresult status = enqueue(stream, task, &taken);
  if (!taken && task->drop) task->drop(task->context);
  return status;
}

bool sim_stream_valid(CUstream stream) {
  return stream == NULL || stream == CU_STREAM_LEGACY || sim_object_valid(stream, SIM_KIND_STREAM);
}

bool sim_stream_capturing(CUstream stream) {
  return sim_object_valid(stream, SIM_KIND_STREAM) && ((const sim_stream *)(const void *)stream)->capture;
}

CUresult sim_stream_finish(CUstream handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult forbidden = sim_capture_forbids_wait(stream);
  return forbidden ? forbidden : sim_stream_drain(stream);
}
