/* Parting: an element operation of which only slices are read, that lie side by side, is evaluated slice by slice, each
 * in the group of what reads it. Needs and gives READY.
 *
 *   %2 = add %0 %1 : f32 [9 384]
 *   %3 = slice %2 {columns 0 to 127}   %4 = reshape %3 : f32 [9 4 32]   %5 = mul %4 (const 0.5)
 *   %6 = slice %2 {columns 128 to 383}
 * becomes
 *   %2 = slice %0   %3 = slice %1   %4 = add %2 %3   %5 = mul %4 (const 0.5)   %6 = reshape %5   likewise of the others
 *
 * and the scale of queries takes no pass over memory. An operation with constants moves before reshaping and
 * transposing, where it meets what it reads. Bits do not change: an element is computed from the same ones.
 *
 * Only where the operation reads leaves or results of other classes, so that it leaves no group of what comes before;
 * where slices are rows that are not short; and where a slice meets an operation that it can join. */
#include "../ir/build.h"
#include "pass.h"
#include "rewrite.h"

enum { SHORTEST_RUN = 128, SLICES_MOST = 16, VIEWS_MOST = 8 };

typedef struct parting {
  const sx_graph *graph;
  sx_rewrite rewrite;
  uint32_t *uses; /* per node: by nodes and outputs */
  sx_id *readers; /* per node: one that reads it */
  uint32_t *n_slices;
  sx_id *slices, *nexts; /* per node: the first slice of it; per slice: the next one of the same node */
  bool *parted;
} parting;

static const sx_node *at(const parting *p, sx_id id) { return sx_node_at(p->graph, id); }
static bool is_element(const parting *p, sx_id id) { return sx_op_describe(at(p, id)->op)->class == SX_CLASS_ELEMENT; }
static bool is_view(sx_op op) { return op == SX_OP_RESHAPE || op == SX_OP_TRANSPOSE; }

static void find_readers(parting *p) {
  for (sx_id id = 0; id < p->graph->nodes.n; id++) p->slices[id] = p->nexts[id] = SX_NO_NODE;
  for (sx_id id = 0; id < p->graph->nodes.n; id++) {
    const sx_node *node = at(p, id);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = node->inputs[k];
      p->uses[input]++;
      p->readers[input] = id;
      if (node->op != SX_OP_SLICE) continue;
      p->n_slices[input]++;
      p->nexts[id] = p->slices[input];
      p->slices[input] = id;
    }
  }
  for (size_t i = 0; i < p->graph->outputs.n; i++) p->uses[p->graph->outputs.items[i].node] += 2;
}

/* The one axis of which the slice takes a part, in steps of 1; -1: there is no such. */
static int sliced_axis(const parting *p, sx_id slice) {
  const sx_node *node = at(p, slice), *from = at(p, node->inputs[0]);
  int found = -1;
  for (int axis = 0; axis < node->rank; axis++) {
    if (node->ints[3 * axis + 2] != 1 || (node->dims[axis] != from->dims[axis] && found >= 0)) return -1;
    if (node->dims[axis] != from->dims[axis]) found = axis;
  }
  return found;
}

/* Whether the slices are apart from each other along one axis, and their rows are long. */
static bool are_apart(const parting *p, sx_id id) {
  int axis = sliced_axis(p, p->slices[id]);
  int64_t run = 1;
  if (axis < 0) return false;
  for (int i = axis + 1; i < at(p, id)->rank; i++) run *= at(p, id)->dims[i];
  for (sx_id a = p->slices[id]; a != SX_NO_NODE; a = p->nexts[a]) {
    if (sliced_axis(p, a) != axis || at(p, a)->dims[axis] * run < SHORTEST_RUN) return false;
    int64_t begin = at(p, a)->ints[3 * axis], end = begin + at(p, a)->dims[axis];
    for (sx_id b = p->nexts[a]; b != SX_NO_NODE; b = p->nexts[b]) {
      if (sliced_axis(p, b) != axis) return false;
      int64_t other = at(p, b)->ints[3 * axis];
      if (begin < other + at(p, b)->dims[axis] && other < end) return false;
    }
  }
  return true;
}

/* Whether what the operation reads is in no group: it is from outside, or of a class that has tasks of its own. */
static bool reads_no_group(const parting *p, sx_id id) {
  for (uint32_t k = 0; k < at(p, id)->n_inputs; k++) {
    sx_id root = at(p, id)->inputs[k];
    while (is_view(at(p, root)->op) || at(p, root)->op == SX_OP_BROADCAST) root = at(p, root)->inputs[0];
    sx_op_class class = sx_op_describe(at(p, root)->op)->class;
    if (class != SX_CLASS_LEAF && class != SX_CLASS_CONTRACT) return false;
  }
  return true;
}

/* The operand that is no constant, if there is one; else SX_NO_NODE. */
static sx_id only_operand(const parting *p, sx_id id) {
  sx_id found = SX_NO_NODE;
  for (uint32_t k = 0; k < at(p, id)->n_inputs; k++) {
    if (at(p, at(p, id)->inputs[k])->op == SX_OP_CONST) continue;
    if (found != SX_NO_NODE) return SX_NO_NODE;
    found = at(p, id)->inputs[k];
  }
  return found;
}

