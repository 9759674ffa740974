/* Layouts: in which order a product's result lies in its buffer.
 *
 * A product writes its result through strides, so a result that is only wanted transposed is written as its
 * transposition lies: that is then contiguous, and no copy of it is made.
 *
 *   %2 = einsum %0 %1 {ab,ac->bc}   %3 = transpose %2 [1 0]   output "g" %3
 *   becomes: %2 of dims [b c] has strides [1 b], and %3 is the buffer as it lies.
 *
 * Bits do not change: where an element is stored has no part in it. Layouts are made where the options ask for
 * them: who executes the plan must write products through the strides of their views. */
#include <string.h>

#include "plan_parts.h"

/* What the readers of a node want. */
typedef struct wish {
  sx_id transposed; /* the first TRANSPOSE that reads it; SX_NO_NODE: none yet */
  bool refused;     /* something reads it as it is, or transposed otherwise */
  bool gains;       /* something but a product reads what is transposed: products read any strides alike */
} wish;

static bool same_order(const sx_node *a, const sx_node *b) {
  return !memcmp(a->ints, b->ints, (size_t)a->rank * sizeof *a->ints);
}

static void add_wish(const sx_graph *graph, wish *wishes, sx_id reader, sx_id read) {
  const sx_node *node = sx_node_at(graph, reader);
  wish *one = &wishes[read];
  if (node->op != SX_OP_TRANSPOSE)
    one->refused = true;
  else if (one->transposed == SX_NO_NODE)
    one->transposed = reader;
  else
    one->refused = one->refused || !same_order(node, sx_node_at(graph, one->transposed));
  const sx_node *from = sx_node_at(graph, read);
  if (from->op == SX_OP_TRANSPOSE && node->op != SX_OP_EINSUM) wishes[from->inputs[0]].gains = true;
}

void sx_plan_layouts(const sx_graph *graph, sx_id *layouts, sx_arena *arena) {
  size_t n = graph->nodes.n;
  wish *wishes = SX_NEW_N(arena, wish, n);
  for (sx_id id = 0; id < n; id++) wishes[id].transposed = SX_NO_NODE;
  for (sx_id id = 0; id < n; id++)
    for (uint32_t i = 0; i < sx_node_at(graph, id)->n_inputs; i++)
      add_wish(graph, wishes, id, sx_node_at(graph, id)->inputs[i]);
  for (size_t i = 0; i < graph->outputs.n; i++) {
    const sx_node *node = sx_node_at(graph, graph->outputs.items[i].node);
    wishes[graph->outputs.items[i].node].refused = true;
    if (node->op == SX_OP_TRANSPOSE) wishes[node->inputs[0]].gains = true;
  }
  for (sx_id id = 0; id < n; id++) {
    bool laid = sx_node_at(graph, id)->op == SX_OP_EINSUM && !wishes[id].refused && wishes[id].gains;
    layouts[id] = laid ? wishes[id].transposed : SX_NO_NODE;
  }
}
