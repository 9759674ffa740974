/* The cost model: a roofline a task, added up. It knows nothing of caches, occupancy and the kernels' quality: it is
 * believed only where one plan is well ahead of the others, which are measured else (docs/stacking.md).
 *
 * Source: Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", 2009. */
#include "cost.h"

#include "../ir/infer.h"

static const double flops[SX_N_OPS] = {
    [SX_OP_ADD] = 1,      [SX_OP_SUB] = 1,    [SX_OP_MUL] = 1,        [SX_OP_DIV] = 8,       [SX_OP_IDIV] = 40,
    [SX_OP_MOD] = 60,     [SX_OP_MAX] = 4,    [SX_OP_MIN] = 4,        [SX_OP_POW] = 240,     [SX_OP_ATAN2] = 150,
    [SX_OP_NEG] = 1,      [SX_OP_ABS] = 1,    [SX_OP_SIGN] = 3,       [SX_OP_SQRT] = 8,      [SX_OP_RSQRT] = 16,
    [SX_OP_EXP] = 70,     [SX_OP_EXP2] = 70,  [SX_OP_EXPM1] = 76,     [SX_OP_LOG] = 130,     [SX_OP_LOG2] = 140,
    [SX_OP_LOG1P] = 140,  [SX_OP_SIN] = 120,  [SX_OP_COS] = 120,      [SX_OP_TAN] = 160,     [SX_OP_TANH] = 120,
    [SX_OP_ERF] = 130,    [SX_OP_FLOOR] = 4,  [SX_OP_CEIL] = 4,       [SX_OP_ROUND] = 4,     [SX_OP_EQ] = 1,
    [SX_OP_NE] = 1,       [SX_OP_LT] = 1,     [SX_OP_LE] = 1,         [SX_OP_GT] = 1,        [SX_OP_GE] = 1,
    [SX_OP_AND] = 1,      [SX_OP_OR] = 1,     [SX_OP_NOT] = 1,        [SX_OP_WHERE] = 1,     [SX_OP_CAST] = 1,
    [SX_OP_FOLD] = 1,     [SX_OP_SUM] = 1,    [SX_OP_REDUCEMAX] = 4,  [SX_OP_REDUCEMIN] = 4, [SX_OP_ANY] = 1,
    [SX_OP_ALL] = 1,      [SX_OP_ARGMAX] = 4, [SX_OP_ARGMIN] = 4,     [SX_OP_SCATTER] = 1,   [SX_OP_PUT] = 1,
    [SX_OP_ONEHOT] = 1,   [SX_OP_CUMSUM] = 1, [SX_OP_SCANLINEAR] = 2, [SX_OP_ARGSORT] = 80,  [SX_OP_UNIFORM] = 50,
    [SX_OP_NORMAL] = 300,
};

double sx_op_flops(sx_op op) { return flops[op]; }

static double elements(const sx_node *node) { return (double)sx_node_elements(node); }
static double bytes_of(const sx_node *node) { return elements(node) * (double)sx_dtype_bytes(node->dtype); }

/* ---- operations ------------------------------------------------------------------------------------ */

/* Of each label, in an operand or both, its size. */
static double einsum_flops(const sx_graph *graph, const sx_node *node) {
  const sx_node *a = sx_node_at(graph, node->inputs[0]), *b = sx_node_at(graph, node->inputs[1]);
  sx_labels labels;
  double n = 2 * elements(a);
  if (!sx_labels_parse(node->text, &labels)) return 0;
  for (int i = 0; i < labels.n[1]; i++)
    if (sx_labels_find(&labels, 0, labels.parts[1][i]) < 0) n *= (double)b->dims[i];
  return n;
}

/* All three are sums over [n oh ow out] of kernels of [kh kw c]. */
static double convolution_flops(const sx_graph *graph, const sx_node *node) {
  const sx_node *y = node->op == SX_OP_CONV ? node : sx_node_at(graph, node->inputs[0]);
  const sx_node *w = node->op == SX_OP_CONVWEIGHT ? node : sx_node_at(graph, node->inputs[1]);
  return 2 * elements(y) * (double)w->dims[1] * (double)w->dims[2] * (double)w->dims[3];
}

/* Reductions and what adds into places work on each element of an operand. */
static const sx_node *worked_on(const sx_graph *graph, const sx_node *node) {
  bool adds = node->op == SX_OP_SCATTER || node->op == SX_OP_PUT;
  bool reduces = sx_op_describe(node->op)->class == SX_CLASS_REDUCE;
  return adds || reduces ? sx_node_at(graph, node->inputs[adds]) : node;
}

