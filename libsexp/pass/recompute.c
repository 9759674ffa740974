/* Recomputation: elementwise values computed again by a group that would read them from memory.
 *
 * The plan of the graph as it is tells which values go through memory. Each element group, in the order of execution,
 * reads some that other groups have computed. They follow from one another and from others, not all of which are in
 * memory; the group may read any set of those from which the rest can be computed:
 *
 *   group {x = add h b, t = tanh x, p = add t 1, y = mul x p} stored {x p y}   ...   group {d = mul g p, e = mul d x}
 * becomes, since t is dear, p and x are not, and h is there anyway,
 *   group {x, t, p, y} stored {t y}   ...   group {x' = add h b, p' = add t 1, d = mul g p', e = mul d x'}
 *
 * The best set is the least cut of a network from leaves to what the group needs (cut.h): reading a value costs its
 * bytes, twice where it would not be written but for this, computing it its operations. Where the reader keeps alive
 * what would else be dead or never written, the room for that must be there (lives.h): by what is no longer kept, or
 * below the plan's peak. */
#include "recompute.h"

#include <math.h>

#include "cost.h"
#include "cut.h"
#include "lives.h"
#include "recompute_parts.h"

static const double never = HUGE_VAL;
/* Of one network: values that may be computed, and values in all. */
enum { CHAIN_MOST = 32, CHOICES_MOST = 128 };

/* A value as the group can come to it. */
typedef struct choice {
  sx_id seen; /* as it is read: an ELEMENT node, or whatever an ELEMENT node reads that is not computed again */
  sx_id root;
  double reading, computing; /* `never`: it cannot be */
  uint32_t phase;            /* of a node of the group that reads it */
  bool crosses;              /* others read it in other phases */
} choice;

typedef struct recomputing {
  const sx_graph *graph;
  const sx_plan *plan;
  double budget;
  bool tiles;    /* of the options */
  bool may_keep; /* values may live longer than they do, or be stored that are not */
  sx_lives *lives;
  sx_chain *chains;  /* per task */
  bool *overwritten; /* per buffer: from outside, and an output of its name may be written over it (in_place.c) */
  sx_cut cut;
  /* Of the group looked at. */
  uint32_t task;
  bool keeps;        /* what may_keep allows, in this trial */
  uint32_t *at_hand; /* per root: 1 + the last group that reads it in any case */
  choice choices[CHOICES_MOST];
  uint32_t n_choices, n_needed; /* the first ones are what the group reads and might compute */
  uint32_t *choice_of;          /* per node: its choice, if that says the same */
} recomputing;

static const sx_node *at(const recomputing *r, sx_id id) { return sx_node_at(r->graph, id); }

static const sx_buffer *buffer_of(const recomputing *r, sx_id id) {
  uint32_t buffer = r->plan->views[id].buffer;
  return buffer == UINT32_MAX ? NULL : &r->plan->buffers.items[buffer];
}

/* ---- what a value costs ------------------------------------------------------------------------------ */

static bool is_kind(const recomputing *r, sx_id root, sx_buffer_kind kind) {
  return buffer_of(r, root) && buffer_of(r, root)->kind == kind;
}

static bool is_overwritten(const recomputing *r, sx_id root) {
  return buffer_of(r, root) && r->overwritten[r->plan->views[root].buffer];
}

/* The group reads it already, or reading it costs nothing. */
static bool is_free(const recomputing *r, sx_id seen, sx_id root) {
  if (is_kind(r, root, SX_BUFFER_CONST) || is_kind(r, root, SX_BUFFER_IOTA)) return true;
  return r->at_hand[root] == r->task + 1 || sx_chain_has(&r->chains[r->task], seen);
}

