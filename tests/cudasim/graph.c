/* Graphs and their replay. An executable graph has its nodes laid out in lanes: the first lane is the stream that it is
 * launched on, the others are hidden streams; nodes of different lanes run in any order that their edges leave. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

typedef struct placed {
  sim_work *work;
  sim_nodes after; /* of other lanes */
  size_t lane;
  bool needs_mark, first_of_lane;
} placed;

typedef struct executable {
  sim_object object;
  placed *nodes;
  size_t n;
  sim_stream **lanes; /* lanes[0] is NULL: the launch's stream */
  size_t n_lanes;
  sim_mark *end; /* of the last launch */
} executable;

static uint64_t n_launches;

/* ---- graphs --------------------------------------------------------------------------------------- */

sim_graph *sim_graph_make(void) {
  sim_graph *graph = sim_allocate(sizeof *graph);
  sim_object_add(graph, SIM_KIND_GRAPH);
  return graph;
}

size_t sim_graph_add(sim_graph *graph, sim_work *work, const sim_nodes *after) {
  sim_node *node = sim_allocate(sizeof *node);
  sim_object_add(node, SIM_KIND_NODE);
  node->work = work;
  work->n_references++;
  sim_nodes_set(&node->after, after);
  graph->nodes = realloc(graph->nodes, (graph->n + 1) * sizeof(sim_node *));
  if (!graph->nodes) abort();
  graph->nodes[graph->n] = node;
  return graph->n++;
}

void sim_graph_free_nodes(sim_graph *graph) {
  for (size_t i = 0; i < graph->n; i++) {
    graph->nodes[i]->object.alive = false;
    sim_work_release(graph->nodes[i]->work);
    free(graph->nodes[i]->after.items);
  }
  free(graph->nodes);
  graph->nodes = NULL;
  graph->n = 0;
  graph->object.alive = false;
}

CUresult cuGraphDestroy(CUgraph handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  sim_graph *graph = sim_object_of(handle, SIM_KIND_GRAPH);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  sim_graph_free_nodes(graph);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *n) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const sim_graph *graph = sim_object_of(handle, SIM_KIND_GRAPH);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (!n) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the number's address is NULL");
  for (size_t i = 0; nodes && i < *n; i++) nodes[i] = i < graph->n ? (CUgraphNode)(void *)graph->nodes[i] : NULL;
  if (!nodes || *n > graph->n) *n = graph->n;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  static const CUgraphNodeType types[] = {[SIM_WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
                                          [SIM_WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
                                          [SIM_WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET};
  const sim_node *node = sim_object_of(handle, SIM_KIND_NODE);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  if (!type) return sim_refuse(CUDA_ERROR_INVALID_VALUE, "the type's address is NULL");
  *type = types[node->work->kind];
  return CUDA_SUCCESS;
}

/* ---- layout --------------------------------------------------------------------------------------- */

/* The lane of a node that this one follows and that nothing else continued; else a new one. */
static size_t choose_lane(executable *e, const sim_node *node, size_t *last_of_lane, size_t self) {
  for (size_t i = 0; i < node->after.n; i++) {
    size_t lane = e->nodes[node->after.items[i]].lane;
    if (last_of_lane[lane] == node->after.items[i]) return lane;
  }
  size_t lane = self == 0 ? 0 : e->n_lanes;
  if (lane == e->n_lanes) e->n_lanes++;
  e->nodes[self].first_of_lane = true;
  return lane;
}

static void place_nodes(executable *e, const sim_graph *graph) {
  size_t *last_of_lane = sim_allocate((graph->n + 1) * sizeof *last_of_lane);
  e->n_lanes = 1;
  for (size_t i = 0; i < graph->n; i++) {
    const sim_node *node = graph->nodes[i];
    placed *at = &e->nodes[i];
    at->work = node->work;
    at->work->n_references++;
    at->lane = choose_lane(e, node, last_of_lane, i);
    last_of_lane[at->lane] = i;
    at->after.items = sim_allocate(node->after.n * sizeof *at->after.items);
    for (size_t j = 0; j < node->after.n; j++) {
      size_t other = node->after.items[j];
      if (e->nodes[other].lane == at->lane) continue;
      at->after.items[at->after.n++] = other;
      e->nodes[other].needs_mark = true;
    }
  }
  for (size_t lane = 1; lane < e->n_lanes; lane++) e->nodes[last_of_lane[lane]].needs_mark = true;
  free(last_of_lane);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph_handle, unsigned long long flags) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  const sim_graph *graph = sim_object_of(graph_handle, SIM_KIND_GRAPH);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  if (!handle || flags)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "address %p, flags 0x%llx; flags must be 0", (void *)handle, flags);
  executable *e = sim_allocate(sizeof *e);
  sim_object_add(e, SIM_KIND_EXECUTABLE);
  e->n = graph->n;
  e->nodes = sim_allocate(graph->n * sizeof *e->nodes);
  place_nodes(e, graph);
  e->lanes = sim_allocate(e->n_lanes * sizeof(sim_stream *));
  for (size_t i = 1; i < e->n_lanes; i++) e->lanes[i] = sim_stream_make(CU_STREAM_NON_BLOCKING, true);
  *handle = (CUgraphExec)(void *)e;
  return CUDA_SUCCESS;
}

