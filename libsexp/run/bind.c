/* Units made ready: an executable each, and for every buffer of its plan the place it is bound to. */
#include <inttypes.h>
#include <string.h>

#include "../base/bug.h"
#include "run.h"

const char *sx_after(const char *text, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(text, prefix, n) ? NULL : text + n;
}

float *sx_new_cell(sx_run *run) { return sx_take_aligned(&run->arena, SX_CELL_BYTES); }

static const char *const counter_names[SX_N_COUNTERS] = {
    [SX_COUNTER_STEP] = "step",       [SX_COUNTER_MICROBATCH] = "microbatch",
    [SX_COUNTER_RECORDS] = "records", [SX_COUNTER_STAGE_RECORDS] = "stage-records",
    [SX_COUNTER_STAGE] = "stage",     [SX_COUNTER_TRIP] = "trip",
};

static int find_counter(const char *name) {
  int i = 0;
  while (i < SX_N_COUNTERS && strcmp(counter_names[i], name)) i++;
  return i;
}

bool sx_resolve_common(sx_run *run, const sx_buffer *buffer, sx_binding *binding) {
  if (buffer->kind != SX_BUFFER_EXTERNAL) return false;
  const char *param = sx_after(buffer->name, "param/"), *counter = sx_after(buffer->name, "counter/");
  if (param) {
    binding->kind = SX_BIND_NOW;
    binding->index = (int64_t)sx_find_slot(run, param, false);
    return binding->index < (int64_t)run->n_params;
  }
  int i = counter ? find_counter(counter) : SX_N_COUNTERS;
  if (i == SX_N_COUNTERS) return false;
  binding->address = run->counters[i];
  return true;
}

static void note_counter(sx_run *run, sx_bound *bound, const sx_binding *binding) {
  for (int i = 0; i < SX_N_COUNTERS; i++)
    if (binding->kind == SX_BIND_FIXED && binding->address == run->counters[i]) bound->counters |= 1u << i;
}

void sx_bind_unit(sx_run *run, sx_bound *bound, const sx_unit *unit, const sx_plan *plan, sx_resolve *resolve,
                  void *context, sx_arena *arena) {
  *bound = (sx_bound){.unit = unit, .plan = plan, .next_bound = run->bounds};
  run->bounds = bound;
  bound->bindings = SX_NEW_N(arena, sx_binding, plan->buffers.n);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    sx_binding binding = {.buffer = b, .kind = SX_BIND_FIXED};
    if (!sx_resolve_common(run, buffer, &binding) && !resolve(run, context, buffer, &binding))
      SX_BUG("graph %s: %s is bound to nothing", unit->label, buffer->name);
    note_counter(run, bound, &binding);
    bound->bindings[bound->n_bindings++] = binding;
  }
  bound->executable = sx_executable_new(&run->cpu, plan, run->program->seed, arena);
  if (!bound->executable) sx_memory_fail(run->memory);
}

void sx_release_bound(sx_bound *bound) {
  if (bound->executable) sx_executable_free(bound->executable);
  bound->executable = NULL;
}

static void *address_of(const sx_run *run, const sx_binding *binding) {
  switch (binding->kind) {
    case SX_BIND_NOW:
      return run->slots[binding->index].now;
    case SX_BIND_NEXT:
      return run->slots[binding->index].next;
    case SX_BIND_FIELD:
      return run->fields[binding->index];
    case SX_BIND_LEAF:
      return run->sum.leaf + binding->index;
    case SX_BIND_MEMORY:
      return run->generator->memory[binding->index];
    case SX_BIND_MEMORY_NEXT:
      return run->generator->memory_next[binding->index];
    case SX_BIND_FIXED:
      break;
  }
  return binding->address;
}

static int64_t count_of(const sx_run *run, int counter) {
  switch (counter) {
    case SX_COUNTER_STEP:
      return run->position.step;
    case SX_COUNTER_MICROBATCH:
      return run->microbatch;
    case SX_COUNTER_RECORDS:
      return run->records;
    case SX_COUNTER_STAGE_RECORDS:
      return run->stage_records;
    case SX_COUNTER_STAGE:
      return run->position.stage;
    default:
      return run->trip;
  }
}

static bool set_counters(sx_run *run, const sx_bound *bound) {
  for (int i = 0; i < SX_N_COUNTERS; i++) {
    if (!(bound->counters >> i & 1)) continue;
    int64_t count = count_of(run, i);
    if (count > INT32_MAX) {
      sx_error(&run->diags, SX_E_RUN_COUNTER, (sx_span){0}, "(input :%s) would be %" PRId64 ", an i32 ends at %" PRId32,
               counter_names[i], count, INT32_MAX);
      return false;
    }
    *run->counters[i] = (int32_t)count;
  }
  return true;
}

static void report_stop(sx_run *run, const sx_bound *bound, const sx_stopped *why) {
  const sx_node *node = sx_node_at(bound->plan->graph, why->node);
  const char *path = node->path && node->path[0] ? node->path : NULL;
  sx_diag *diag = sx_error(
      &run->diags, SX_E_RUN_INDEX, node->span, "%s%s%s: id %" PRId64 " at index %" PRId64 " is outside 0 to %" PRId64,
      sx_op_describe(node->op)->name, path ? " in " : "", path ? path : "", why->value, why->at, why->limit - 1);
  diag->path = path;
}

bool sx_execute(sx_run *run, sx_bound *bound) {
  sx_stopped why = {0};
  if (!set_counters(run, bound)) return false;
  for (uint32_t i = 0; i < bound->n_bindings; i++)
    sx_executable_bind(bound->executable, bound->bindings[i].buffer, address_of(run, &bound->bindings[i]));
  if (sx_executable_execute(bound->executable, &why)) return true;
  report_stop(run, bound, &why);
  return false;
}
