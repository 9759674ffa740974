/* Recomputation: elementwise values computed again by a group that would read them from memory.
 *
 * The plan of the graph as it is tells which values go through memory. Of each element group, in the order of
 * execution, what it reads that another group has computed is a candidate: with a budget of 9 and h, w in memory
 *
 *   group {a = mul h w, b = add a h} stored {a b}   ...   group {c = mul g a} reads {g a h w}
 * becomes
 *   group {a = mul h w, b = add a h} stored {b}     ...   group {a' = mul h w, c = mul g a'} reads {g h w}
 *
 * A chain from the candidate to what the reader has at hand is cloned: values it reads already, and leaves, parameters,
 * stored values that are alive at the reader anyway. So no value lives longer than before. First all candidates of a
 * group are tried together, which may share a chain and what it reads, then each by itself. */
#include "recompute.h"

#include <string.h>

#include "cost.h"
#include "plan_parts.h"

enum { CHAIN_MOST = 24, GROUP_MOST = SX_GROUP_NODES };

/* Nodes that a group computes again, in the order of the graph, RESHAPEs between them too. */
typedef struct node_list {
  sx_id nodes[GROUP_MOST];
  uint32_t n;
} node_list;

typedef struct recomputing {
  const sx_graph *graph;
  const sx_plan *plan;
  double budget;
  sx_arena *arena;
  uint32_t *task_of; /* per node: 1 + its element task; 0: it is in none */
  uint32_t *readers; /* per node: element tasks that read it from memory, and 2 more where anything else does */
  node_list *chains; /* per task */
  bool *overwritten; /* per buffer: from outside, and an output of its name may be written over it (in_place.c) */
  /* Of the group looked at. */
  uint32_t task;
  uint32_t *read_by; /* per buffer: 1 + the last group that reads it, as it is or for a chain */
} recomputing;

typedef struct attempt {
  node_list chain;
  uint32_t new_reads[GROUP_MOST]; /* buffers */
  uint32_t n_new_reads;
  double flops, saved; /* operations; bytes not read and not written, less those read in their place */
} attempt;

static const sx_node *at(const recomputing *r, sx_id id) { return sx_node_at(r->graph, id); }

static double bytes_of(const recomputing *r, sx_id id) {
  return (double)sx_node_elements(at(r, id)) * (double)sx_dtype_bytes(at(r, id)->dtype);
}

static bool is_element(const recomputing *r, sx_id id) {
  return sx_op_describe(at(r, id)->op)->class == SX_CLASS_ELEMENT;
}

/* The node whose elements these are, in the same places. */
static sx_id unshaped(const recomputing *r, sx_id id) {
  while (at(r, id)->op == SX_OP_RESHAPE) id = at(r, id)->inputs[0];
  return id;
}

static sx_id viewed(const recomputing *r, sx_id id) {
  while (sx_op_describe(at(r, id)->op)->class == SX_CLASS_MOVE && at(r, id)->n_inputs == 1) id = at(r, id)->inputs[0];
  return id;
}

static const sx_buffer *buffer_of(const recomputing *r, sx_id id) {
  uint32_t buffer = r->plan->views[id].buffer;
  return buffer == UINT32_MAX ? NULL : &r->plan->buffers.items[buffer];
}

/* ---- who reads what --------------------------------------------------------------------------------- */

static void number_tasks(recomputing *r) {
  for (uint32_t t = 0; t < r->plan->tasks.n; t++) {
    const sx_task *task = &r->plan->tasks.items[t];
    for (uint32_t i = 0; i < task->n_nodes && task->kind == SX_TASK_ELEMENT; i++) r->task_of[task->nodes[i]] = t + 1;
  }
}