/* ---- replay --------------------------------------------------------------------------------------- */

/* Begins after what is on the stream, and after the last launch of the same graph. */
static sim_mark *begin(executable *e, sim_stream *stream) {
  sim_mark *start = sim_mark_make(stream);
  sim_stream_add(stream, NULL, start, &e->end, e->end ? 1 : 0)->latency_ns = 0;
  return start;
}

static void add_nodes(executable *e, sim_stream *stream, sim_mark *start, sim_mark **marks) {
  sim_mark **waits = sim_allocate((e->n + 1) * sizeof *waits);
  for (size_t i = 0; i < e->n; i++) {
    const placed *node = &e->nodes[i];
    sim_stream *lane = node->lane ? e->lanes[node->lane] : stream;
    lane->object.number = stream->object.number;
    marks[i] = node->needs_mark ? sim_mark_make(lane) : NULL;
    size_t n_waits = 0;
    if (node->first_of_lane) waits[n_waits++] = start;
    for (size_t j = 0; j < node->after.n; j++) waits[n_waits++] = marks[node->after.items[j]];
    sim_stream_add(lane, node->work, marks[i], waits, n_waits)->latency_ns = 800;
  }
  free(waits);
}

static void finish(executable *e, sim_stream *stream, sim_mark **marks) {
  sim_mark **waits = sim_allocate((e->n + 1) * sizeof *waits);
  size_t n_waits = 0;
  for (size_t i = 0; i < e->n; i++)
    if (marks[i]) waits[n_waits++] = marks[i];
  sim_mark_release(e->end);
  e->end = sim_mark_make(stream);
  sim_stream_add(stream, NULL, e->end, waits, n_waits);
  for (size_t i = 0; i < e->n; i++) sim_mark_release(marks[i]);
  free(waits);
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  executable *e = sim_object_of(handle, SIM_KIND_EXECUTABLE);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  sim_stream *stream = sim_stream_of(stream_handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return sim_capture_forbids_wait(stream);
  if (e->object.device != stream->object.device)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "executable graph %u is of device %d, the stream of device %d",
                      e->object.number, e->object.device, stream->object.device);
  if (sim_fails_at("memory.fail_graph", ++n_launches)) return CUDA_ERROR_OUT_OF_MEMORY;
  sim_host_spend(4000);
  sim_mark **marks = sim_allocate((e->n + 1) * sizeof(sim_mark *));
  sim_mark *start = begin(e, stream);
  add_nodes(e, stream, start, marks);
  finish(e, stream, marks);
  sim_mark_release(start);
  free(marks);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  SIM_CALL(SIM_NEEDS_CONTEXT);
  executable *e = sim_object_of(handle, SIM_KIND_EXECUTABLE);
  if (!e) return CUDA_ERROR_INVALID_VALUE;
  e->object.alive = false;
  for (size_t i = 1; i < e->n_lanes; i++) sim_stream_retire(e->lanes[i]);
  for (size_t i = 0; i < e->n; i++) {
    sim_work_release(e->nodes[i].work);
    free(e->nodes[i].after.items);
  }
  sim_mark_release(e->end);
  free(e->nodes);
  free(e->lanes);
  e->nodes = NULL;
  e->lanes = NULL;
  e->end = NULL;
  return CUDA_SUCCESS;
}
