/* Preparing an element group: where each value is found, which instructions make a step, how long tiles are.
 *
 * Tiles are so short that what a step leaves for the next one stays in the cache. Without rows, tiles are cut at the
 * ends of the stretches after which an input that is broadcast repeats: `piece` elements are one such stretch, cut
 * into even tiles. */
#include "group.h"

enum {
  TILE_BYTES = 1 << 14, /* of all operands of a tile together */
  ROWS_BYTES = 1 << 17, /* the same of a tile of rows, which several steps walk */
  SHORTEST_TILE = 256,  /* elements: shorter, the calls cost more than the cache saves */
  LONGEST_TILE = 1024,  /* with calls or slots */
  STREAMED_TILE = 4096, /* of one chain, from memory to memory */
  MOST_ROWS = 64,       /* of a tile */
  TILE_MULTIPLE = 128   /* elements that kernels take at once, at most */
};

typedef struct preparing {
  const sx_plan *plan;
  const sx_task *task;
  sx_group *group;
  sx_arena *arena;
} preparing;

/* ---- values and instructions --------------------------------------------------------------------- */

static uint32_t find_value(const sx_group *group, sx_id node) {
  for (uint32_t i = group->n_values; i-- > 0;)
    if (group->values[i].node == node) return i;
  return UINT32_MAX;
}

static bool in_task(const sx_task *task, sx_id node) {
  for (uint32_t i = 0; i < task->n_nodes; i++)
    if (task->nodes[i] == node) return true;
  return false;
}

/* The node of the task that the input is, itself, reshaped or stretched; else the input. */
static sx_id in_task_or_input(const sx_graph *graph, const sx_task *task, sx_id input) {
  for (sx_id id = input;;) {
    if (in_task(task, id)) return id;
    if (sx_node_at(graph, id)->op != SX_OP_RESHAPE && !sx_is_stretch(graph, id)) return input;
    id = sx_node_at(graph, id)->inputs[0];
  }
}

static bool is_scalar(const preparing *p, int64_t n) { return p->group->row && n != p->group->n; }

static void add_value(preparing *p, sx_id id, bool scalar, bool input) {
  const sx_node *node = sx_node_at(p->plan->graph, id);
  sx_group_value *one = &p->group->values[p->group->n_values++];
  *one = (sx_group_value){.buffer = p->plan->views[id].buffer, .node = id, .dtype = node->dtype, .scalar = scalar};
  one->bytes = (int)sx_dtype_bytes(node->dtype);
  one->first = UINT32_MAX;
  if (input) one->walk = sx_walk_make(&p->plan->views[id], node);
}

static void add_inputs(preparing *p) {
  const sx_task *task = p->task;
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(p->plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = in_task_or_input(p->plan->graph, task, node->inputs[k]);
      if (in_task(task, input) || find_value(p->group, input) != UINT32_MAX) continue;
      add_value(p, input, is_scalar(p, sx_node_elements(sx_node_at(p->plan->graph, input))), true);
    }
  }
  p->group->n_inputs = p->group->n_values;
}

static bool reduces(sx_op op) { return op == SX_OP_SUM || op == SX_OP_REDUCEMAX || op == SX_OP_REDUCEMIN; }

static void add_instruction(preparing *p, sx_id id) {
  const sx_node *node = sx_node_at(p->plan->graph, id);
  sx_group *group = p->group;
  sx_instruction *one = &group->instructions[group->n_instructions++];
  *one = (sx_instruction){.op = node->op, .to = node->dtype, .n_inputs = node->n_inputs, .folds = reduces(node->op)};
  one->from = sx_node_at(p->plan->graph, node->inputs[node->op == SX_OP_WHERE])->dtype;
  for (uint32_t k = 0; k < node->n_inputs; k++)
    one->inputs[k] = find_value(group, in_task_or_input(p->plan->graph, p->task, node->inputs[k]));
  one->out = find_value(group, id);
  one->scalar = group->values[one->out].scalar && !one->folds;
  one->chained = sx_chain_takes(group->chains, one);
}