/* Element groups that read an element value directly count one each, anything else two. */
static void count_readers(recomputing *r) {
  uint32_t *seen = SX_NEW_N(r->arena, uint32_t, r->graph->nodes.n);
  for (size_t i = 0; i < r->graph->outputs.n; i++) r->readers[unshaped(r, r->graph->outputs.items[i].node)] += 2;
  for (sx_id id = 0; id < r->graph->nodes.n; id++)
    for (uint32_t k = 0; at(r, id)->op == SX_OP_CONCAT && k < at(r, id)->n_inputs; k++)
      r->readers[viewed(r, at(r, id)->inputs[k])] += 2; /* with a task of its own or without */
  for (uint32_t t = 0; t < r->plan->tasks.n; t++) {
    const sx_task *task = &r->plan->tasks.items[t];
    bool group = task->kind == SX_TASK_ELEMENT;
    for (uint32_t i = 0; i < task->n_nodes; i++) {
      const sx_node *node = at(r, task->nodes[i]);
      for (uint32_t k = 0; k < node->n_inputs; k++) {
        sx_id from = unshaped(r, node->inputs[k]);
        sx_id root = viewed(r, from);
        if (r->task_of[root] == t + 1 || seen[root] == t + 1) continue;
        bool again = group && root == from && is_element(r, task->nodes[i]);
        if (again) seen[root] = t + 1;
        r->readers[root] += again ? 1 : 2;
      }
    }
  }
}

static void find_overwritten(recomputing *r) {
  for (uint32_t b = 0; b < r->plan->buffers.n; b++) {
    const sx_buffer *buffer = &r->plan->buffers.items[b];
    r->overwritten[b] =
        buffer->kind == SX_BUFFER_EXTERNAL && sx_graph_find_output(r->graph, buffer->name) != SX_NO_NODE;
  }
}

/* ---- one trial -------------------------------------------------------------------------------------- */

static bool is_in(const node_list *chain, sx_id id) {
  for (uint32_t i = 0; i < chain->n; i++)
    if (chain->nodes[i] == id) return true;
  return false;
}

static bool insert(node_list *chain, sx_id id) {
  uint32_t i = chain->n;
  if (chain->n == GROUP_MOST) return false;
  for (; i && chain->nodes[i - 1] > id; i--) chain->nodes[i] = chain->nodes[i - 1];
  chain->nodes[i] = id;
  chain->n++;
  return true;
}

static bool is_alive(const recomputing *r, const sx_buffer *buffer) {
  if (buffer->kind != SX_BUFFER_TEMPORARY && buffer->kind != SX_BUFFER_OUTPUT) return true;
  return buffer->first < r->task && (buffer->kind == SX_BUFFER_OUTPUT || buffer->last >= r->task);
}

/* The group reads it already, or reading it costs nothing. */
static bool is_at_hand(const recomputing *r, const attempt *trial, sx_id id) {
  const sx_buffer *buffer = buffer_of(r, id);
  if (!buffer) return false;
  if (buffer->kind == SX_BUFFER_CONST || buffer->kind == SX_BUFFER_IOTA) return true;
  uint32_t number = r->plan->views[id].buffer;
  if (r->overwritten[number]) return false;
  if (r->read_by[number] == r->task + 1) return true;
  for (uint32_t i = 0; i < trial->n_new_reads; i++)
    if (trial->new_reads[i] == number) return true;
  return false;
}

static bool read_anew(const recomputing *r, attempt *trial, sx_id id) {
  const sx_buffer *buffer = buffer_of(r, id);
  if (!buffer || !is_alive(r, buffer) || trial->n_new_reads == GROUP_MOST) return false;
  if (r->overwritten[r->plan->views[id].buffer]) return false; /* it would have to be kept beside */
  double bytes = bytes_of(r, id);
  trial->new_reads[trial->n_new_reads++] = r->plan->views[id].buffer;
  trial->saved -= bytes < (double)buffer->n_bytes ? bytes : (double)buffer->n_bytes;
  return true;
}

/* The operands of what the chain has are at hand, or get into the chain, or are read. `dropped` are values of buffers
 * that the group will not read any more. */
static bool reach(const recomputing *r, attempt *trial, const node_list *dropped, sx_id id) {
  const sx_node *node = at(r, id);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    sx_id input = node->inputs[k], element = unshaped(r, input);
    if (is_in(&trial->chain, input) || is_in(&r->chains[r->task], input)) continue;
    bool drops = is_in(dropped, element);
    if (!drops && is_at_hand(r, trial, input)) continue;
    bool cheap = is_element(r, element) && sx_node_elements(at(r, element)) == sx_node_elements(node);
    if (cheap && trial->chain.n < CHAIN_MOST) {
      if (!insert(&trial->chain, input)) return false;
    } else if (drops || !read_anew(r, trial, input)) {
      return false;
    }
  }
  return true;
}

