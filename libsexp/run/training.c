/* What training executes: each stage's loss, the update, and the sum of gradients between them.
 *
 * The sum's vector holds the gradients of all trained parameters in path order, then the loss and the
 * metrics, each aligned. Gradients of bf16 and f16 parameters are widened into it and rounded back once. */
#include <string.h>

#include "../base/bug.h"
#include "run.h"

static int64_t aligned(int64_t n) { return (n + SX_CELL_FLOATS - 1) / SX_CELL_FLOATS * SX_CELL_FLOATS; }

float sx_scalar(const sx_run *run, uint32_t i) {
  float value;
  const char *cell = (const char *)(run->sum.leaf + run->scalar_offset);
  if (!run->backend->shares_memory) cell = run->scalars;
  memcpy(&value, cell + (int64_t)i * SX_CELL_BYTES, sizeof value);
  return value;
}

/* ---- layout of the sum ---- */

static void place_gradients(sx_run *run) {
  run->grad_offsets = SX_NEW_N(&run->arena, int64_t, run->n_params);
  int64_t offset = 0;
  for (size_t i = 0; i < run->n_params; i++) {
    const sx_slot *slot = &run->slots[i];
    run->grad_offsets[i] = -1;
    if (!run->program->params.items[i].trainable) continue;
    run->grad_offsets[i] = offset;
    offset += aligned(slot->n_elements);
  }
  run->scalar_offset = offset;
}

static void name_values(sx_run *run, sx_stage_state *state) {
  const sx_graph *loss = state->stage->loss;
  state->value_names = SX_NEW_N(&run->arena, const char *, loss->outputs.n + 1);
  state->value_outputs = SX_NEW_N(&run->arena, const char *, loss->outputs.n + 1);
  state->value_names[0] = "train/loss";
  state->value_outputs[0] = "loss";
  state->n_values = 1;
  for (size_t i = 0; i < loss->outputs.n; i++) {
    const char *metric = sx_after(loss->outputs.items[i].name, "metric/");
    if (!metric) continue;
    state->value_names[state->n_values] = sx_format(&run->arena, "train/%s", metric);
    state->value_outputs[state->n_values++] = loss->outputs.items[i].name;
  }
}

/* ---- statistics ---- */

static sx_reports make_reports(sx_run *run, const sx_unit *unit) {
  sx_reports reports = {.items = SX_NEW_N(&run->arena, sx_reported, unit->graph->outputs.n)};
  for (size_t i = 0; i < unit->graph->outputs.n; i++) {
    const char *output = unit->graph->outputs.items[i].name, *name = sx_after(output, "statistic/");
    if (!name) continue;
    reports.items[reports.n++] = (sx_reported){sx_format(&run->arena, "diagnostics/%s", name), output, run->n_cells++};
  }
  return reports;
}

static bool resolve_statistic(const sx_reports *reports, const sx_buffer *buffer, sx_binding *binding) {
  for (uint32_t i = 0; i < reports->n; i++) {
    if (strcmp(reports->items[i].output, buffer->name)) continue;
    binding->kind = SX_BIND_CELL;
    binding->index = reports->items[i].cell;
    return true;
  }
  return false;
}

/* ---- the loss ---- */

/* The gradient of a parameter, as loss writes and update reads it. */
static bool resolve_gradient(const sx_run *run, const char *path, sx_binding *binding) {
  size_t i = sx_find_slot(run, path, false);
  if (i == run->n_slots || run->grad_offsets[i] < 0) return false;
  bool narrow = run->slots[i].dtype != SX_F32;
  binding->kind = narrow ? SX_BIND_NARROW : SX_BIND_LEAF;
  binding->index = narrow ? (int64_t)i : run->grad_offsets[i];
  return true;
}

static bool resolve_scalar(const sx_run *run, const sx_stage_state *state, const char *output, sx_binding *binding) {
  for (uint32_t i = 0; i < state->n_values; i++) {
    if (strcmp(state->value_outputs[i], output)) continue;
    binding->kind = SX_BIND_LEAF;
    binding->index = run->scalar_offset + (int64_t)i * SX_CELL_FLOATS;
    return true;
  }
  return false;
}

static bool resolve_loss(const sx_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding) {
  const sx_stage_state *state = context;
  const char *field = sx_after(buffer->name, "field/"), *gradient = sx_after(buffer->name, "grad/");
  if (buffer->kind == SX_BUFFER_EXTERNAL) {
    if (!field) return false;
    binding->kind = SX_BIND_FIELD;
    while (binding->index < state->n_fields && strcmp(state->fields[binding->index].name, field)) binding->index++;
    return binding->index < state->n_fields;
  }
  if (gradient) return resolve_gradient(run, gradient, binding);
  return resolve_scalar(run, state, buffer->name, binding) || resolve_statistic(&state->statistics, buffer, binding);
}

