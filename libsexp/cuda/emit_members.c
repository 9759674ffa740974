/* Members of an element group: its inputs, then its nodes in the order of evaluation. */
#include <stdio.h>

#include "emit_parts.h"

static bool in_task(const sx_task *task, sx_id node) {
  for (uint32_t i = 0; i < task->n_nodes; i++)
    if (task->nodes[i] == node) return true;
  return false;
}

/* The node of the task that the input is, itself, reshaped or stretched; else the input. */
static sx_id source_of(const sx_graph *graph, const sx_task *task, sx_id input) {
  for (sx_id id = input;;) {
    if (in_task(task, id)) return id;
    if (sx_node_at(graph, id)->op != SX_OP_RESHAPE && !sx_is_stretch(graph, id)) return input;
    id = sx_node_at(graph, id)->inputs[0];
  }
}

static uint32_t find(const sx_members *members, sx_id node) {
  for (uint32_t i = members->n; i-- > 0;)
    if (members->items[i].node == node) return i;
  return UINT32_MAX;
}

static bool reduces(sx_op op) { return op == SX_OP_SUM || op == SX_OP_REDUCEMAX || op == SX_OP_REDUCEMIN; }

/* A reduction's input may be the only value that has all elements. */
static int64_t count_elements(const sx_graph *graph, const sx_task *task) {
  int64_t most = 0;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(graph, task->nodes[i]);
    int64_t n = sx_node_elements(task->row && reduces(node->op) ? sx_node_at(graph, node->inputs[0]) : node);
    if (n > most) most = n;
  }
  return most;
}

static sx_member *add(sx_members *members, const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  sx_member *one = &members->items[members->n++];
  *one = (sx_member){.node = id, .op = node->op, .dtype = node->dtype, .path = sx_path_of(plan, id)};
  one->narrow = members->row && sx_node_elements(node) != members->n_elements;
  snprintf(one->name, sizeof one->name, "v%u", members->n - 1);
  return one;
}

static void add_input(sx_members *members, const sx_plan *plan, sx_id id, sx_arena *arena) {
  const sx_buffer *buffer = &plan->buffers.items[plan->views[id].buffer];
  sx_member *one = add(members, plan, id);
  one->input = true;
  if (buffer->kind == SX_BUFFER_CONST) one->literal = sx_emit_literal(arena, buffer->dtype, buffer->value);
}

static void add_node(sx_members *members, const sx_plan *plan, const sx_task *task, uint32_t i) {
  sx_member *one = add(members, plan, task->nodes[i]);
  const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
  one->stored = task->stored[i];
  one->reduces = task->row && reduces(node->op);
  one->from = sx_node_at(plan->graph, node->inputs[node->op == SX_OP_WHERE])->dtype;
  one->n_inputs = node->n_inputs;
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    one->inputs[k] = find(members, source_of(plan->graph, task, node->inputs[k]));
    const sx_member *input = &members->items[one->inputs[k]];
    uint32_t ready = input->phase + input->reduces;
    if (ready > one->phase) one->phase = ready;
  }
}

sx_members sx_members_of(const sx_plan *plan, const sx_task *task, sx_arena *arena) {
  sx_members members = {.row = task->row, .n_elements = count_elements(plan->graph, task)};
  members.items = SX_NEW_N(arena, sx_member, task->n_nodes * 4);
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = source_of(plan->graph, task, node->inputs[k]);
      if (!in_task(task, input) && find(&members, input) == UINT32_MAX) add_input(&members, plan, input, arena);
    }
  }
  members.n_inputs = members.n;
  for (uint32_t i = 0; i < task->n_nodes; i++) add_node(&members, plan, task, i);
  return members;
}

void sx_members_parameters(sx_emitter *e, const sx_members *members) {
  for (uint32_t i = 0; i < members->n; i++) {
    const sx_member *one = &members->items[i];
    const char *name = sx_format(e->arena, "p%u", i);
    if (one->input && !one->literal) sx_emit_input(e, name, one->node);
    if (one->stored) sx_emit_output(e, name, one->node);
    if (!one->input)
      e->flops += (double)(one->narrow && !one->reduces ? members->n_elements / members->row : members->n_elements);
  }
}

const char *sx_members_expression(const sx_members *members, uint32_t member, sx_arena *arena) {
  const sx_member *one = &members->items[member];
  const char *inputs[3] = {NULL};
  for (uint32_t k = 0; k < one->n_inputs; k++) {
    const sx_member *input = &members->items[one->inputs[k]];
    inputs[k] = input->literal ? input->literal : input->name;
  }
  return sx_emit_operation(arena, one->op, one->from, one->dtype, inputs);
}
