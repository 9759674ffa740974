/* Schedule: the order of tasks.
 *
 * Requires tasks with what they read and write. Gives an order in which every buffer is written before it
 * is read, and live memory stays low. Two orders are tried, and the one with the lower peak is taken, the
 * first on ties:
 *   - as in the graph: the ready task with the lowest node first;
 *   - greedy: the ready task that adds least to live memory first (it may free more than it takes).
 * Both are functions of the graph alone, in time n log n. Then sums of columns are moved to their groups.
 *
 *   a = big  b = big  c = sum a  d = sum b   becomes: a c b d, so that one big buffer lives at a time.
 *
 * Source: list scheduling; Sethi and Ullman, "The generation of optimal code for arithmetic expressions",
 * 1970, for what it approximates. */
#include <string.h>

#include "../base/bug.h"
#include "plan_parts.h"

typedef struct entry {
  int64_t key;
  uint32_t task;
} entry;

/* A binary heap, lowest (key, task) on top. */
typedef struct heap {
  sx_arena *arena;
  SX_VEC(entry) entries;
} heap;

static bool before(entry a, entry b) { return a.key != b.key ? a.key < b.key : a.task < b.task; }

static void heap_push(heap *h, entry one) {
  SX_PUSH(h->arena, h->entries, one);
  entry *items = h->entries.items;
  size_t at = h->entries.n - 1;
  for (; at && before(one, items[(at - 1) / 2]); at = (at - 1) / 2) items[at] = items[(at - 1) / 2];
  items[at] = one;
}

static entry heap_pop(heap *h) {
  entry *items = h->entries.items, top = items[0], last = items[--h->entries.n];
  size_t at = 0, n = h->entries.n;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child + 1 < n && before(items[child + 1], items[child])) child++;
    if (child >= n || before(last, items[child])) break;
    items[at] = items[child];
    at = child;
  }
  items[at] = last;
  return top;
}

typedef struct schedule {
  sx_planning *planning;
  sx_plan *plan;
  uint32_t n_tasks;
  sx_lists readers;     /* per buffer: tasks */
  sx_lists writers;     /* likewise: several where pieces are joined */
  uint32_t *waiting;    /* per task: writings of what it reads that are yet to come */
  bool *begun;          /* per buffer: one of its writers is done */
  uint32_t *unread;     /* per buffer: readers to come */
  uint64_t *reader_sum; /* per buffer: sum of the numbers of the readers to come: of one, its number */
  int64_t *deltas;      /* per task: bytes it adds to live memory */
  bool greedy;
  heap ready;
  int64_t live, peak;
} schedule;

static int64_t held_bytes(const schedule *s, uint32_t buffer) {
  const sx_buffer *one = &s->plan->buffers.items[buffer];
  return one->kind == SX_BUFFER_TEMPORARY ? sx_aligned(one->n_bytes) : 0;
}

/* From the buffers of each task to the tasks of each buffer. */
static sx_lists turned(const schedule *s, const sx_lists *of_tasks) {
  size_t n_buffers = s->plan->buffers.n;
  uint32_t *starts = SX_NEW_N(s->planning->arena, uint32_t, n_buffers + 1);
  uint32_t *filled = SX_NEW_N(s->planning->arena, uint32_t, n_buffers + 1);
  uint32_t *items = SX_NEW_N(s->planning->arena, uint32_t, of_tasks->items.n);
  for (size_t i = 0; i < of_tasks->items.n; i++) starts[of_tasks->items.items[i] + 1]++;
  for (size_t b = 0; b < n_buffers; b++) starts[b + 1] += starts[b];
  for (uint32_t t = 0; t < s->n_tasks; t++)
    for (uint32_t i = of_tasks->starts[t]; i < of_tasks->starts[t + 1]; i++) {
      uint32_t buffer = of_tasks->items.items[i];
      items[starts[buffer] + filled[buffer]++] = t;
    }
  sx_lists of_buffers = {.starts = starts};
  of_buffers.items.items = items;
  of_buffers.items.n = of_tasks->items.n;
  return of_buffers;
}