/* As it lies in a buffer of its own, or each element of that several times. */
static bool is_seen_straight(const recomputing *r, sx_id seen, sx_id root) {
  const sx_node *node = at(r, root);
  const sx_buffer *buffer = buffer_of(r, root);
  if (buffer && (buffer->node != root || !sx_view_is_contiguous(&r->plan->views[root], node))) return false;
  return sx_node_elements(at(r, seen)) > sx_node_elements(node) || sx_unshaped(r->graph, seen) == root;
}

static bool can_read(const recomputing *r, sx_id seen, sx_id root) {
  const sx_value *value = &r->lives->values[root];
  if (is_kind(r, root, SX_BUFFER_EXTERNAL)) return true;
  if (value->stored && (value->last >= r->task || is_kind(r, root, SX_BUFFER_OUTPUT))) return true;
  return r->keeps && (value->stored || r->lives->task_of[root]) && is_seen_straight(r, seen, root);
}

/* Of a value that is written for this group alone writing it too. */
static double reading_cost(const recomputing *r, sx_id seen, sx_id root, bool needed) {
  if (is_overwritten(r, root)) return never; /* it would have to be kept beside */
  if (is_free(r, seen, root)) return 0;
  if (!can_read(r, seen, root)) return never;
  const sx_value *value = &r->lives->values[root];
  double whole = (double)sx_value_bytes(r->graph, root), shown = (double)sx_value_bytes(r->graph, seen);
  bool for_this = needed ? value->readers == 1 : !value->stored && !is_kind(r, root, SX_BUFFER_EXTERNAL);
  return r->budget * ((shown < whole ? shown : whole) + (for_this ? whole : 0));
}

static double computing_cost(const recomputing *r, sx_id id) {
  return sx_op_flops(at(r, id)->op) * (double)sx_node_elements(at(r, id));
}

/* What goes from one phase to another is written and read in the cache: half of what memory costs. */
static double crossing_cost(const recomputing *r, const choice *one) {
  return one->crosses ? r->budget * (double)sx_value_bytes(r->graph, one->seen) : 0;
}

static uint32_t add_choice(recomputing *r, sx_id seen, bool can_compute) {
  uint32_t known = r->choice_of[seen];
  if (known < r->n_choices && r->choices[known].seen == seen) return known;
  if (r->n_choices == CHOICES_MOST) return UINT32_MAX;
  sx_id root = sx_lives_root(r->plan, seen);
  choice one = {.seen = seen, .root = root, .reading = reading_cost(r, seen, root, false), .computing = never};
  if (can_compute && one.reading > 0) one.computing = computing_cost(r, seen);
  r->choice_of[seen] = r->n_choices;
  r->choices[r->n_choices] = one;
  return r->n_choices++;
}

/* ---- the network ------------------------------------------------------------------------------------- */

static uint32_t before_place(uint32_t number) { return SX_CUT_FIRST + 2 * number; }
static uint32_t after_place(uint32_t number) { return SX_CUT_FIRST + 2 * number + 1; }

/* Adds what the choice is computed from; where there is no place for that, it is not computed. */
static void add_operands(recomputing *r, uint32_t number, uint32_t *n_computable) {
  choice *one = &r->choices[number];
  const sx_node *node = at(r, one->seen);
  for (uint32_t k = 0; k < node->n_inputs && isfinite(one->computing); k++) {
    sx_id element = sx_unshaped(r->graph, node->inputs[k]);
    bool in_place = sx_is_elementwise(r->graph, element);
    bool can_compute = in_place && *n_computable < CHAIN_MOST;
    uint32_t before = r->n_choices, operand = add_choice(r, in_place ? element : node->inputs[k], can_compute);
    if (operand == UINT32_MAX) one->computing = never;
    if (r->n_choices > before && isfinite(r->choices[operand].computing)) (*n_computable)++;
  }
}

