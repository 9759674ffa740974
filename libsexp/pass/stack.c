/* Stacking: what d microbatches want of each node, and the graph that gives it. Needs and gives READY.
 *
 * A node varies where it depends on a field. One walk from the last node to the first marks what is wanted: outputs
 * want sums; a sum is passed on to the operands where the operation is linear, and else wants the values [d ...] of all
 * microbatches, which want those of the operands. One walk from the first to the last builds what is wanted. So what no
 * microbatch changes is computed once, and a weight's gradient is one product that contracts over the microbatches too:
 *
 *   %0 = input {name "field/x"} : f32 [8 3]
 *   %1 = param {path "w"} : f32 [3 2]
 *   %2 = einsum %0 %1 {labels "ik,kj->ij"} : f32 [8 2]
 *   %3 = einsum %0 %2 {labels "ik,ij->kj"} : f32 [3 2]
 *   output "grad/w" %3
 * becomes, of degree 4,
 *   %0 = input {name "field/x"} : f32 [4 8 3]
 *   %1 = param {path "w"} : f32 [3 2]
 *   %2 = einsum %0 %1 {labels "zik,kj->zij"} : f32 [4 8 2]
 *   %3 = einsum %0 %2 {labels "zik,zij->kj"} : f32 [3 2]
 *   output "grad/w" %3
 *
 * Source: the axis is that of vmap (Frostig, Johnson and Leary, "Compiling machine learning programs via high-level
 * tracing", 2018), with sums over it pushed towards products. */
#include <string.h>

#include "../base/bug.h"
#include "../ir/infer.h"
#include "stack_parts.h"

static bool begins(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static bool is_summed(const char *output) {
  return !strcmp(output, "loss") || begins(output, "metric/") || begins(output, "grad/");
}

static const char *const moving_counters[] = {"counter/microbatch", "counter/records", "counter/stage-records"};

/* Why an input differs between microbatches of a pass though it is no field, or NULL. */
static const char *refused_counter(sx_arena *arena, const sx_node *node) {
  for (size_t i = 0; node->op == SX_OP_INPUT && i < sizeof moving_counters / sizeof *moving_counters; i++)
    if (!strcmp(node->text, moving_counters[i]))
      return sx_format(arena, "it reads :%s, which counts microbatches", node->text + strlen("counter/"));
  return NULL;
}

static void refuse(sx_stack_refusal *why, const sx_graph *graph, sx_id id, const char *reason) {
  const sx_node *node = sx_node_at(graph, id);
  bool placed = node->path && node->path[0];
  *why = (sx_stack_refusal){id, node->span, NULL};
  why->text = sx_format(graph->arena, "%s%s%s: %s", sx_op_describe(node->op)->name, placed ? " in " : "",
                        placed ? node->path : "", reason);
}

/* ---- what is wanted ------------------------------------------------------------------------------ */

static void find_varying(sx_stacking *s) {
  for (sx_id id = 0; id < s->from->nodes.n; id++) {
    const sx_node *node = sx_node_at(s->from, id);
    s->varies[id] = node->op == SX_OP_INPUT && begins(node->text, "field/");
    for (uint32_t k = 0; k < node->n_inputs; k++) s->varies[id] |= s->varies[node->inputs[k]];
  }
}

/* Why there is no value [d ...] of the node, or NULL. */
static const char *does_not_fit(const sx_stacking *s, const sx_node *node) {
  int64_t dims[SX_RANK_MAX + 1] = {s->degree}, n;
  if (node->rank == SX_RANK_MAX) return "its axes leave no room for one more";
  if (node->rank) memcpy(dims + 1, node->dims, (size_t)node->rank * sizeof *dims);
  return sx_shape_elements(dims, node->rank + 1, &n) ? NULL : "so many of its elements are not possible";
}

static void want_operands(sx_stacking *s, const sx_node *node, bool varies) {
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    sx_id input = node->inputs[k];
    if (!varies || sx_stack_rows[node->op].takes_same)
      sx_want(s, input, SX_WANT_VALUE);
    else
      sx_want_stacked(s, input);
  }
}

/* The reason against what is wanted of the node, or NULL. */
static const char *find_reason(sx_stacking *s, sx_id id) {
  const sx_node *node = sx_node_at(s->from, id);
  uint8_t wanted = s->wanted[id];
  const char *counter = refused_counter(s->from->arena, node);
  if (counter) return counter;
  bool is_stacked = s->varies[id] ? wanted & SX_WANT_VALUE : wanted & SX_WANT_COPY;
  const char *reason = is_stacked ? does_not_fit(s, node) : NULL;
  if (reason || !is_stacked || !s->varies[id] || !sx_stack_rows[node->op].refuses) return reason;
  return sx_stack_rows[node->op].refuses(s, node);
}

static void mark(sx_stacking *s, sx_id id) {
  const sx_node *node = sx_node_at(s->from, id);
  const sx_stack_sum *sum = sx_stack_rows[node->op].sum;
  if (!s->varies[id]) {
    sx_want(s, id, SX_WANT_VALUE);
    want_operands(s, node, false);
  } else if (!(s->wanted[id] & SX_WANT_VALUE) && sum && sum->demand(s, node)) {
    sx_want(s, id, SX_WANT_RULE);
  } else {
    sx_want(s, id, SX_WANT_VALUE);
    want_operands(s, node, true);
  }
  const char *reason = find_reason(s, id);
  if (!reason) return;
  refuse(s->why, s->from, id, reason);
  s->refused = true;
}