/* ---- steps --------------------------------------------------------------------------------------- */

/* Whether the instruction can be the next one of the step: not where it needs a reduction of that step. */
static bool continues(const sx_group *group, const sx_group_step *step, const sx_instruction *one) {
  if (!step->chained || !one->chained || step->scalar != one->scalar) return false;
  for (uint32_t i = 0; i < step->n_instructions; i++)
    for (uint32_t k = 0; k < one->n_inputs; k++)
      if (step->instructions[i].folds && step->instructions[i].out == one->inputs[k]) return false;
  return group->n_steps > 0;
}

static void note_step(sx_group *group, uint32_t value, bool called) {
  sx_group_value *one = &group->values[value];
  uint32_t number = group->n_steps - 1;
  if (one->first == UINT32_MAX) one->first = number;
  one->last = number;
  one->called = one->called || called;
}

static void make_steps(preparing *p) {
  sx_group *group = p->group;
  for (uint32_t i = 0; i < group->n_instructions; i++) {
    const sx_instruction *one = &group->instructions[i];
    sx_group_step *step = group->n_steps ? &group->steps[group->n_steps - 1] : NULL;
    if (!step || !continues(group, step, one)) {
      step = &group->steps[group->n_steps++];
      *step = (sx_group_step){.chained = one->chained, .scalar = one->scalar, .instructions = one};
    }
    step->n_instructions++;
    for (uint32_t k = 0; k < one->n_inputs; k++) note_step(group, one->inputs[k], !one->chained);
    note_step(group, one->out, !one->chained);
  }
}

/* ---- places -------------------------------------------------------------------------------------- */

/* Elements that a stored value has in one piece, where it is a piece of a concatenation; 0: all. They are whole rows
 * (pass/join.c). */
static int64_t stored_run(const sx_group *group) {
  for (uint32_t i = group->n_inputs; i < group->n_values; i++) {
    const sx_group_value *one = &group->values[i];
    if (one->stored && !sx_walk_is_contiguous(&one->walk)) return one->walk.dims[one->walk.rank - 1];
  }
  return 0;
}

/* Rows of a group without reductions: those that it stores apart, or the shortest last loop of an input that is worth
 * it, so that what is broadcast along rows or columns is used where it lies. */
static int64_t find_row(const sx_group *group) {
  int64_t row = stored_run(group);
  if (row) return row;
  for (uint32_t i = 0; i < group->n_inputs; i++) {
    const sx_walk *walk = &group->values[i].walk;
    int64_t length = walk->dims[walk->rank - 1];
    if (walk->rank < 2 || walk->strides[walk->rank - 1] > 1 || walk->strides[walk->rank - 1] < 0) continue;
    if (length < TILE_MULTIPLE || length > SX_ROW_MOST || group->values[i].called) continue;
    if (!row || length < row) row = length;
  }
  return row;
}

static sx_place input_place(const sx_group *group, const sx_group_value *one) {
  const sx_walk *walk = &one->walk;
  int64_t stride = walk->strides[walk->rank - 1], length = walk->dims[walk->rank - 1];
  if (sx_walk_is_contiguous(walk)) return SX_PLACE_DIRECT;
  if (one->called) return SX_PLACE_READ;
  bool spreads = one->dtype == SX_F32 || one->dtype == SX_I32;
  if (sx_walk_is_splat(walk)) return spreads ? SX_PLACE_SPLAT : SX_PLACE_READ;
  if (!group->row || one->scalar || length % group->row != 0) return SX_PLACE_READ;
  if (stride == 1) return SX_PLACE_ROW;
  return stride == 0 && spreads ? SX_PLACE_ROW_SPLAT : SX_PLACE_READ;
}

