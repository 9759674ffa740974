/* Waiting: a group that only needs what lies outside anyway, but was begun early, joins the group that reads it.
 *
 *   m' = a m + b g    c = 1 - a^t (one number)    w' = w - m' / c
 *   c and m' have level 1, w' level 2; m' is wanted outside, so it does not move alone. Its group waits for w',
 *   and m' is not read back from memory.
 *
 * Legal, as levels show: what the group reads has a lower level than it had, and whatever reads it, but for the
 * group that it joins, a higher one than that group. */
#include "fuse.h"

enum { SHARE = 64 }; /* what is kept longer may have this part of a value's elements */

typedef struct reading {
  sx_id reader, seen; /* the node that reads, and the input through which it does */
} reading;

typedef struct waiting {
  sx_fusion *f;
  uint32_t *ends; /* per member: its readings end here, and begin where those of the node before end */
  reading *items;
  sx_id *nexts, *lasts; /* members of a group, from its representative on; per representative: the last one */
} waiting;

static bool computes(const sx_fusion *f, sx_id id) {
  return f->planning->roles[id] != SX_ROLE_LEAF && f->planning->roles[id] != SX_ROLE_VIEW;
}

static sx_id root_of(const sx_fusion *f, sx_id id, uint32_t input) {
  return f->planning->roots[sx_node_at(f->graph, id)->inputs[input]];
}

static void list_readings(waiting *w) {
  const sx_fusion *f = w->f;
  sx_id n = (sx_id)f->graph->nodes.n;
  uint32_t n_items = 0;
  w->ends = SX_NEW_N(f->planning->arena, uint32_t, n);
  for (sx_id id = 0; id < n; id++)
    for (uint32_t i = 0; computes(f, id) && i < sx_node_at(f->graph, id)->n_inputs; i++) w->ends[root_of(f, id, i)]++;
  for (sx_id id = 0; id < n; id++) {
    uint32_t count = w->ends[id];
    w->ends[id] = n_items;
    n_items += count;
  }
  w->items = SX_NEW_N(f->planning->arena, reading, n_items);
  for (sx_id id = 0; id < n; id++) {
    const sx_node *node = sx_node_at(f->graph, id);
    for (uint32_t i = 0; computes(f, id) && i < node->n_inputs; i++)
      w->items[w->ends[root_of(f, id, i)]++] = (reading){id, node->inputs[i]};
  }
}

static void list_members(waiting *w) {
  sx_fusion *f = w->f;
  sx_id n = (sx_id)f->graph->nodes.n;
  w->nexts = SX_NEW_N(f->planning->arena, sx_id, n);
  w->lasts = SX_NEW_N(f->planning->arena, sx_id, n);
  for (sx_id id = 0; id < n; id++) {
    uint32_t group = sx_fusion_group(f, id);
    w->nexts[id] = SX_NO_NODE;
    if (group != id) w->nexts[w->lasts[group]] = id;
    w->lasts[group] = id;
  }
}

/* Whether the member is of the group's size, and all that it reads is there anyway, or small. */
static bool may_wait(sx_fusion *f, sx_id id, uint32_t group) {
  int64_t n = sx_node_elements(sx_node_at(f->graph, id));
  if (!sx_is_element(f, id) || sx_is_again(f, id) || n != f->extents[group].width) return false;
  for (uint32_t i = 0; i < sx_node_at(f->graph, id)->n_inputs; i++) {
    sx_id root = root_of(f, id, i);
    bool is_there = f->planning->roles[root] == SX_ROLE_LEAF || sx_fusion_group(f, root) == group;
    if (!is_there && sx_node_elements(sx_node_at(f->graph, root)) > n / SHARE) return false;
  }
  return true;
}

/* Readers of the lowest level so far, from outside of the group. */
typedef struct first_readers {
  uint32_t level, group;
  bool aligned; /* they are of one group, and read elements in their places */
} first_readers;

static void add_reader(sx_fusion *f, first_readers *first, reading one) {
  bool aligned = sx_is_member(f, one.reader) && f->sources[one.seen] != SX_NO_NODE && f->stretches[one.seen] == 1;
  uint32_t group = sx_fusion_group(f, one.reader), level = f->levels[one.reader];
  if (level > first->level) return;
  if (level < first->level)
    *first = (first_readers){level, group, aligned};
  else
    first->aligned = first->aligned && aligned && group == first->group;
}

static void try_to_wait(waiting *w, uint32_t group) {
  sx_fusion *f = w->f;
  first_readers first = {.level = UINT32_MAX};
  if (f->extents[group].row) return;
  for (sx_id id = group; id != SX_NO_NODE; id = w->nexts[id]) {
    if (!may_wait(f, id, group)) return;
    for (uint32_t k = id ? w->ends[id - 1] : 0; k < w->ends[id]; k++)
      if (sx_fusion_group(f, w->items[k].reader) != group) add_reader(f, &first, w->items[k]);
  }
  uint32_t other = first.group;
  if (!first.aligned || f->sizes[group] + f->sizes[other] > SX_GROUP_NODES) return;
  sx_extent both = f->extents[group];
  if (!sx_fusion_unite(&both, f->extents[other]) || both.width != f->extents[group].width) return;
  for (sx_id id = group; id != SX_NO_NODE; id = w->nexts[id]) f->levels[id] = first.level;
  uint32_t low = group < other ? group : other, high = group < other ? other : group;
  w->nexts[w->lasts[low]] = high;
  w->lasts[low] = w->lasts[high];
  sx_fusion_join(f, group, other, both);
}

/* Groups in descending order of level, so that one joins what its reader has become. */
void sx_fusion_wait(sx_fusion *f) {
  sx_id n = (sx_id)f->graph->nodes.n;
  waiting w = {.f = f};
  list_readings(&w);
  list_members(&w);
  sx_id *heads = SX_NEW_N(f->planning->arena, sx_id, n + 1), *nexts = SX_NEW_N(f->planning->arena, sx_id, n);
  for (sx_id level = 0; level <= n; level++) heads[level] = SX_NO_NODE;
  for (sx_id id = 0; id < n; id++) {
    if (!sx_is_element(f, id) || sx_fusion_group(f, id) != id) continue;
    nexts[id] = heads[f->levels[id]];
    heads[f->levels[id]] = id;
  }
  for (sx_id level = n + 1; level-- > 0;)
    for (sx_id group = heads[level]; group != SX_NO_NODE; group = nexts[group])
      if (sx_fusion_group(f, group) == group) try_to_wait(&w, group);
}
