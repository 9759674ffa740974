/* Joining: pieces of a concatenation are written where they are joined.
 *
 *   t: element  %2 = add %0 %1 -> b2    u: node  %3 = concat %2 %2' -> b3      of [R 4] and [R 8] along the columns
 *   becomes: %2 lies in b3, rows 12 apart, and %2' beside it from element 4 on. Where all pieces do, the concatenation
 *   has no task; else its task copies the others.
 *
 * A piece may be a value of a group, or a product of f32, of attention too, perhaps reshaped or transposed on the way,
 * that nothing but the concatenation reads. A group writes whole rows that are apart only where chains evaluate all of
 * it, and rows are not short; values that lie in one piece may come from any. Bits do not change: where an element is
 * stored has no part in it.
 *
 * The buffer is alive from its first writer on. Where that makes the plan larger nothing is joined (plan.c). */
#include "attention.h"
#include "plan_parts.h"

enum { SHORTEST_RUN = 128 }; /* elements of a row that a group writes apart from the next */

/* Of a group, at the node that stands for it. */
typedef struct group_facts {
  int64_t width, run; /* of its widest nodes; of a row of its pieces so far, 0: it has none that are apart */
  bool unchained;     /* something of it is no operation of a chain */
} group_facts;

typedef struct joining {
  sx_planning *planning;
  const sx_graph *graph;
  uint32_t *uses; /* per node: by nodes of other groups, and by outputs */
  group_facts *groups;
} joining;

static bool is_element(const joining *j, sx_id id) { return j->planning->roles[id] == SX_ROLE_ELEMENT; }

static void count_uses(joining *j) {
  const uint32_t *groups = j->planning->groups;
  for (sx_id id = 0; id < j->graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(j->graph, id);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = node->inputs[k];
      bool inside = is_element(j, id) && is_element(j, input) && groups[id] == groups[input];
      j->uses[input] += !inside;
    }
  }
  for (size_t i = 0; i < j->graph->outputs.n; i++) j->uses[j->graph->outputs.items[i].node] += 2;
}

static void describe_groups(joining *j) {
  for (sx_id id = 0; id < j->graph->nodes.n; id++) {
    if (!is_element(j, id)) continue;
    const sx_node *node = sx_node_at(j->graph, id);
    group_facts *group = &j->groups[j->planning->groups[id]];
    bool reduces = sx_reduced_row(j->graph, id) != 0;
    int64_t n = sx_node_elements(reduces ? sx_node_at(j->graph, node->inputs[0]) : node);
    if (n > group->width) group->width = n;
    if (!reduces && !sx_chain_can(j->graph, id)) group->unchained = true;
  }
}

/* The computed node that the piece shows, and its view if the piece has that one; SX_NO_NODE: something else reads it
 * too, or it cannot be computed so. */
static sx_id find_root(const joining *j, sx_id piece, sx_view *view) {
  for (sx_id id = piece;; id = sx_node_at(j->graph, id)->inputs[0]) {
    sx_view input;
    if (j->uses[id] != 1) return SX_NO_NODE;
    if (j->planning->roles[id] != SX_ROLE_VIEW) return id;
    if (!sx_view_of_input(j->graph, id, view, &input)) return SX_NO_NODE;
    *view = input;
  }
}

static bool group_writes(joining *j, sx_id id, const sx_view *view) {
  const sx_node *node = sx_node_at(j->graph, id);
  uint32_t number = j->planning->groups[id];
  group_facts *group = &j->groups[number];
  if (!j->planning->stored[id]) return false;
  if (sx_view_is_contiguous(view, node)) return true;
  int64_t run = sx_view_run(view, node), row = j->planning->rows[number];
  if (group->unchained || node->dtype != SX_F32 || sx_node_elements(node) != group->width) return false;
  if (run < SHORTEST_RUN || run > SX_ROW_MOST || (row && run % row) || (group->run && run != group->run)) return false;
  group->run = run;
  return true;
}

static bool product_writes(const joining *j, sx_id id) {
  const sx_node *node = sx_node_at(j->graph, id);
  if (node->op != SX_OP_EINSUM || node->dtype != SX_F32) return false;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    if (!sx_node_elements(sx_node_at(j->graph, node->inputs[k]))) return false;
  return true;
}

static bool attention_writes(const joining *j, sx_id id, const sx_view *view) {
  uint32_t number = j->planning->region_of[id];
  if (number == UINT32_MAX) return false;
  const sx_attention *attention = j->planning->regions.items[number].task.attention;
  for (uint32_t i = attention->n_scores; i < attention->n_products; i++) {
    sx_view of_product;
    if (attention->products[i].left.node == id)
      return sx_attention_product_view(j->graph, &attention->products[i], view, &of_product);
  }
  return false;
}

static bool is_written_there(joining *j, sx_id id, const sx_view *view) {
  switch ((sx_role)j->planning->roles[id]) {
    case SX_ROLE_ELEMENT:
      return group_writes(j, id, view);
    case SX_ROLE_NODE:
      return product_writes(j, id);
    case SX_ROLE_ATTENTION:
      return attention_writes(j, id, view);
    default:
      return false;
  }
}

static bool place_piece(joining *j, sx_id concat, sx_id piece, int64_t offset) {
  sx_planning *planning = j->planning;
  sx_view view = planning->plan->views[concat], whole;
  view.offset = offset;
  whole = view;
  sx_id root = find_root(j, piece, &view);
  if (root == SX_NO_NODE || !is_written_there(j, root, &view)) return false;
  for (sx_id id = piece; id != root; id = sx_node_at(j->graph, id)->inputs[0]) {
    sx_view input;
    planning->plan->views[id] = whole;
    sx_view_of_input(j->graph, id, &whole, &input);
    whole = input;
  }
  planning->plan->views[root] = view;
  planning->joins[root] = concat;
  return true;
}

static void join_pieces(joining *j, sx_id concat) {
  const sx_node *node = sx_node_at(j->graph, concat);
  int64_t axis = node->ints[0], stride = j->planning->plan->views[concat].strides[axis], offset = 0;
  uint32_t n_placed = 0;
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    n_placed += place_piece(j, concat, node->inputs[k], offset);
    offset += sx_node_at(j->graph, node->inputs[k])->dims[axis] * stride;
  }
  if (n_placed) j->planning->plan->joins = true;
  if (n_placed == node->n_inputs) j->planning->roles[concat] = SX_ROLE_JOINED;
}

void sx_plan_join(sx_planning *planning) {
  size_t n = planning->graph->nodes.n;
  joining j = {.planning = planning, .graph = planning->graph};
  for (sx_id id = 0; id < n; id++) planning->joins[id] = SX_NO_NODE;
  if (!planning->options->join) return;
  j.uses = SX_NEW_N(planning->arena, uint32_t, n);
  j.groups = SX_NEW_N(planning->arena, group_facts, n);
  count_uses(&j);
  describe_groups(&j);
  for (sx_id id = 0; id < n; id++) {
    const sx_node *node = sx_node_at(planning->graph, id);
    if (node->op == SX_OP_CONCAT && planning->roles[id] == SX_ROLE_NODE && sx_node_elements(node)) join_pieces(&j, id);
  }
}
