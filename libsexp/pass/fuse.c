/* Fusion: which ELEMENT nodes are evaluated together, tile by tile, so that what they pass to each other
 * never goes through memory.
 *
 * Requires roles and roots. Gives every ELEMENT node a group, and whether its value is stored. Nodes of a group
 * have one number of elements, which they walk in row-major order: one shape, or shapes that RESHAPE leads
 * between, for that leaves every element in its place. A group may have rows (rows.c): then it has reductions of
 * rows too, and nodes of one element a row. No path from a node of a group to another leaves it.
 * Bits do not change: a value is rounded to its dtype whether it is stored or not.
 *
 *   %2 = mul %0 %1   %3 = add %2 %1   %4 = relu %3   becomes: group {%2 %3 %4}, stored {%4}.
 *
 * Every task has a level above the levels of all tasks it reads from. Groups of one level can therefore be
 * joined without making a cycle, which is all that has to be known, and one walk over the nodes is enough:
 *   - a node joins the groups of its inputs of the highest level, if all inputs of that level are in groups;
 *     these become one group;
 *   - else it begins the next level, with a group there that reads one of its inputs, if there is one, so
 *     that the input is read once.
 * A second walk, backwards, moves a node to the group of its only readers where that stores fewer bytes:
 * a value made of parameters or small inputs alone need not wait in memory for a reader that comes late.
 *
 * Source: levels as in Kennedy and McKinley, "Maximizing loop parallelism and improving data locality via
 * loop fusion and distribution", 1993. */
#include "fuse.h"

#define NO_USER UINT32_MAX
#define MANY_USERS (UINT32_MAX - 1)

uint32_t sx_fusion_group(sx_fusion *f, sx_id id) {
  while (f->parents[id] != id) {
    f->parents[id] = f->parents[f->parents[id]];
    id = f->parents[id];
  }
  return id;
}

static int64_t elements(const sx_fusion *f, sx_id id) { return sx_node_elements(sx_node_at(f->graph, id)); }

/* ---- joining ------------------------------------------------------------------------------------- */

/* The representative is the lowest node, so that groups are numbered as they come. */
void sx_fusion_join(sx_fusion *f, sx_id a, sx_id b, sx_extent both) {
  uint32_t low = sx_fusion_group(f, a), high = sx_fusion_group(f, b);
  if (low > high) {
    uint32_t swap = low;
    low = high;
    high = swap;
  }
  f->extents[low] = both;
  if (low == high) return;
  f->parents[high] = low;
  f->sizes[low] += f->sizes[high];
}

/* Whether what walks one extent has a place in a group of the other: as wide, or of one element a row. */
static bool is_within(sx_extent part, sx_extent whole) {
  if (part.width == whole.width) return !part.row || part.row == whole.row;
  return !part.row && whole.row && part.width * whole.row == whole.width;
}

/* The extent of both together; false: there is none. */
bool sx_fusion_unite(sx_extent *both, sx_extent other) {
  sx_extent whole = both->width >= other.width ? *both : other;
  if (!whole.row) whole.row = both->row ? both->row : other.row;
  if (!is_within(*both, whole) || !is_within(other, whole)) return false;
  *both = whole;
  return true;
}

/* Rows lie along memory: others are reduced faster by columns. */
static bool reduces_rows(const sx_fusion *f, sx_id id) {
  if (!sx_reduced_row(f->graph, id)) return false;
  sx_id input = sx_node_at(f->graph, id)->inputs[0];
  const sx_node *from = sx_node_at(f->graph, input);
  return f->planning->plan->views[input].strides[from->rank - 1] == 1;
}

/* What a node alone walks. */
static sx_extent own_extent(const sx_fusion *f, sx_id id) {
  const sx_node *node = sx_node_at(f->graph, id);
  if (sx_is_element(f, id)) return (sx_extent){.width = elements(f, id)};
  return (sx_extent){.width = elements(f, node->inputs[0]), .row = sx_reduced_row(f->graph, id)};
}

static uint32_t highest_level(const sx_fusion *f, const sx_node *node) {
  uint32_t level = 0;
  for (uint32_t i = 0; i < node->n_inputs; i++)
    if (f->levels[node->inputs[i]] > level) level = f->levels[node->inputs[i]];
  return level;
}

/* Whether the node may join all its inputs of the level; if so it does. */
static bool join_inputs(sx_fusion *f, sx_id id, uint32_t level) {
  const sx_node *node = sx_node_at(f->graph, id);
  uint32_t groups[3], n_groups = 0, size = 1;
  sx_extent all = own_extent(f, id);
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    sx_id input = node->inputs[i], source = f->sources[input];
    if (f->levels[input] != level) continue;
    if (source == SX_NO_NODE || sx_is_again(f, source)) return false;
    int64_t stretch = f->stretches[input];
    if (stretch > 1 && !(sx_is_element(f, id) && sx_chain_can(f->graph, id))) return false;
    if (stretch > 1 && !sx_fusion_unite(&all, (sx_extent){elements(f, input), stretch})) return false;
    uint32_t group = sx_fusion_group(f, source), seen = 0;
    if (!sx_fusion_unite(&all, f->extents[group])) return false;
    while (seen < n_groups && groups[seen] != group) seen++;
    if (seen < n_groups) continue;
    groups[n_groups++] = group;
    size += f->sizes[group];
  }
  if (!n_groups || size > SX_GROUP_NODES) return false;
  for (uint32_t i = 0; i < n_groups; i++)
    if (!is_within(f->extents[groups[i]], all)) return false;
  f->levels[id] = level;
  for (uint32_t i = 0; i < n_groups; i++) sx_fusion_join(f, id, groups[i], all);
  return true;
}

