/* Values of an execution, brought to the host node by node. */
#include "executable.h"
#include "values.h"

static bool is_observed(const sx_plan *plan, sx_id id) {
  sx_op op = sx_node_at(plan->graph, id)->op;
  return op != SX_OP_CONST && op != SX_OP_IOTA && plan->views[id].buffer != UINT32_MAX;
}

static int64_t reach_bytes(const sx_plan *plan, sx_id id) {
  sx_reach reach = sx_view_reach(&plan->views[id], sx_node_at(plan->graph, id));
  return reach.end - reach.begin;
}

bool sx_made_observe(sx_made *made, sx_observe *observe, void *context) {
  const sx_plan *plan = made->plan;
  int64_t most = 0, most_value = 0;
  for (sx_id id = 0; id < plan->graph->nodes.n; id++) {
    if (!is_observed(plan, id)) continue;
    const sx_node *node = sx_node_at(plan->graph, id);
    int64_t bytes = reach_bytes(plan, id), value = sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
    most = bytes > most ? bytes : most;
    most_value = value > most_value ? value : most_value;
  }
  made->observed_room = (most + 63) / 64 * 64;
  if (observe && !made->observed) made->observed = sx_cuda_take_host(made->cuda, made->observed_room + most_value);
  if (observe && !made->observed) return false;
  made->observe = observe;
  made->observe_context = context;
  return true;
}

static bool tell(sx_made *made, sx_id id) {
  sx_cuda *cuda = made->cuda;
  const sx_view *view = &made->plan->views[id];
  const sx_node *node = sx_node_at(made->plan->graph, id);
  sx_reach reach = sx_view_reach(view, node);
  char *value = (char *)made->observed + made->observed_room;
  int64_t n = sx_node_elements(node);
  if (n) {
    CUdeviceptr from = made->addresses.buffers[view->buffer] + (CUdeviceptr)reach.begin;
    if (!sx_cuda_check(
            cuda, cuda->api.cuMemcpyDtoHAsync(made->observed, from, (size_t)(reach.end - reach.begin), cuda->stream),
            "cuMemcpyDtoHAsync") ||
        !sx_cuda_check(cuda, cuda->api.cuStreamSynchronize(cuda->stream), "cuStreamSynchronize"))
      return false;
    sx_view_read(value, made->observed, reach, view, node);
    sx_values_canonical(value, node->dtype, n);
  }
  made->observe(made->observe_context, id, value, n * (int64_t)sx_dtype_bytes(node->dtype));
  return true;
}

void sx_made_tell(sx_made *made, size_t n_tasks) {
  const sx_plan *plan = made->plan;
  bool good = sx_cuda_enter(made->cuda);
  for (sx_id id = 0; id < plan->graph->nodes.n && good; id++) {
    if (!is_observed(plan, id)) continue;
    const sx_buffer *held = &plan->buffers.items[plan->views[id].buffer];
    if (held->kind == SX_BUFFER_EXTERNAL || held->first < n_tasks) good = tell(made, id);
  }
}
