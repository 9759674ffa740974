/* Element groups, tile by tile.
 *
 * The elements of a group's shape, in row-major order, are cut into tiles, so short that all that a group
 * touches of one tile stays in the first-level cache. Of each tile every instruction computes one node, from operands
 * that are contiguous: an input that lies so is used where it lies, a result that is stored goes straight to its
 * buffer, and everything else is a slot, a piece of scratch as long as a tile. Inputs seen through other strides are
 * read into a slot when first needed; those that look the same in every tile (a scalar, a bias, when tiles are whole
 * rows) only once a thread.
 *
 * Tiles are cut at the ends of rows where an input is broadcast along the rows, so that it looks the same
 * in each tile, or lies in one piece: `piece` elements are one such stretch, cut into even tiles. */
#include "elementwise.h"

#include "../pass/plan_parts.h"

enum {
  TILE_BYTES = 1 << 14, /* of all operands of a tile together */
  SHORTEST_TILE = 256,  /* elements: shorter, the calls cost more than the cache saves */
  LONGEST_TILE = 1024,
  TILE_MULTIPLE = 32,   /* elements that kernels take at once */
  SLOT_GAP = 64,        /* bytes between slots, so that slots do not share low address bits */
  LEAST_WORK = 1 << 16, /* of a thread, in simple operations: below, waking one costs more */
  VALUES = SX_GROUP_NODES * 4
};

typedef enum value_kind {
  VALUE_DIRECT, /* in its buffer, element i of the tile at i */
  VALUE_FIXED,  /* an input in a slot, the same for all tiles */
  VALUE_READ,   /* an input, read into its slot unless the tile lies in one piece */
  VALUE_SLOT    /* a node that is not stored */
} value_kind;

typedef struct value {
  value_kind kind;
  uint32_t buffer;
  sx_walk walk; /* inputs */
  uint32_t slot;
  int bytes;     /* of an element */
  uint32_t last; /* last instruction that uses it */
  sx_id node;
} value;

typedef struct instruction {
  sx_op op;
  sx_dtype from, to;
  uint32_t n_inputs, inputs[3], out; /* values */
  uint32_t n_reads, reads[3];        /* VALUE_READ that are used here first */
} instruction;

struct sx_group {
  const sx_kernel_set *kernels;
  value *values;
  uint32_t n_values, n_inputs; /* inputs come first */
  instruction *instructions;
  uint32_t n_instructions, n_slots;
  int64_t n, piece, tile, tiles_in_piece;
  int64_t grain; /* tiles that are worth a thread */
};

/* ---- preparing ----------------------------------------------------------------------------------- */

typedef struct preparing {
  const sx_plan *plan;
  sx_group *group;
  sx_arena *arena;
  SX_VEC(uint32_t) free_slots;
} preparing;

static uint32_t find_value(const sx_group *group, sx_id node) {
  for (uint32_t i = group->n_values; i-- > 0;)
    if (group->values[i].node == node) return i;
  return UINT32_MAX;
}

static bool in_task(const sx_task *task, sx_id node) {
  uint32_t low = 0, high = task->n_nodes;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (task->nodes[middle] < node)
      low = middle + 1;
    else
      high = middle;
  }
  return low < task->n_nodes && task->nodes[low] == node;
}

/* The node of the task that the input is, itself or reshaped; else the input. */
static sx_id in_task_or_input(const sx_graph *graph, const sx_task *task, sx_id input) {
  for (sx_id id = input;;) {
    if (in_task(task, id)) return id;
    if (sx_node_at(graph, id)->op != SX_OP_RESHAPE) return input;
    id = sx_node_at(graph, id)->inputs[0];
  }
}

static void add_value(preparing *p, sx_id id, value_kind kind) {
  const sx_node *node = sx_node_at(p->plan->graph, id);
  value *one = &p->group->values[p->group->n_values++];
  *one = (value){.kind = kind, .buffer = p->plan->views[id].buffer, .node = id};
  one->bytes = (int)sx_dtype_bytes(node->dtype);
}

static void add_inputs(preparing *p, const sx_task *task) {
  for (uint32_t i = 0; i < task->n_nodes; i++) {
    const sx_node *node = sx_node_at(p->plan->graph, task->nodes[i]);
    for (uint32_t k = 0; k < node->n_inputs; k++) {
      sx_id input = in_task_or_input(p->plan->graph, task, node->inputs[k]);
      if (in_task(task, input) || find_value(p->group, input) != UINT32_MAX) continue;
      add_value(p, input, VALUE_READ);
      value *one = &p->group->values[p->group->n_values - 1];
      one->walk = sx_walk_make(&p->plan->views[input], sx_node_at(p->plan->graph, input));
      if (sx_walk_is_contiguous(&one->walk)) one->kind = VALUE_DIRECT;
    }
  }
  p->group->n_inputs = p->group->n_values;
}

