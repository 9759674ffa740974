/* Executables: a plan's tasks resolved to kernels, with all memory they need.
 *
 * The memory is constants (CONST and IOTA, filled once), and in one piece the plan's block of temporaries, then
 * scratch, which tasks use one after the other; that piece may be shared with other executables. A task's operands are
 * addresses that follow from the plan, but that buffers from outside may be bound anew before each execution; so
 * operands are kept as buffer and offset, and their addresses are filled in before the call. */
#include "executable.h"

#include <fenv.h>
#include <stdatomic.h>
#include <string.h>

#include "../base/bug.h"
#include "../ir/draw_key.h"
#include "../pass/plan_parts.h"
#include "attention.h"
#include "canonical.h"
#include "columns.h"
#include "elementwise.h"
#include "launch.h"
#include "operand.h"
#include "walk.h"

enum { ALIGNMENT = 64 };

/* A task made ready. */
typedef struct step {
  sx_task_kind kind;
  sx_id node;
  sx_call call;         /* NODE */
  sx_fast_kernel *fast; /* NULL: none */
  sx_kernel *reference;
  sx_operand *inputs;
  uint32_t *input_buffers;
  int64_t *input_offsets;  /* bytes */
  sx_group *group;         /* ELEMENT */
  sx_group **groups;       /* ELEMENT: of one launch, the step's own the first */
  uint32_t n_groups;       /* 0: run with a step before */
  bool sums;               /* ELEMENT: it makes sums of columns */
  bool made;               /* NODE: groups make it */
  sx_attending *attending; /* ATTENTION */
  sx_walk *walk;           /* COPY */
  uint32_t source, target; /* buffers: COPY reads, NODE and COPY write */
  int64_t target_offset;   /* NODE: bytes; not 0 where it is a piece of a concatenation */
} step;

struct sx_executable {
  sx_cpu cpu;
  const sx_plan *plan;
  step *steps;
  size_t n_steps;
  sx_column_sums sums;
  void **data;                   /* per buffer */
  void *memory;                  /* as allocated: constants, then the block where it is not shared */
  const sx_workspace *workspace; /* NULL: the block is its own */
  char *block, *scratch;
  sx_fault fault;
  sx_observe *observe;
  void *observe_context;
  void *observed; /* as allocated: the largest value */
};

/* ---- preparing ----------------------------------------------------------------------------------- */

static sx_operand operand_of(const sx_plan *plan, sx_id id) {
  const sx_node *node = sx_node_at(plan->graph, id);
  return (sx_operand){.dtype = node->dtype, .rank = node->rank, .dims = node->dims, .strides = plan->views[id].strides};
}

static bool prepare_node(sx_executable *e, step *s, sx_id id, int64_t draw_seed, sx_arena *arena) {
  const sx_node *node = sx_node_at(e->plan->graph, id);
  s->kind = SX_TASK_NODE;
  s->node = id;
  s->target = e->plan->views[id].buffer;
  s->target_offset = e->plan->views[id].offset * sx_element_bytes(node->dtype);
  s->fast = e->cpu.kernels->fast[node->op];
  s->reference = sx_reference[node->op];
  s->inputs = SX_NEW_N(arena, sx_operand, node->n_inputs);
  s->input_buffers = SX_NEW_N(arena, uint32_t, node->n_inputs);
  s->input_offsets = SX_NEW_N(arena, int64_t, node->n_inputs);
  for (uint32_t i = 0; i < node->n_inputs; i++) {
    const sx_view *view = &e->plan->views[node->inputs[i]];
    s->inputs[i] = operand_of(e->plan, node->inputs[i]);
    s->input_buffers[i] = view->buffer;
    s->input_offsets[i] = view->offset * sx_element_bytes(s->inputs[i].dtype);
  }
  s->call = (sx_call){.node = node,
                      .out = operand_of(e->plan, id),
                      .inputs = s->inputs,
                      .n_inputs = node->n_inputs,
                      .fault = &e->fault,
                      .pool = e->cpu.pool};
  if (!s->reference) SX_BUG("no kernel computes %s", sx_op_describe(node->op)->name);
  if (sx_op_describe(node->op)->class != SX_CLASS_RANDOM) return true;
  return sx_draw_key(e->plan->graph, id, draw_seed, &s->call.stream_key);
}

static void prepare_group(sx_executable *e, step *s, const sx_task *task, sx_arena *arena) {
  const sx_columns *columns = e->sums.of_tasks ? e->sums.of_tasks[task - e->plan->tasks.items] : NULL;
  s->sums = columns != NULL;
  s->group = columns ? sx_group_new_columns(e->plan, task, columns, e->cpu.kernels, arena)
                     : sx_group_new(e->plan, task, e->cpu.kernels, arena);
}

