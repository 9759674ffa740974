/* Sums of columns beside the group that computes what they sum: gradients of biases and of normalizations' scales.
 *
 *   t: element [R L]  %8 = mul ... -> b4     t + 1: node  %9 = sum %8 {axes [0]}   [L]
 *   becomes: the group adds each row of %8, while it is in registers, to one of 32 lanes of a table; the lanes are
 *   folded at the end. Where nothing else reads %8, it is not stored.
 *
 * The order of a sum (numerics 1) has lane j take rows j, j + 32, ... of a chunk of 4096 rows in turn. So threads share
 * chunks and the lanes of each, not ranges of rows; each chunk has a table. Short rows are evaluated several at once,
 * as one row of the group, where its other operands allow it: their lanes lie side by side in the table. Which tasks go
 * together follows from the plan; the plan asks for it (sx_plan_options.columns), since what is not stored cannot be
 * observed. */
#include "columns.h"

#include "../pass/plan_parts.h"
#include "launch.h"
#include "sum_table.h"
#include "walk.h"

enum {
  SHORTEST_ROW = 128,
  JOINED_ROW = 2048,       /* elements of rows that are evaluated as one, at most */
  JOINED_MULTIPLE = 128,   /* and whole blocks at any level */
  JOINED_FEWEST = 1 << 16, /* elements of all rows that are worth it */
  MOST_ROWS = SX_SUM_CHUNK * SX_SUM_CHUNK
};

/* By nodes of the graph, whatever tasks they are in; a view reads nothing. */
uint32_t *sx_count_readings(const sx_plan *plan, sx_arena *arena) {
  const sx_graph *graph = plan->graph;
  uint32_t *counts = SX_NEW_N(arena, uint32_t, plan->buffers.n);
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(graph, id);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      uint32_t buffer = plan->views[node->inputs[k]].buffer;
      if (buffer != UINT32_MAX && buffer != plan->views[id].buffer) counts[buffer]++;
    }
  }
  for (size_t i = 0; i < graph->outputs.n; i++) {
    uint32_t buffer = plan->views[graph->outputs.items[i].node].buffer;
    if (buffer != UINT32_MAX) counts[buffer]++;
  }
  return counts;
}

/* Elements that stay of a reduction over the leading axes; 0: it is none. */
static int64_t kept_row(const sx_graph *graph, const sx_node *sum) {
  if (sum->op != SX_OP_SUM || sum->dtype != SX_F32) return 0;
  const sx_node *from = sx_node_at(graph, sum->inputs[0]);
  int64_t row = 1;
  if (from->dtype != SX_F32) return 0;
  for (uint32_t k = 0; k < sum->n_ints; k++)
    if (sum->ints[k] >= (int64_t)sum->n_ints) return 0;
  for (int axis = (int)sum->n_ints; axis < from->rank; axis++) row *= from->dims[axis];
  return row;
}

/* Whether the group has one of the node's elements for each of its rows: those are no rows that could be summed. */
static bool is_one_a_row(const sx_plan *plan, const sx_task *task, const sx_node *node) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *other = sx_node_at(plan->graph, task->nodes[i]);
    if (sx_reduced_row(plan->graph, task->nodes[i])) other = sx_node_at(plan->graph, other->inputs[0]);
    if (sx_node_elements(other) > sx_node_elements(node)) return true;
  }
  return false;
}

/* The node of the group that lies as the sum reads it; SX_NO_NODE: there is none. */
static sx_id summed_node(const sx_plan *plan, const sx_task *task, sx_id input) {
  const sx_node *from = sx_node_at(plan->graph, input);
  const sx_view *view = &plan->views[input];
  if (!sx_view_is_contiguous(view, from) || view->offset) return SX_NO_NODE;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    if (!task->stored[i] || plan->views[task->nodes[i]].buffer != view->buffer) continue;
    bool fits = sx_node_elements(node) == sx_node_elements(from) && !sx_reduced_row(plan->graph, task->nodes[i]);
    sx_dtype dtype = sx_node_at(plan->graph, node->inputs[node->op == SX_OP_WHERE])->dtype;
    fits = fits && sx_chain_can(node->op, dtype, node->dtype) && !is_one_a_row(plan, task, node);
    return fits ? task->nodes[i] : SX_NO_NODE;
  }
  return SX_NO_NODE;
}

