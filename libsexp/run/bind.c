/* Units made ready: an executable each, and for every buffer of its plan the place it is bound to. */
#include <inttypes.h>
#include <string.h>

#include "../base/bug.h"
#include "run.h"

const char *sx_after(const char *text, const char *prefix) {
  size_t n = strlen(prefix);
  return strncmp(text, prefix, n) ? NULL : text + n;
}

float sx_cell(const sx_run *run, int64_t cell) {
  float value;
  memcpy(&value, run->cells.host + cell * SX_CELL_BYTES, sizeof value);
  return value;
}

/* ---- counters ---- */

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

int64_t sx_row_offset(int64_t row) { return row * SX_ROW_BYTES; }

static int64_t cell_of(int64_t row, int64_t counter) { return sx_row_offset(row) + counter * SX_CELL_BYTES; }

bool sx_refuse_counter(sx_run *run, sx_counter counter, int64_t count) {
  sx_error(&run->diags, SX_E_RUN_COUNTER, (sx_span){0}, "(input :%s) would be %" PRId64 ", an i32 ends at %" PRId32,
           counter_names[counter], count, INT32_MAX);
  return false;
}

static bool set_counter(sx_run *run, int64_t row, sx_counter counter, int64_t count) {
  if (count > INT32_MAX) return sx_refuse_counter(run, counter, count);
  int32_t value = (int32_t)count;
  memcpy(run->counters.host + cell_of(row, counter), &value, sizeof value);
  return true;
}

bool sx_set_counters(sx_run *run, int64_t row, uint32_t used, int64_t microbatch, int64_t n_records) {
  const int64_t counts[SX_COUNTER_TRIP] = {
      [SX_COUNTER_STEP] = run->position.step,
      [SX_COUNTER_MICROBATCH] = microbatch,
      [SX_COUNTER_RECORDS] = run->position.records + n_records,
      [SX_COUNTER_STAGE_RECORDS] = run->position.stage_records + n_records,
      [SX_COUNTER_STAGE] = run->position.stage,
  };
  for (int i = 0; i < SX_COUNTER_TRIP; i++)
    if (used >> i & 1 && !set_counter(run, row, (sx_counter)i, counts[i])) return false;
  return true;
}

/* ---- making ---- */

bool sx_resolve_common(const sx_run *run, const sx_buffer *buffer, sx_binding *binding) {
  if (buffer->kind != SX_BUFFER_EXTERNAL) return false;
  const char *param = sx_after(buffer->name, "param/"), *counter = sx_after(buffer->name, "counter/");
  binding->kind = param ? SX_BIND_NOW : SX_BIND_COUNTER;
  if (param) {
    binding->index = (int64_t)sx_find_slot(run, param, false);
    return binding->index < (int64_t)run->n_params;
  }
  binding->index = counter ? find_counter(counter) : SX_N_COUNTERS;
  return binding->index < SX_N_COUNTERS;
}

void sx_bind_unit(sx_run *run, sx_bound *bound, const sx_unit *unit, bool observed, sx_resolve *resolve,
                  const void *context) {
  *bound =
      (sx_bound){.unit = unit, .observed = observed, .resolve = resolve, .context = context, .next_bound = run->bounds};
  run->bounds = bound;
}

static void resolve_buffers(sx_run *run, sx_bound *bound) {
  const sx_plan *plan = bound->plan;
  bound->bindings = SX_NEW_N(&run->arena, sx_binding, plan->buffers.n);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    sx_binding binding = {.buffer = b}, common = {.buffer = b};
    if (sx_resolve_common(run, buffer, &common))
      binding = common;
    else if (!bound->resolve(run, bound->context, buffer, &binding))
      SX_BUG("graph %s: %s is bound to nothing", bound->unit->label, buffer->name);
    if (binding.kind == SX_BIND_COUNTER) bound->counters |= 1u << binding.index;
    bound->bindings[bound->n_bindings++] = binding;
  }
}

static const sx_plan *plan_of(sx_run *run, const sx_bound *bound) {
  if (bound->plan) return bound->plan;
  if (!bound->observed) return bound->unit->plan;
  return sx_plan_make(bound->unit->graph, &(sx_plan_options){.fuse = false, .reuse = false}, &run->arena);
}

bool sx_make_bound(sx_run *run, sx_bound *bound) {
  bound->plan = plan_of(run, bound);
  resolve_buffers(run, bound);
  bound->made = run->backend->calls->make(run->backend, bound->plan, run->program->seed, &run->deciding, &run->arena,
                                          &run->diags);
  if (!bound->made && !run->diags.n_errors) sx_memory_fail(run->memory);
  return bound->made != NULL;
}

void sx_make_bounds(sx_run *run) {
  sx_bound *in_order = NULL;
  for (sx_bound *bound = run->bounds, *next; bound; bound = next) {
    next = bound->next_bound;
    bound->next_bound = in_order;
    in_order = bound;
  }
  run->bounds = in_order;
  for (sx_bound *bound = run->bounds; bound; bound = bound->next_bound)
    if (!sx_make_bound(run, bound)) sx_leave(run);
  if (!run->backend->calls->ready || run->backend->calls->ready(run->backend, &run->diags)) return;
  sx_leave(run);
}

void sx_release_bound(sx_run *run, sx_bound *bound) {
  if (bound->made) run->backend->calls->unmake(run->backend, bound->made);
  bound->made = NULL;
}

void sx_release_bounds(sx_run *run) {
  for (sx_bound *bound = run->bounds; bound; bound = bound->next_bound) sx_release_bound(run, bound);
  for (uint32_t s = 0; run->stages && s < run->program->n_stages; s++) sx_release_bound(run, &run->stages[s].stacked);
}

/* ---- executing ---- */

static void *address_of(const sx_run *run, const sx_binding *binding) {
  const sx_generating *generator = run->generator;
  int64_t i = binding->index;
  switch (binding->kind) {
    case SX_BIND_NOW:
      return run->slots[i].now;
    case SX_BIND_NEXT:
      return run->slots[i].next;
    case SX_BIND_COUNTER:
      if (i < SX_COUNTER_TRIP) return run->counters.device + cell_of(run->row, i);
      return run->trips.device + (run->backend->shares_memory ? 0 : run->trip * SX_CELL_BYTES);
    case SX_BIND_CELL:
      return run->cells.device + i * SX_CELL_BYTES;
    case SX_BIND_FIELD:
      return run->fields[i];
    case SX_BIND_LEAF:
      return run->sum.leaf + i;
    case SX_BIND_NARROW:
      return run->narrow_grads[i];
    case SX_BIND_MEMORY:
      return generator->memory + generator->memory_offsets[i];
    case SX_BIND_MEMORY_NEXT:
      return generator->memory_next + generator->memory_offsets[i];
    case SX_BIND_EMITTED:
      return generator->fields[i];
  }
  SX_BUG("a buffer is bound to nothing");
}

void sx_execute(sx_run *run, sx_bound *bound) {
  const sx_backend_calls *calls = run->backend->calls;
  for (uint32_t i = 0; i < bound->n_bindings; i++)
    calls->bind(run->backend, bound->made, bound->bindings[i].buffer, address_of(run, &bound->bindings[i]));
  calls->execute(run->backend, bound->made);
}
