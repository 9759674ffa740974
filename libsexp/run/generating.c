/* Generators: a microbatch's fields computed instead of read. Of each microbatch: init, the trips, emit. */
#include <string.h>

#include "run.h"

/* Number of the state in "state/K"; states come in no order of their own. */
static int64_t state_number(const char *digits) {
  int64_t k = 0;
  for (; *digits >= '0' && *digits <= '9' && k < 1 << 20; digits++) k = 10 * k + (*digits - '0');
  return k;
}

static bool resolve(const sx_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding) {
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
    binding->kind = SX_BIND_EMITTED;
    binding->index = f;
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
  const sx_compiled *compiled = run->compiled;
  const sx_unit *init = &compiled->generator_inits[i], *trip = &compiled->trips[i], *emit = &compiled->emits[i];
  uint32_t n_fields = g->generator->n_fields;
  g->field_bytes = SX_NEW_N(&run->arena, int64_t, n_fields);
  for (uint32_t f = 0; f < n_fields; f++)
    g->field_bytes[f] = output_bytes(emit->graph, sx_format(&run->arena, "field/%s", g->generator->fields[f].name));
  sx_bind_unit(run, &g->init, init, false, resolve, g);
  sx_bind_unit(run, &g->trip, trip, false, resolve, g);
  sx_bind_unit(run, &g->emit, emit, false, resolve, g);
}

void sx_make_generators(sx_run *run) {
  size_t n = run->program->generators.n;
  run->generating = SX_NEW_N(&run->arena, sx_generating, n);
  for (size_t i = 0; i < n; i++) {
    run->generating[i].generator = &run->program->generators.items[i];
    make_generator(run, &run->generating[i], i);
  }
}

/* ---- memory ---- */

static int64_t aligned(int64_t n_bytes) { return (n_bytes + 255) / 256 * 256; }

static void take_generator(sx_run *run, sx_generating *g) {
  const sx_graph *init = g->init.unit->graph;
  int64_t n_bytes = 0;
  g->memory_offsets = SX_NEW_N(&run->arena, int64_t, g->generator->n_state);
  for (uint32_t k = 0; k < g->generator->n_state; k++) {
    g->memory_offsets[k] = n_bytes;
    n_bytes += aligned(output_bytes(init, sx_format(&run->arena, "state/%u", k)));
  }
  for (int i = 0; i < 2; i++) g->blocks[i] = sx_take(run, SX_USE_GENERATORS, n_bytes);
  g->fields = SX_NEW_N(&run->arena, void *, g->generator->n_fields);
  for (uint32_t f = 0; f < g->generator->n_fields; f++) g->fields[f] = sx_take(run, SX_USE_FIELDS, g->field_bytes[f]);
}

uint32_t sx_generator_counters(const sx_generating *g) {
  return g->init.counters | g->trip.counters | g->emit.counters;
}

/* The numbers of trips, for devices whose work is enqueued ahead. */
static void take_trips(sx_run *run) {
  int64_t n = 0, n_bytes;
  for (size_t i = 0; i < run->program->generators.n; i++) {
    const sx_generating *g = &run->generating[i];
    bool reads = sx_generator_counters(g) >> SX_COUNTER_TRIP & 1;
    if (reads && g->generator->trips >= n) n = g->generator->trips + 1;
  }
  if (!n) return;
  if (n - 1 > INT32_MAX) {
    sx_refuse_counter(run, SX_COUNTER_TRIP, n - 1);
    sx_leave(run);
  }
  if (run->backend->shares_memory) n = 1;
  n_bytes = n * SX_CELL_BYTES;
  run->trips = sx_take_mirror(run, SX_USE_CELLS, n_bytes);
  for (int64_t i = 0; i < n; i++) {
    int32_t value = (int32_t)i;
    memcpy(run->trips.host + i * SX_CELL_BYTES, &value, sizeof value);
  }
  sx_upload_part(run, &run->trips, 0, n_bytes);
}

void sx_take_generators(sx_run *run) {
  for (size_t i = 0; i < run->program->generators.n; i++) take_generator(run, &run->generating[i]);
  take_trips(run);
}

/* ---- generating ---- */

static void set_trip(sx_run *run, int64_t trip) {
  int32_t value = (int32_t)trip;
  run->trip = trip;
  if (run->trips.host && run->backend->shares_memory) memcpy(run->trips.host, &value, sizeof value);
}

/* The new states become the states. */
static void advance(sx_run *run, sx_generating *g, sx_bound *bound) {
  sx_execute(run, bound);
  char *written = g->memory_next;
  g->memory_next = g->memory;
  g->memory = written;
}

void sx_generate(sx_run *run, sx_generating *g) {
  run->generator = g;
  run->fields = g->fields;
  g->memory = g->blocks[0];
  g->memory_next = g->blocks[1];
  set_trip(run, 0);
  advance(run, g, &g->init);
  for (int64_t trip = 0; trip < g->generator->trips; trip++) {
    set_trip(run, trip);
    advance(run, g, &g->trip);
  }
  set_trip(run, g->generator->trips);
  sx_execute(run, &g->emit);
}
