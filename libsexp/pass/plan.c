/* The plan: parts in order, and its text. */
#include "plan.h"

#include "../base/hash.h"
#include "plan_parts.h"

/* Tasks in the order of their first nodes, and what becomes of nodes on the way. */
typedef struct making {
  sx_planning *p;
  sx_plan *plan;
  uint32_t *task_of;   /* per node: its task; a group's at the node that stands for it */
  uint32_t *buffer_of; /* per node: its buffer, where it is a root */
  uint32_t *writer;    /* per buffer: 1 + the task that writes it, or the last piece of it; 0: from outside or known */
  uint32_t *external;  /* open addressing: buffer of a name */
  size_t n_slots;
} making;

static const char *external_prefix(sx_op op) {
  return op == SX_OP_PARAM ? "param/" : op == SX_OP_STATE ? "state/" : "";
}

static uint32_t add_buffer(making *m, sx_buffer buffer) {
  SX_PUSH(m->p->arena, m->plan->buffers, buffer);
  return (uint32_t)m->plan->buffers.n - 1;
}

/* One buffer a name: nodes of one operation and text are one value. */
static uint32_t external_buffer(making *m, sx_id id) {
  const sx_node *node = sx_node_at(m->p->graph, id);
  uint64_t key[2] = {(uint64_t)node->op, (uint64_t)(uintptr_t)node->text};
  size_t at = (size_t)sx_hash_bytes(key, sizeof key) & (m->n_slots - 1);
  for (; m->external[at]; at = (at + 1) & (m->n_slots - 1)) {
    const sx_node *other = sx_node_at(m->p->graph, m->plan->buffers.items[m->external[at] - 1].node);
    if (other->op == node->op && other->text == node->text) return m->external[at] - 1;
  }
  sx_buffer buffer = {
      .kind = SX_BUFFER_EXTERNAL, .dtype = node->dtype, .node = id, .n_bytes = sx_value_bytes(m->p->graph, id)};
  buffer.name = sx_format(m->p->arena, "%s%s", external_prefix(node->op), node->text);
  m->external[at] = add_buffer(m, buffer) + 1;
  return m->external[at] - 1;
}

static uint32_t iota_buffer(making *m, sx_id id, uint32_t *iota) {
  const sx_node *node = sx_node_at(m->p->graph, id);
  int64_t n_bytes = node->dims[node->ints[0]] * (int64_t)sx_dtype_bytes(SX_I32);
  if (*iota == UINT32_MAX) *iota = add_buffer(m, (sx_buffer){.kind = SX_BUFFER_IOTA, .dtype = SX_I32, .node = id});
  sx_buffer *buffer = &m->plan->buffers.items[*iota];
  if (buffer->n_bytes < n_bytes) buffer->n_bytes = n_bytes;
  return *iota;
}

static uint32_t leaf_buffer(making *m, sx_id id, uint32_t *iota) {
  const sx_node *node = sx_node_at(m->p->graph, id);
  if (node->op == SX_OP_IOTA) return iota_buffer(m, id, iota);
  if (node->op != SX_OP_CONST) return external_buffer(m, id);
  sx_buffer buffer = {.kind = SX_BUFFER_CONST, .dtype = node->dtype, .value = node->real, .node = id};
  buffer.n_bytes = (int64_t)sx_dtype_bytes(node->dtype);
  return add_buffer(m, buffer);
}

/* A piece of a concatenation is in its buffer, which the first piece brings. */
static uint32_t computed_buffer(making *m, sx_id id) {
  if (m->p->joins[id] != SX_NO_NODE) return m->buffer_of[m->p->joins[id]] = computed_buffer(m, m->p->joins[id]);
  if (m->buffer_of[id] != UINT32_MAX) return m->buffer_of[id];
  const sx_node *node = sx_node_at(m->p->graph, id);
  sx_buffer buffer = {
      .kind = SX_BUFFER_TEMPORARY, .dtype = node->dtype, .node = id, .n_bytes = sx_value_bytes(m->p->graph, id)};
  return add_buffer(m, buffer);
}

