/* What each task of a training step takes: linked with sexpgpu-run, whose executables and their calls of kernels,
 * groups and copies come through here (the linker's --wrap). At the end JSON goes to the file that ACCOUNT_TASKS names:
 * ms, the median of the steps after the third, and the tasks of one such step in order, each with
 *
 *   kind, label      what it is: groups that are launched together are one, and a group has its sums of columns
 *   best, median     microseconds, of at most 64 steps
 *   flops            of products; 0: it is none
 *   bytes            read and written, each element once
 *
 * Operations without a fast kernel are not seen. */
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/base/memory.h"
#include "../../libsexp/cpu/attention.h"
#include "../../libsexp/cpu/elementwise.h"
#include "../../libsexp/cpu/executable.h"
#include "../../libsexp/cpu/walk.h"
#include "../../libsexp/pass/cost.h"
#include "../../libsexp/sexp.h"
#include "timing.h"

enum { MOST_EXECUTABLES = 4096, MOST_TASKS = 4096, MOST_STEPS = 64, WARM = 3, LABEL = 96 };

#define WRAPPED(type, name, parameters) \
  type __real_##name parameters;        \
  type __wrap_##name parameters

WRAPPED(sx_executable *, sx_executable_new, (const sx_cpu *, const sx_plan *, int64_t, sx_arena *));
WRAPPED(bool, sx_executable_execute, (sx_executable *, sx_stopped *));
WRAPPED(const sx_kernel_set *, sx_kernels, (sx_simd));
WRAPPED(void, sx_group_run, (sx_group *const *, uint32_t, void *const *, void *, sx_pool *));
WRAPPED(void, sx_group_run_columns, (const sx_group *, void *const *, void *, sx_pool *));
WRAPPED(void, sx_attending_run, (const sx_attending *, void *const *, void *, sx_pool *));
WRAPPED(void, sx_walk_copy, (const sx_walk *, const void *, void *, sx_pool *));
WRAPPED(sexp_status, sexp_run_step, (sexp_run *, sexp_step *, sexp_messages **));

typedef struct task_account {
  const char *kind;
  char label[LABEL];
  double flops, bytes;
  double us[MOST_STEPS];
} task_account;

static struct {
  const sx_executable *executable;
  const sx_plan *plan;
} executables[MOST_EXECUTABLES];
static int n_executables;

static task_account tasks[MOST_TASKS];
static double step_ms[MOST_STEPS];
static int n_tasks;  /* of a step, once the first is over */
static int n_before; /* steps that were not accounted */
static int n_steps, now_task;
static const sx_plan *now_plan; /* that is executed; NULL: none */
static size_t next_task;        /* of the plan */

/* ---- one task ------------------------------------------------------------------------------------ */

static void describe(task_account *account, const sx_task *task) {
  const sx_node *last = sx_node_at(now_plan->graph, task->nodes[task->n_nodes - 1]);
  const char *name = sx_op_describe(last->op)->name;
  int n = task->n_nodes == 1 ? snprintf(account->label, LABEL, "%s", name)
                             : snprintf(account->label, LABEL, "%u operations to %s", task->n_nodes, name);
  for (int axis = 0; axis < last->rank && n < LABEL - 24; axis++)
    n += snprintf(account->label + n, (size_t)(LABEL - n), "%s%lld", axis ? " " : " [", (long long)last->dims[axis]);
  if (last->rank) snprintf(account->label + n, (size_t)(LABEL - n), "]");
}

static bool is_task(const sx_task *task, sx_task_kind kind, const sx_node *node) {
  return task->kind == kind && (!node || sx_node_at(now_plan->graph, task->nodes[0]) == node);
}

/* Moves on to `n` tasks, the first of the kind and node (NULL: any); their costs, in the first step that is accounted.
 */
static void begin_task(const char *name, sx_task_kind kind, const sx_node *node, uint32_t n) {
  const sx_task *all = now_plan->tasks.items;
  while (next_task < now_plan->tasks.n && !is_task(&all[next_task], kind, node)) next_task++;
  size_t first = next_task;
  next_task += n;
  if (n_tasks || next_task > now_plan->tasks.n || now_task >= MOST_TASKS) return;
  task_account *account = &tasks[now_task];
  account->kind = name;
  account->flops = account->bytes = 0; /* of a kernel that declined */
  describe(account, &all[first]);
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  for (size_t i = first; i < next_task; i++) {
    sx_task_cost cost = sx_cost_of_task(now_plan, i, &arena);
    account->flops += cost.product_flops;
    account->bytes += cost.read_bytes + cost.written_bytes;
  }
  sx_arena_free(&arena);
}

static void end_task(double begin) {
  double us = (now_ns() - begin) * 1e-3;
  if (now_task < MOST_TASKS && n_steps < MOST_STEPS) tasks[now_task].us[n_steps] = us;
  now_task++;
}

/* ---- what is wrapped ----------------------------------------------------------------------------- */

