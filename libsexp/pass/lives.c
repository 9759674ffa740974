/* Room is kept in a tree over the tasks, each node of which has the least of what is below it: a range is given bytes,
 * and the least of all is known, in log n. It counts as memory.c does: a result that takes the place of an input that
 * dies begins its life after that task. */
#include "lives.h"

#include "plan_parts.h"

sx_id sx_lives_root(const sx_plan *plan, sx_id id) {
  for (const sx_node *node = sx_node_at(plan->graph, id);
       sx_op_describe(node->op)->class == SX_CLASS_MOVE && node->n_inputs == 1 &&
       plan->views[id].buffer == plan->views[node->inputs[0]].buffer;
       node = sx_node_at(plan->graph, id))
    id = node->inputs[0];
  return id;
}

/* ---- room ------------------------------------------------------------------------------------------- */

static int64_t lower(int64_t a, int64_t b) { return a < b ? a : b; }

/* The tree's node covers tasks low to high. */
static void give(sx_lives *l, uint32_t node, uint32_t low, uint32_t high, const uint32_t range[2], int64_t n_bytes) {
  if (range[1] < low || high < range[0]) return;
  if (range[0] <= low && high <= range[1]) {
    l->least[node] += n_bytes;
    l->given[node] += n_bytes;
    return;
  }
  uint32_t middle = low + (high - low) / 2;
  give(l, 2 * node, low, middle, range, n_bytes);
  give(l, 2 * node + 1, middle + 1, high, range, n_bytes);
  l->least[node] = l->given[node] + lower(l->least[2 * node], l->least[2 * node + 1]);
}

bool sx_lives_give(sx_lives *lives, uint32_t from, uint32_t to, int64_t n_bytes) {
  const uint32_t range[2] = {from, to};
  if (from <= to) give(lives, 1, 0, lives->n_leaves - 1, range, n_bytes);
  return lives->least[1] >= 0;
}

/* ---- who reads what --------------------------------------------------------------------------------- */

static void read_value(sx_lives *l, uint32_t t, sx_id seen, uint32_t *met) {
  sx_id root = sx_lives_root(l->plan, seen);
  sx_value *value = &l->values[root];
  if (!value->stored || value->first == t || met[root] == t + 1) return;
  met[root] = t + 1;
  value->readers++;
  value->before = value->last;
  value->last = t;
}

static void read_operands(sx_lives *l, uint32_t t, uint32_t *met) {
  const sx_task *task = &l->plan->tasks.items[t];
  if (task->kind == SX_TASK_COPY) {
    read_value(l, t, task->nodes[1], met);
    return;
  }
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(l->plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) read_value(l, t, node->inputs[k], met);
  }
}

static const sx_buffer *buffer_of(const sx_plan *plan, sx_id id) {
  uint32_t buffer = plan->views[id].buffer;
  return buffer == UINT32_MAX ? NULL : &plan->buffers.items[buffer];
}

static void find_values(sx_lives *l) {
  for (uint32_t t = 0; t < l->plan->tasks.n; t++) {
    const sx_task *task = &l->plan->tasks.items[t];
    for (uint32_t i = 0; i < task->n_nodes && task->kind == SX_TASK_ELEMENT; i++) {
      l->task_of[task->nodes[i]] = t + 1;
      l->values[task->nodes[i]].first = t;
    }
  }
  for (sx_id id = 0; id < l->plan->graph->nodes.n; id++) {
    const sx_buffer *buffer = buffer_of(l->plan, id);
    l->values[id].heir = SX_NO_NODE;
    if (!buffer || sx_lives_root(l->plan, id) != id) continue;
    if (buffer->kind != SX_BUFFER_TEMPORARY && buffer->kind != SX_BUFFER_OUTPUT) continue;
    l->values[id].stored = true;
    l->values[id].first = l->values[id].last = l->values[id].before = buffer->first;
  }
}

/* ---- what each task holds --------------------------------------------------------------------------- */

/* Whether the buffer lies in the place of an input of the task that writes it, which then knows. */
static bool takes_place(sx_lives *l, const sx_task *task, const sx_buffer *buffer) {
  for (uint32_t i = 0; i < task->n_nodes && task->kind == SX_TASK_ELEMENT; i++) {
    const sx_node *node = sx_node_at(l->plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      const sx_buffer *input = buffer_of(l->plan, node->inputs[k]);
      if (!input || input->kind != SX_BUFFER_TEMPORARY || input == buffer || input->last != buffer->first) continue;
      if (input->offset != buffer->offset || input->first == buffer->first) continue;
      l->values[sx_lives_root(l->plan, node->inputs[k])].heir = buffer->node;
      return true;
    }
  }
  return false;
}

static void find_room(sx_lives *l, sx_arena *arena) {
  uint32_t n = (uint32_t)l->plan->tasks.n;
  int64_t *changes = SX_NEW_N(arena, int64_t, n + 2), held = 0;
  for (uint32_t b = 0; b < l->plan->buffers.n; b++) {
    const sx_buffer *buffer = &l->plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_TEMPORARY) continue;
    if (takes_place(l, &l->plan->tasks.items[buffer->first], buffer)) l->values[buffer->node].first++;
    changes[l->values[buffer->node].first] += sx_aligned(buffer->n_bytes);
    changes[buffer->last + 1] -= sx_aligned(buffer->n_bytes);
  }
  for (uint32_t t = 0; t < n; t++) {
    held += changes[t];
    sx_lives_give(l, t, t, l->plan->bound_bytes > held ? l->plan->bound_bytes - held : 0);
  }
}

sx_lives *sx_lives_make(const sx_plan *plan, sx_arena *arena) {
  size_t n = plan->graph->nodes.n;
  sx_lives *l = SX_NEW(arena, sx_lives);
  l->plan = plan;
  l->n_leaves = plan->tasks.n ? (uint32_t)plan->tasks.n : 1;
  l->values = SX_NEW_N(arena, sx_value, n);
  l->task_of = SX_NEW_N(arena, uint32_t, n);
  l->least = SX_NEW_N(arena, int64_t, 4 * (size_t)l->n_leaves);
  l->given = SX_NEW_N(arena, int64_t, 4 * (size_t)l->n_leaves);
  find_values(l);
  for (size_t i = 0; i < plan->graph->outputs.n; i++)
    l->values[sx_lives_root(plan, plan->graph->outputs.items[i].node)].readers++;
  uint32_t *met = SX_NEW_N(arena, uint32_t, n);
  for (uint32_t t = 0; t < plan->tasks.n; t++) read_operands(l, t, met);
  find_room(l, arena);
  return l;
}