/* A stacked loss gives the sums of narrow gradients in f32: into the leaf. */
static bool resolve_stacked(const sx_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding) {
  const char *gradient = sx_after(buffer->name, "grad/");
  size_t i = gradient ? sx_find_slot(run, gradient, false) : run->n_slots;
  if (buffer->kind == SX_BUFFER_EXTERNAL || i == run->n_slots || run->grad_offsets[i] < 0)
    return resolve_loss(run, context, buffer, binding);
  binding->kind = SX_BIND_LEAF;
  binding->index = run->grad_offsets[i];
  return true;
}

void sx_bind_stacked(sx_run *run, sx_stage_state *state, const sx_unit *unit) {
  (void)run;
  state->stacked = (sx_bound){.unit = unit, .resolve = resolve_stacked, .context = state};
}

/* ---- the update ---- */

static bool resolve_written(const sx_run *run, const char *path, bool is_state, sx_binding *binding) {
  binding->kind = SX_BIND_NEXT;
  binding->index = (int64_t)sx_find_slot(run, path, is_state);
  return binding->index < (int64_t)run->n_slots;
}

static bool resolve_update(const sx_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding) {
  const char *gradient = sx_after(buffer->name, "grad/"), *state = sx_after(buffer->name, "state/");
  const char *param = sx_after(buffer->name, "param/");
  (void)context;
  if (buffer->kind == SX_BUFFER_EXTERNAL) {
    if (gradient) return resolve_gradient(run, gradient, binding);
    if (!strcmp(buffer->name, "loss")) return resolve_scalar(run, &run->stages[0], "loss", binding);
    if (!state || !resolve_written(run, state, true, binding)) return false;
    binding->kind = SX_BIND_NOW;
    return true;
  }
  if (param) return resolve_written(run, param, false, binding);
  if (state) return resolve_written(run, state, true, binding);
  if (!strcmp(buffer->name, "grad-norm")) {
    binding->kind = SX_BIND_CELL;
    binding->index = run->grad_norm;
    return true;
  }
  return resolve_statistic(&run->statistics, buffer, binding);
}

/* ---- all of it ---- */

static void set_source(sx_run *run, sx_stage_state *state) {
  const sx_stage_run *stage = state->stage;
  if (stage->data >= 0) {
    state->dataset = run->datasets[stage->data];
    state->fields = state->dataset->fields;
    state->n_fields = state->dataset->n_fields;
  } else if (stage->generator >= 0) {
    state->generator = &run->generating[stage->generator];
    state->fields = state->generator->generator->fields;
    state->n_fields = state->generator->generator->n_fields;
  }
}

/* Whether the step whose nodes are digested is one of this stage. */
static bool is_observed_stage(const sx_run *run, uint32_t stage) {
  int64_t before = 0;
  for (uint32_t s = 0; s < stage; s++) before += run->stages[s].steps;
  int64_t at = run->options.digest_nodes_at;
  return at > before && at <= before + run->stages[stage].steps;
}

static void bind_stage(sx_run *run, uint32_t s) {
  sx_stage_state *state = &run->stages[s];
  const sx_unit *loss = &run->compiled->losses[s], *diagnosed = &run->compiled->diagnosed_losses[s];
  sx_bind_unit(run, &state->loss, loss, false, resolve_loss, state);
  if (diagnosed->graph) {
    state->statistics = make_reports(run, diagnosed);
    sx_bind_unit(run, &state->diagnosed, diagnosed, false, resolve_loss, state);
  }
  if (is_observed_stage(run, s)) sx_bind_unit(run, &state->observed, loss, true, resolve_loss, state);
}

static void bind_update(sx_run *run) {
  const sx_unit *update = &run->compiled->update, *diagnosed = &run->compiled->diagnosed_update;
  run->grad_norm = sx_graph_find_output(update->graph, "grad-norm") == SX_NO_NODE ? -1 : run->n_cells++;
  sx_bind_unit(run, &run->update, update, false, resolve_update, NULL);
  if (diagnosed->graph) {
    run->statistics = make_reports(run, diagnosed);
    sx_bind_unit(run, &run->diagnosed_update, diagnosed, false, resolve_update, NULL);
  }
  if (run->options.digest_nodes_at > 0) sx_bind_unit(run, &run->observed_update, update, true, resolve_update, NULL);
}

