/* Gradient: replaces every GRAD node by ordinary nodes that compute it, in reverse mode, and then every
 * stop-gradient by its operand. Needs BUILT, gives EXPANDED.
 *
 * Nodes keep their order; in place of the first GRAD of a y stands the sweep that serves all of them.
 *
 *   %0 = param {path "w"} : f32 [3]
 *   %1 = mul %0 %0 : f32 [3]
 *   %2 = sum %1 {axes [0]} : f32 []
 *   %3 = grad %2 %0 : f32 [3]
 * becomes
 *   %3 = const {value 1} : f32 []
 *   %4 = const {value 1} : f32 [3]
 *   %5 = mul %4 %0 : f32 [3]
 *   %6 = mul %4 %0 : f32 [3]
 *   %7 = add %5 %6 : f32 [3]
 *
 * Order of sums, which decides bits: consumers of a node add to its adjoint from the last to the first in
 * the graph, a consumer's inputs from its first to its last. Only nodes between some x and y get an
 * adjoint; an x that y does not depend on gets zeros. Integers, bools and rules named zero stop the flow;
 * an operation without a rule that it reaches is E-GRAD-001. A sweep takes time linear in the nodes from
 * the first x to y.
 *
 * Source: Speelpenning, "Compiling fast partial derivatives of functions given by algorithms", 1980. */
#include "gradient.h"

#include "rewrite.h"

/* The expansion of one graph. `first_grad` and so on are indexed by nodes of the old one. */
typedef struct expansion {
  const sx_graph *from;
  sx_graph *to;
  sx_id *map;        /* from -> to */
  sx_id *next_grad;  /* of the same y, by GRAD node; SX_NO_NODE at the end */
  sx_id *first_grad; /* by y */
  bool *is_target;   /* is the x of some GRAD */
  sx_gradient_rule *const *rules;
  sx_diags *diags;
} expansion;

/* One reverse sweep over nodes low to y of the new graph; arrays are indexed from low. */
typedef struct sweep {
  sx_id low, y;
  bool *carries; /* depends on an x through floats, or is one */
  sx_id *adjoints;
} sweep;

static void find_grads(expansion *e) {
  for (size_t i = 0; i < e->from->nodes.n; i++) e->first_grad[i] = SX_NO_NODE;
  for (size_t i = e->from->nodes.n; i-- > 0;) {
    const sx_node *node = &e->from->nodes.items[i];
    if (node->op != SX_OP_GRAD) continue;
    e->next_grad[i] = e->first_grad[node->inputs[0]];
    e->first_grad[node->inputs[0]] = (sx_id)i;
    e->is_target[node->inputs[1]] = true;
  }
}

/* The x of a GRAD in the new graph, or SX_NO_NODE where it comes after y, which then does not depend on it. */
static sx_id target_of(const expansion *e, sx_id grad) {
  const sx_node *node = sx_node_at(e->from, grad);
  return node->inputs[1] <= node->inputs[0] ? e->map[node->inputs[1]] : SX_NO_NODE;
}

static void mark_carriers(const expansion *e, sweep *s, sx_id first_grad) {
  for (sx_id grad = first_grad; grad != SX_NO_NODE; grad = e->next_grad[grad]) {
    sx_id x = target_of(e, grad);
    if (x <= s->y) s->carries[x - s->low] = true;
  }
  for (sx_id id = s->low; id <= s->y; id++) {
    const sx_node *node = sx_node_at(e->to, id);
    if (!sx_dtype_is_float(node->dtype) || e->rules[node->op] == sx_gradient_zero) continue;
    for (uint32_t i = 0; i < node->n_inputs; i++)
      if (node->inputs[i] >= s->low && s->carries[node->inputs[i] - s->low]) s->carries[id - s->low] = true;
  }
}

static bool input_carries(const sweep *s, const sx_node *node, uint32_t i) {
  return node->inputs[i] >= s->low && s->carries[node->inputs[i] - s->low];
}

static void add_to_adjoint(expansion *e, sweep *s, sx_id id, sx_id part) {
  sx_id *adjoint = &s->adjoints[id - s->low];
  *adjoint = *adjoint == SX_NO_NODE ? part : sx_binary(e->to, SX_OP_ADD, *adjoint, part);
}

