/* Which groups of ATTENTION tasks are a softmax, or one and its gradient: see softmax.h. */
#include "softmax.h"

#include "../../kernels/math.h"
#include "../pass/plan_parts.h"

/* The node itself, or what is stretched over rows to give it. */
static sx_id stretched(const sx_graph *graph, sx_id id) {
  while (sx_node_at(graph, id)->op == SX_OP_RESHAPE || sx_is_stretch(graph, id)) id = sx_node_at(graph, id)->inputs[0];
  return id;
}

typedef struct matching {
  const sx_plan *plan;
  const sx_attention *of;
  bool fails;
} matching;

/* Input k of a node of the group that is to be `op`. */
static sx_id input_of(matching *m, sx_id id, sx_op op, uint32_t k) {
  const sx_node *node = sx_node_at(m->plan->graph, id);
  if (node->op != op || k >= node->n_inputs) {
    m->fails = true;
    return id;
  }
  return stretched(m->plan->graph, node->inputs[k]);
}

/* The same of a node of two inputs that may be exchanged: the one that is `op`, or the other one. */
static sx_id part_of(matching *m, sx_id id, sx_op op, sx_op part, bool other) {
  sx_id first = input_of(m, id, op, 0);
  bool is_first = sx_node_at(m->plan->graph, first)->op == part;
  return is_first != other ? first : input_of(m, id, op, 1);
}

static void expect(matching *m, sx_id a, sx_id b) { m->fails = m->fails || a != b; }

/* What the mask shows; *hidden is what else there is, a number. */
static sx_id shown(matching *m, sx_id id, float *hidden) {
  const sx_node *node = sx_node_at(m->plan->graph, id);
  if (node->op != SX_OP_WHERE || node->inputs[0] != m->of->skip.mask) {
    m->fails = true;
    return id;
  }
  const sx_node *other = sx_node_at(m->plan->graph, stretched(m->plan->graph, node->inputs[2]));
  m->fails = m->fails || other->op != SX_OP_CONST || other->dtype != SX_F32;
  *hidden = (float)other->real;
  return node->inputs[1];
}

/* p = e / z; gives e. */
static sx_id match_weights(matching *m, sx_softmax *softmax) {
  sx_id e = input_of(m, softmax->weights, SX_OP_DIV, 0), z = input_of(m, softmax->weights, SX_OP_DIV, 1);
  sx_id d = input_of(m, e, SX_OP_EXP, 0), x = input_of(m, d, SX_OP_SUB, 0), most = input_of(m, d, SX_OP_SUB, 1);
  expect(m, input_of(m, z, SX_OP_SUM, 0), e);
  expect(m, input_of(m, most, SX_OP_REDUCEMAX, 0), x);
  softmax->scores = shown(m, x, &softmax->hidden);
  return e;
}

/* g of e. */
static void match_gradients(matching *m, sx_softmax *softmax, sx_id e) {
  float hidden = 1;
  sx_id scaled = shown(m, softmax->gradients, &hidden);
  expect(m, part_of(m, scaled, SX_OP_MUL, SX_OP_ADD, true), e);
  sx_id sum = part_of(m, scaled, SX_OP_MUL, SX_OP_ADD, false);
  sx_id direct = part_of(m, sum, SX_OP_ADD, SX_OP_DIV, false), total = part_of(m, sum, SX_OP_ADD, SX_OP_DIV, true);
  sx_id z = input_of(m, softmax->weights, SX_OP_DIV, 1), product = input_of(m, total, SX_OP_SUM, 0);
  sx_id share = part_of(m, product, SX_OP_MUL, SX_OP_NEG, true);
  softmax->slopes = input_of(m, direct, SX_OP_DIV, 0);
  expect(m, input_of(m, direct, SX_OP_DIV, 1), z);
  expect(m, input_of(m, part_of(m, product, SX_OP_MUL, SX_OP_NEG, false), SX_OP_NEG, 0), softmax->slopes);
  expect(m, input_of(m, share, SX_OP_DIV, 0), softmax->weights);
  expect(m, input_of(m, share, SX_OP_DIV, 1), z);
  m->fails = m->fails || sx_bits_f32(hidden) != 0;
}

/* The tiles that products read are the weights and, with a gradient, that. */
static bool find_tiles(const sx_plan *plan, const sx_attention *of, sx_softmax *softmax) {
  softmax->weights = softmax->gradients = SX_NO_NODE;
  for (uint32_t i = of->n_scores; i < of->n_products; i++) {
    sx_id tile = of->products[i].tile;
    sx_id *place = sx_node_at(plan->graph, tile)->op == SX_OP_DIV ? &softmax->weights : &softmax->gradients;
    if (*place != SX_NO_NODE && *place != tile) return false;
    *place = tile;
  }
  softmax->has_gradient = softmax->gradients != SX_NO_NODE;
  return softmax->weights != SX_NO_NODE;
}

static bool is_score(const sx_attention *of, sx_id id) {
  for (uint32_t i = 0; i < of->n_scores; i++)
    if (of->products[i].node == id) return true;
  return false;
}

/* All of the group is needed for a tile that a product reads, so what leads to those is all there is. */
bool sx_softmax_find(const sx_plan *plan, const sx_attention *attention, sx_softmax *softmax) {
  matching m = {.plan = plan, .of = attention};
  if (!attention->skip.allowed || attention->skip.mask == SX_NO_NODE) return false;
  if (attention->columns > SX_SOFTMAX_COLUMNS || !find_tiles(plan, attention, softmax)) return false;
  sx_id e = match_weights(&m, softmax);
  if (softmax->has_gradient && !m.fails) match_gradients(&m, softmax, e);
  if (m.fails || attention->n_scores != 1u + softmax->has_gradient) return false;
  return is_score(attention, softmax->scores) && (!softmax->has_gradient || is_score(attention, softmax->slopes));
}