static void add_flops(sx_task_cost *cost, const sx_graph *graph, const sx_node *node) {
  if (sx_op_describe(node->op)->class != SX_CLASS_CONTRACT) {
    cost->element_flops += flops[node->op] * elements(worked_on(graph, node));
    return;
  }
  cost->dtype = sx_node_at(graph, node->inputs[0])->dtype;
  cost->product_flops += node->op == SX_OP_EINSUM ? einsum_flops(graph, node) : convolution_flops(graph, node);
}

/* ---- bytes ------------------------------------------------------------------------------------------ */

/* What a task reads of each buffer. */
typedef struct reading {
  uint32_t buffer;
  sx_id node; /* read of it, the last one */
  double bytes;
} reading;

typedef struct counting {
  const sx_plan *plan;
  const sx_task *task;
  sx_arena *arena;
  SX_VEC(reading) readings;
} counting;

/* Elements of memory that a view shows, each once. */
static double shown_bytes(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  double n = (double)sx_dtype_bytes(node->dtype);
  for (int i = 0; i < node->rank; i++) n *= plan->views[id].strides[i] || !node->dims[i] ? (double)node->dims[i] : 1;
  return n;
}

static bool is_written_here(const counting *c, uint32_t buffer) {
  if (c->task->kind != SX_TASK_ELEMENT) return false;
  for (uint32_t i = 0; i < c->task->n_nodes; i++)
    if (c->task->stored[i] && c->plan->views[c->task->nodes[i]].buffer == buffer) return true;
  return false;
}

/* most: more than that is not read, whatever the view shows. */
static void add_reading(counting *c, sx_id id, double most) {
  uint32_t buffer = c->plan->views[id].buffer;
  if (buffer == UINT32_MAX || is_written_here(c, buffer)) return;
  const sx_buffer *held = &c->plan->buffers.items[buffer];
  if (held->kind == SX_BUFFER_CONST || held->kind == SX_BUFFER_IOTA) return;
  double bytes = shown_bytes(c->plan, id);
  if (bytes > most) bytes = most;
  for (size_t i = 0; i < c->readings.n; i++) {
    reading *known = &c->readings.items[i];
    if (known->buffer != buffer) continue;
    if (known->node != id) known->bytes += bytes;
    known->node = id;
    if (known->bytes > (double)held->n_bytes) known->bytes = (double)held->n_bytes;
    return;
  }
  reading new = {buffer, id, bytes};
  SX_PUSH(c->arena, c->readings, new);
}

static void add_operands(counting *c, const sx_node *node) {
  bool looks_up = node->op == SX_OP_GATHER || node->op == SX_OP_TAKE;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    add_reading(c, node->inputs[k], looks_up && k == 0 ? bytes_of(node) : (double)INT64_MAX);
}

static void add_copy(counting *c, sx_task_cost *cost) {
  add_reading(c, c->task->nodes[1], (double)INT64_MAX);
  cost->written_bytes = bytes_of(sx_node_at(c->plan->graph, c->task->nodes[0]));
}

sx_task_cost sx_cost_of_task(const sx_plan *plan, size_t task, sx_arena *arena) {
  sx_task_cost cost = {.dtype = SX_F32};
  counting c = {.plan = plan, .task = &plan->tasks.items[task], .arena = arena};
  if (c.task->kind == SX_TASK_COPY) add_copy(&c, &cost);
  for (uint32_t i = 0; i < c.task->n_nodes && c.task->kind != SX_TASK_COPY; i++) {
    const sx_node *node = sx_node_at(plan->graph, c.task->nodes[i]);
    add_flops(&cost, plan->graph, node);
    add_operands(&c, node);
    if (!c.task->stored || c.task->stored[i]) cost.written_bytes += bytes_of(node);
  }
  for (size_t i = 0; i < c.readings.n; i++) cost.read_bytes += c.readings.items[i].bytes;
  return cost;
}

/* ---- time -------------------------------------------------------------------------------------------- */

double sx_cost_task_ns(const sx_task_cost *cost, const sx_cost_rates *rates) {
  double memory = (cost->read_bytes + cost->written_bytes) / rates->bytes_ns;
  double work = cost->element_flops / rates->element_ns;
  if (cost->product_flops > 0) work += cost->product_flops / rates->product_ns[cost->dtype];
  return rates->launch_ns + (memory > work ? memory : work);
}

double sx_cost_ns(const sx_plan *plan, const sx_cost_rates *rates, sx_arena *arena) {
  double sum = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) {
    sx_task_cost cost = sx_cost_of_task(plan, t, arena);
    sum += sx_cost_task_ns(&cost, rates);
  }
  return sum;
}

unsigned sx_cost_dtypes(const sx_plan *plan, sx_arena *arena) {
  unsigned dtypes = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) {
    sx_task_cost cost = sx_cost_of_task(plan, t, arena);
    if (cost.product_flops > 0) dtypes |= 1u << cost.dtype;
  }
  return dtypes;
}