void sx_make_stages(sx_run *run) {
  uint32_t n_stages = run->program->n_stages;
  run->stages = SX_NEW_N(&run->arena, sx_stage_state, n_stages);
  for (uint32_t s = 0; s < n_stages; s++) {
    sx_stage_state *state = &run->stages[s];
    state->stage = &run->program->stages[s];
    state->steps = run->compiled->stage_steps[s];
    run->position.stages_steps += state->steps;
  }
}

static int64_t most_microbatches(const sx_run *run) {
  int64_t most = 1;
  for (uint32_t s = 0; s < run->program->n_stages; s++)
    if (run->program->stages[s].microbatches > most) most = run->program->stages[s].microbatches;
  return most;
}

void sx_make_training(sx_run *run) {
  uint32_t n_stages = run->program->n_stages;
  for (uint32_t s = 0; s < n_stages; s++) {
    set_source(run, &run->stages[s]);
    name_values(run, &run->stages[s]);
  }
  place_gradients(run);
  run->update_row = most_microbatches(run);
  for (uint32_t s = 0; s < n_stages; s++) bind_stage(run, s);
  bind_update(run);
}

/* ---- memory ---- */

/* Levels of the sum, whatever degree of stacking is taken: those of a group's own, and those of the groups. */
static int most_levels(const sx_run *run) {
  int64_t n = most_microbatches(run);
  int most = sx_sum_tree_levels(n);
  for (int i = 0; i < run->stacking.n; i++) {
    int64_t degree = run->stacking.items[i].degree;
    if (!run->stacking.items[i].fits) continue;
    int levels = sx_sum_tree_levels(degree) + sx_sum_tree_levels(n / degree);
    if (levels > most) most = levels;
  }
  return most;
}

static int64_t most_stacked(const sx_run *run) {
  int64_t most = 1;
  for (int i = 0; i < run->stacking.n; i++)
    if (run->stacking.items[i].fits) most = run->stacking.items[i].degree;
  return most;
}

static int64_t most_scalars(const sx_run *run) {
  int64_t most = 0;
  for (uint32_t s = 0; s < run->program->n_stages; s++)
    if (run->stages[s].n_values > most) most = run->stages[s].n_values;
  return most;
}

static int64_t sum_elements(const sx_run *run) { return run->scalar_offset + most_scalars(run) * SX_CELL_FLOATS; }

static bool is_narrow(const sx_run *run, size_t param) {
  return run->grad_offsets[param] >= 0 && run->slots[param].dtype != SX_F32;
}

int64_t sx_gradient_bytes(const sx_run *run) {
  int64_t n_bytes = sx_sum_tree_bytes(sum_elements(run), most_levels(run));
  for (size_t i = 0; i < run->n_params; i++)
    if (is_narrow(run, i) && __builtin_add_overflow(n_bytes, run->slots[i].n_bytes, &n_bytes)) return INT64_MAX;
  return n_bytes;
}

static void take_sum(sx_run *run) {
  int64_t n_bytes = sx_sum_tree_init(&run->sum, run->backend, sum_elements(run), most_levels(run), &run->arena);
  sx_sum_tree_place(&run->sum, sx_take(run, SX_USE_GRADIENTS, n_bytes));
  run->narrow_grads = SX_NEW_N(&run->arena, void *, run->n_params);
  for (size_t i = 0; i < run->n_params; i++)
    if (is_narrow(run, i)) run->narrow_grads[i] = sx_take(run, SX_USE_GRADIENTS, run->slots[i].n_bytes);
  if (!run->backend->shares_memory) run->scalars = sx_take_host(run, most_scalars(run) * SX_CELL_BYTES);
}

/* Of what each stage reads, on a device: as many microbatches as are stacked. */
static void place_fields(sx_run *run, sx_stage_state *state) {
  if (!state->n_fields || run->backend->shares_memory) return;
  int64_t *room = SX_NEW_N(&run->arena, int64_t, state->n_fields);
  for (uint32_t f = 0; f < state->n_fields; f++) {
    int64_t one = state->generator ? state->generator->field_bytes[f] : state->dataset->n_bytes[f];
    int64_t n = state->generator ? 1 : state->stage->batch;
    if (__builtin_mul_overflow(one, n, &one) || __builtin_mul_overflow(one, most_stacked(run), &room[f]))
      sx_memory_fail(run->memory);
  }
  state->field_offsets = sx_place_fields(run, room, state->n_fields);
}

void sx_take_training(sx_run *run) {
  take_sum(run);
  for (uint32_t s = 0; s < run->program->n_stages; s++) place_fields(run, &run->stages[s]);
  run->fetched = SX_NEW_N(&run->arena, const sx_microbatch *, most_microbatches(run));
}