static bool prepare_step(sx_executable *e, step *s, const sx_task *task, int64_t draw_seed, sx_arena *arena) {
  s->kind = task->kind;
  s->node = task->nodes[0];
  s->made = e->sums.made && e->sums.made[task - e->plan->tasks.items];
  s->target = task->target;
  if (task->kind == SX_TASK_COPY) {
    s->walk = SX_NEW(arena, sx_walk);
    *s->walk = sx_walk_make(&e->plan->views[task->nodes[1]], sx_node_at(e->plan->graph, task->nodes[1]));
    s->source = e->plan->views[task->nodes[1]].buffer;
    return true;
  }
  if (task->kind == SX_TASK_ATTENTION) {
    s->attending = sx_attending_new(e->plan, task, e->cpu.kernels, arena);
    return true;
  }
  bool alone = task->n_nodes == 1 && e->cpu.kernels->simd == SX_SIMD_REFERENCE;
  if (task->kind == SX_TASK_NODE || alone) return prepare_node(e, s, task->nodes[0], draw_seed, arena);
  prepare_group(e, s, task, arena);
  return true;
}

static int64_t scratch_bytes(const sx_executable *e, int n_threads) {
  int64_t most = 0;
  for (size_t i = 0; i < e->n_steps; i++) {
    const step *s = &e->steps[i];
    int64_t bytes = 0;
    if (s->kind == SX_TASK_NODE) bytes = sx_kernel_scratch(e->cpu.kernels, e->plan->graph, s->node, n_threads);
    if (s->kind == SX_TASK_ELEMENT)
      bytes = s->sums ? sx_group_columns_scratch(s->group, n_threads) : sx_group_scratch(s->group) * n_threads;
    if (s->kind == SX_TASK_ATTENTION) bytes = sx_attending_scratch(s->attending) * n_threads;
    if (bytes > most) most = bytes;
  }
  return sx_aligned(most);
}

/* A group with sums of columns goes alone: what would be its launch ends before it, and another begins after it. */
static void part_sums(const sx_executable *e, uint32_t *counts) {
  for (size_t i = 0; i < e->n_steps; i++)
    for (uint32_t k = 1; k < counts[i]; k++) {
      if (!e->steps[i].sums && !e->steps[i + k].sums) continue;
      counts[i + k] = counts[i] - k;
      counts[i] = k;
    }
}

/* At the reference level, where some groups are single nodes, each goes alone. */
static void join_launches(sx_executable *e, sx_arena *arena) {
  uint32_t *counts = sx_launches(e->plan, arena);
  for (size_t i = 0; i < e->n_steps && e->cpu.kernels->simd == SX_SIMD_REFERENCE; i++) counts[i] = 1;
  part_sums(e, counts);
  for (size_t i = 0; i < e->n_steps; i++) {
    step *s = &e->steps[i];
    if (s->kind != SX_TASK_ELEMENT) continue;
    s->n_groups = counts[i];
    s->groups = SX_NEW_N(arena, sx_group *, counts[i]);
    for (uint32_t k = 0; k < counts[i]; k++) s->groups[k] = e->steps[i + k].group;
  }
}

static bool is_known(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_CONST || buffer->kind == SX_BUFFER_IOTA;
}

int64_t sx_plan_constants(const sx_plan *plan) {
  int64_t bytes = 0;
  for (size_t b = 0; b < plan->buffers.n; b++)
    if (is_known(&plan->buffers.items[b])) bytes += (plan->buffers.items[b].n_bytes + 15) / 16 * 16;
  return sx_aligned(bytes);
}

static void fill_known(const sx_buffer *buffer, void *data) {
  if (buffer->kind == SX_BUFFER_CONST) {
    bool is_float = sx_is_float(buffer->dtype);
    sx_value value = {.f = is_float ? (float)buffer->value : 0.0f, .i = is_float ? 0 : (int32_t)buffer->value};
    sx_store(data, buffer->dtype, 0, value);
    return;
  }
  for (int64_t i = 0; i < buffer->n_bytes / 4; i++) ((int32_t *)data)[i] = (int32_t)i;
}

static void place_known(sx_executable *e, char *known) {
  for (size_t b = 0; b < e->plan->buffers.n; b++) {
    const sx_buffer *buffer = &e->plan->buffers.items[b];
    if (!is_known(buffer)) continue;
    e->data[b] = known;
    fill_known(buffer, known);
    known += (buffer->n_bytes + 15) / 16 * 16;
  }
}