static void make_ready(schedule *s, uint32_t task) {
  int64_t first_node = s->plan->tasks.items[task].nodes[0];
  heap_push(&s->ready, (entry){s->greedy ? s->deltas[task] : first_node, task});
}

/* One reader of the buffer is done: if one is left, that one will free it. */
static void count_read(schedule *s, uint32_t buffer, uint32_t task) {
  s->reader_sum[buffer] -= task;
  if (--s->unread[buffer] == 0) s->live -= held_bytes(s, buffer);
  if (s->unread[buffer] != 1) return;
  uint32_t last = (uint32_t)s->reader_sum[buffer];
  s->deltas[last] -= held_bytes(s, buffer);
  if (s->greedy && !s->waiting[last]) make_ready(s, last);
}

/* The first writer of the buffer takes its memory, so the others add none. */
static void begin_buffer(schedule *s, uint32_t buffer) {
  const sx_lists *writers = &s->writers;
  if (s->begun[buffer]) return;
  s->begun[buffer] = true;
  s->live += held_bytes(s, buffer);
  if (writers->starts[buffer + 1] - writers->starts[buffer] == 1) return;
  for (uint32_t w = writers->starts[buffer]; w < writers->starts[buffer + 1]; w++) {
    uint32_t writer = writers->items.items[w];
    s->deltas[writer] -= held_bytes(s, buffer);
    if (s->greedy && !s->waiting[writer]) make_ready(s, writer);
  }
}

static void run_task(schedule *s, uint32_t task) {
  const sx_lists *reads = &s->planning->reads, *writes = &s->planning->writes, *readers = &s->readers;
  for (uint32_t i = writes->starts[task]; i < writes->starts[task + 1]; i++) begin_buffer(s, writes->items.items[i]);
  if (s->live > s->peak) s->peak = s->live;
  for (uint32_t i = reads->starts[task]; i < reads->starts[task + 1]; i++) count_read(s, reads->items.items[i], task);
  for (uint32_t i = writes->starts[task]; i < writes->starts[task + 1]; i++) {
    uint32_t buffer = writes->items.items[i];
    for (uint32_t r = readers->starts[buffer]; r < readers->starts[buffer + 1]; r++)
      if (--s->waiting[readers->items.items[r]] == 0) make_ready(s, readers->items.items[r]);
  }
}

static void reset(schedule *s, bool greedy) {
  const sx_lists *reads = &s->planning->reads, *writes = &s->planning->writes, *readers = &s->readers;
  const uint32_t *writers = s->writers.starts;
  s->greedy = greedy;
  s->live = s->peak = 0;
  s->ready.entries.n = 0;
  for (uint32_t t = 0; t < s->n_tasks; t++) {
    s->waiting[t] = 0;
    s->deltas[t] = 0;
    for (uint32_t i = reads->starts[t]; i < reads->starts[t + 1]; i++)
      s->waiting[t] += writers[reads->items.items[i] + 1] - writers[reads->items.items[i]];
    for (uint32_t i = writes->starts[t]; i < writes->starts[t + 1]; i++)
      s->deltas[t] += held_bytes(s, writes->items.items[i]);
  }
  for (uint32_t b = 0; b < s->plan->buffers.n; b++) {
    s->unread[b] = readers->starts[b + 1] - readers->starts[b];
    s->reader_sum[b] = 0;
    s->begun[b] = false;
    for (uint32_t r = readers->starts[b]; r < readers->starts[b + 1]; r++) s->reader_sum[b] += readers->items.items[r];
    if (s->unread[b] == 1) s->deltas[s->reader_sum[b]] -= held_bytes(s, b);
  }
  for (uint32_t t = 0; t < s->n_tasks; t++)
    if (!s->waiting[t]) make_ready(s, t);
}

/* Fills order; gives the peak of live temporaries. An entry whose key has fallen since is stale: its task
 * was pushed again and is done. */
