/* Which outputs may be written over the input of the same name.
 *
 *   p = param "w"   q = p - g   output "param/w" q     becomes: one buffer, read and written by one group
 *
 * That is legal where nothing reads the input after the output is written: the last task that does runs before, or it
 * is the element group that writes, and reads each element where it writes it. And where nothing can stop the graph,
 * so that the input is never left half overwritten. */
#include <stdlib.h>
#include <string.h>

#include "plan_parts.h"

typedef struct access {
  uint32_t task, position; /* 1 + the task, 0: none; the node in it */
  bool movable;            /* every reader in that task takes the same element that it writes */
  bool part;               /* of a write: of a piece of the output, whose elements are at other indices */
} access;

static bool may_stop(const sx_graph *graph) {
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    switch (sx_node_at(graph, id)->op) {
      case SX_OP_GATHER:
      case SX_OP_TAKE:
      case SX_OP_SCATTER:
      case SX_OP_PUT:
      case SX_OP_ONEHOT:
        return true;
      default:
        break;
    }
  }
  return false;
}

static void note_read(const sx_plan *plan, access *reads, uint32_t t, uint32_t position, sx_id input) {
  if (plan->views[input].buffer == UINT32_MAX) return;
  access *read = &reads[plan->views[input].buffer];
  if (read->task != t + 1)
    *read = (access){.task = t + 1, .position = position, .movable = plan->tasks.items[t].kind == SX_TASK_ELEMENT};
  read->position = position;
  if (!sx_view_is_whole(plan, input)) read->movable = false;
}

/* The first one counts. */
static void note_write(const sx_plan *plan, access *writes, sx_id id, access write) {
  uint32_t buffer = plan->views[id].buffer;
  if (writes[buffer].task) return;
  write.part = !sx_view_is_whole(plan, id);
  writes[buffer] = write;
}

static void note_task(const sx_plan *plan, access *reads, access *writes, uint32_t t) {
  const sx_task *task = &plan->tasks.items[t];
  if (task->kind == SX_TASK_COPY) {
    note_read(plan, reads, t, 0, task->nodes[1]);
    writes[task->target] = (access){.task = t + 1};
    return;
  }
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) note_read(plan, reads, t, i, node->inputs[k]);
    if (task->kind == SX_TASK_NODE)
      note_write(plan, writes, task->nodes[0], (access){.task = t + 1});
    else if (task->stored[i])
      note_write(plan, writes, task->nodes[i], (access){.task = t + 1, .position = i});
  }
}

typedef struct named {
  const char *name;
  uint32_t buffer;
} named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

static bool is_legal(const sx_plan *plan, uint32_t input, access read, uint32_t output, access write) {
  const sx_buffer *from = &plan->buffers.items[input], *to = &plan->buffers.items[output];
  if (from->dtype != to->dtype || from->n_bytes != to->n_bytes) return false;
  return read.task < write.task ||
         (!write.part && read.task == write.task && read.movable && read.position <= write.position);
}

bool *sx_plan_in_place(const sx_plan *plan, sx_arena *arena) {
  size_t n = plan->buffers.n, n_inputs = 0;
  bool *in_place = SX_NEW_N(arena, bool, n);
  if (may_stop(plan->graph)) return in_place;
  access *reads = SX_NEW_N(arena, access, n), *writes = SX_NEW_N(arena, access, n);
  named *inputs = SX_NEW_N(arena, named, n);
  for (uint32_t t = 0; t < plan->tasks.n; t++) note_task(plan, reads, writes, t);
  for (uint32_t b = 0; b < n; b++)
    if (plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL) inputs[n_inputs++] = (named){plan->buffers.items[b].name, b};
  qsort(inputs, n_inputs, sizeof *inputs, by_name);
  for (uint32_t b = 0; b < n; b++) {
    if (plan->buffers.items[b].kind != SX_BUFFER_OUTPUT) continue;
    named key = {plan->buffers.items[b].name, b};
    const named *input = n_inputs ? bsearch(&key, inputs, n_inputs, sizeof key, by_name) : NULL;
    in_place[b] = !input || is_legal(plan, input->buffer, reads[input->buffer], b, writes[b]);
  }
  return in_place;
}