/* Hands the adjoint of a node on to its inputs. */
static void propagate(expansion *e, sweep *s, sx_id id) {
  const sx_node *node = sx_node_at(e->to, id);
  sx_adjoint adjoint = {e->to, node, id, s->adjoints[id - s->low]};
  e->to->span = node->span;
  e->to->path = node->path;
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    if (!input_carries(s, node, i) || e->rules[node->op] == sx_gradient_zero) continue;
    if (!e->rules[node->op]) {
      sx_error(e->diags, SX_E_GRAD_NO_RULE, node->span, "%s has no gradient", sx_op_describe(node->op)->name);
      return;
    }
    add_to_adjoint(e, s, node->inputs[i], e->rules[node->op](&adjoint, i));
  }
}

static sweep begin_sweep(const expansion *e, sx_id y, sx_id first_grad) {
  sweep s = {.low = y, .y = y};
  for (sx_id grad = first_grad; grad != SX_NO_NODE; grad = e->next_grad[grad]) {
    sx_id x = target_of(e, grad);
    if (x < s.low) s.low = x;
  }
  size_t n = (size_t)(y - s.low) + 1;
  s.carries = SX_NEW_N(e->to->arena, bool, n);
  s.adjoints = SX_NEW_N(e->to->arena, sx_id, n);
  for (size_t i = 0; i < n; i++) s.adjoints[i] = SX_NO_NODE;
  mark_carriers(e, &s, first_grad);
  return s;
}

/* The result of a GRAD. Where it is an x itself it becomes a node of its own: its adjoint is not to be
 * mixed with that of another node of the same value. */
static sx_id finish_grad(expansion *e, const sweep *s, sx_id grad) {
  sx_id x = target_of(e, grad);
  const sx_node *node = sx_node_at(e->from, grad);
  sx_id result = x <= s->y ? s->adjoints[x - s->low] : SX_NO_NODE;
  e->to->span = node->span;
  e->to->path = node->path;
  if (result == SX_NO_NODE) return sx_const(e->to, node->dtype, node->rank, node->dims, 0);
  if (!e->is_target[grad]) return result;
  return sx_graph_add(
      e->to, &(sx_spec){.op = SX_OP_RESHAPE, .inputs = &result, .n_inputs = 1, .rank = node->rank, .dims = node->dims});
}

/* Expands all GRADs of the y of this one, which is the first of them. */
static void expand_grads(expansion *e, sx_id first_grad) {
  sx_id old_y = sx_node_at(e->from, first_grad)->inputs[0], y = e->map[old_y];
  sweep s = begin_sweep(e, y, first_grad);
  e->to->span = sx_node_at(e->from, first_grad)->span;
  e->to->path = sx_node_at(e->from, first_grad)->path;
  if (s.carries[y - s.low]) s.adjoints[y - s.low] = sx_const_like(e->to, y, 1);
  for (sx_id id = y + 1; id-- > s.low;)
    if (s.adjoints[id - s.low] != SX_NO_NODE) propagate(e, &s, id);
  for (sx_id grad = first_grad; grad != SX_NO_NODE; grad = e->next_grad[grad]) e->map[grad] = finish_grad(e, &s, grad);
}

/* Gradients have passed: stop-gradients are their operands. */
static sx_graph *drop_stops(const sx_graph *graph) {
  sx_rewrite rewrite = sx_rewrite_begin(graph);
  for (size_t i = 0; i < graph->nodes.n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    bool stop = node->op == SX_OP_STOP;
    rewrite.map[i] = stop ? rewrite.map[node->inputs[0]] : sx_graph_copy_mapped(rewrite.to, node, rewrite.map);
  }
  return sx_rewrite_end(&rewrite);
}

sx_graph *sx_gradient_expand(const sx_graph *graph, sx_gradient_rule *const *rules, sx_diags *diags) {
  size_t n = graph->nodes.n;
  uint32_t n_errors = diags->n_errors;
  sx_rewrite rewrite = sx_rewrite_begin(graph);
  expansion e = {.from = graph,
                 .to = rewrite.to,
                 .map = rewrite.map,
                 .next_grad = SX_NEW_N(graph->arena, sx_id, n),
                 .first_grad = SX_NEW_N(graph->arena, sx_id, n),
                 .is_target = SX_NEW_N(graph->arena, bool, n),
                 .rules = rules,
                 .diags = diags};
  find_grads(&e);
  for (size_t i = 0; i < n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    if (node->op != SX_OP_GRAD)
      e.map[i] = sx_graph_copy_mapped(e.to, node, e.map);
    else if (e.first_grad[node->inputs[0]] == i)
      expand_grads(&e, (sx_id)i);
    if (diags->n_errors > n_errors) return NULL;
  }
  return drop_stops(sx_rewrite_end(&rewrite));
}

sx_graph *sx_pass_gradient(sx_graph *graph, sx_diags *diags) {
  return sx_gradient_expand(graph, sx_gradient_rules, diags);
}