static void make_buffers(making *m) {
  size_t n = m->p->graph->nodes.n;
  uint32_t iota = UINT32_MAX;
  for (m->n_slots = 16; m->n_slots < 2 * n;) m->n_slots *= 2;
  for (sx_id id = 0; id < n; id++) m->buffer_of[id] = UINT32_MAX;
  m->external = SX_NEW_N(m->p->arena, uint32_t, m->n_slots);
  for (sx_id id = 0; id < n; id++) {
    sx_role role = (sx_role)m->p->roles[id];
    uint32_t buffer = UINT32_MAX;
    if (role == SX_ROLE_LEAF)
      buffer = leaf_buffer(m, id, &iota);
    else if (role == SX_ROLE_VIEW)
      buffer = m->buffer_of[m->p->roots[id]];
    else if ((role != SX_ROLE_ELEMENT && role != SX_ROLE_ATTENTION) || m->p->stored[id])
      buffer = computed_buffer(m, id);
    m->buffer_of[id] = m->plan->views[id].buffer = buffer;
  }
}

static uint32_t add_task(making *m, sx_task task, uint32_t n_nodes) {
  task.nodes = SX_NEW_N(m->p->arena, sx_id, n_nodes);
  if (task.kind == SX_TASK_ELEMENT) task.stored = SX_NEW_N(m->p->arena, bool, n_nodes);
  SX_PUSH(m->p->arena, m->plan->tasks, task);
  return (uint32_t)m->plan->tasks.n - 1;
}

/* Tasks of the nodes; that of a group comes with its first node. */
static void make_tasks(making *m) {
  const sx_graph *graph = m->p->graph;
  uint32_t *sizes = SX_NEW_N(m->p->arena, uint32_t, graph->nodes.n);
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    m->task_of[id] = UINT32_MAX;
    if (m->p->roles[id] == SX_ROLE_ELEMENT) sizes[m->p->groups[id]]++;
  }
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    sx_role role = (sx_role)m->p->roles[id];
    if (role == SX_ROLE_ELEMENT) {
      uint32_t group = m->p->groups[id];
      if (m->task_of[group] == UINT32_MAX)
        m->task_of[group] = add_task(m, (sx_task){.kind = SX_TASK_ELEMENT, .row = m->p->rows[group]}, sizes[group]);
      sx_task *task = &m->plan->tasks.items[m->task_of[group]];
      task->stored[task->n_nodes] = m->p->stored[id];
      task->nodes[task->n_nodes++] = id;
    } else if (role == SX_ROLE_ATTENTION && m->p->region_of[id] != UINT32_MAX) {
      const sx_region *region = &m->p->regions.items[m->p->region_of[id]];
      if (id == region->first) SX_PUSH(m->p->arena, m->plan->tasks, region->task);
    } else if (role == SX_ROLE_NODE || role == SX_ROLE_COPY) {
      bool copy = role == SX_ROLE_COPY;
      uint32_t n_nodes = copy ? 2 : 1;
      sx_task task = {.kind = copy ? SX_TASK_COPY : SX_TASK_NODE, .n_nodes = n_nodes, .target = m->buffer_of[id]};
      uint32_t number = add_task(m, task, n_nodes);
      m->plan->tasks.items[number].nodes[0] = id;
      if (copy) m->plan->tasks.items[number].nodes[1] = sx_node_at(graph, id)->inputs[0];
    }
  }
  for (size_t t = 0; t < m->plan->tasks.n; t++)
    if (m->plan->tasks.items[t].row) sx_plan_rows(graph, &m->plan->tasks.items[t], m->p->arena);
}

/* A computed buffer that the output shows whole and in order becomes the output; else it is copied. */
static void make_outputs(making *m) {
  const sx_graph *graph = m->p->graph;
  for (size_t i = 0; i < graph->outputs.n; i++) {
    const sx_output *output = &graph->outputs.items[i];
    const sx_node *node = sx_node_at(graph, output->node);
    sx_buffer *buffer = &m->plan->buffers.items[m->plan->views[output->node].buffer];
    if (buffer->kind == SX_BUFFER_TEMPORARY && sx_view_is_whole(m->plan, output->node)) {
      buffer->kind = SX_BUFFER_OUTPUT;
      buffer->name = output->name;
      continue;
    }
    sx_buffer copy = {.kind = SX_BUFFER_OUTPUT,
                      .dtype = node->dtype,
                      .n_bytes = sx_value_bytes(graph, output->node),
                      .name = output->name,
                      .node = output->node};
    sx_task task = {.kind = SX_TASK_COPY, .n_nodes = 2, .target = add_buffer(m, copy)};
    uint32_t number = add_task(m, task, 2);
    m->plan->tasks.items[number].nodes[0] = m->plan->tasks.items[number].nodes[1] = output->node;
  }
}