/* Completes the chain downwards, from the last node to the first: what is added comes before. */
static bool complete(const recomputing *r, attempt *trial, const node_list *dropped) {
  for (uint32_t done = 0; done < trial->chain.n; done++) {
    sx_id id = trial->chain.nodes[trial->chain.n - 1 - done];
    if (!reach(r, trial, dropped, id)) return false;
    trial->flops += sx_op_flops(at(r, id)->op) * (double)sx_node_elements(at(r, id));
  }
  return true;
}

/* The chain of the candidates beside what the group computes again already; whether it pays. */
static bool try(const recomputing *r, attempt *trial, const node_list *candidates) {
  memset(trial, 0, sizeof *trial);
  for (uint32_t i = 0; i < candidates->n; i++) {
    sx_id id = candidates->nodes[i];
    double bytes = bytes_of(r, id);
    if (!insert(&trial->chain, id)) return false;
    trial->saved += r->readers[id] == 1 ? 2 * bytes : bytes;
  }
  return complete(r, trial, candidates) && trial->saved > 0 && trial->flops < r->budget * trial->saved;
}

/* ---- one group --------------------------------------------------------------------------------------- */

static bool is_candidate(const recomputing *r, sx_id reader, sx_id id) {
  const sx_buffer *buffer = buffer_of(r, id);
  if (!is_element(r, reader) || !is_element(r, id) || !buffer) return false;
  bool computed = buffer->kind == SX_BUFFER_TEMPORARY || buffer->kind == SX_BUFFER_OUTPUT;
  return computed && r->task_of[id] != r->task + 1 && sx_node_elements(at(r, id)) == sx_node_elements(at(r, reader));
}

static void look_at_reads(recomputing *r, const sx_task *task, node_list *candidates) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = at(r, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id id = unshaped(r, node->inputs[k]);
      const sx_buffer *buffer = buffer_of(r, node->inputs[k]);
      if (buffer) r->read_by[r->plan->views[node->inputs[k]].buffer] = r->task + 1;
      if (is_candidate(r, task->nodes[i], id) && !is_in(candidates, id)) insert(candidates, id);
    }
  }
}

/* Values that the group reads through something else than RESHAPE are read whatever is computed again. */
static void leave_viewed(const recomputing *r, const sx_task *task, node_list *candidates) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = at(r, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id id = unshaped(r, node->inputs[k]);
      if (is_candidate(r, task->nodes[i], id)) continue;
      uint32_t kept = 0;
      for (uint32_t c = 0; c < candidates->n; c++)
        if (r->plan->views[candidates->nodes[c]].buffer != r->plan->views[id].buffer)
          candidates->nodes[kept++] = candidates->nodes[c];
      candidates->n = kept;
    }
  }
}

static bool fits_group(const recomputing *r, const node_list *chain, const attempt *trial) {
  uint32_t n = r->plan->tasks.items[r->task].n_nodes + chain->n;
  for (uint32_t i = 0; i < trial->chain.n; i++) n += !is_in(chain, trial->chain.nodes[i]);
  return n <= GROUP_MOST;
}

static bool take(recomputing *r, const node_list *candidates) {
  attempt trial;
  node_list *chain = &r->chains[r->task];
  if (!try(r, &trial, candidates) || !fits_group(r, chain, &trial)) return false;
  for (uint32_t i = 0; i < trial.chain.n; i++)
    if (!is_in(chain, trial.chain.nodes[i])) insert(chain, trial.chain.nodes[i]);
  for (uint32_t i = 0; i < trial.n_new_reads; i++) r->read_by[trial.new_reads[i]] = r->task + 1;
  for (uint32_t i = 0; i < candidates->n; i++) {
    r->read_by[r->plan->views[candidates->nodes[i]].buffer] = 0;
    if (r->readers[candidates->nodes[i]] != 1) r->readers[candidates->nodes[i]]--;
  }
  return true;
}

/* RESHAPEs that lead from what is computed again to its readers are repeated too. */
static void take_reshapes(recomputing *r, const sx_task *task) {
  node_list *chain = &r->chains[r->task];
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = at(r, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      if (!is_in(chain, unshaped(r, node->inputs[k]))) continue;
      for (sx_id id = node->inputs[k]; at(r, id)->op == SX_OP_RESHAPE; id = at(r, id)->inputs[0])
        if (!is_in(chain, id)) insert(chain, id);
    }
  }
}