static const sx_kernel_set *originals[SX_N_SIMD];
static sx_kernel_set timed_sets[SX_N_SIMD];
static sx_simd now_simd;

static bool run_kernel(const sx_call *call) {
  sx_fast_kernel *kernel = originals[now_simd]->fast[call->node->op];
  if (!now_plan) return kernel(call);
  begin_task("node", SX_TASK_NODE, call->node, 1);
  double begin = now_ns();
  bool taken = kernel(call);
  if (taken) end_task(begin);
  return taken;
}

const sx_kernel_set *__wrap_sx_kernels(sx_simd simd) {
  const sx_kernel_set *set = __real_sx_kernels(simd);
  if (!set) return NULL;
  now_simd = simd;
  originals[simd] = set;
  timed_sets[simd] = *set;
  for (int op = 0; op < SX_N_OPS; op++)
    if (set->fast[op]) timed_sets[simd].fast[op] = run_kernel;
  return &timed_sets[simd];
}

sx_executable *__wrap_sx_executable_new(const sx_cpu *cpu, const sx_plan *plan, int64_t draw_seed, sx_arena *arena) {
  sx_executable *executable = __real_sx_executable_new(cpu, plan, draw_seed, arena);
  if (executable && n_executables < MOST_EXECUTABLES) {
    executables[n_executables].executable = executable;
    executables[n_executables++].plan = plan;
  }
  return executable;
}

bool __wrap_sx_executable_execute(sx_executable *executable, sx_stopped *why) {
  now_plan = NULL;
  for (int i = 0; i < n_executables; i++)
    if (executables[i].executable == executable) now_plan = executables[i].plan;
  next_task = 0;
  bool done = __real_sx_executable_execute(executable, why);
  now_plan = NULL;
  return done;
}

void __wrap_sx_group_run(sx_group *const *groups, uint32_t n_groups, void *const *data, void *scratch, sx_pool *pool) {
  if (now_plan) begin_task("group", SX_TASK_ELEMENT, NULL, n_groups);
  double begin = now_ns();
  __real_sx_group_run(groups, n_groups, data, scratch, pool);
  if (now_plan) end_task(begin);
}

void __wrap_sx_group_run_columns(const sx_group *group, void *const *data, void *scratch, sx_pool *pool) {
  if (now_plan) begin_task("group", SX_TASK_ELEMENT, NULL, 1);
  double begin = now_ns();
  __real_sx_group_run_columns(group, data, scratch, pool);
  if (now_plan) end_task(begin);
}

void __wrap_sx_attending_run(const sx_attending *attending, void *const *data, void *scratch, sx_pool *pool) {
  if (now_plan) begin_task("attention", SX_TASK_ATTENTION, NULL, 1);
  double begin = now_ns();
  __real_sx_attending_run(attending, data, scratch, pool);
  if (now_plan) end_task(begin);
}

void __wrap_sx_walk_copy(const sx_walk *walk, const void *buffer, void *to, sx_pool *pool) {
  if (now_plan) begin_task("copy", SX_TASK_COPY, NULL, 1);
  double begin = now_ns();
  __real_sx_walk_copy(walk, buffer, to, pool);
  if (now_plan) end_task(begin);
}

/* Steps of another number of tasks, in which an evaluation falls, are left out. */
sexp_status __wrap_sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages) {
  bool warm = n_before >= WARM;
  if (!warm)
    n_tasks = -1;
  else if (n_tasks < 0)
    n_tasks = 0;
  now_task = 0;
  double begin = now_ns();
  sexp_status status = __real_sexp_run_step(run, step, messages);
  double ms = (now_ns() - begin) * 1e-6;
  if (!warm) {
    n_before++;
    return status;
  }
  if (!n_tasks) n_tasks = now_task < MOST_TASKS ? now_task : MOST_TASKS;
  if (now_task == n_tasks && n_steps < MOST_STEPS) step_ms[n_steps++] = ms;
  return status;
}

/* ---- the report ---------------------------------------------------------------------------------- */

static double median(double *samples) {
  qsort(samples, (size_t)n_steps, sizeof *samples, ascending);
  return samples[n_steps / 2];
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("ACCOUNT_TASKS");
  FILE *to = path && n_steps ? fopen(path, "w") : NULL;
  if (!to) return;
  fprintf(to, "{\"steps\": %d, \"ms\": %.4f, \"tasks\": [", n_steps, median(step_ms));
  for (int i = 0; i < n_tasks; i++) {
    task_account *t = &tasks[i];
    double middle = median(t->us);
    fprintf(
        to,
        "%s\n{\"kind\": \"%s\", \"label\": \"%s\", \"best\": %.2f, \"median\": %.2f, \"flops\": %.0f, \"bytes\": %.0f}",
        i ? "," : "", t->kind, t->label, t->us[0], middle, t->flops, t->bytes);
  }
  fprintf(to, "]}\n");
  fclose(to);
}