static void join_choice(recomputing *r, uint32_t number) {
  const choice *one = &r->choices[number];
  const sx_node *node = at(r, one->seen);
  sx_cut_join(&r->cut, before_place(number), after_place(number), one->reading);
  sx_cut_join(&r->cut, SX_CUT_SOURCE, before_place(number), one->computing);
  for (uint32_t k = 0; k < node->n_inputs && isfinite(one->computing); k++) {
    sx_id element = sx_unshaped(r->graph, node->inputs[k]);
    sx_id seen = sx_is_elementwise(r->graph, element) ? element : node->inputs[k];
    sx_cut_join(&r->cut, after_place(r->choice_of[seen]), before_place(number), never);
  }
}

/* Any n of what is needed, from the first on, may be computed. A value is where its place before is on the sink's side,
 * and is read where only the one after is. What is needed is in memory, so that there is a finite cut. */
static void solve(recomputing *r, uint32_t first, uint32_t n) {
  uint32_t n_computable = n;
  r->n_choices = r->n_needed;
  for (uint32_t i = 0; i < r->n_needed; i++) {
    choice *one = &r->choices[i];
    one->reading = reading_cost(r, one->seen, one->root, true);
    one->computing = never;
    if (i >= first && i - first < n && one->reading > 0)
      one->computing = computing_cost(r, one->seen) + crossing_cost(r, one);
  }
  for (uint32_t i = 0; i < r->n_choices; i++) add_operands(r, i, &n_computable);
  sx_cut_begin(&r->cut, SX_CUT_FIRST + 2 * r->n_choices);
  for (uint32_t i = 0; i < r->n_choices; i++) join_choice(r, i);
  for (uint32_t i = 0; i < r->n_needed; i++) sx_cut_join(&r->cut, after_place(i), SX_CUT_SINK, never);
  sx_cut_solve(&r->cut);
}

static bool is_computed(const recomputing *r, uint32_t number) {
  return r->cut.places.items[before_place(number)].after;
}

static bool is_read(const recomputing *r, uint32_t number) {
  return r->choices[number].reading > 0 && r->cut.places.items[after_place(number)].after && !is_computed(r, number);
}

/* ---- taking what the cut says ------------------------------------------------------------------------- */

static bool insert(sx_chain *chain, sx_id id) {
  uint32_t i = chain->n;
  if (sx_chain_has(chain, id)) return true;
  if (chain->n == SX_GROUP_NODES) return false;
  for (; i && chain->nodes[i - 1] > id; i--) chain->nodes[i] = chain->nodes[i - 1];
  chain->nodes[i] = id;
  chain->n++;
  return true;
}

/* RESHAPEs that lead from what is computed again to the node that reads it are repeated too. */
static bool insert_reshapes(const recomputing *r, sx_chain *chain, sx_id reader) {
  const sx_node *node = at(r, reader);
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    if (!sx_chain_has(chain, sx_unshaped(r->graph, node->inputs[k]))) continue;
    for (sx_id id = node->inputs[k]; at(r, id)->op == SX_OP_RESHAPE; id = at(r, id)->inputs[0])
      if (!insert(chain, id)) return false;
  }
  return true;
}

/* The group's chain with what the cut computes; false: there is nothing, or it does not fit. */
static bool make_chain(const recomputing *r, sx_chain *chain) {
  const sx_task *task = &r->plan->tasks.items[r->task];
  bool any = false;
  *chain = r->chains[r->task];
  for (uint32_t i = 0; i < r->n_choices; i++) {
    if (!is_computed(r, i)) continue;
    any = true;
    if (!insert(chain, r->choices[i].seen)) return false;
  }
  for (uint32_t i = 0; any && i < r->n_choices; i++)
    if (is_computed(r, i) && !insert_reshapes(r, chain, r->choices[i].seen)) return false;
  for (uint32_t i = 0; any && i < task->n_nodes; i++)
    if (!insert_reshapes(r, chain, task->nodes[i])) return false;
  return any && task->n_nodes + chain->n <= SX_GROUP_NODES;
}

/* Whether the choice, which is needed, will be read by nobody. */
static bool is_dropped(const recomputing *r, uint32_t number) {
  return is_computed(r, number) && r->lives->values[r->choices[number].root].readers == 1;
}