static void place_values(preparing *p) {
  sx_group *group = p->group;
  for (uint32_t i = 0; i < group->n_values; i++) {
    sx_group_value *one = &group->values[i];
    if (i < group->n_inputs)
      one->place = input_place(group, one);
    else if (one->stored)
      one->place = sx_walk_is_contiguous(&one->walk) ? SX_PLACE_DIRECT : SX_PLACE_ROW;
    else
      one->place = one->first == one->last && group->steps[one->first].chained ? SX_PLACE_LOCAL : SX_PLACE_SLOT;
  }
  for (uint32_t i = 0; i < group->n_instructions; i++)
    if (group->instructions[i].folds && group->values[group->instructions[i].out].place == SX_PLACE_LOCAL)
      group->values[group->instructions[i].out].place = SX_PLACE_SLOT;
}

/* ---- tiles --------------------------------------------------------------------------------------- */

/* Values of a whole tile that are alive at one step at most, inputs and stored results all the time. */
static int64_t count_live(const sx_group *group) {
  int64_t most = 0, steady = 0;
  for (uint32_t s = 0; s < group->n_steps; s++) {
    int64_t live = 0;
    for (uint32_t i = group->n_inputs; i < group->n_values; i++) {
      const sx_group_value *one = &group->values[i];
      live += one->place == SX_PLACE_SLOT && !one->scalar && one->first <= s && one->last >= s;
    }
    if (live > most) most = live;
  }
  for (uint32_t i = 0; i < group->n_values; i++) {
    const sx_group_value *one = &group->values[i];
    steady += !one->scalar && one->place != SX_PLACE_SLOT && one->place != SX_PLACE_LOCAL &&
              one->place != SX_PLACE_SPLAT && one->place != SX_PLACE_ROW_SPLAT;
  }
  return steady + most > 0 ? steady + most : 1;
}

static bool is_one_chain(const sx_group *group) {
  if (group->n_steps != 1 || !group->steps[0].chained) return false;
  for (uint32_t i = 0; i < group->n_inputs; i++)
    if (group->values[i].place == SX_PLACE_READ) return false;
  return true;
}

static int64_t longest_tile(const sx_group *group) {
  if (is_one_chain(group)) return STREAMED_TILE;
  int64_t n = TILE_BYTES / (4 * count_live(group));
  if (n < SHORTEST_TILE) return SHORTEST_TILE;
  return n > LONGEST_TILE ? LONGEST_TILE : n / TILE_MULTIPLE * TILE_MULTIPLE;
}

/* The length of a stretch in which some input lies in one piece or after which it repeats: the largest that
 * fits a tile of at most `longest` elements (*below; 1: none), and the smallest that does not (*above; n). */
static void find_pieces(const sx_group *group, int64_t longest, int64_t *below, int64_t *above) {
  *below = 1;
  *above = group->n;
  for (uint32_t i = 0; i < group->n_inputs; i++) {
    const sx_walk *walk = &group->values[i].walk;
    int64_t size = 1;
    for (int axis = walk->rank - 1; axis > 0; axis--) {
      size *= walk->dims[axis];
      if (size <= longest && size > *below) *below = size;
      if (size > longest && size < *above) *above = size;
    }
  }
}

static int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void cut_tiles(sx_group *group) {
  int64_t unit, most, longest = longest_tile(group);
  find_pieces(group, longest, &unit, &group->piece);
  most = unit > 1 ? longest / unit * unit : longest;
  int64_t both = unit / greatest_divisor(unit, TILE_MULTIPLE) * TILE_MULTIPLE; /* whole blocks too, if it is near */
  if (both <= 2 * longest) {
    unit = both;
    most = longest > unit ? longest / unit * unit : unit;
  }
  group->tiles_in_piece = (group->piece + most - 1) / most;
  group->tile = unit;
  if (group->tiles_in_piece)
    group->tile = round_up((group->piece + group->tiles_in_piece - 1) / group->tiles_in_piece, unit);
}

static void cut_rows(sx_group *group) {
  int64_t rows = ROWS_BYTES / (4 * group->row * count_live(group));
  if (rows > MOST_ROWS) rows = MOST_ROWS;
  group->tile = (rows > 1 ? rows : 1) * group->row;
  group->piece = group->n;
  group->tiles_in_piece = (group->n + group->tile - 1) / group->tile;
}

