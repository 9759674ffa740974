/* Cloning: the graph that recompute.c has decided on.
 *
 *   group {a = mul h w, b = add a h}   ...   group {c = mul g a} with chain {a}
 * becomes
 *   a = mul h w   b = add a h   ...   a' = mul h w   c = mul g a' */
#include "recompute_parts.h"

typedef struct cloning {
  const sx_graph *from;
  const sx_chain *chains; /* per task */
  sx_graph *to;
  sx_id *map;         /* per node */
  sx_id **clones;     /* per task with a chain: what stands for its nodes there */
  uint32_t *n_cloned; /* per task: nodes of its chain that are cloned */
  SX_VEC(sx_id) again;
} cloning;

/* Operands of a node as a task reads them. */
static const sx_id *operands(const cloning *c, uint32_t task, const sx_node *node) {
  const sx_chain *chain = &c->chains[task];
  sx_id *inputs = SX_NEW_N(c->to->arena, sx_id, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    inputs[k] = c->map[node->inputs[k]];
    for (uint32_t i = 0; i < c->n_cloned[task]; i++)
      if (chain->nodes[i] == node->inputs[k]) inputs[k] = c->clones[task][i];
  }
  return inputs;
}

/* Clones what the task's chain has before the node, and the node after it. */
static void copy_member(cloning *c, uint32_t task, sx_id id) {
  const sx_chain *chain = &c->chains[task];
  if (!c->clones[task]) c->clones[task] = SX_NEW_N(c->to->arena, sx_id, chain->n);
  for (uint32_t *n = &c->n_cloned[task]; *n < chain->n && chain->nodes[*n] < id; (*n)++) {
    const sx_node *node = sx_node_at(c->from, chain->nodes[*n]);
    sx_id clone = sx_graph_copy(c->to, node, operands(c, task, node));
    c->clones[task][*n] = clone;
    if (sx_op_describe(node->op)->class == SX_CLASS_ELEMENT) SX_PUSH(c->to->arena, c->again, clone);
  }
  const sx_node *node = sx_node_at(c->from, id);
  c->map[id] = sx_graph_copy(c->to, node, operands(c, task, node));
}

/* Without what nothing reads any more; marks the clones that are left. */
static sx_recomputed without_dead(const cloning *c) {
  const sx_graph *from = c->to, *old = c->from;
  size_t n = from->nodes.n;
  bool *needed = SX_NEW_N(from->arena, bool, n), *again = SX_NEW_N(from->arena, bool, n);
  sx_id *map = SX_NEW_N(from->arena, sx_id, n);
  sx_graph *to = sx_graph_like(from, from->name);
  sx_recomputed done = {to, again, 0};
  for (size_t i = 0; i < old->outputs.n; i++) needed[c->map[old->outputs.items[i].node]] = true;
  for (size_t i = n; i-- > 0;)
    for (uint32_t k = 0; needed[i] && k < from->nodes.items[i].n_inputs; k++)
      needed[from->nodes.items[i].inputs[k]] = true;
  for (size_t i = 0, next = 0; i < n; i++) {
    bool is_clone = next < c->again.n && c->again.items[next] == i;
    next += is_clone;
    if (!needed[i]) continue;
    map[i] = sx_graph_copy_mapped(to, &from->nodes.items[i], map);
    again[map[i]] = is_clone;
    done.n_again += is_clone;
  }
  for (size_t i = 0; i < old->outputs.n; i++)
    sx_graph_output(to, old->outputs.items[i].name, map[c->map[old->outputs.items[i].node]]);
  return done;
}

sx_recomputed sx_recompute_clone(const sx_plan *plan, const uint32_t *task_of, const sx_chain *chains,
                                 sx_arena *arena) {
  const sx_graph *graph = plan->graph;
  cloning c = {.from = graph, .chains = chains, .to = sx_graph_like(graph, graph->name)};
  c.map = SX_NEW_N(arena, sx_id, graph->nodes.n);
  c.clones = SX_NEW_N(arena, sx_id *, plan->tasks.n);
  c.n_cloned = SX_NEW_N(arena, uint32_t, plan->tasks.n);
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    if (task_of[id] && chains[task_of[id] - 1].n)
      copy_member(&c, task_of[id] - 1, id);
    else
      c.map[id] = sx_graph_copy_mapped(c.to, sx_node_at(graph, id), c.map);
  }
  return without_dead(&c);
}
