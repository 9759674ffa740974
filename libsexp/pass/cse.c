/* Common subexpressions: equal nodes become one, the first. Needs and gives EXPANDED.
 *
 * Equal are nodes of the same operation, type, attributes and (merged) operands; operands of operations
 * that commute bit for bit may be swapped. Draws with the same number and salts are equal as well. The one
 * node keeps the span and the model path of the first.
 *
 *   %1 = exp %0 : f32 [3]
 *   %2 = exp %0 : f32 [3]
 *   %3 = add %1 %2 : f32 [3]
 * becomes
 *   %1 = exp %0 : f32 [3]
 *   %2 = add %1 %1 : f32 [3]
 *
 * Source: Ershov, "On programming of arithmetic operations", 1958 (hash consing). */
#include <string.h>

#include "../base/hash.h"
#include "rewrite.h"

/* Open addressing: node numbers of the new graph, SX_NO_NODE where empty. */
typedef struct table {
  sx_id *slots;
  size_t room;
} table;

static bool commutes(sx_op op) {
  switch (op) {
    case SX_OP_ADD:
    case SX_OP_MUL:
    case SX_OP_MAX:
    case SX_OP_MIN:
    case SX_OP_EQ:
    case SX_OP_NE:
    case SX_OP_AND:
    case SX_OP_OR:
      return true;
    default:
      return false;
  }
}

static uint64_t add_word(uint64_t hash, uint64_t word) { return sx_hash_mix((hash ^ word) * 0x9e3779b97f4a7c15u); }

static uint64_t hash_node(const sx_node *node, const sx_id *inputs) {
  uint64_t real, hash = add_word((uint64_t)node->op << 32 | (uint64_t)node->dtype, (uint64_t)(uintptr_t)node->text);
  memcpy(&real, &node->real, sizeof real);
  hash = add_word(hash, real);
  for (int i = 0; i < node->rank; i++) hash = add_word(hash, (uint64_t)node->dims[i]);
  for (uint32_t i = 0; i < node->n_ints; i++) hash = add_word(hash, (uint64_t)node->ints[i]);
  if (commutes(node->op)) return add_word(hash, (uint64_t)inputs[0] * inputs[1] + inputs[0] + inputs[1]);
  for (uint32_t i = 0; i < node->n_inputs; i++) hash = add_word(hash, inputs[i]);
  return hash;
}

static bool equal_bytes(const void *a, const void *b, size_t n_bytes) {
  return n_bytes == 0 || memcmp(a, b, n_bytes) == 0;
}

static bool equal_operands(const sx_node *a, const sx_id *inputs, const sx_node *b) {
  if (equal_bytes(inputs, b->inputs, a->n_inputs * sizeof *inputs)) return true;
  return commutes(a->op) && inputs[0] == b->inputs[1] && inputs[1] == b->inputs[0];
}

/* Reals by their bits: -0 is not +0. */
static bool equal_nodes(const sx_node *a, const sx_id *inputs, const sx_node *b) {
  return a->op == b->op && a->dtype == b->dtype && a->text == b->text && a->n_ints == b->n_ints &&
         a->n_inputs == b->n_inputs && sx_shape_equal(a, b) && equal_bytes(&a->real, &b->real, sizeof a->real) &&
         equal_bytes(a->ints, b->ints, a->n_ints * sizeof *a->ints) && equal_operands(a, inputs, b);
}

/* The node of the new graph that equals this one with these inputs, added where there is none. */
static sx_id find_or_add(table *known, sx_graph *graph, const sx_node *node, const sx_id *inputs) {
  size_t slot = (size_t)hash_node(node, inputs) & (known->room - 1);
  for (; known->slots[slot] != SX_NO_NODE; slot = (slot + 1) & (known->room - 1))
    if (equal_nodes(node, inputs, sx_node_at(graph, known->slots[slot]))) return known->slots[slot];
  known->slots[slot] = sx_graph_copy(graph, node, inputs);
  return known->slots[slot];
}

static table new_table(const sx_graph *graph) {
  table known = {.room = 16};
  while (known.room < 2 * graph->nodes.n) known.room *= 2;
  known.slots = SX_NEW_N(graph->arena, sx_id, known.room);
  for (size_t i = 0; i < known.room; i++) known.slots[i] = SX_NO_NODE;
  return known;
}

sx_graph *sx_pass_cse(sx_graph *graph, sx_diags *diags) {
  (void)diags;
  sx_rewrite rewrite = sx_rewrite_begin(graph);
  table known = new_table(graph);
  SX_VEC(sx_id) inputs = {0};
  for (size_t i = 0; i < graph->nodes.n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    inputs.n = 0;
    for (uint32_t k = 0; k < node->n_inputs; k++) SX_PUSH(graph->arena, inputs, rewrite.map[node->inputs[k]]);
    rewrite.map[i] = find_or_add(&known, rewrite.to, node, inputs.items);
  }
  return sx_rewrite_end(&rewrite);
}
