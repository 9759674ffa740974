/* Memory: where each temporary lies in the plan's one block.
 *
 * Requires ordered tasks with what they read and write. Gives first, last and offset of the temporaries;
 * two whose lives overlap do not overlap in memory, but for one case: the result of an element group may
 * take the place of an input that dies there. That is legal where the input is read as the result is
 * written, one element index for both, with one dtype, and no later node of the group reads the input. A piece of a
 * concatenation takes no such place: its elements are at other indices.
 *
 *   tasks a->b, b->c, c->d of equal sizes   becomes: a at 0, b at 64, c at 0; or all at 0 in element groups.
 *
 * Buffers that follow each other in one place are a slot: one size, alive from the first's first task to the
 * last's last. Slots are placed by pack.c. */
#include "pack.h"
#include "plan_parts.h"

typedef struct memory_plan {
  sx_planning *planning;
  sx_plan *plan;
  uint32_t *slot_of; /* per buffer */
  sx_slot *slots;    /* in order of first */
  uint32_t n_slots;
  uint32_t *met;         /* per buffer: 1 + the element task that last listed it as an input */
  uint32_t *last_reader; /* per buffer: position in that task of its last reader */
  bool *movable;         /* per buffer: every reader in that task takes the same element that it writes */
  SX_VEC(uint32_t) candidates;
} memory_plan;

static bool is_temporary(const memory_plan *m, uint32_t buffer) {
  return m->plan->buffers.items[buffer].kind == SX_BUFFER_TEMPORARY;
}

/* Several tasks write a buffer in which pieces are joined. */
static void find_lives(sx_planning *planning) {
  const sx_lists *reads = &planning->reads, *writes = &planning->writes;
  sx_buffer *buffers = planning->plan->buffers.items;
  bool *written = SX_NEW_N(planning->arena, bool, planning->plan->buffers.n);
  for (uint32_t at = 0; at < planning->plan->tasks.n; at++) {
    uint32_t task = planning->order[at];
    for (uint32_t i = writes->starts[task]; i < writes->starts[task + 1]; i++) {
      uint32_t buffer = writes->items.items[i];
      if (!written[buffer]) buffers[buffer].first = at;
      buffers[buffer].whole = buffers[buffer].last = at;
      written[buffer] = true;
    }
    for (uint32_t i = reads->starts[task]; i < reads->starts[task + 1]; i++) buffers[reads->items.items[i]].last = at;
  }
}

static void note_input(memory_plan *m, uint32_t at, uint32_t position, sx_id input) {
  uint32_t buffer = m->plan->views[input].buffer;
  const sx_buffer *held = &m->plan->buffers.items[buffer];
  if (held->kind != SX_BUFFER_TEMPORARY || held->last != at || held->first == at) return;
  if (m->met[buffer] != at + 1) {
    m->met[buffer] = at + 1;
    m->movable[buffer] = true;
    SX_PUSH(m->planning->arena, m->candidates, buffer);
  }
  m->last_reader[buffer] = position;
  if (!sx_view_is_whole(m->plan, input)) m->movable[buffer] = false;
}

static void list_candidates(memory_plan *m, uint32_t at, const sx_task *task) {
  m->candidates.n = 0;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(m->planning->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++)
      if (m->plan->views[node->inputs[k]].buffer != UINT32_MAX) note_input(m, at, i, node->inputs[k]);
  }
}

/* The slot of a dying input whose place the buffer, written by node `position` of the group, may take. */
static uint32_t find_place(memory_plan *m, uint32_t buffer, uint32_t position) {
  const sx_buffer *buffers = m->plan->buffers.items;
  for (size_t i = 0; i < m->candidates.n; i++) {
    uint32_t input = m->candidates.items[i];
    if (!m->movable[input] || m->last_reader[input] > position) continue;
    if (buffers[input].dtype != buffers[buffer].dtype || buffers[input].n_bytes != buffers[buffer].n_bytes) continue;
    m->movable[input] = false;
    return m->slot_of[input];
  }
  return UINT32_MAX;
}

static void give_slot(memory_plan *m, uint32_t buffer, uint32_t slot) {
  const sx_buffer *held = &m->plan->buffers.items[buffer];
  if (slot == UINT32_MAX) {
    slot = m->n_slots++;
    m->slots[slot] = (sx_slot){.size = sx_aligned(held->n_bytes), .first = held->first};
  }
  m->slots[slot].last = held->last;
  m->slot_of[buffer] = slot;
}

static void make_slots(memory_plan *m, bool reuse) {
  for (uint32_t b = 0; b < m->plan->buffers.n; b++) m->slot_of[b] = UINT32_MAX;
  for (uint32_t at = 0; at < m->plan->tasks.n; at++) {
    const sx_task *task = &m->plan->tasks.items[at];
    bool element = reuse && task->kind == SX_TASK_ELEMENT;
    if (element) list_candidates(m, at, task);
    for (uint32_t i = 0; i < task->n_nodes; i++) {
      if (task->stored ? !task->stored[i] : i > 0) continue;
      uint32_t buffer = task->stored ? m->plan->views[task->nodes[i]].buffer : task->target;
      if (!is_temporary(m, buffer) || m->slot_of[buffer] != UINT32_MAX) continue;
      bool whole = element && sx_view_is_whole(m->plan, task->nodes[i]);
      give_slot(m, buffer, whole ? find_place(m, buffer, i) : UINT32_MAX);
    }
  }
}

/* The largest total of slots alive at one task. */
static int64_t bound(const memory_plan *m) {
  size_t n = m->plan->tasks.n;
  int64_t *changes = SX_NEW_N(m->planning->arena, int64_t, n + 2), live = 0, most = 0;
  for (uint32_t i = 0; i < m->n_slots; i++) {
    changes[m->slots[i].first] += m->slots[i].size;
    changes[m->slots[i].last + 1] -= m->slots[i].size;
  }
  for (size_t at = 0; at <= n; at++) {
    live += changes[at];
    if (live > most) most = live;
  }
  return most;
}

void sx_plan_memory(sx_planning *planning) {
  sx_plan *plan = planning->plan;
  size_t n = plan->buffers.n;
  memory_plan m = {.planning = planning, .plan = plan};
  m.slot_of = SX_NEW_N(planning->arena, uint32_t, n);
  m.slots = SX_NEW_N(planning->arena, sx_slot, n);
  m.met = SX_NEW_N(planning->arena, uint32_t, n);
  m.last_reader = SX_NEW_N(planning->arena, uint32_t, n);
  m.movable = SX_NEW_N(planning->arena, bool, n);
  find_lives(planning);
  for (uint32_t b = 0; b < n; b++)
    if (is_temporary(&m, b)) plan->sum_bytes += sx_aligned(plan->buffers.items[b].n_bytes);
  make_slots(&m, planning->options->reuse);
  plan->bound_bytes = bound(&m);
  if (!planning->options->reuse)
    for (uint32_t i = 0; i < m.n_slots; i++) m.slots[i].last = (uint32_t)plan->tasks.n;
  plan->block_bytes = sx_pack(m.slots, m.n_slots, planning->options->reuse ? plan->bound_bytes : 0, planning->arena);
  for (uint32_t b = 0; b < n; b++)
    if (is_temporary(&m, b)) plan->buffers.items[b].offset = m.slots[m.slot_of[b]].offset;
}