/* The element operation that reads the slice, or alone reads views of it that nothing else does. */
static bool meets_operation(const parting *p, sx_id slice) {
  sx_id id = slice;
  while (p->uses[id] == 1 && is_view(at(p, p->readers[id])->op)) id = p->readers[id];
  if (p->uses[id] != 1 || !is_element(p, p->readers[id])) return false;
  return id == slice || only_operand(p, p->readers[id]) == id;
}

static bool can_be_parted(const parting *p, sx_id id) {
  if (!is_element(p, id) || p->n_slices[id] < 2 || p->n_slices[id] > SLICES_MOST) return false;
  if (p->uses[id] != p->n_slices[id] || !are_apart(p, id) || !reads_no_group(p, id)) return false;
  for (sx_id slice = p->slices[id]; slice != SX_NO_NODE; slice = p->nexts[slice])
    if (meets_operation(p, slice)) return true;
  return false;
}

/* ---- the new graph ------------------------------------------------------------------------------- */

static sx_id element_on(parting *p, const sx_node *node, const sx_id *inputs) {
  return sx_graph_add(p->rewrite.to,
                      &(sx_spec){.op = node->op, .dtype = node->dtype, .inputs = inputs, .n_inputs = node->n_inputs});
}

/* A slice of a parted operation: the operation on slices. */
static sx_id part_of(parting *p, sx_id slice) {
  const sx_node *node = at(p, slice), *whole = at(p, node->inputs[0]);
  sx_id inputs[3];
  for (uint32_t k = 0; k < whole->n_inputs; k++) {
    const sx_node *input = at(p, whole->inputs[k]);
    sx_spec spec = {.op = SX_OP_SLICE, .inputs = &p->rewrite.map[whole->inputs[k]], .n_inputs = 1};
    spec.ints = node->ints;
    spec.n_ints = node->n_ints;
    inputs[k] = input->op == SX_OP_CONST ? sx_const(p->rewrite.to, input->dtype, node->rank, node->dims, input->real)
                                         : sx_graph_add(p->rewrite.to, &spec);
  }
  return element_on(p, whole, inputs);
}

/* An operation with constants on views of a slice of a parted one: the views of the operation. SX_NO_NODE: it is none.
 */
static sx_id before_views(parting *p, sx_id id) {
  sx_graph *to = p->rewrite.to;
  sx_id base = is_element(p, id) ? only_operand(p, id) : SX_NO_NODE, views[VIEWS_MOST], inputs[3];
  uint32_t n = 0;
  if (base == SX_NO_NODE) return SX_NO_NODE;
  for (; is_view(at(p, base)->op) && p->uses[base] == 1 && n < VIEWS_MOST; base = at(p, base)->inputs[0])
    views[n++] = base;
  bool parted = at(p, base)->op == SX_OP_SLICE && p->parted[at(p, base)->inputs[0]];
  if (!n || !parted || p->uses[base] != 1) return SX_NO_NODE;
  for (uint32_t k = 0; k < at(p, id)->n_inputs; k++) {
    const sx_node *input = at(p, at(p, id)->inputs[k]), *shape = sx_node_at(to, p->rewrite.map[base]);
    inputs[k] = input->op == SX_OP_CONST ? sx_const(to, input->dtype, shape->rank, shape->dims, input->real)
                                         : p->rewrite.map[base];
  }
  sx_id result = element_on(p, at(p, id), inputs);
  while (n--) {
    const sx_node *view = at(p, views[n]);
    result = view->op == SX_OP_RESHAPE ? sx_reshape(to, result, view->rank, view->dims)
                                       : sx_transpose(to, result, view->ints);
  }
  return result;
}

static sx_id rebuild(parting *p, sx_id id) {
  const sx_node *node = at(p, id);
  p->rewrite.to->span = node->span;
  p->rewrite.to->path = node->path;
  if (p->parted[id]) return SX_NO_NODE;
  if (node->op == SX_OP_SLICE && p->parted[node->inputs[0]]) return part_of(p, id);
  sx_id moved = before_views(p, id);
  return moved != SX_NO_NODE ? moved : sx_graph_copy_mapped(p->rewrite.to, node, p->rewrite.map);
}

sx_graph *sx_pass_part(sx_graph *graph, sx_diags *diags) {
  size_t n = graph->nodes.n;
  parting p = {.graph = graph};
  bool any = false;
  p.uses = SX_NEW_N(graph->arena, uint32_t, n);
  p.readers = SX_NEW_N(graph->arena, sx_id, n);
  p.n_slices = SX_NEW_N(graph->arena, uint32_t, n);
  p.slices = SX_NEW_N(graph->arena, sx_id, n);
  p.nexts = SX_NEW_N(graph->arena, sx_id, n);
  p.parted = SX_NEW_N(graph->arena, bool, n);
  find_readers(&p);
  for (sx_id id = 0; id < n; id++) any |= p.parted[id] = can_be_parted(&p, id);
  if (!any) return graph;
  p.rewrite = sx_rewrite_begin(graph);
  for (sx_id id = 0; id < n; id++) p.rewrite.map[id] = rebuild(&p, id);
  return sx_pass_dce(sx_rewrite_end(&p.rewrite), diags);
}