static bool has_heir(const recomputing *r, const sx_value *value) {
  if (value->heir == SX_NO_NODE || !r->lives->values[value->heir].stored) return false;
  uint32_t number = r->choice_of[value->heir];
  return number >= r->n_needed || r->choices[number].seen != value->heir || !is_dropped(r, number);
}

/* Gives back what is not kept any more and takes what is kept instead, or with sign -1 undoes that. Whether there is
 * room. */
static bool move_memory(const recomputing *r, int sign) {
  sx_lives *lives = r->lives;
  bool fits = true;
  for (uint32_t i = 0; i < r->n_choices; i++) {
    sx_id root = r->choices[i].root;
    const sx_value *value = &lives->values[root];
    const sx_buffer *buffer = buffer_of(r, root);
    int64_t n_bytes = sign * sx_aligned(sx_value_bytes(r->graph, root));
    if (buffer && buffer->kind != SX_BUFFER_TEMPORARY) continue;
    if (i < r->n_needed && is_computed(r, i) && value->last == r->task)
      fits = sx_lives_give(lives, is_dropped(r, i) ? value->first : value->before + 1, r->task, n_bytes);
    if (!is_read(r, i)) continue;
    if (!value->stored)
      fits = sx_lives_give(lives, value->first, r->task, -n_bytes);
    else if (value->last < r->task)
      fits = sx_lives_give(lives, value->last + !has_heir(r, value), r->task, -n_bytes);
  }
  return fits;
}

/* One reader less. */
static void forget(sx_value *value, uint32_t task) {
  value->readers--;
  value->stored = value->readers > 0;
  if (value->last == task) value->last = value->before;
}

/* One reader more. */
static void keep(sx_value *value, uint32_t task) {
  if (!value->stored) value->last = value->before = value->first;
  value->stored = true;
  value->readers++;
  if (value->last >= task) return;
  value->before = value->last;
  value->last = task;
  value->heir = SX_NO_NODE;
}

static void take(recomputing *r, const sx_chain *chain) {
  r->chains[r->task] = *chain;
  for (uint32_t i = 0; i < r->n_choices; i++) {
    sx_id root = r->choices[i].root;
    if (i < r->n_needed && is_computed(r, i)) forget(&r->lives->values[root], r->task);
    if (i < r->n_needed || !is_read(r, i)) continue;
    r->at_hand[root] = r->task + 1;
    if (!is_kind(r, root, SX_BUFFER_EXTERNAL)) keep(&r->lives->values[root], r->task);
  }
}

/* Tries to compute some of n needed values, from the first on; false: what pays has no room. */
static bool try(recomputing *r, uint32_t first, uint32_t n, bool keeps) {
  sx_chain chain;
  r->keeps = keeps && r->may_keep;
  solve(r, first, n);
  bool any = false;
  for (uint32_t i = first; i < first + n; i++) any = any || is_computed(r, i);
  if (!any) return true;
  if (!make_chain(r, &chain)) return false;
  if (move_memory(r, 1)) {
    take(r, &chain);
    return true;
  }
  move_memory(r, -1);
  return false;
}

/* ---- one group --------------------------------------------------------------------------------------- */

static bool is_candidate(const recomputing *r, sx_id reader, sx_id id) {
  const sx_buffer *buffer = buffer_of(r, id);
  if (!sx_is_elementwise(r->graph, reader) || !sx_is_elementwise(r->graph, id) || !buffer) return false;
  bool computed = buffer->kind == SX_BUFFER_TEMPORARY || buffer->kind == SX_BUFFER_OUTPUT;
  return computed && r->lives->task_of[id] != r->task + 1;
}

static void need(recomputing *r, sx_id id, uint32_t phase) {
  uint32_t before = r->n_choices, number = add_choice(r, id, false);
  if (number == UINT32_MAX) {
    r->at_hand[id] = r->task + 1;
    return;
  }
  choice *one = &r->choices[number];
  if (r->n_choices > before) one->phase = phase;
  one->crosses = one->crosses || one->phase != phase;
}

