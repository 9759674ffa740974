/* The entry points of streams and events. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

/* ---- streams -------------------------------------------------------------------------------------- */

static CUresult create(CUstream *handle, unsigned flags) {
  if (!handle) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the stream's address is NULL");
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there are no flags 0x%x", flags);
  *handle = (CUstream)(void *)sim_stream_make(flags, false);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *handle, unsigned flags) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  return create(handle, flags);
}

CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int priority) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  (void)priority; /* outside of the range it is clamped, as the driver's is; nothing here is timed by it */
  return create(handle, flags);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_object_of(handle, SIM_KIND_STREAM);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult forbidden = sim_capture_forbids_wait(stream);
  if (forbidden) return forbidden;
  sim_stream_retire(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult forbidden = sim_capture_forbids_wait(stream);
  return forbidden ? forbidden : sim_stream_drain(stream);
}

/* A query moves the work on by one operation, so that a loop of queries ends. */
CUresult cuStreamQuery(CUstream handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  CUresult forbidden = sim_capture_forbids_wait(stream);
  if (forbidden) return forbidden;
  if (!stream->first) return sim_stream_drain(stream);
  sim_step(stream);
  return CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (!sim_stream_of(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return cuCtxGetCurrent(context);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  sim_event *event = stream ? sim_object_of(event_handle, SIM_KIND_EVENT) : NULL;
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (flags) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "flags are 0x%x; they must be 0", flags);
  if (stream->capture || sim_capture_live(event)) return sim_capture_wait(stream, event);
  if (event->capture)
    return sim_refuse(CUDA_ERROR_CAPTURED_EVENT, "event %u was last recorded in a capture", event->object.number);
  if (!event->mark) return CUDA_SUCCESS; /* never recorded: nothing to wait for, and no mistake */
  sim_host_spend(500);
  sim_stream_add(stream, NULL, NULL, &event->mark, 1);
  return CUDA_SUCCESS;
}

/* ---- events --------------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (!handle) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the event's address is NULL");
  if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there are no flags 0x%x", flags);
  sim_event *event = sim_allocate(sizeof *event);
  sim_object_add(event, SIM_KIND_EVENT);
  event->flags = flags;
  *handle = (CUevent)(void *)event;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_event *event = sim_object_of(handle, SIM_KIND_EVENT);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  event->object.alive = false;
  sim_mark_release(event->mark);
  event->mark = NULL;
  free(event->nodes.items);
  event->nodes = (sim_nodes){NULL, 0};
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_event *event = sim_object_of(handle, SIM_KIND_EVENT);
  sim_stream *stream = event ? sim_stream_of(stream_handle) : NULL;
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (event->object.device != stream->object.device)
    return sim_refuse(CUDA_ERROR_INVALID_HANDLE, "event %u and stream %u are of different devices",
                      event->object.number, stream->object.number);
  if (stream->capture) return sim_capture_record(stream, event);
  event->capture = NULL;
  sim_mark_release(event->mark);
  event->mark = sim_mark_make(stream);
  sim_host_spend(500);
  sim_stream_add(stream, NULL, event->mark, NULL, 0);
  return CUDA_SUCCESS;
}

/* The event for a call of the host, which one of a capture does not allow. */
static CUresult host_event(sim_event **event, CUevent handle) {
  *event = sim_object_of(handle, SIM_KIND_EVENT);
  if (!*event) return CUDA_ERROR_INVALID_HANDLE;
  if ((*event)->capture)
    return sim_refuse(CUDA_ERROR_CAPTURED_EVENT, "event %u was last recorded in a capture", (*event)->object.number);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_event *event = NULL;
  CUresult status = host_event(&event, handle);
  return status ? status : event->mark ? sim_mark_finish(event->mark) : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_event *event = NULL;
  CUresult status = host_event(&event, handle);
  if (status || !event->mark) return status;
  if (event->mark->done) return sim_mark_finish(event->mark);
  sim_step(event->mark->stream);
  return CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime_v2(float *ms, CUevent begin_handle, CUevent end_handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_event *begin = NULL, *end = NULL;
  CUresult status = host_event(&begin, begin_handle);
  if (!status) status = host_event(&end, end_handle);
  if (status) return status;
  if (!ms) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the time's address is NULL");
  if ((begin->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
    return sim_refuse(CUDA_ERROR_INVALID_HANDLE, "an event was created with CU_EVENT_DISABLE_TIMING");
  if (!begin->mark || !end->mark) return sim_refuse(CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
  if (!begin->mark->done || !end->mark->done) return CUDA_ERROR_NOT_READY;
  *ms = (float)((end->mark->end_ns - begin->mark->end_ns) / 1e6);
  return CUDA_SUCCESS;
}
