/* Rows: reductions along the last axes of what an element group computes, evaluated with it.
 *
 * A group of rows walks [R L]: its nodes have R L elements, or R, one a row: results of reductions and what is computed
 * from them. One row after the other is brought into the cache; a node that needs the result of a reduction over the
 * row is evaluated after the row has been walked once. The walks are phases:
 *
 *   m = max x   e = exp (x - m)   s = sum e   y = e / s     has phases {m} {e s} {y}, of one row at a time.
 *
 * Bits do not change: a sum's order is that of its row alone. */
#include "plan_parts.h"

bool sx_chain_can(const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  sx_dtype from = sx_node_at(graph, node->inputs[node->op == SX_OP_WHERE])->dtype;
  switch (node->op) {
    case SX_OP_AND:
    case SX_OP_OR:
    case SX_OP_NOT:
      return from == SX_BOOL;
    case SX_OP_CAST:
      return (from == SX_F32 && node->dtype == SX_BOOL) || (from == SX_BOOL && node->dtype == SX_F32);
    case SX_OP_IDIV:
    case SX_OP_MOD:
    case SX_OP_POW:
    case SX_OP_ATAN2:
      return false;
    default:
      return from == SX_F32;
  }
}

bool sx_is_stretch(const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  if (node->op != SX_OP_BROADCAST) return false;
  const sx_node *from = sx_node_at(graph, node->inputs[0]);
  int added = node->rank - from->rank;
  bool repeats = false;
  for (int i = 0; i < node->rank; i++) {
    int64_t dim = i < added ? 1 : from->dims[i - added];
    if (dim == 1 && node->dims[i] == 1) continue;
    if (dim == 1)
      repeats = true;
    else if (repeats)
      return false;
  }
  return true;
}

int64_t sx_reduced_row(const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  if (node->op != SX_OP_SUM && node->op != SX_OP_REDUCEMAX && node->op != SX_OP_REDUCEMIN) return 0;
  const sx_node *from = sx_node_at(graph, node->inputs[0]);
  if (node->dtype != SX_F32 || from->dtype != SX_F32) return 0;
  int64_t row = 1;
  for (uint32_t k = 0; k < node->n_ints; k++) {
    if (node->ints[k] < from->rank - (int64_t)node->n_ints) return 0;
    row *= from->dims[node->ints[k]];
  }
  return row >= SX_ROW_LEAST && row <= SX_ROW_MOST && sx_node_elements(node) >= SX_ROWS_FEWEST ? row : 0;
}

int64_t sx_summed_rows(const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  if (node->op != SX_OP_SUM || node->dtype != SX_F32) return 0;
  const sx_node *from = sx_node_at(graph, node->inputs[0]);
  int64_t rows = 1;
  if (from->dtype != SX_F32 || !sx_node_elements(node) || (int)node->n_ints == from->rank) return 0;
  for (uint32_t k = 0; k < node->n_ints; k++) {
    if (node->ints[k] >= (int64_t)node->n_ints) return 0;
    rows *= from->dims[node->ints[k]];
  }
  return rows >= SX_ROWS_FEWEST ? rows : 0;
}

typedef struct placed {
  sx_id node;
  uint32_t phase;
  bool wide, stored;
} placed;

static bool comes_before(const placed *a, const placed *b) {
  if (a->phase != b->phase) return a->phase < b->phase;
  if (a->wide != b->wide) return b->wide;
  return a->node < b->node;
}

static uint32_t phase_of(const sx_graph *graph, const sx_task *task, const uint32_t *phases, uint32_t n) {
  const sx_node *node = sx_node_at(graph, task->nodes[n]);
  uint32_t phase = 0;
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    sx_id input = node->inputs[k];
    while (sx_node_at(graph, input)->op == SX_OP_RESHAPE || sx_is_stretch(graph, input))
      input = sx_node_at(graph, input)->inputs[0];
    for (uint32_t i = 0; i < n; i++) {
      if (task->nodes[i] != input) continue;
      uint32_t ready = phases[i] + (sx_reduced_row(graph, input) != 0);
      if (ready > phase) phase = ready;
    }
  }
  return phase;
}

void sx_row_phases(const sx_graph *graph, const sx_task *task, uint32_t *phases) {
  for (uint32_t i = 0; i < task->n_nodes; i++) phases[i] = phase_of(graph, task, phases, i);
}

void sx_plan_rows(const sx_graph *graph, sx_task *task, sx_arena *arena) {
  placed *nodes = SX_NEW_N(arena, placed, task->n_nodes);
  uint32_t *phases = SX_NEW_N(arena, uint32_t, task->n_nodes);
  int64_t least = INT64_MAX, most = 0;
  bool reduces = false;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(graph, task->nodes[i]);
    bool reduction = sx_reduced_row(graph, task->nodes[i]) != 0;
    int64_t n = sx_node_elements(reduction ? sx_node_at(graph, node->inputs[0]) : node);
    if (n < least) least = n;
    if (n > most) most = n;
    reduces = reduces || reduction;
  }
  if (!reduces && least == most) task->row = 0;
  if (!task->row) return;
  sx_row_phases(graph, task, phases);
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(graph, task->nodes[i]);
    bool wide = sx_reduced_row(graph, task->nodes[i]) != 0 || sx_node_elements(node) == most;
    nodes[i] = (placed){task->nodes[i], phases[i], wide, task->stored[i]};
  }
  for (uint32_t i = 1; i < task->n_nodes; i++) {
    placed one = nodes[i];
    uint32_t at = i;
    for (; at && comes_before(&one, &nodes[at - 1]); at--) nodes[at] = nodes[at - 1];
    nodes[at] = one;
  }
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    task->nodes[i] = nodes[i].node;
    task->stored[i] = nodes[i].stored;
  }
}
