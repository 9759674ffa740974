/* Views: which nodes move nothing.
 *
 * Requires a READY graph. Gives every node a role, a root and a view of the root's buffer (offset and
 * strides in elements).
 *
 *   %1 = param [4 6]   %2 = transpose %1 [6 4]   %3 = slice %2 rows 2..4
 *   becomes: %2 and %3 are views of %1; %2 strides [1 6], %3 offset 2, strides [1 6].
 *
 * Source: strided arrays as in NumPy (Harris et al., "Array programming with NumPy", 2020). */
#include "plan_parts.h"

/* The stride of every step-th element; along an axis of one element none is taken, and the step may be any. */
static int64_t stepped(int64_t stride, int64_t step, int64_t dim) { return dim > 1 ? stride * step : 0; }

bool sx_view_is_contiguous(const sx_view *view, const sx_node *node) {
  int64_t stride = 1;
  for (int i = node->rank - 1; i >= 0; i--) {
    if (node->dims[i] == 0) return true;
    if (node->dims[i] == 1) continue;
    if (view->strides[i] != stride) return false;
    stride *= node->dims[i];
  }
  return true;
}

bool sx_view_is_whole(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  const sx_view *view = &plan->views[id];
  return sx_value_bytes(plan->graph, id) == plan->buffers.items[view->buffer].n_bytes &&
         sx_view_is_contiguous(view, node);
}

int64_t sx_view_run(const sx_view *view, const sx_node *node) {
  int64_t run = 1;
  for (int i = node->rank - 1; i >= 0; i--) {
    if (node->dims[i] == 1) continue;
    if (view->strides[i] != run) break;
    run *= node->dims[i];
  }
  return run;
}

static bool transpose_view(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  (void)from;
  for (int i = 0; i < node->rank; i++) out->strides[i] = in->strides[node->ints[i]];
  return true;
}

static bool broadcast_view(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  int added = node->rank - from->rank;
  for (int i = 0; i < node->rank; i++) {
    bool repeats = i < added || from->dims[i - added] != node->dims[i];
    out->strides[i] = repeats ? 0 : in->strides[i - added];
  }
  return true;
}

static bool slice_view(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  (void)from;
  for (int i = 0; i < node->rank; i++) {
    /* An empty slice may start past the end; it has no element to point at. */
    if (node->dims[i] > 0) out->offset += node->ints[3 * i] * in->strides[i];
    out->strides[i] = stepped(in->strides[i], node->ints[3 * i + 2], node->dims[i]);
  }
  return true;
}

static bool reverse_view(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  int64_t axis = node->ints[0];
  for (int i = 0; i < node->rank; i++) out->strides[i] = in->strides[i];
  if (from->dims[axis] > 0) out->offset += (from->dims[axis] - 1) * in->strides[axis];
  out->strides[axis] = -in->strides[axis];
  return true;
}

static bool unfold_view(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  int64_t axis = node->ints[0];
  for (int i = 0; i < from->rank; i++) out->strides[i] = in->strides[i];
  out->strides[axis] = stepped(in->strides[axis], node->ints[2], node->dims[axis]);
  out->strides[from->rank] = in->strides[axis];
  return true;
}

/* Axes of one new block take the strides that its last old axis gives; possible where the old axes of the
 * block lie as one. Axes of size 1 have no say. */
bool sx_view_reshape(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out) {
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
  int n_old = 0, old = 0, new = 0;
  sx_row_major(out->strides, node->dims, node->rank);
  for (int i = 0; i < from->rank; i++) {
    if (from->dims[i] == 0) return true;
    if (from->dims[i] == 1) continue;
    dims[n_old] = from->dims[i];
    strides[n_old++] = in->strides[i];
  }
  while (old < n_old) {
    int old_end = old + 1, new_end = new + 1;
    int64_t old_size = dims[old], new_size = node->dims[new];
    while (old_size != new_size) {
      if (new_size < old_size)
        new_size *= node->dims[new_end++];
      else
        old_size *= dims[old_end++];
    }
    for (int i = old; i < old_end - 1; i++)
      if (strides[i] != dims[i + 1] * strides[i + 1]) return false;
    int64_t stride = strides[old_end - 1];
    for (int i = new_end - 1; i >= new; i--) {
      out->strides[i] = stride;
      stride *= node->dims[i];
    }
    old = old_end;
    new = new_end;
  }
  return true;
}

bool sx_view_of_input(const sx_graph *graph, sx_id id, const sx_view *view, sx_view *input) {
  const sx_node *node = sx_node_at(graph, id);
  *input = (sx_view){.offset = view->offset};
  if (node->op == SX_OP_RESHAPE) return sx_view_reshape(sx_node_at(graph, node->inputs[0]), node, view, input);
  if (node->op != SX_OP_TRANSPOSE) return false;
  for (int i = 0; i < node->rank; i++) input->strides[node->ints[i]] = view->strides[i];
  return true;
}

typedef bool view_rule(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out);

static view_rule *const view_rules[SX_N_OPS] = {
    [SX_OP_RESHAPE] = sx_view_reshape, [SX_OP_TRANSPOSE] = transpose_view, [SX_OP_BROADCAST] = broadcast_view,
    [SX_OP_SLICE] = slice_view,        [SX_OP_REVERSE] = reverse_view,     [SX_OP_UNFOLD] = unfold_view,
};

static sx_role move_role(sx_planning *planning, sx_id id) {
  const sx_node *node = sx_node_at(planning->graph, id);
  view_rule *rule = view_rules[node->op];
  if (!rule) return SX_ROLE_NODE;
  const sx_view *in = &planning->plan->views[node->inputs[0]];
  sx_view view = {.offset = in->offset};
  if (!rule(node, sx_node_at(planning->graph, node->inputs[0]), in, &view)) return SX_ROLE_COPY;
  planning->plan->views[id] = view;
  planning->roots[id] = planning->roots[node->inputs[0]];
  return SX_ROLE_VIEW;
}

static sx_role role_of(sx_planning *planning, sx_id id) {
  switch (sx_op_describe(sx_node_at(planning->graph, id)->op)->class) {
    case SX_CLASS_LEAF:
      return SX_ROLE_LEAF;
    case SX_CLASS_ELEMENT:
      return SX_ROLE_ELEMENT;
    case SX_CLASS_MOVE:
      return move_role(planning, id);
    default:
      return SX_ROLE_NODE;
  }
}

/* The strides of a node whose transposition is row-major. */
static void lay_out(int64_t *strides, const sx_node *transposed) {
  int64_t row_major[SX_RANK_MAX];
  sx_row_major(row_major, transposed->dims, transposed->rank);
  for (int i = 0; i < transposed->rank; i++) strides[transposed->ints[i]] = row_major[i];
}

void sx_plan_views(sx_planning *planning) {
  sx_id *layouts = NULL;
  if (planning->options->layout) {
    layouts = SX_NEW_N(planning->arena, sx_id, planning->graph->nodes.n);
    sx_plan_layouts(planning->graph, layouts, planning->arena);
  }
  for (sx_id id = 0; id < planning->graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(planning->graph, id);
    int64_t *strides = planning->plan->views[id].strides;
    planning->roots[id] = id;
    sx_row_major(strides, node->dims, node->rank);
    if (layouts && layouts[id] != SX_NO_NODE) lay_out(strides, sx_node_at(planning->graph, layouts[id]));
    if (node->op == SX_OP_CONST || node->op == SX_OP_IOTA)
      for (int i = 0; i < node->rank; i++) strides[i] = node->op == SX_OP_IOTA && i == node->ints[0];
    planning->roles[id] = (uint8_t)role_of(planning, id);
  }
}