/* What the group reads otherwise than element by element it reads whatever is computed again. */
static void look_at_reads(recomputing *r, const sx_task *task) {
  uint32_t phases[SX_GROUP_NODES] = {0};
  if (r->tiles && task->row) sx_row_phases(r->graph, task, phases);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < task->n_nodes; i++) {
      const sx_node *node = at(r, task->nodes[i]);
      for (uint32_t k = 0; k < node->n_inputs; k++) {
        sx_id id = sx_unshaped(r->graph, node->inputs[k]), root = sx_lives_root(r->plan, node->inputs[k]);
        bool candidate = is_candidate(r, task->nodes[i], id);
        if (pass == 0 && !candidate) r->at_hand[root] = r->task + 1;
        if (pass == 1 && candidate && r->at_hand[root] != r->task + 1) need(r, id, phases[i]);
      }
    }
  }
}

static void look_at(recomputing *r, uint32_t t) {
  const sx_task *task = &r->plan->tasks.items[t];
  r->task = t;
  r->n_choices = 0;
  if (task->kind != SX_TASK_ELEMENT) return;
  look_at_reads(r, task);
  r->n_needed = r->n_choices;
  if (!r->n_needed || try(r, 0, r->n_needed, true) || try(r, 0, r->n_needed, false)) return;
  for (uint32_t i = 0; i < r->n_needed; i++)
    if (!try(r, i, 1, true)) try(r, i, 1, false);
}

static void find_overwritten(recomputing *r) {
  for (uint32_t b = 0; b < r->plan->buffers.n; b++) {
    const sx_buffer *buffer = &r->plan->buffers.items[b];
    r->overwritten[b] =
        buffer->kind == SX_BUFFER_EXTERNAL && sx_graph_find_output(r->graph, buffer->name) != SX_NO_NODE;
  }
}

static sx_recomputed recompute(const sx_plan *plan, const sx_plan_options *options, double budget, bool may_keep,
                               sx_arena *arena) {
  const sx_graph *graph = plan->graph;
  recomputing r = {.graph = graph, .plan = plan, .budget = budget, .may_keep = may_keep, .cut.arena = arena};
  r.tiles = options->tiles;
  r.lives = sx_lives_make(plan, arena);
  r.chains = SX_NEW_N(arena, sx_chain, plan->tasks.n);
  r.overwritten = SX_NEW_N(arena, bool, plan->buffers.n);
  r.at_hand = SX_NEW_N(arena, uint32_t, graph->nodes.n);
  r.choice_of = SX_NEW_N(arena, uint32_t, graph->nodes.n);
  find_overwritten(&r);
  bool any = false;
  for (uint32_t t = 0; t < plan->tasks.n; t++) {
    look_at(&r, t);
    any = any || r.chains[t].n > 0;
  }
  return any ? sx_recompute_clone(plan, r.lives->task_of, r.chains, arena) : (sx_recomputed){graph, NULL, 0};
}

sx_recomputed sx_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena) {
  if (!(budget > 0)) return (sx_recomputed){graph, NULL, 0};
  return recompute(sx_plan_make(graph, options, arena), options, budget, true, arena);
}

sx_plan *sx_plan_recompute(const sx_graph *graph, const sx_plan_options *options, double budget, sx_arena *arena) {
  sx_plan *plan = sx_plan_make(graph, options, arena);
  for (int keeps = 1; keeps >= 0 && budget > 0; keeps--) {
    sx_recomputed recomputed = recompute(plan, options, budget, keeps, arena);
    if (!recomputed.n_again) continue;
    sx_plan_options with = *options;
    with.again = recomputed.again;
    sx_plan *other = sx_plan_make(recomputed.graph, &with, arena);
    if (other->block_bytes <= plan->block_bytes) return other;
  }
  return plan;
}