static void make_writes(making *m) {
  sx_lists *writes = &m->p->writes;
  size_t n = m->plan->tasks.n;
  writes->starts = SX_NEW_N(m->p->arena, uint32_t, n + 1);
  m->writer = SX_NEW_N(m->p->arena, uint32_t, m->plan->buffers.n);
  for (uint32_t t = 0; t < n; t++) {
    const sx_task *task = &m->plan->tasks.items[t];
    for (uint32_t i = 0; i < task->n_nodes; i++) {
      if (task->stored ? !task->stored[i] : i > 0) continue;
      uint32_t buffer = task->stored ? m->buffer_of[task->nodes[i]] : task->target;
      if (m->writer[buffer] == t + 1) continue;
      m->writer[buffer] = t + 1;
      SX_PUSH(m->p->arena, writes->items, buffer);
    }
    writes->starts[t + 1] = (uint32_t)writes->items.n;
  }
}

static void add_read(making *m, uint32_t task, sx_id input, uint32_t *seen) {
  uint32_t buffer = m->plan->views[input].buffer;
  if (buffer == UINT32_MAX || !m->writer[buffer] || seen[buffer] == task + 1) return;
  seen[buffer] = task + 1;
  SX_PUSH(m->p->arena, m->p->reads.items, buffer);
}

/* What a task writes itself it does not wait for. */
static void make_reads(making *m) {
  sx_lists *reads = &m->p->reads, *writes = &m->p->writes;
  size_t n = m->plan->tasks.n;
  uint32_t *seen = SX_NEW_N(m->p->arena, uint32_t, m->plan->buffers.n);
  reads->starts = SX_NEW_N(m->p->arena, uint32_t, n + 1);
  for (uint32_t t = 0; t < n; t++) {
    const sx_task *task = &m->plan->tasks.items[t];
    for (uint32_t i = writes->starts[t]; i < writes->starts[t + 1]; i++) seen[writes->items.items[i]] = t + 1;
    if (task->kind == SX_TASK_COPY) add_read(m, t, task->nodes[1], seen);
    for (uint32_t i = 0; i < task->n_nodes && task->kind != SX_TASK_COPY; i++) {
      const sx_node *node = sx_node_at(m->p->graph, task->nodes[i]);
      for (uint32_t k = 0; k < node->n_inputs; k++) add_read(m, t, node->inputs[k], seen);
    }
    reads->starts[t + 1] = (uint32_t)reads->items.n;
  }
}

static void order_tasks(making *m) {
  size_t n = m->plan->tasks.n;
  sx_task *ordered = SX_NEW_N(m->p->arena, sx_task, n);
  for (size_t at = 0; at < n; at++) ordered[at] = m->plan->tasks.items[m->p->order[at]];
  m->plan->tasks.items = ordered;
  m->plan->tasks.room = n;
}

static sx_plan *make_plan(const sx_graph *graph, const sx_plan_options *options, sx_arena *arena) {
  size_t n = graph->nodes.n;
  sx_plan *plan = SX_NEW(arena, sx_plan);
  sx_planning planning = {.plan = plan, .graph = graph, .options = options, .arena = arena};
  making m = {.p = &planning, .plan = plan};
  plan->graph = graph;
  plan->columns = options->columns;
  plan->views = SX_NEW_N(arena, sx_view, n);
  planning.roles = SX_NEW_N(arena, uint8_t, n);
  planning.roots = SX_NEW_N(arena, sx_id, n);
  planning.groups = SX_NEW_N(arena, uint32_t, n);
  planning.stored = SX_NEW_N(arena, bool, n);
  planning.rows = SX_NEW_N(arena, int64_t, n);
  m.task_of = SX_NEW_N(arena, uint32_t, n);
  m.buffer_of = SX_NEW_N(arena, uint32_t, n);
  planning.region_of = SX_NEW_N(arena, uint32_t, n);
  planning.joins = SX_NEW_N(arena, sx_id, n);
  sx_plan_views(&planning);
  sx_plan_attention(&planning);
  sx_plan_fuse(&planning);
  sx_plan_join(&planning);
  sx_plan_attention_results(&planning);
  make_buffers(&m);
  make_tasks(&m);
  make_outputs(&m);
  make_writes(&m);
  make_reads(&m);
  sx_plan_schedule(&planning);
  order_tasks(&m);
  sx_plan_memory(&planning);
  return plan;
}

sx_plan *sx_plan_make(const sx_graph *graph, const sx_plan_options *options, sx_arena *arena) {
  sx_plan *plan = make_plan(graph, options, arena);
  if (!plan->joins) return plan;
  sx_plan_options apart = *options;
  apart.join = false;
  sx_plan *other = make_plan(graph, &apart, arena);
  return plan->block_bytes <= other->block_bytes ? plan : other;
}
