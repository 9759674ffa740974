/* Sums of columns beside the groups that have what they sum at hand: gradients of biases and of normalizations' scales.
 *
 *   t: element [R L]  %8 = mul ... -> b4     u: node  %9 = sum %8 {axes [0]}   [L]
 *   becomes: the group adds each row of %8, while it is in registers, to one of 32 lanes of a table; the lanes are
 *   folded at the end. Where nothing else reads %8, it is not stored.
 *
 * A value is at hand that a group computes, or reads, as one does a product's result, whether the sum comes before it
 * or after. A sum is made at another place than the plan has it, so its memory must be free there, and nothing may read
 * it in between. What groups write as pieces of a concatenation is summed where it lies: rows of pieces are short, and
 * adding them to lanes took longer than reading them once more.
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
  MOST_ROWS = SX_SUM_CHUNK * SX_SUM_CHUNK,
  MOST_APART = 16 /* tasks between a sum and who makes it: looking at them is linear */
};

typedef struct finding {
  const sx_plan *plan;
  const uint32_t *n_readings; /* per buffer: nodes that read it */
  uint32_t *task_of;          /* per node that a group stores: 1 + the task; else 0 */
  sx_columns **of_tasks;
  sx_arena *arena;
} finding;

/* What a group would do for a sum. */
typedef struct offer {
  uint32_t task, sum; /* tasks */
  sx_id summed;       /* a value that the group computes or reads */
} offer;

/* By nodes of the graph, whatever tasks they are in; a view reads nothing. */
static uint32_t *count_readings(const sx_plan *plan, sx_arena *arena) {
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

/* Whether the group has one of the node's elements for each of its rows: those are no rows that could be summed. */
static bool is_one_a_row(const sx_plan *plan, const sx_task *task, const sx_node *node) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *other = sx_node_at(plan->graph, task->nodes[i]);
    if (sx_reduced_row(plan->graph, task->nodes[i])) other = sx_node_at(plan->graph, other->inputs[0]);
    if (sx_node_elements(other) > sx_node_elements(node)) return true;
  }
  return false;
}

static bool is_chained(const sx_plan *plan, sx_id id) {
  return !sx_reduced_row(plan->graph, id) && sx_chain_can(plan->graph, id);
}

/* Whether the group has all of the value in registers at some time: computes it, or reads it in reductions of rows and
 * in operations of as many elements. */
static bool is_at_hand(const sx_plan *plan, const sx_task *task, sx_id id) {
  const sx_node *value = sx_node_at(plan->graph, id);
  bool reads = false;
  if (is_one_a_row(plan, task, value)) return false;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    if (task->nodes[i] == id) return task->stored[i] && is_chained(plan, id);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      if (node->inputs[k] != id) continue;
      bool wide = is_chained(plan, task->nodes[i]) && sx_node_elements(node) == sx_node_elements(value);
      if (!wide && !sx_reduced_row(plan->graph, task->nodes[i])) return false;
      reads = true;
    }
  }
  return reads;
}

static bool touches(const sx_plan *plan, sx_id id, uint32_t target) {
  uint32_t buffer = plan->views[id].buffer;
  return buffer != UINT32_MAX && sx_buffers_overlap(plan, buffer, target);
}

/* Whether the task reads or writes memory of the target. */
static bool uses(const sx_plan *plan, uint32_t t, uint32_t target) {
  const sx_task *task = &plan->tasks.items[t];
  if (task->kind == SX_TASK_COPY)
    return touches(plan, task->nodes[1], target) || sx_buffers_overlap(plan, task->target, target);
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    if (touches(plan, task->nodes[i], target)) return true;
    for (uint32_t k = 0; k < node->n_inputs; k++)
      if (touches(plan, node->inputs[k], target)) return true;
  }
  return false;
}

/* Whether the group could write the sum when it runs. Before the sum's place in the plan its memory may be in use, by
 * something that a task in between reads or writes: what lives longer is elsewhere. After it, it may have been read, or
 * be in use again. */