/* Whether an input looks the same in every tile: it repeats after `period`, and tiles are whole periods. */
static bool is_fixed(const sx_group *group, const sx_group_value *one) {
  if (one->place != SX_PLACE_READ || one->scalar || group->columns || group->tiled) return false;
  if (sx_walk_is_splat(&one->walk)) return true;
  if (one->walk.strides[0] != 0) return false;
  int64_t period = one->walk.n / one->walk.dims[0];
  return group->tile % period == 0 && group->piece % period == 0;
}

/* ---- slots --------------------------------------------------------------------------------------- */

/* A result does not take the slot of an input of the same step: a chain writes one block while it reads others. */
static void assign_slots(preparing *p) {
  sx_group *group = p->group;
  SX_VEC(uint32_t) free_slots = {0};
  for (uint32_t s = 0; s < group->n_steps; s++) {
    sx_group_step *step = &group->steps[s];
    step->reads = SX_NEW_N(p->arena, uint32_t, group->n_values);
    for (uint32_t i = 0; i < group->n_values; i++) {
      sx_group_value *one = &group->values[i];
      if (one->first != s || (one->place != SX_PLACE_SLOT && one->place != SX_PLACE_READ)) continue;
      if (one->place == SX_PLACE_READ) step->reads[step->n_reads++] = i;
      if (one->scalar)
        one->slot = group->n_scalar_slots++;
      else
        one->slot = free_slots.n ? free_slots.items[--free_slots.n] : group->n_slots++;
    }
    for (uint32_t i = 0; i < group->n_values; i++) {
      const sx_group_value *one = &group->values[i];
      bool passing = !one->scalar && (one->place == SX_PLACE_SLOT || one->place == SX_PLACE_READ);
      if (passing && one->last == s && one->first != UINT32_MAX) SX_PUSH(p->arena, free_slots, one->slot);
    }
  }
}

/* Simple operations that one costs. */
static int64_t cost(sx_op op) {
  switch (op) {
    case SX_OP_POW:
    case SX_OP_ATAN2:
      return 100;
    case SX_OP_EXP:
    case SX_OP_EXP2:
    case SX_OP_EXPM1:
    case SX_OP_LOG:
    case SX_OP_LOG2:
    case SX_OP_LOG1P:
    case SX_OP_SIN:
    case SX_OP_COS:
    case SX_OP_TAN:
    case SX_OP_TANH:
    case SX_OP_ERF:
      return 30;
    case SX_OP_DIV:
    case SX_OP_IDIV:
    case SX_OP_MOD:
    case SX_OP_SQRT:
    case SX_OP_RSQRT:
      return 4;
    default:
      return 1;
  }
}

/* Of an element: its operations, and what is read and written in memory. */
static int64_t work_of(const sx_group *group) {
  int64_t work = 0;
  for (uint32_t i = 0; i < group->n_instructions; i++) work += cost(group->instructions[i].op);
  for (uint32_t i = 0; i < group->n_values; i++) work += group->values[i].place == SX_PLACE_DIRECT;
  return work > 0 ? work : 1;
}

static void compile_chains(preparing *p) {
  sx_group *group = p->group;
  for (uint32_t s = 0; s < group->n_steps; s++) {
    sx_group_step *step = &group->steps[s];
    if (!step->chained) continue;
    sx_chain_compile(group, s, p->arena);
    if (step->n_locals > group->n_locals) group->n_locals = step->n_locals;
    if (step->n_uses > group->n_pads) group->n_pads = step->n_uses;
    if (step->n_folds > group->n_folds) group->n_folds = step->n_folds;
  }
}

static int64_t widest(const preparing *p) {
  int64_t n = 0;
  for (uint32_t i = 0; i < p->task->n_nodes; i++) {
    int64_t elements = sx_node_elements(sx_node_at(p->plan->graph, p->task->nodes[i]));
    if (elements > n) n = elements;
  }
  return n;
}