/* Addresses of temporaries and scratch. */
static void place_block(sx_executable *e, char *block) {
  if (e->block == block) return;
  e->block = block;
  e->scratch = block + e->plan->block_bytes;
  for (size_t b = 0; b < e->plan->buffers.n; b++) {
    const sx_buffer *buffer = &e->plan->buffers.items[b];
    if (buffer->kind == SX_BUFFER_TEMPORARY) e->data[b] = block + buffer->offset;
  }
  for (size_t i = 0; i < e->n_steps; i++) e->steps[i].call.scratch = e->scratch;
}

static char *align(void *pointer) { return (char *)pointer + (ALIGNMENT - (uintptr_t)pointer % ALIGNMENT) % ALIGNMENT; }

bool sx_workspace_take(sx_workspace *workspace, sx_memory *memory) {
  if (!workspace->memory) workspace->memory = memory->allocate(memory->context, (size_t)workspace->n_bytes + ALIGNMENT);
  return workspace->memory != NULL;
}

void sx_workspace_give(sx_workspace *workspace, sx_memory *memory) {
  if (workspace->memory) memory->release(memory->context, workspace->memory);
  workspace->memory = NULL;
}

/* Whether the workspace has room for so much, or will have. */
static bool shares(sx_workspace *workspace, int64_t n_bytes) {
  if (!workspace) return false;
  if (workspace->n_bytes < n_bytes && !workspace->memory) workspace->n_bytes = n_bytes;
  return workspace->n_bytes >= n_bytes;
}

static bool take_memory(sx_executable *e) {
  int64_t known = sx_plan_constants(e->plan), scratch = scratch_bytes(e, sx_pool_threads(e->cpu.pool)), block;
  if (__builtin_add_overflow(e->plan->block_bytes, scratch, &block)) return false;
  bool shared = shares(e->cpu.workspace, block);
  int64_t own = shared ? 0 : block;
  if (own > PTRDIFF_MAX - known - ALIGNMENT) return false;
  e->memory = e->cpu.memory->allocate(e->cpu.memory->context, (size_t)(known + own + ALIGNMENT));
  if (!e->memory) return false;
  fenv_t caller;
  fegetenv(&caller);
  fesetenv(FE_DFL_ENV);
  place_known(e, align(e->memory));
  fesetenv(&caller);
  if (shared)
    e->workspace = e->cpu.workspace;
  else
    place_block(e, align(e->memory) + known);
  return true;
}

/* Without memory. NULL: draws have no key. */
static sx_executable *prepare(const sx_cpu *cpu, const sx_plan *plan, int64_t draw_seed, sx_arena *arena) {
  sx_executable *e = SX_NEW(arena, sx_executable);
  e->cpu = *cpu;
  e->plan = plan;
  e->n_steps = plan->tasks.n;
  if (cpu->kernels->simd != SX_SIMD_REFERENCE) e->sums = sx_columns_find(plan, arena);
  e->steps = SX_NEW_N(arena, step, e->n_steps);
  e->data = SX_NEW_N(arena, void *, plan->buffers.n);
  for (size_t i = 0; i < e->n_steps; i++)
    if (!prepare_step(e, &e->steps[i], &plan->tasks.items[i], draw_seed, arena)) return NULL;
  join_launches(e, arena);
  return e;
}

int64_t sx_plan_scratch(const sx_cpu *cpu, const sx_plan *plan, int n_threads, sx_arena *arena) {
  const sx_executable *e = prepare(cpu, plan, 0, arena);
  return e ? scratch_bytes(e, n_threads) : 0;
}

sx_executable *sx_executable_new(const sx_cpu *cpu, const sx_plan *plan, int64_t draw_seed, sx_arena *arena) {
  sx_executable *e = prepare(cpu, plan, draw_seed, arena);
  return e && take_memory(e) ? e : NULL;
}

void sx_executable_free(sx_executable *e) {
  if (!e) return;
  e->cpu.memory->release(e->cpu.memory->context, e->memory);
  if (e->observed) e->cpu.memory->release(e->cpu.memory->context, e->observed);
  e->memory = e->observed = NULL;
}

void sx_executable_bind(sx_executable *e, uint32_t buffer, void *data) { e->data[buffer] = data; }

/* ---- executing ----------------------------------------------------------------------------------- */

/* Where the ids of an operation are, and below what they must be. */
static void find_ids(const sx_call *call, const sx_operand **ids, int64_t *limit) {
  const sx_operand *first = &call->inputs[0], *out = &call->out;
  *ids = first;
  switch (call->node->op) {
    case SX_OP_GATHER:
      *ids = &call->inputs[1];
      *limit = first->dims[0];
      return;
    case SX_OP_TAKE:
      *ids = &call->inputs[1];
      *limit = first->dims[call->node->ints[0]];
      return;
    case SX_OP_SCATTER:
      *limit = out->dims[0];
      return;
    case SX_OP_PUT:
      *limit = out->dims[call->node->ints[0]];
      return;
    case SX_OP_ONEHOT:
      *limit = out->dims[out->rank - 1];
      return;
    default:
      SX_BUG("%s takes no ids", sx_op_describe(call->node->op)->name);
  }
}

