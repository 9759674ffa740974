/* Text of a plan:
 *
 *   plan "loss": 2 tasks, block 64 bytes (bound 64, without reuse 64)
 *     b0 external f32 24 bytes param/w
 *     b1 temporary f32 24 bytes at 0, tasks 0 to 1
 *     b2 output f32 4 bytes loss
 *     %1 [3 2] in b0 at 0 strides [1 3]
 *     0: element [3 2]  %2 = mul %1 %1 -> b1
 *     1: node  %3 = sum %2 -> b2
 */
#include <inttypes.h>

#include "attention.h"
#include "plan.h"

static const char *const buffer_kinds[] = {
    [SX_BUFFER_TEMPORARY] = "temporary", [SX_BUFFER_EXTERNAL] = "external", [SX_BUFFER_OUTPUT] = "output",
    [SX_BUFFER_CONST] = "const",         [SX_BUFFER_IOTA] = "iota",
};

static void print_buffer(sx_text *text, const sx_plan *plan, uint32_t index) {
  const sx_buffer *buffer = &plan->buffers.items[index];
  sx_text_addf(text, "  b%" PRIu32 " %s %s %" PRId64 " bytes", index, buffer_kinds[buffer->kind],
               sx_dtype_name(buffer->dtype), buffer->n_bytes);
  if (buffer->name) sx_text_addf(text, " %s", buffer->name);
  if (buffer->kind == SX_BUFFER_TEMPORARY)
    sx_text_addf(text, " at %" PRId64 ", tasks %" PRIu32 " to %" PRIu32, buffer->offset, buffer->first, buffer->last);
  if (buffer->kind == SX_BUFFER_CONST) {
    sx_text_add(text, " ");
    sx_text_add_f64(text, buffer->value);
  }
  sx_text_add(text, "\n");
}

static void print_node(sx_text *text, const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  sx_text_addf(text, "  %%%" PRIu32 " = %s", id, sx_op_describe(node->op)->name);
  for (uint32_t i = 0; i < node->n_inputs; i++) sx_text_addf(text, " %%%" PRIu32, node->inputs[i]);
}

/* Views, and what is computed in the buffer of another node. */
static void print_view(sx_text *text, const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  const sx_view *view = &plan->views[id];
  if (sx_op_describe(node->op)->class == SX_CLASS_LEAF || view->buffer == UINT32_MAX) return;
  if (plan->buffers.items[view->buffer].node == id) return;
  sx_text_addf(text, "  %%%" PRIu32 " ", id);
  sx_text_add_shape(text, node->dims, node->rank);
  sx_text_addf(text, " in b%" PRIu32 " at %" PRId64 " strides ", view->buffer, view->offset);
  sx_text_add_shape(text, view->strides, node->rank);
  sx_text_add(text, "\n");
}

/* A concatenation all of whose pieces lie in its buffer has no task. */
static void print_joined(sx_text *text, const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  uint32_t buffer = plan->views[id].buffer;
  if (node->op != SX_OP_CONCAT || buffer == UINT32_MAX || !node->n_inputs) return;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (plan->views[node->inputs[k]].buffer != buffer) return;
  print_node(text, plan, id);
  sx_text_addf(text, " joined in b%" PRIu32 "\n", buffer);
}

static void print_group(sx_text *text, const sx_plan *plan, const sx_task *task) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    print_node(text, plan, task->nodes[i]);
    if (task->stored[i]) sx_text_addf(text, " -> b%" PRIu32, plan->views[task->nodes[i]].buffer);
  }
}

static void print_attention(sx_text *text, const sx_plan *plan, const sx_task *task) {
  const sx_attention *attention = task->attention;
  sx_text_add(text, "attention ");
  sx_text_add_shape(text, attention->batch, attention->n_batch_axes);
  sx_text_addf(text, " of %" PRId64 " by %" PRId64, attention->rows, attention->columns);
  print_group(text, plan, task);
}

static void print_task(sx_text *text, const sx_plan *plan, const sx_task *task) {
  switch (task->kind) {
    case SX_TASK_COPY:
      sx_text_addf(text, "copy  %%%" PRIu32 " as %%%" PRIu32 " -> b%" PRIu32, task->nodes[1], task->nodes[0],
                   task->target);
      return;
    case SX_TASK_NODE:
      sx_text_add(text, "node");
      print_node(text, plan, task->nodes[0]);
      sx_text_addf(text, " -> b%" PRIu32, task->target);
      return;
    case SX_TASK_ATTENTION:
      print_attention(text, plan, task);
      return;
    case SX_TASK_ELEMENT:
      break;
  }
  const sx_node *first = sx_node_at(plan->graph, task->nodes[0]);
  sx_text_add(text, "element ");
  sx_text_add_shape(text, first->dims, first->rank);
  if (task->row) sx_text_addf(text, " rows of %" PRId64, task->row);
  print_group(text, plan, task);
}

void sx_plan_print(sx_text *text, const sx_plan *plan) {
  sx_text_addf(text, "plan \"%s\": %zu tasks, block %" PRId64 " bytes (bound %" PRId64 ", without reuse %" PRId64 ")\n",
               plan->graph->name, plan->tasks.n, plan->block_bytes, plan->bound_bytes, plan->sum_bytes);
  for (uint32_t b = 0; b < plan->buffers.n; b++) print_buffer(text, plan, b);
  for (sx_id id = 0; id < plan->graph->nodes.n; id++) print_view(text, plan, id);
  for (sx_id id = 0; id < plan->graph->nodes.n; id++) print_joined(text, plan, id);
  for (size_t t = 0; t < plan->tasks.n; t++) {
    sx_text_addf(text, "  %zu: ", t);
    print_task(text, plan, &plan->tasks.items[t]);
    sx_text_add(text, "\n");
  }
}