/* A reduction's input may be the only value that has all elements. */
static int64_t count_elements(const preparing *p) {
  int64_t n = widest(p);
  if (!p->task->row) return n;
  for (uint32_t i = 0; i < p->task->n_nodes; i++) {
    const sx_node *node = sx_node_at(p->plan->graph, p->task->nodes[i]);
    if (reduces(node->op)) return sx_node_elements(sx_node_at(p->plan->graph, node->inputs[0]));
  }
  return n;
}

typedef struct tile_cut {
  const sx_id *given;
  uint32_t n_given;
  int64_t n_rows; /* of a tile; 0: the group cuts its own */
  const sx_columns *columns;
} tile_cut;

static void add_values(preparing *p, const tile_cut *tiling) {
  const sx_task *task = p->task;
  sx_group *group = p->group;
  add_inputs(p);
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    int64_t n = sx_node_elements(sx_node_at(p->plan->graph, task->nodes[i]));
    add_value(p, task->nodes[i], is_scalar(p, n), false);
    sx_group_value *one = &group->values[group->n_values - 1];
    one->stored = task->stored[i];
    if (one->stored) one->walk = sx_walk_make(&p->plan->views[task->nodes[i]], sx_node_at(p->plan->graph, one->node));
  }
  for (uint32_t i = 0; tiling->columns && i < tiling->columns->n; i++) {
    uint32_t value = find_value(group, tiling->columns->summed[i]);
    sx_group_value *one = &group->values[value];
    if (value >= group->n_inputs) one->stored = tiling->columns->read[i];
    one->sum = i + 1;
  }
  for (uint32_t i = 0; i < tiling->n_given; i++) group->values[find_value(group, tiling->given[i])].given = i + 1;
}

static void cut(sx_group *group, const tile_cut *tiling) {
  if (tiling->n_rows)
    group->tile = group->piece = tiling->n_rows * group->row;
  else if (group->row)
    cut_rows(group);
  else
    cut_tiles(group);
}

static sx_group *new_group(const sx_plan *plan, const sx_task *task, const tile_cut *tiling,
                           const sx_kernel_set *kernels, sx_arena *arena) {
  sx_group *group = SX_NEW(arena, sx_group);
  preparing p = {.plan = plan, .task = task, .group = group, .arena = arena};
  group->kernels = kernels;
  group->chains = kernels->chains;
  group->row = task->row;
  group->tiled = tiling->n_rows > 0;
  group->columns = tiling->columns;
  group->n = count_elements(&p);
  group->values = SX_NEW_N(arena, sx_group_value, task->n_nodes * 4);
  group->instructions = SX_NEW_N(arena, sx_instruction, task->n_nodes);
  group->steps = SX_NEW_N(arena, sx_group_step, task->n_nodes);
  add_values(&p, tiling);
  for (uint32_t i = 0; i < task->n_nodes; i++) add_instruction(&p, task->nodes[i]);
  make_steps(&p);
  if (!group->row) group->row = group->columns ? group->columns->row : find_row(group);
  place_values(&p);
  cut(group, tiling);
  for (uint32_t i = 0; i < group->n_values; i++) {
    sx_group_value *one = &group->values[i];
    if (!is_fixed(group, one)) continue;
    one->place = SX_PLACE_FIXED;
    one->slot = group->n_slots++;
  }
  assign_slots(&p);
  compile_chains(&p);
  group->work = work_of(group) * (group->tile > 0 ? group->tile : 1);
  return group;
}

sx_group *sx_group_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels, sx_arena *arena) {
  return new_group(plan, task, &(tile_cut){0}, kernels, arena);
}

sx_group *sx_group_new_tiled(const sx_plan *plan, const sx_task *task, const sx_id *given, uint32_t n_given,
                             int64_t n_rows, const sx_kernel_set *kernels, sx_arena *arena) {
  return new_group(plan, task, &(tile_cut){.given = given, .n_given = n_given, .n_rows = n_rows}, kernels, arena);
}

sx_group *sx_group_new_columns(const sx_plan *plan, const sx_task *task, const sx_columns *columns,
                               const sx_kernel_set *kernels, sx_arena *arena) {
  return new_group(plan, task, &(tile_cut){.columns = columns}, kernels, arena);
}
