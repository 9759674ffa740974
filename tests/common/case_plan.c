#include "case_plan.h"

#include <string.h>

#include "../../libsexp/cpu/operand.h"

/* Elements that an operand reaches, from its first one: `low` is 0 or less. */
static void reach_of(const sx_operand *x, int64_t *low, int64_t *high) {
  *low = *high = 0;
  if (sx_operand_count(x) == 0) return;
  for (int axis = 0; axis < x->rank; axis++) {
    int64_t reach = (x->dims[axis] - 1) * x->strides[axis];
    *(reach < 0 ? low : high) += reach;
  }
}

static void add_input(sx_plan *plan, sx_graph *graph, const sx_operand *x, sx_arena *arena) {
  uint32_t at = (uint32_t)plan->buffers.n;
  int64_t low, high;
  reach_of(x, &low, &high);
  sx_node node = {.op = SX_OP_INPUT, .dtype = x->dtype, .rank = x->rank, .path = ""};
  node.dims = SX_NEW_N(arena, int64_t, x->rank + 1);
  memcpy(node.dims, x->dims, (size_t)x->rank * sizeof *x->dims);
  SX_PUSH(arena, graph->nodes, node);
  sx_buffer buffer = {.kind = SX_BUFFER_EXTERNAL, .dtype = x->dtype, .node = at, .name = sx_format(arena, "%u", at)};
  buffer.n_bytes = (high - low + 1) * sx_element_bytes(x->dtype);
  SX_PUSH(arena, plan->buffers, buffer);
  plan->views[at] = (sx_view){.buffer = at, .offset = -low};
  memcpy(plan->views[at].strides, x->strides, (size_t)x->rank * sizeof *x->strides);
}

static void add_case(sx_plan *plan, sx_graph *graph, const kernel_case *c, sx_arena *arena) {
  sx_node node = c->node;
  node.inputs = SX_NEW_N(arena, sx_id, c->n_inputs + 1);
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    node.inputs[k] = (sx_id)plan->buffers.n;
    add_input(plan, graph, &c->inputs[k], arena);
  }
  sx_id id = (sx_id)plan->buffers.n;
  SX_PUSH(arena, graph->nodes, node);
  plan->views[id].buffer = id;
  memcpy(plan->views[id].strides, c->out.strides, (size_t)c->out.rank * sizeof *c->out.strides);
  sx_buffer buffer = {.kind = SX_BUFFER_OUTPUT, .dtype = node.dtype, .node = id, .n_bytes = kernel_case_bytes(c)};
  buffer.name = sx_format(arena, "y%u", id);
  SX_PUSH(arena, plan->buffers, buffer);
  sx_id *nodes = SX_NEW(arena, sx_id);
  *nodes = id;
  sx_task task = {.kind = SX_TASK_NODE, .nodes = nodes, .n_nodes = 1, .target = id};
  if (sx_op_describe(node.op)->class == SX_CLASS_ELEMENT) {
    task.kind = SX_TASK_ELEMENT;
    task.stored = SX_NEW(arena, bool);
    *task.stored = true;
  }
  SX_PUSH(arena, plan->tasks, task);
}

sx_plan *case_plan(kernel_case *const *cases, size_t n, sx_arena *arena) {
  sx_intern *names = SX_NEW(arena, sx_intern);
  sx_intern_init(names, arena);
  sx_plan *plan = SX_NEW(arena, sx_plan);
  sx_graph *graph = sx_graph_new(arena, names, "g");
  size_t n_nodes = 0;
  for (size_t i = 0; i < n; i++) n_nodes += cases[i]->n_inputs + 1;
  plan->graph = graph;
  plan->views = SX_NEW_N(arena, sx_view, n_nodes);
  for (size_t i = 0; i < n; i++) add_case(plan, graph, cases[i], arena);
  return plan;
}

void case_input(const kernel_case *c, uint32_t k, void *to) {
  const sx_operand *x = &c->inputs[k];
  int64_t low, high, n_bytes = sx_element_bytes(x->dtype);
  if (sx_operand_count(x) == 0) return;
  reach_of(x, &low, &high);
  memcpy(to, (const char *)x->data + low * n_bytes, (size_t)((high - low + 1) * n_bytes));
}