/* Reading it once rather than twice gains nothing. Where groups may wait, one number is such an input: who joins for
 * its sake takes the room of those that would. */
static bool is_cheap(const sx_fusion *f, sx_id id) {
  const sx_node *root = sx_node_at(f->graph, f->planning->roots[id]);
  if (f->planning->options->wait && sx_node_elements(root) == 1) return true;
  return root->op == SX_OP_CONST || root->op == SX_OP_IOTA;
}

static void join_reader(sx_fusion *f, sx_id id) {
  const sx_node *node = sx_node_at(f->graph, id);
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    sx_id reader = f->readers[node->inputs[i]];
    if (reader == SX_NO_NODE || is_cheap(f, node->inputs[i])) continue;
    if (f->levels[reader] != f->levels[id]) continue;
    uint32_t group = sx_fusion_group(f, reader);
    if (group == sx_fusion_group(f, id) || f->sizes[group] + f->sizes[sx_fusion_group(f, id)] > SX_GROUP_NODES)
      continue;
    sx_extent both = f->extents[sx_fusion_group(f, id)];
    if (sx_fusion_unite(&both, f->extents[group])) sx_fusion_join(f, id, group, both);
  }
}

static void place_member(sx_fusion *f, sx_id id) {
  const sx_node *node = sx_node_at(f->graph, id);
  uint32_t level = highest_level(f, node);
  if (sx_is_again(f, id)) {
    f->levels[id] = level; /* below that of its reader, which joins no group of this level */
    return;
  }
  if (!level || !join_inputs(f, id, level)) {
    f->levels[id] = level + 1;
    join_reader(f, id);
  }
  for (uint32_t i = 0; i < node->n_inputs; i++) f->readers[node->inputs[i]] = id;
}

/* A view that puts its input's elements in their places, or repeats each of them, is as good as its input. */
static void find_source(sx_fusion *f, sx_id id) {
  const sx_node *node = sx_node_at(f->graph, id);
  f->sources[id] = sx_is_member(f, id) ? id : SX_NO_NODE;
  f->stretches[id] = 1;
  if (f->planning->roles[id] != SX_ROLE_VIEW) return;
  sx_id input = node->inputs[0];
  if (node->op == SX_OP_RESHAPE) {
    f->sources[id] = f->sources[input];
    f->stretches[id] = f->stretches[input];
  } else if (f->sources[input] != SX_NO_NODE && f->stretches[input] == 1 && sx_is_stretch(f->graph, id)) {
    int64_t from = elements(f, input), stretch = from ? elements(f, id) / from : 0;
    bool fits = stretch == 1 || (stretch >= SX_ROW_LEAST && stretch <= SX_ROW_MOST && node->dtype == SX_F32);
    if (!fits) return;
    f->sources[id] = f->sources[input];
    f->stretches[id] = stretch;
  }
}

/* Results of a region are above all that it reads; what is inside is read by no other task. */
static void place_in_region(sx_fusion *f, sx_id id) {
  uint32_t number = f->planning->region_of[id];
  f->levels[id] = 0;
  if (number == UINT32_MAX) return;
  sx_region *region = &f->planning->regions.items[number];
  for (uint32_t i = 0; i < region->n_inputs && id == region->first; i++) {
    uint32_t level = f->levels[f->planning->roots[region->inputs[i]]] + 1;
    if (level > region->level) region->level = level;
  }
  f->levels[id] = region->level;
}

static void first_walk(sx_fusion *f) {
  for (sx_id id = 0; id < f->graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(f->graph, id);
    switch ((sx_role)f->planning->roles[id]) {
      case SX_ROLE_LEAF:
        f->levels[id] = 0;
        break;
      case SX_ROLE_VIEW:
        f->levels[id] = f->levels[f->planning->roots[id]];
        break;
      case SX_ROLE_ELEMENT:
      case SX_ROLE_ROWS:
        place_member(f, id);
        break;
      case SX_ROLE_ATTENTION:
        place_in_region(f, id);
        break;
      case SX_ROLE_COPY:
      case SX_ROLE_NODE:
      case SX_ROLE_JOINED: /* a NODE until then */
        f->levels[id] = highest_level(f, node) + 1;
        break;
    }
  }
}

static void add_user(sx_fusion *f, sx_id id, uint32_t group) {
  if (f->users[id] == NO_USER)
    f->users[id] = group;
  else if (f->users[id] != group)
    f->users[id] = MANY_USERS;
}