static void add_instruction(preparing *p, const sx_task *task, sx_id id) {
  const sx_node *node = sx_node_at(p->plan->graph, id);
  instruction *one = &p->group->instructions[p->group->n_instructions];
  *one = (instruction){.op = node->op, .to = node->dtype, .n_inputs = node->n_inputs};
  one->from = sx_node_at(p->plan->graph, node->inputs[node->op == SX_OP_WHERE])->dtype;
  for (uint32_t k = 0; k < node->n_inputs; k++) {
    one->inputs[k] = find_value(p->group, in_task_or_input(p->plan->graph, task, node->inputs[k]));
    p->group->values[one->inputs[k]].last = p->group->n_instructions;
  }
  one->out = find_value(p->group, id);
  p->group->values[one->out].last = p->group->n_instructions++;
}

/* Values alive at one instruction at most, inputs and stored results all the time. */
static int64_t count_live(preparing *p) {
  const sx_group *group = p->group;
  int64_t *ends = SX_NEW_N(p->arena, int64_t, group->n_instructions), live = 0, most = 0, steady = group->n_inputs;
  for (uint32_t i = group->n_inputs; i < group->n_values; i++) {
    if (group->values[i].kind == VALUE_SLOT)
      ends[group->values[i].last]++;
    else
      steady++;
  }
  for (uint32_t i = 0; i < group->n_instructions; i++) {
    live += group->values[group->instructions[i].out].kind == VALUE_SLOT;
    if (live > most) most = live;
    live -= ends[i];
  }
  return steady + most;
}