static void look_at(recomputing *r, uint32_t t) {
  const sx_task *task = &r->plan->tasks.items[t];
  node_list candidates = {.n = 0};
  r->task = t;
  if (task->kind != SX_TASK_ELEMENT) return;
  look_at_reads(r, task, &candidates);
  leave_viewed(r, task, &candidates);
  if (!candidates.n) return;
  if (!take(r, &candidates)) {
    for (uint32_t i = 0; i < candidates.n; i++) {
      node_list one = {.nodes = {candidates.nodes[i]}, .n = 1};
      take(r, &one);
    }
  }
  take_reshapes(r, task);
}

/* ---- the graph --------------------------------------------------------------------------------------- */

typedef struct cloning {
  const recomputing *r;
  sx_graph *to;
  sx_id *map;         /* per node */
  sx_id **clones;     /* per task with a chain: what stands for its nodes there */
  uint32_t *n_cloned; /* per task: nodes of its chain that are cloned */
  SX_VEC(sx_id) again;
} cloning;

/* Operands of a node as a task reads them. */
static const sx_id *operands(const cloning *c, uint32_t task, const sx_node *node) {
  const node_list *chain = &c->r->chains[task];
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
  const node_list *chain = &c->r->chains[task];
  if (!c->clones[task]) c->clones[task] = SX_NEW_N(c->to->arena, sx_id, chain->n);
  for (uint32_t *n = &c->n_cloned[task]; *n < chain->n && chain->nodes[*n] < id; (*n)++) {
    const sx_node *node = at(c->r, chain->nodes[*n]);
    sx_id clone = sx_graph_copy(c->to, node, operands(c, task, node));
    c->clones[task][*n] = clone;
    if (is_element(c->r, chain->nodes[*n])) SX_PUSH(c->to->arena, c->again, clone);
  }
  c->map[id] = sx_graph_copy(c->to, at(c->r, id), operands(c, task, at(c->r, id)));
}

/* Without what nothing reads any more; marks the clones that are left. */
static sx_recomputed without_dead(const cloning *c) {
  const sx_graph *from = c->to, *old = c->r->graph;
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

static sx_recomputed clone_chains(const recomputing *r) {
  size_t n_tasks = r->plan->tasks.n;
  cloning c = {.r = r, .to = sx_graph_like(r->graph, r->graph->name)};
  c.map = SX_NEW_N(r->arena, sx_id, r->graph->nodes.n);
  c.clones = SX_NEW_N(r->arena, sx_id *, n_tasks);
  c.n_cloned = SX_NEW_N(r->arena, uint32_t, n_tasks);
  for (sx_id id = 0; id < r->graph->nodes.n; id++) {
    if (r->task_of[id] && r->chains[r->task_of[id] - 1].n)
      copy_member(&c, r->task_of[id] - 1, id);
    else
      c.map[id] = sx_graph_copy_mapped(c.to, at(r, id), c.map);
  }
  return without_dead(&c);
}

sx_recomputed sx_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena) {
  sx_recomputed as_it_is = {graph, NULL, 0};
  if (!(budget > 0)) return as_it_is;
  recomputing r = {.graph = graph, .budget = budget, .arena = arena};
  r.plan = sx_plan_make(graph, options, arena);
  r.task_of = SX_NEW_N(arena, uint32_t, graph->nodes.n);
  r.readers = SX_NEW_N(arena, uint32_t, graph->nodes.n);
  r.chains = SX_NEW_N(arena, node_list, r.plan->tasks.n);
  r.read_by = SX_NEW_N(arena, uint32_t, r.plan->buffers.n);
  r.overwritten = SX_NEW_N(arena, bool, r.plan->buffers.n);
  number_tasks(&r);
  find_overwritten(&r);
  count_readers(&r);
  bool any = false;
  for (uint32_t t = 0; t < r.plan->tasks.n; t++) {
    look_at(&r, t);
    any |= r.chains[t].n > 0;
  }
  return any ? clone_chains(&r) : as_it_is;
}

sx_plan *sx_plan_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena) {
  sx_plan *plan = sx_plan_make(graph, options, arena);
  sx_recomputed recomputed = sx_recompute(graph, options, budget, arena);
  if (!recomputed.n_again) return plan;
  sx_plan_options with = *options;
  with.again = recomputed.again;
  sx_plan *other = sx_plan_make(recomputed.graph, &with, arena);
  return other->block_bytes <= plan->block_bytes ? other : plan;
}