static bool is_free(const sx_plan *plan, const offer *one, uint32_t target) {
  const sx_buffer *buffer = &plan->buffers.items[target];
  uint32_t first = one->task < one->sum ? one->task : one->sum + 1;
  uint32_t end = one->task < one->sum ? one->sum : one->task + 1;
  if (one->task > one->sum && buffer->kind == SX_BUFFER_TEMPORARY && buffer->last <= one->task) return false;
  for (uint32_t t = first; t < end; t++)
    if (uses(plan, t, target)) return false;
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

/* Adds a sum over n_rows rows to what the group makes; false: it cannot make it. */
static bool take(finding *f, const offer *one, int64_t n_rows) {
  const sx_plan *plan = f->plan;
  const sx_task *group = &plan->tasks.items[one->task];
  sx_columns *columns = f->of_tasks[one->task];
  if (!columns) columns = f->of_tasks[one->task] = SX_NEW(f->arena, sx_columns);
  int64_t width = sx_node_elements(sx_node_at(plan->graph, one->summed)) / n_rows;
  uint32_t buffer = plan->views[one->summed].buffer, target = plan->views[plan->tasks.items[one->sum].nodes[0]].buffer;
  if (columns->n == SX_COLUMNS_MOST || (columns->n && columns->width != width)) return false;
  if (width > SX_ROW_MOST || (group->row && group->row != width) || !stores_rows(plan, group, width)) return false;
  if (!is_at_hand(plan, group, one->summed) || !is_free(plan, one, target)) return false;
  int64_t joined = columns->n ? sx_columns_joined(columns) : rows_to_join(plan, group, width, n_rows);
  if (joined * width < SHORTEST_ROW) return false;
  for (uint32_t i = 0; i < columns->n; i++)
    if (columns->summed[i] == one->summed || columns->n_rows * joined != n_rows) return false;
  columns->width = width;
  columns->row = joined * width;
  columns->n_rows = n_rows / joined;
  columns->summed[columns->n] = one->summed;
  columns->targets[columns->n] = target;
  columns->read[columns->n++] = f->n_readings[buffer] > 1 || plan->buffers.items[buffer].kind != SX_BUFFER_TEMPORARY;
  return true;
}

static bool are_near(uint32_t a, uint32_t b) { return a < b ? b - a <= MOST_APART : a - b <= MOST_APART; }

static bool writes(const sx_plan *plan, const sx_task *task, uint32_t buffer) {
  for (uint32_t i = 0; i < task->n_nodes; i++)
    if (task->stored[i] && plan->views[task->nodes[i]].buffer == buffer) return true;
  return false;
}

/* An input of the group that lies as the value does; what the group computes is none. */
static sx_id read_as(const sx_plan *plan, const sx_task *task, sx_id value) {
  int64_t n = sx_node_elements(sx_node_at(plan->graph, value));
  if (task->kind != SX_TASK_ELEMENT || writes(plan, task, plan->views[value].buffer)) return SX_NO_NODE;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      const sx_node *input = sx_node_at(plan->graph, node->inputs[k]);
      const sx_view *view = &plan->views[node->inputs[k]];
      bool same = view->buffer == plan->views[value].buffer && view->offset == plan->views[value].offset;
      if (same && sx_node_elements(input) == n && sx_view_is_contiguous(view, input)) return node->inputs[k];
    }
  }
  return SX_NO_NODE;
}

/* By a group that reads the value, the next after the sum or the last before it. */
static bool take_read(finding *f, uint32_t sum, sx_id value, int64_t n_rows) {
  size_t n_tasks = f->plan->tasks.n;
  for (uint32_t apart = 1; apart <= MOST_APART; apart++)
    for (int side = 0; side < 2; side++) {
      if (side ? apart > sum : sum + apart >= n_tasks) continue;
      offer one = {.task = side ? sum - apart : sum + apart, .sum = sum};
      one.summed = read_as(f->plan, &f->plan->tasks.items[one.task], value);
      if (one.summed != SX_NO_NODE && take(f, &one, n_rows)) return true;
    }
  return false;
}

/* Whether a group, or several, make the sum that is the task. */
static bool take_sum(finding *f, uint32_t t) {
  const sx_plan *plan = f->plan;
  const sx_task *task = &plan->tasks.items[t];
  const sx_node *sum = sx_node_at(plan->graph, task->nodes[0]);
  int64_t n_rows = task->kind == SX_TASK_NODE ? sx_summed_rows(plan->graph, task->nodes[0]) : 0;
  if (!n_rows || n_rows > MOST_ROWS) return false;
  sx_id input = sum->inputs[0], value = sx_unshaped(plan->graph, input);
  if (plan->views[value].buffer != plan->views[input].buffer) value = input; /* of which it is a copy */
  const sx_node *from = sx_node_at(plan->graph, input);
  if (!sx_view_is_contiguous(&plan->views[input], from)) return false;
  uint32_t writer = f->task_of[value];
  if (writer && writer - 1 < t && are_near(writer - 1, t) && take(f, &(offer){writer - 1, t, value}, n_rows))
    return true;
  return take_read(f, t, input, n_rows);
}

sx_column_sums sx_columns_find(const sx_plan *plan, sx_arena *arena) {
  size_t n = plan->tasks.n;
  finding f = {.plan = plan, .arena = arena};
  sx_column_sums sums = {SX_NEW_N(arena, sx_columns *, n), SX_NEW_N(arena, bool, n)};
  if (!plan->columns) return sums;
  f.of_tasks = sums.of_tasks;
  f.n_readings = count_readings(plan, arena);
  f.task_of = SX_NEW_N(arena, uint32_t, plan->graph->nodes.n);
  for (uint32_t t = 0; t < n; t++) {
    const sx_task *task = &plan->tasks.items[t];
    for (uint32_t i = 0; i < task->n_nodes && task->kind == SX_TASK_ELEMENT; i++)
      if (task->stored[i]) f.task_of[task->nodes[i]] = t + 1;
  }
  for (uint32_t t = 0; t < n; t++) sums.made[t] = take_sum(&f, t);
  for (uint32_t t = 0; t < n; t++)
    if (sums.of_tasks[t] && !sums.of_tasks[t]->n) sums.of_tasks[t] = NULL;
  return sums;
}