static int64_t try_order(schedule *s, bool greedy, uint32_t *order) {
  bool *done = SX_NEW_N(s->planning->arena, bool, s->n_tasks);
  uint32_t n = 0;
  reset(s, greedy);
  while (s->ready.entries.n) {
    uint32_t task = heap_pop(&s->ready).task;
    if (done[task]) continue;
    done[task] = true;
    order[n++] = task;
    run_task(s, task);
  }
  if (n != s->n_tasks) SX_BUG("%u of %u tasks can be ordered: the groups make a cycle", n, s->n_tasks);
  return s->peak;
}

/* ---- sums beside their groups -------------------------------------------------------------------- */

/* The group whose stored value the task sums; UINT32_MAX: it is no sum that a group makes. */
static uint32_t summed_group(const schedule *s, uint32_t t) {
  const sx_planning *p = s->planning;
  const sx_task *task = &s->plan->tasks.items[t];
  if (task->kind != SX_TASK_NODE || !sx_summed_rows(p->graph, task->nodes[0])) return UINT32_MAX;
  uint32_t buffer = s->plan->views[sx_node_at(p->graph, task->nodes[0])->inputs[0]].buffer;
  if (p->roles[s->plan->buffers.items[buffer].node] != SX_ROLE_ELEMENT) return UINT32_MAX;
  return s->writers.items.items[s->writers.starts[buffer]];
}

/* Sums of columns come right after the group that computes what they sum, so that it can make them (cpu/columns.c):
 * what they read may be freed earlier; their own few elements are kept for longer. */
static void move_sums(const schedule *s, uint32_t *order) {
  sx_arena *arena = s->planning->arena;
  uint32_t *next = SX_NEW_N(arena, uint32_t, s->n_tasks); /* 1 + the next sum of the same group */
  uint32_t *last = SX_NEW_N(arena, uint32_t, s->n_tasks); /* of those of a group; itself */
  uint32_t *moved = SX_NEW_N(arena, uint32_t, s->n_tasks), n = 0;
  bool *follows = SX_NEW_N(arena, bool, s->n_tasks);
  for (uint32_t t = 0; t < s->n_tasks; t++) last[t] = t;
  for (uint32_t i = 0; i < s->n_tasks; i++) {
    uint32_t t = order[i], group = summed_group(s, t);
    if (group == UINT32_MAX) continue;
    next[last[group]] = t + 1;
    last[group] = t;
    follows[t] = true;
  }
  for (uint32_t i = 0; i < s->n_tasks; i++)
    for (uint32_t t = follows[order[i]] ? 0 : order[i] + 1; t; t = next[t - 1]) moved[n++] = t - 1;
  memcpy(order, moved, s->n_tasks * sizeof *order);
}

void sx_plan_schedule(sx_planning *planning) {
  sx_arena *arena = planning->arena;
  schedule s = {.planning = planning, .plan = planning->plan, .n_tasks = (uint32_t)planning->plan->tasks.n};
  s.ready.arena = arena;
  s.waiting = SX_NEW_N(arena, uint32_t, s.n_tasks);
  s.deltas = SX_NEW_N(arena, int64_t, s.n_tasks);
  s.unread = SX_NEW_N(arena, uint32_t, s.plan->buffers.n);
  s.reader_sum = SX_NEW_N(arena, uint64_t, s.plan->buffers.n);
  s.begun = SX_NEW_N(arena, bool, s.plan->buffers.n);
  s.readers = turned(&s, &planning->reads);
  s.writers = turned(&s, &planning->writes);
  uint32_t *as_written = SX_NEW_N(arena, uint32_t, s.n_tasks), *greedy = SX_NEW_N(arena, uint32_t, s.n_tasks);
  int64_t peak = try_order(&s, false, as_written);
  planning->order = try_order(&s, true, greedy) < peak ? greedy : as_written;
  if (planning->options->columns) move_sums(&s, planning->order);
}