static void explain(const sx_plan *plan, const step *s, int64_t at, sx_stopped *why) {
  const sx_operand *ids = NULL;
  int64_t limit = 0, place = 0, rest = at;
  find_ids(&s->call, &ids, &limit);
  for (int axis = ids->rank - 1; axis >= 0; axis--) {
    place += rest % ids->dims[axis] * ids->strides[axis];
    rest /= ids->dims[axis];
  }
  *why = (sx_stopped){plan, s->node, at, sx_load(ids->data, ids->dtype, place).i, limit};
}

static void run_node(const sx_executable *e, step *s) {
  if (s->made) return;
  for (uint32_t i = 0; i < s->call.n_inputs; i++)
    s->inputs[i].data = (char *)e->data[s->input_buffers[i]] + s->input_offsets[i];
  s->call.out.data = (char *)e->data[s->target] + s->target_offset;
  if (!s->fast || !s->fast(&s->call)) s->reference(&s->call);
}

static void run_step(const sx_executable *e, step *s) {
  switch (s->kind) {
    case SX_TASK_ELEMENT:
      if (s->sums)
        sx_group_run_columns(s->group, e->data, e->scratch, e->cpu.pool);
      else if (s->n_groups)
        sx_group_run(s->groups, s->n_groups, e->data, e->scratch, e->cpu.pool);
      break;
    case SX_TASK_COPY:
      sx_walk_copy(s->walk, e->data[s->source], e->data[s->target], e->cpu.pool);
      break;
    case SX_TASK_ATTENTION:
      sx_attending_run(s->attending, e->data, e->scratch, e->cpu.pool);
      break;
    case SX_TASK_NODE:
      run_node(e, s);
      break;
  }
}

static void observe_node(const sx_executable *e, sx_id id) {
  const sx_node *node = sx_node_at(e->plan->graph, id);
  const sx_view *view = &e->plan->views[id];
  if (node->op == SX_OP_CONST || node->op == SX_OP_IOTA || view->buffer == UINT32_MAX) return;
  sx_walk walk = sx_walk_make(view, node);
  void *value = align(e->observed);
  sx_walk_copy(&walk, e->data[view->buffer], value, e->cpu.pool);
  sx_canonical_nans(value, node->dtype, walk.n);
  e->observe(e->observe_context, id, value, walk.n * walk.bytes);
}

/* Of the first n_done steps, and of what came from outside. */
static void observe_all(const sx_executable *e, size_t n_done) {
  for (sx_id id = 0; id < e->plan->graph->nodes.n; id++) {
    uint32_t buffer = e->plan->views[id].buffer;
    if (buffer == UINT32_MAX) continue;
    const sx_buffer *held = &e->plan->buffers.items[buffer];
    if (held->kind == SX_BUFFER_EXTERNAL || held->whole < n_done) observe_node(e, id);
  }
}

/* Gives the number of steps that were done. */
static size_t run_steps(sx_executable *e, sx_stopped *why) {
  atomic_store_explicit(&e->fault.at, INT64_MAX, memory_order_relaxed);
  for (size_t i = 0; i < e->n_steps; i++) {
    run_step(e, &e->steps[i]);
    int64_t at = atomic_load_explicit(&e->fault.at, memory_order_relaxed);
    if (at == INT64_MAX) continue;
    explain(e->plan, &e->steps[i], at, why);
    return i;
  }
  return e->n_steps;
}

/* The caller may have set another rounding or the flushing of subnormals: bits are those of the default. */
bool sx_executable_execute(sx_executable *e, sx_stopped *why) {
  fenv_t caller;
  fegetenv(&caller);
  fesetenv(FE_DFL_ENV);
  if (e->workspace) place_block(e, align(e->workspace->memory));
  size_t n_done = run_steps(e, why);
  if (e->observe) observe_all(e, n_done);
  fesetenv(&caller);
  return n_done == e->n_steps;
}

bool sx_executable_observe(sx_executable *e, sx_observe *observe, void *context) {
  int64_t most = 0;
  for (sx_id id = 0; id < e->plan->graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(e->plan->graph, id);
    int64_t bytes = sx_node_elements(node) * sx_element_bytes(node->dtype);
    if (bytes > most && node->op != SX_OP_CONST && node->op != SX_OP_IOTA) most = bytes;
  }
  if (observe && !e->observed) e->observed = e->cpu.memory->allocate(e->cpu.memory->context, (size_t)most + 64);
  if (observe && !e->observed) return false;
  e->observe = observe;
  e->observe_context = context;
  return true;
}
