/* Launches: runs of element groups that have nothing to do with each other, such as the updates of all parameters,
 * given to the threads as one piece of work. Alone most are too small to be worth waking a thread.
 *
 * Groups can go together where none writes memory that another reads or writes. Memory, not buffers: temporaries
 * share the plan's block, and an output may be bound to the memory of the input of its name. */
#include "launch.h"

#include <string.h>

enum { TASKS_MAX = 64 }; /* of a launch: what a task is compared with is limited, so that preparing is linear */

typedef SX_VEC(uint32_t) buffers;

typedef struct joining {
  const sx_plan *plan;
  sx_arena *arena;
  uint32_t *seen; /* per buffer: the listing that last found it read */
  uint32_t n_listed;
  buffers reads, writes;
} joining;

static bool has_name(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
}

bool sx_buffers_overlap(const sx_plan *plan, uint32_t a, uint32_t b) {
  const sx_buffer *x = &plan->buffers.items[a], *y = &plan->buffers.items[b];
  if (a == b) return true;
  if (has_name(x) && has_name(y)) return !strcmp(x->name, y->name);
  if (x->kind != SX_BUFFER_TEMPORARY || y->kind != SX_BUFFER_TEMPORARY) return false;
  return x->offset < y->offset + y->n_bytes && y->offset < x->offset + x->n_bytes;
}

static bool any_overlap(const sx_plan *plan, const buffers *all, size_t n, uint32_t one) {
  for (size_t i = 0; i < n; i++)
    if (sx_buffers_overlap(plan, all->items[i], one)) return true;
  return false;
}

static void list_task(joining *j, uint32_t t) {
  const sx_task *task = &j->plan->tasks.items[t];
  j->n_listed++;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(j->plan->graph, task->nodes[i]);
    if (task->stored[i]) SX_PUSH(j->arena, j->writes, j->plan->views[task->nodes[i]].buffer);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      uint32_t buffer = j->plan->views[node->inputs[k]].buffer;
      if (buffer == UINT32_MAX || j->seen[buffer] == j->n_listed) continue;
      j->seen[buffer] = j->n_listed;
      SX_PUSH(j->arena, j->reads, buffer);
    }
  }
}

/* Adds the task to those listed, if it can run beside them all. None writes what another does: what a task stores is
 * read, and its memory is no other's before. */
static bool join(joining *j, uint32_t t) {
  size_t n_reads = j->reads.n, n_writes = j->writes.n;
  if (j->plan->tasks.items[t].kind != SX_TASK_ELEMENT) return false;
  list_task(j, t);
  bool apart = true;
  for (size_t i = n_writes; i < j->writes.n && apart; i++)
    apart = !any_overlap(j->plan, &j->reads, n_reads, j->writes.items[i]);
  for (size_t i = n_reads; i < j->reads.n && apart; i++)
    apart = !any_overlap(j->plan, &j->writes, n_writes, j->reads.items[i]);
  return apart;
}

uint32_t *sx_launches(const sx_plan *plan, sx_arena *arena) {
  uint32_t n = (uint32_t)plan->tasks.n, *counts = SX_NEW_N(arena, uint32_t, n);
  joining j = {.plan = plan, .arena = arena, .seen = SX_NEW_N(arena, uint32_t, plan->buffers.n)};
  for (uint32_t t = 0; t < n; t += counts[t]) {
    counts[t] = 1;
    if (plan->tasks.items[t].kind != SX_TASK_ELEMENT) continue;
    j.reads.n = j.writes.n = 0;
    list_task(&j, t);
    while (t + counts[t] < n && counts[t] < TASKS_MAX && join(&j, t + counts[t])) counts[t]++;
  }
  return counts;
}
