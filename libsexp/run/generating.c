/* Generators: a microbatch's fields computed instead of read. Of each microbatch: init, the trips, emit. */
#include <string.h>

#include "run.h"

/* Number of the state in "state/K"; states come in no order of their own. */
static int64_t state_number(const char *digits) {
  int64_t k = 0;
  for (; *digits >= '0' && *digits <= '9' && k < 1 << 20; digits++) k = 10 * k + (*digits - '0');
  return k;
}

static bool resolve(sx_run *run, void *context, const sx_buffer *buffer, sx_binding *binding) {
  const sx_generating *g = context;
  const char *state = sx_after(buffer->name, "state/"), *field = sx_after(buffer->name, "field/");
  (void)run;
  if (state) {
    binding->index = state_number(state);
    binding->kind = buffer->kind == SX_BUFFER_EXTERNAL ? SX_BIND_MEMORY : SX_BIND_MEMORY_NEXT;
    return binding->index < (int64_t)g->generator->n_state;
  }
  for (uint32_t f = 0; field && buffer->kind == SX_BUFFER_OUTPUT && f < g->generator->n_fields; f++) {
    if (strcmp(g->generator->fields[f].name, field)) continue;
    binding->address = g->fields[f];
    return true;
  }
  return false;
}

static int64_t output_bytes(const sx_graph *graph, const char *name) {
  sx_id id = sx_graph_find_output(graph, name);
  if (id == SX_NO_NODE) return 0;
  const sx_node *node = sx_node_at(graph, id);
  return sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
}

static void make_generator(sx_run *run, sx_generating *g, size_t i) {
  sx_arena *arena = &run->arena;
  const sx_compiled *compiled = run->compiled;
  const sx_unit *init = &compiled->generator_inits[i], *trip = &compiled->trips[i], *emit = &compiled->emits[i];
  uint32_t n_state = g->generator->n_state, n_fields = g->generator->n_fields;
  g->memory = SX_NEW_N(arena, void *, n_state);
  g->memory_next = SX_NEW_N(arena, void *, n_state);
  for (uint32_t k = 0; k < n_state; k++) {
    int64_t n_bytes = output_bytes(init->graph, sx_format(arena, "state/%u", k));
    g->memory[k] = sx_take_aligned(arena, n_bytes);
    g->memory_next[k] = sx_take_aligned(arena, n_bytes);
  }
  g->fields = SX_NEW_N(arena, void *, n_fields);
  g->field_bytes = SX_NEW_N(arena, int64_t, n_fields);
  for (uint32_t f = 0; f < n_fields; f++) {
    g->field_bytes[f] = output_bytes(emit->graph, sx_format(arena, "field/%s", g->generator->fields[f].name));
    g->fields[f] = sx_take_aligned(arena, g->field_bytes[f]);
  }
  sx_bind_unit(run, &g->init, init, init->plan, resolve, g, arena);
  sx_bind_unit(run, &g->trip, trip, trip->plan, resolve, g, arena);
  sx_bind_unit(run, &g->emit, emit, emit->plan, resolve, g, arena);
}

void sx_make_generators(sx_run *run) {
  size_t n = run->program->generators.n;
  run->generating = SX_NEW_N(&run->arena, sx_generating, n);
  for (size_t i = 0; i < n; i++) {
    run->generating[i].generator = &run->program->generators.items[i];
    make_generator(run, &run->generating[i], i);
  }
}

/* The new states become the states. */
static bool advance(sx_run *run, sx_generating *g, sx_bound *bound) {
  if (!sx_execute(run, bound)) return false;
  void **written = g->memory_next;
  g->memory_next = g->memory;
  g->memory = written;
  return true;
}

bool sx_generate(sx_run *run, sx_generating *g) {
  run->generator = g;
  run->fields = g->fields;
  run->trip = 0;
  if (!advance(run, g, &g->init)) return false;
  for (; run->trip < g->generator->trips; run->trip++)
    if (!advance(run, g, &g->trip)) return false;
  return sx_execute(run, &g->emit);
}