/* Whether the group could write the sum when it runs: the memory may be in use then. */
static bool is_free(const sx_plan *plan, const sx_task *task, uint32_t target) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    if (task->stored[i] && sx_buffers_overlap(plan, plan->views[task->nodes[i]].buffer, target)) return false;
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      uint32_t buffer = plan->views[node->inputs[k]].buffer;
      if (buffer != UINT32_MAX && sx_buffers_overlap(plan, buffer, target)) return false;
    }
  }
  return true;
}

/* Whether what the group stores apart, in a concatenation, are whole rows of so many elements. */
static bool stores_rows(const sx_plan *plan, const sx_task *task, int64_t row) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    const sx_view *view = &plan->views[task->nodes[i]];
    if (!task->stored[i] || sx_view_is_contiguous(view, node)) continue;
    if (sx_view_run(view, node) % row) return false;
  }
  return true;
}

/* Whether rows are nothing to the group: what it reads lies as its elements do, or is one element for all. */
static bool has_no_rows(const sx_plan *plan, const sx_task *task) {
  if (task->row) return false;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_walk walk = sx_walk_make(&plan->views[node->inputs[k]], sx_node_at(plan->graph, node->inputs[k]));
      if (!sx_walk_is_contiguous(&walk) && !sx_walk_is_splat(&walk)) return false;
    }
  }
  return true;
}

/* How many rows go as one. */
static int64_t rows_to_join(const sx_plan *plan, const sx_task *task, int64_t width, int64_t n_rows) {
  int64_t joined = 1;
  if (width * n_rows < JOINED_FEWEST || !has_no_rows(plan, task)) return 1;
  while (joined < SX_SUM_LANES && joined * 2 * width <= JOINED_ROW && n_rows % (joined * 2) == 0) joined *= 2;
  return joined * width % JOINED_MULTIPLE == 0 && stores_rows(plan, task, joined * width) ? joined : 1;
}

static bool add_sum(const sx_plan *plan, sx_columns *columns, const sx_task *group, const sx_task *task,
                    const uint32_t *n_readings) {
  if (task->kind != SX_TASK_NODE || columns->n == SX_COLUMNS_MOST) return false;
  const sx_node *sum = sx_node_at(plan->graph, task->nodes[0]);
  int64_t width = kept_row(plan->graph, sum);
  if (!width || width > SX_ROW_MOST || (group->row && group->row != width)) return false;
  if (!stores_rows(plan, group, width)) return false;
  sx_id summed = summed_node(plan, group, sum->inputs[0]);
  if (summed == SX_NO_NODE || (columns->n && columns->width != width)) return false;
  int64_t n_rows = sx_node_elements(sx_node_at(plan->graph, summed)) / width;
  uint32_t buffer = plan->views[summed].buffer, target = plan->views[task->nodes[0]].buffer;
  if (n_rows < SX_ROWS_FEWEST || n_rows > MOST_ROWS || !is_free(plan, group, target)) return false;
  int64_t joined = columns->n ? sx_columns_joined(columns) : rows_to_join(plan, group, width, n_rows);
  if (joined * width < SHORTEST_ROW) return false;
  for (uint32_t i = 0; i < columns->n; i++)
    if (columns->summed[i] == summed || columns->n_rows * joined != n_rows) return false;
  columns->width = width;
  columns->row = joined * width;
  columns->n_rows = n_rows / joined;
  columns->summed[columns->n] = summed;
  columns->targets[columns->n] = target;
  columns->read[columns->n++] = n_readings[buffer] > 1 || plan->buffers.items[buffer].kind != SX_BUFFER_TEMPORARY;
  return true;
}

sx_columns sx_columns_of(const sx_plan *plan, uint32_t task, const uint32_t *n_readings) {
  sx_columns columns = {0};
  const sx_task *group = &plan->tasks.items[task];
  if (!plan->columns || group->kind != SX_TASK_ELEMENT) return columns;
  for (uint32_t t = task + 1; t < plan->tasks.n; t++)
    if (!add_sum(plan, &columns, group, &plan->tasks.items[t], n_readings)) break;
  return columns;
}
