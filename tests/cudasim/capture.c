/* Streams under capture: what is enqueued becomes nodes of a graph, events lead the capture into other streams and
 * back, and what a capture does not allow invalidates it, as the driver's does. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

struct sim_capture {
  sim_capture *next;
  sim_graph *graph;
  sim_stream *origin;
  CUstreamCaptureMode mode;
  pthread_t thread;
  bool invalid;
};
/* Those that are going on; ended ones stay allocated in `ended`, since events may name them. */
static sim_capture *captures, *ended;

/* ---- sets of nodes -------------------------------------------------------------------------------- */

void sim_nodes_set(sim_nodes *nodes, const sim_nodes *other) {
  size_t *items = sim_allocate(other->n * sizeof *items);
  if (other->n) memcpy(items, other->items, other->n * sizeof *items);
  free(nodes->items);
  *nodes = (sim_nodes){items, other->n};
}

void sim_nodes_join(sim_nodes *nodes, const sim_nodes *other) {
  size_t *items = sim_allocate((nodes->n + other->n) * sizeof *items);
  size_t n = 0, i = 0, j = 0;
  while (i < nodes->n || j < other->n) {
    bool left = j == other->n || (i < nodes->n && nodes->items[i] <= other->items[j]);
    size_t item = left ? nodes->items[i++] : other->items[j++];
    if (n == 0 || items[n - 1] != item) items[n++] = item;
  }
  free(nodes->items);
  *nodes = (sim_nodes){items, n};
}

/* ---- what is not allowed -------------------------------------------------------------------------- */

static CUresult invalidate(sim_capture *capture, CUresult status, const char *why) {
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture->invalid = true;
  return sim_refuse(status, "%s; the capture of stream %u is invalid now", why, capture->origin->object.number);
}

CUresult sim_capture_forbids_wait(sim_stream *stream) {
  if (!stream->capture) return CUDA_SUCCESS;
  return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured");
}

CUresult sim_capture_forbids_all(void) {
  for (sim_capture *capture = captures; capture; capture = capture->next)
    if (capture->origin->object.device == sim_context_device())
      return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream of the context is being captured");
  return CUDA_SUCCESS;
}

CUresult sim_capture_forbids_unsafe(void) {
  for (sim_capture *capture = captures; capture; capture = capture->next) {
    bool own = pthread_equal(capture->thread, pthread_self()) != 0;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL || (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && own))
      return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not while a stream is captured in this mode");
  }
  return CUDA_SUCCESS;
}

CUresult sim_capture_forbids_legacy(void) {
  for (sim_stream *stream = sim_stream_each(NULL); stream; stream = sim_stream_each(stream))
    if (stream->capture && !(stream->flags & CU_STREAM_NON_BLOCKING))
      return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                        "the legacy stream waits for a stream that is being captured");
  return CUDA_SUCCESS;
}

/* ---- recording ------------------------------------------------------------------------------------ */

CUresult sim_capture_add(sim_stream *stream, sim_work *work) {
  sim_capture *capture = stream->capture;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  size_t node = sim_graph_add(capture->graph, work, &stream->nodes);
  sim_nodes_set(&stream->nodes, &(sim_nodes){&node, 1});
  return CUDA_SUCCESS;
}

CUresult sim_capture_record(sim_stream *stream, sim_event *event) {
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  sim_nodes_set(&event->nodes, &stream->nodes);
  return CUDA_SUCCESS;
}

bool sim_capture_same(const sim_capture *capture, const sim_event *event) { return event->capture == capture; }

bool sim_capture_live(const sim_event *event) {
  for (const sim_capture *capture = captures; capture; capture = capture->next)
    if (capture == event->capture) return true;
  return false;
}

/* A stream that is not captured joins the event's capture; one that is must be of the same. */
CUresult sim_capture_wait(sim_stream *stream, sim_event *event) {
  if (stream->capture && stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture && !sim_capture_live(event))
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                      "the event was recorded outside the capture");
  if (stream->capture && event->capture != stream->capture)
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, "the event was recorded in another capture");
  stream->capture = event->capture;
  sim_nodes_join(&stream->nodes, &event->nodes);
  return CUDA_SUCCESS;
}

/* ---- begin and end -------------------------------------------------------------------------------- */

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  if (handle == NULL || handle == CU_STREAM_LEGACY)
    return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "there is no mode %d", (int)mode);
  if (stream->capture)
    return sim_refuse(CUDA_ERROR_ILLEGAL_STATE, "stream %u is being captured", stream->object.number);
  sim_capture *capture = sim_allocate(sizeof *capture);
  *capture = (sim_capture){captures, sim_graph_make(), stream, mode, pthread_self(), false};
  captures = capture;
  stream->capture = capture;
  return CUDA_SUCCESS;
}

/* Whether every node of the others comes before one that the origin ends with. */
static const sim_stream *unjoined(const sim_capture *capture) {
  const sim_graph *graph = capture->graph;
  bool *before = sim_allocate(graph->n);
  for (size_t i = 0; i < capture->origin->nodes.n; i++) before[capture->origin->nodes.items[i]] = true;
  for (size_t i = graph->n; i-- > 0;)
    for (size_t j = 0; before[i] && j < graph->nodes[i]->after.n; j++) before[graph->nodes[i]->after.items[j]] = true;
  const sim_stream *left = NULL;
  for (sim_stream *stream = sim_stream_each(NULL); stream; stream = sim_stream_each(stream))
    for (size_t i = 0; stream->capture == capture && i < stream->nodes.n; i++)
      if (!before[stream->nodes.items[i]]) left = stream;
  free(before);
  return left;
}

static void leave(sim_capture *capture) {
  for (sim_stream *stream = sim_stream_each(NULL); stream; stream = sim_stream_each(stream)) {
    if (stream->capture != capture) continue;
    stream->capture = NULL;
    sim_nodes_set(&stream->nodes, &(sim_nodes){NULL, 0});
  }
  for (sim_capture **at = &captures; *at; at = &(*at)->next) {
    if (*at != capture) continue;
    *at = capture->next;
    break;
  }
  capture->next = ended;
  ended = capture;
}

static CUresult end_status(sim_capture *capture, const sim_stream *stream) {
  if (capture->origin != stream)
    return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on stream %u, not on stream %u",
                      capture->origin->object.number, stream->object.number);
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->thread, pthread_self()))
    return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture of stream %u began in another thread",
                      stream->object.number);
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  const sim_stream *left = unjoined(capture);
  if (left)
    return sim_refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "work of stream %u is not waited for by stream %u",
                      left->object.number, stream->object.number);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!graph) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the graph's address is NULL");
  *graph = NULL;
  sim_capture *capture = stream->capture;
  if (!capture) return sim_refuse(CUDA_ERROR_ILLEGAL_STATE, "stream %u is not being captured", stream->object.number);
  CUresult status = end_status(capture, stream);
  if (status == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD || status == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) return status;
  leave(capture);
  if (status)
    sim_graph_free_nodes(capture->graph);
  else
    *graph = (CUgraph)(void *)capture->graph;
  capture->graph = NULL;
  return status;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_stream *stream = sim_stream_of(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!status) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the status' address is NULL");
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}