/* Bytes that would be stored, or kept until group `to` runs, were `id` evaluated there. */
static int64_t moving_cost(sx_fusion *f, sx_id id, uint32_t to) {
  const sx_node *node = sx_node_at(f->graph, id);
  int64_t cost = 0;
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    sx_id root = f->planning->roots[node->inputs[i]];
    if (f->planning->roles[root] == SX_ROLE_LEAF || f->users[node->inputs[i]] == to) continue;
    if (i && node->inputs[i] == node->inputs[i - 1]) continue;
    cost += sx_value_bytes(f->graph, root);
  }
  return cost;
}

static void try_move(sx_fusion *f, sx_id id) {
  uint32_t from = f->planning->groups[id], to = f->users[id];
  if (to == from || to == NO_USER || to == MANY_USERS || f->sizes[to] >= SX_GROUP_NODES) return;
  if (!is_within((sx_extent){.width = elements(f, id)}, f->extents[to])) return;
  int64_t cost = sx_is_again(f, id) ? 0 : moving_cost(f, id, to);
  if (cost && cost >= sx_value_bytes(f->graph, id)) return;
  f->planning->groups[id] = to;
  f->sizes[to]++;
  f->sizes[from]--;
}

/* Whether who reads the view may have its source in its group. */
static bool is_passed_on(const sx_fusion *f, sx_id id) {
  uint32_t user = f->users[id];
  if (!f->planning->options->fuse || user == MANY_USERS) return false;
  return f->stretches[id] == 1 || f->extents[user].row == f->stretches[id];
}

static void second_walk(sx_fusion *f) {
  for (sx_id id = 0; id < f->graph->nodes.n; id++) f->users[id] = NO_USER;
  for (size_t i = 0; i < f->graph->outputs.n; i++) f->users[f->graph->outputs.items[i].node] = MANY_USERS;
  for (sx_id id = (sx_id)f->graph->nodes.n; id-- > 0;) {
    const sx_node *node = sx_node_at(f->graph, id);
    if (sx_is_element(f, id) && f->planning->options->fuse) try_move(f, id);
    uint32_t user = MANY_USERS;
    if (sx_is_member(f, id))
      user = f->planning->groups[id];
    else if (f->sources[id] != SX_NO_NODE && f->users[id] != NO_USER && is_passed_on(f, id))
      user = f->users[id];
    for (uint32_t i = 0; i < node->n_inputs; i++) {
      bool refused = f->stretches[node->inputs[i]] > 1 && sx_is_element(f, id) && !sx_chain_can(f->graph, id);
      add_user(f, node->inputs[i], refused ? MANY_USERS : user);
    }
  }
}

/* A sum alone is a task of its own: its kernel reads any strides. Extremes are found faster in registers. */
static void settle_roles(sx_fusion *f) {
  for (sx_id id = 0; id < f->graph->nodes.n; id++) {
    if (f->planning->roles[id] != SX_ROLE_ROWS) continue;
    bool alone = f->sizes[f->planning->groups[id]] == 1 && sx_node_at(f->graph, id)->op == SX_OP_SUM;
    f->planning->roles[id] = alone ? SX_ROLE_NODE : SX_ROLE_ELEMENT;
  }
}

void sx_plan_fuse(sx_planning *planning) {
  size_t n = planning->graph->nodes.n;
  sx_fusion f = {.planning = planning, .graph = planning->graph};
  f.parents = SX_NEW_N(planning->arena, uint32_t, n);
  f.sizes = SX_NEW_N(planning->arena, uint32_t, n);
  f.extents = SX_NEW_N(planning->arena, sx_extent, n);
  f.levels = SX_NEW_N(planning->arena, uint32_t, n);
  f.sources = SX_NEW_N(planning->arena, sx_id, n);
  f.stretches = SX_NEW_N(planning->arena, int64_t, n);
  f.readers = SX_NEW_N(planning->arena, sx_id, n);
  f.users = SX_NEW_N(planning->arena, uint32_t, n);
  for (sx_id id = 0; id < n; id++) {
    bool taken = planning->roles[id] == SX_ROLE_ATTENTION;
    if (planning->options->fuse && !taken && reduces_rows(&f, id)) planning->roles[id] = SX_ROLE_ROWS;
    f.parents[id] = id;
    f.sizes[id] = 1;
    f.readers[id] = SX_NO_NODE;
    if (sx_is_member(&f, id)) f.extents[id] = own_extent(&f, id);
    find_source(&f, id);
  }
  if (planning->options->fuse) first_walk(&f);
  if (planning->options->wait) sx_fusion_wait(&f);
  for (sx_id id = 0; id < n; id++) planning->groups[id] = sx_fusion_group(&f, id);
  second_walk(&f);
  settle_roles(&f);
  for (sx_id id = 0; id < n; id++) {
    planning->rows[id] = f.extents[id].row;
    if (planning->roles[id] != SX_ROLE_ATTENTION)
      planning->stored[id] = sx_is_element(&f, id) && f.users[id] != planning->groups[id];
  }
}