static bool want_outputs(sx_stacking *s) {
  for (size_t i = 0; i < s->from->outputs.n; i++) {
    const sx_output *output = &s->from->outputs.items[i];
    if (!is_summed(output->name)) continue;
    sx_dtype dtype = sx_node_at(s->from, output->node)->dtype;
    sx_want(s, output->node, SX_WANT_SUM);
    if (dtype != SX_BOOL && dtype != SX_U8) continue;
    refuse(s->why, s->from, output->node,
           sx_format(s->from->arena, "output %s is %s, which is not summed", output->name, sx_dtype_name(dtype)));
    return false;
  }
  return true;
}

/* ---- building ------------------------------------------------------------------------------------- */

static sx_id widened(sx_stacking *s, sx_id value) {
  return sx_dtype_is_float(sx_node_at(s->to, value)->dtype) ? sx_cast(s->to, value, SX_F32) : value;
}

static sx_id sum_of_values(sx_stacking *s, sx_id value) {
  return sx_reduce(s->to, SX_OP_SUM, widened(s, value), (int64_t[]){0}, 1, false);
}

static sx_id times_degree(sx_stacking *s, sx_id value) {
  sx_id wide = widened(s, value);
  return sx_binary(s->to, SX_OP_MUL, wide, sx_const_like(s->to, wide, (double)s->degree));
}

static sx_id copies_of(sx_stacking *s, sx_id value) {
  const sx_node *node = sx_node_at(s->to, value);
  int64_t dims[SX_RANK_MAX] = {s->degree};
  if (node->rank) memcpy(dims + 1, node->dims, (size_t)node->rank * sizeof *dims);
  return sx_broadcast(s->to, value, node->rank + 1, dims);
}

static sx_id value_of(sx_stacking *s, const sx_node *node) {
  const sx_stack_row *row = &sx_stack_rows[node->op];
  if (row->value) return row->value(s, node);
  sx_id *inputs = SX_NEW_N(s->to->arena, sx_id, node->n_inputs);
  for (uint32_t k = 0; k < node->n_inputs; k++) inputs[k] = sx_stacked(s, node->inputs[k]);
  return sx_stack_shifted(s, node, inputs);
}

static void build(sx_stacking *s, sx_id id) {
  const sx_node *node = sx_node_at(s->from, id);
  uint8_t wanted = s->wanted[id];
  s->to->span = node->span;
  s->to->path = node->path;
  if (!s->varies[id]) {
    s->values[id] = sx_graph_copy_mapped(s->to, node, s->values);
    if (wanted & SX_WANT_COPY) s->copies[id] = copies_of(s, s->values[id]);
    if (wanted & SX_WANT_SUM) s->sums[id] = times_degree(s, s->values[id]);
    return;
  }
  if (wanted & SX_WANT_VALUE) s->values[id] = value_of(s, node);
  if (wanted & SX_WANT_RULE)
    s->sums[id] = sx_stack_rows[node->op].sum->build(s, node);
  else if (wanted & SX_WANT_SUM)
    s->sums[id] = sum_of_values(s, s->values[id]);
}

/* The outputs, and only what they need. */
static sx_graph *finish(sx_stacking *s) {
  SX_VEC(sx_output) outputs = {0};
  for (size_t i = 0; i < s->from->outputs.n; i++) {
    const sx_output *output = &s->from->outputs.items[i];
    sx_output summed = {output->name, s->sums[output->node]};
    if (is_summed(output->name)) SX_PUSH(s->to->arena, outputs, summed);
  }
  sx_graph *graph = sx_graph_extract(s->to, s->from->name, outputs.items, outputs.n);
  graph->span = s->from->span;
  graph->path = s->from->path;
  return graph;
}

bool sx_stack(sx_graph **out, const sx_graph *loss, int64_t degree, sx_stack_refusal *why) {
  sx_arena *arena = loss->arena;
  size_t n = loss->nodes.n;
  SX_ASSERT(degree >= 2 && degree <= SX_STACK_MOST);
  sx_stacking s = {.from = loss, .to = sx_graph_like(loss, loss->name), .degree = degree, .why = why};
  s.varies = SX_NEW_N(arena, bool, n);
  s.wanted = SX_NEW_N(arena, uint8_t, n);
  s.values = SX_NEW_N(arena, sx_id, n);
  s.copies = SX_NEW_N(arena, sx_id, n);
  s.sums = SX_NEW_N(arena, sx_id, n);
  find_varying(&s);
  if (!want_outputs(&s)) return false;
  for (sx_id id = (sx_id)n; id-- > 0;)
    if (s.wanted[id]) mark(&s, id);
  if (s.refused) return false;
  for (sx_id id = 0; id < n; id++)
    if (s.wanted[id]) build(&s, id);
  *out = finish(&s);
  return true;
}

/* ---- generators, candidates ----------------------------------------------------------------------- */

bool sx_stack_allows_generator(const sx_graph *graph, sx_stack_refusal *why) {
  for (sx_id id = 0; graph && id < graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(graph, id);
    const char *reason = refused_counter(graph->arena, node);
    if (!reason && node->dtype == SX_BF16) reason = "a generator with bf16 values is not stacked";
    if (!reason) continue;
    refuse(why, graph, id, reason);
    return false;
  }
  return true;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int sx_stack_candidates(int64_t degrees[SX_STACK_CANDIDATES], const int64_t *microbatches, size_t n_stages) {
  int64_t common = 0;
  int n = 0;
  for (size_t i = 0; i < n_stages; i++) common = common_divisor(microbatches[i], common);
  if (common < 1) common = 1;
  for (int64_t power = 1; power <= SX_STACK_MOST && common % power == 0; power *= 2) degrees[n++] = power;
  if (degrees[n - 1] < common && common <= SX_STACK_MOST) degrees[n++] = common;
  return n;
}