static int64_t longest_tile(preparing *p) {
  int64_t n = TILE_BYTES / (4 * count_live(p));
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

static void cut_tiles(sx_group *group, int64_t longest) {
  int64_t unit, most;
  find_pieces(group, longest, &unit, &group->piece);
  most = unit > 1 ? longest / unit * unit : longest;
  if (unit == 1) unit = TILE_MULTIPLE;
  group->tiles_in_piece = (group->piece + most - 1) / most;
  group->tile = unit;
  if (group->tiles_in_piece)
    group->tile = round_up((group->piece + group->tiles_in_piece - 1) / group->tiles_in_piece, unit);
}

/* Whether an input looks the same in every tile: it repeats after `period`, and tiles are whole periods. */
static bool is_fixed(const sx_group *group, const sx_walk *walk) {
  if (sx_walk_is_splat(walk)) return true;
  if (walk->strides[0] != 0) return false;
  int64_t period = walk->n / walk->dims[0];
  return group->tile % period == 0 && group->piece % period == 0;
}

static uint32_t take_slot(preparing *p) {
  return p->free_slots.n ? p->free_slots.items[--p->free_slots.n] : p->group->n_slots++;
}

static void give_slot(preparing *p, uint32_t slot) { SX_PUSH(p->arena, p->free_slots, slot); }

static bool has_passing_slot(const value *one) { return one->kind == VALUE_READ || one->kind == VALUE_SLOT; }

/* Inputs that end with the instruction give their slots back before the result takes one only if the result
 * may be written over them: it has their element size. */
static void assign_slots(preparing *p, uint32_t number) {
  sx_group *group = p->group;
  instruction *one = &group->instructions[number];
  value *out = &group->values[one->out];
  for (uint32_t k = 0; k < one->n_inputs; k++) {
    value *input = &group->values[one->inputs[k]];
    if (input->kind != VALUE_READ || input->slot != UINT32_MAX) continue;
    input->slot = take_slot(p);
    one->reads[one->n_reads++] = one->inputs[k];
  }
  for (int pass = 0; pass < 2; pass++) {
    if (pass == 1 && out->kind == VALUE_SLOT) out->slot = take_slot(p);
    for (uint32_t k = 0; k < one->n_inputs; k++) {
      value *input = &group->values[one->inputs[k]];
      bool again = (k > 0 && one->inputs[k] == one->inputs[0]) || (k > 1 && one->inputs[k] == one->inputs[1]);
      if (again || !has_passing_slot(input) || input->last != number) continue;
      if ((input->bytes == out->bytes) == (pass == 0)) give_slot(p, input->slot);
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

sx_group *sx_group_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels, sx_arena *arena) {
  sx_group *group = SX_NEW(arena, sx_group);
  preparing p = {.plan = plan, .group = group, .arena = arena};
  group->kernels = kernels;
  group->n = sx_node_elements(sx_node_at(plan->graph, task->nodes[0]));
  group->values = SX_NEW_N(arena, value, task->n_nodes * 4);
  group->instructions = SX_NEW_N(arena, instruction, task->n_nodes);
  add_inputs(&p, task);
  for (uint32_t i = 0; i < task->n_nodes; i++)
    add_value(&p, task->nodes[i], task->stored[i] ? VALUE_DIRECT : VALUE_SLOT);
  for (uint32_t i = 0; i < task->n_nodes; i++) add_instruction(&p, task, task->nodes[i]);
  cut_tiles(group, longest_tile(&p));
  for (uint32_t i = 0; i < group->n_values; i++) {
    value *one = &group->values[i];
    one->slot = UINT32_MAX;
    if (one->kind != VALUE_READ || !is_fixed(group, &one->walk)) continue;
    one->kind = VALUE_FIXED;
    one->slot = group->n_slots++;
  }
  int64_t work = 0;
  for (uint32_t i = 0; i < group->n_instructions; i++) {
    assign_slots(&p, i);
    work += cost(group->instructions[i].op);
  }
  group->grain = LEAST_WORK / (work * group->tile) + 1;
  return group;
}

/* ---- running ------------------------------------------------------------------------------------- */

static int64_t slot_bytes(const sx_group *group) { return sx_aligned(group->tile * 4) + SLOT_GAP; }

int64_t sx_group_scratch(const sx_group *group) { return (int64_t)group->n_slots * slot_bytes(group); }

typedef struct running {
  const sx_group *group;
  void *const *data;
  char *scratch;
} running;

static void place_fixed(const running *run, char *slots, void **at) {
  const sx_group *group = run->group;
  int64_t n = group->tile < group->n ? group->tile : group->n;
  for (uint32_t i = 0; i < group->n_values; i++) {
    const value *one = &group->values[i];
    if (one->kind == VALUE_DIRECT) continue;
    at[i] = slots + one->slot * slot_bytes(group);
    if (one->kind == VALUE_FIXED) sx_walk_read(&one->walk, run->data[one->buffer], 0, n, at[i]);
  }
}

static void place_direct(const running *run, int64_t begin, void **at) {
  const sx_group *group = run->group;
  for (uint32_t i = 0; i < group->n_values; i++) {
    const value *one = &group->values[i];
    if (one->kind == VALUE_DIRECT) at[i] = (char *)run->data[one->buffer] + (begin + one->walk.offset) * one->bytes;
  }
}

/* The place of a tile of an input: in its buffer where it lies in one piece, else read into the slot. */
static void *place_read(const running *run, const value *one, int64_t begin, int64_t n, void *slot) {
  const sx_walk *walk = &one->walk;
  int last = walk->rank - 1;
  char *buffer = run->data[one->buffer];
  if (walk->strides[last] == 1 && begin % walk->dims[last] + n <= walk->dims[last])
    return buffer + sx_walk_at(walk, begin) * one->bytes;
  sx_walk_read(walk, buffer, begin, begin + n, slot);
  return slot;
}

static void run_tile(const running *run, char *slots, void **at, int64_t begin, int64_t n) {
  const sx_group *group = run->group;
  for (uint32_t i = 0; i < group->n_instructions; i++) {
    const instruction *one = &group->instructions[i];
    const void *inputs[3];
    for (uint32_t k = 0; k < one->n_reads; k++) {
      const value *input = &group->values[one->reads[k]];
      at[one->reads[k]] = place_read(run, input, begin, n, slots + input->slot * slot_bytes(group));
    }
    for (uint32_t k = 0; k < one->n_inputs; k++) inputs[k] = at[one->inputs[k]];
    group->kernels->element(one->op, one->from, one->to, at[one->out], inputs, n);
  }
}

static void run_tiles(void *context, int64_t first, int64_t end, int thread) {
  const running *run = context;
  const sx_group *group = run->group;
  char *slots = run->scratch + thread * sx_group_scratch(group);
  void *at[VALUES];
  place_fixed(run, slots, at);
  for (int64_t number = first; number < end; number++) {
    int64_t piece = number / group->tiles_in_piece * group->piece;
    int64_t begin = piece + number % group->tiles_in_piece * group->tile, limit = piece + group->piece;
    int64_t n = limit - begin < group->tile ? limit - begin : group->tile;
    place_direct(run, begin, at);
    run_tile(run, slots, at, begin, n);
  }
}

void sx_group_run(const sx_group *group, void *const *data, void *scratch, sx_pool *pool) {
  if (!group->n) return;
  running run = {.group = group, .data = data, .scratch = scratch};
  sx_pool_run(pool, group->n / group->piece * group->tiles_in_piece, group->grain, run_tiles, &run);
}
