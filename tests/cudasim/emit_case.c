#include "emit_case.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/operand.h"
#include "../common/cmocka_all.h"
#include "../common/execute_reference.h"
#include "../common/interpret.h"
#include "../common/random_graph.h"

/* ---- lowering ------------------------------------------------------------------------------------- */

void emit_lower_plan(emit_case *c, const char *name, const sx_plan *plan, sx_arena *arena, bool merge) {
  c->name = name;
  c->plan = plan;
  c->lowering = (sx_lowering){.plan = plan,
                              .draw_seed = EMIT_DRAW_SEED,
                              .capability = 80,
                              .multiprocessors = 108,
                              .patterns = merge,
                              .wide = c->wide,
                              .arena = arena};
  for (uint32_t t = 0; t < plan->tasks.n; t++)
    if (!sx_emit_task(&c->lowering, t))
      sx_lowering_add(&c->lowering, SX_WORK_PRODUCT, t, plan->tasks.items[t].nodes[0]);
  if (merge) sx_emit_merge(&c->lowering);
}

void emit_lower(emit_case *c, const char *name, planned *graph, bool fuse, bool reuse, bool merge) {
  c->planned = graph;
  emit_lower_plan(c, name, planned_plan(graph, fuse, reuse), &graph->arena, merge);
}

static bool comes_before(const emit_case *cases, size_t at, size_t kernel) {
  const char *name = cases[at].lowering.kernels.items[kernel].name;
  for (size_t i = 0; i < at; i++)
    for (size_t k = 0; k < cases[i].lowering.kernels.n; k++)
      if (!strcmp(cases[i].lowering.kernels.items[k].name, name)) return true;
  return false;
}

char *emit_unit(const emit_case *cases, size_t n) {
  size_t n_bytes = strlen(sx_emit_prelude) + 1, at;
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < cases[i].lowering.kernels.n; k++)
      n_bytes += strlen(cases[i].lowering.kernels.items[k].text) + 1;
  char *unit = malloc(n_bytes + 1);
  assert_non_null(unit);
  strcpy(unit, sx_emit_prelude);
  at = strlen(unit);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < cases[i].lowering.kernels.n; k++) {
      if (comes_before(cases, i, k)) continue;
      const char *text = cases[i].lowering.kernels.items[k].text;
      strcpy(unit + at, text);
      at += strlen(text);
    }
  return unit;
}

/* ---- memory --------------------------------------------------------------------------------------- */

static void *take(size_t n_bytes, int filled) {
  void *memory = aligned_alloc(256, (n_bytes + 511) / 256 * 256);
  assert_non_null(memory);
  memset(memory, filled, (n_bytes + 511) / 256 * 256);
  return memory;
}

/* As fill_leaf of execute_reference.h; a function of the name and the seed. */
static void fill_moderate(void *context, const sx_node *node, void *values, int64_t n) {
  const emit_case *c = context;
  random_source random = {c->seed};
  for (const char *at = node->text; *at; at++) random.state = random.state * 31 + (unsigned char)*at;
  random_fill(&random, node->dtype, n, values);
  for (int64_t i = 0; i < n && sx_dtype_is_float(node->dtype); i++) {
    float x = (float)(random_below(&random, 2000001) - 1000000) / 250000.0f;
    sx_store(values, node->dtype, i, (sx_value){.f = strncmp(node->text, "zero", 4) ? x : -0.0f});
  }
}

static void fill(emit_case *c, const sx_buffer *buffer, void *data) {
  int64_t n = buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype);
  bool is_float = sx_dtype_is_float(buffer->dtype);
  sx_value value = {.f = is_float ? (float)buffer->value : 0.0f, .i = is_float ? 0 : (int32_t)buffer->value};
  if (buffer->kind == SX_BUFFER_EXTERNAL && c->moderate)
    fill_moderate(c, sx_node_at(c->plan->graph, buffer->node), data, n);
  else if (buffer->kind == SX_BUFFER_EXTERNAL)
    leaf_fill(buffer->name, c->seed, buffer->dtype, n, data);
  if (buffer->kind == SX_BUFFER_CONST) sx_store(data, buffer->dtype, 0, value);
  for (int64_t i = 0; i < n && buffer->kind == SX_BUFFER_IOTA; i++) ((int32_t *)data)[i] = (int32_t)i;
}

static void *find_external(const emit_case *c, const char *name) {
  for (size_t b = 0; b < c->plan->buffers.n; b++)
    if (c->plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL && !strcmp(c->plan->buffers.items[b].name, name))
      return c->data[b];
  return NULL;
}

void emit_take(emit_case *c) {
  size_t n = c->plan->buffers.n;
  bool *in_place = sx_plan_in_place(c->plan, c->lowering.arena);
  c->data = calloc(n + 1, sizeof *c->data);
  c->block = take((size_t)c->plan->block_bytes, 0xa5);
  c->scratch = take((size_t)c->lowering.scratch_bytes, 0xa5);
  c->cells = take(c->lowering.faults.n * sizeof *c->cells, 0xff);
  for (size_t b = 0; b < n; b++) {
    const sx_buffer *buffer = &c->plan->buffers.items[b];
    if (buffer->kind == SX_BUFFER_OUTPUT) continue;
    c->data[b] = buffer->kind == SX_BUFFER_TEMPORARY ? c->block + buffer->offset : take((size_t)buffer->n_bytes, 0xa5);
    fill(c, buffer, c->data[b]);
  }
  for (size_t b = 0; b < n; b++) {
    const sx_buffer *buffer = &c->plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_OUTPUT) continue;
    if (c->in_place && in_place[b]) c->data[b] = find_external(c, buffer->name);
    if (!c->data[b]) c->data[b] = take((size_t)buffer->n_bytes, 0xa5);
  }
}

void emit_free(emit_case *c) {
  for (size_t b = 0; c->data && b < c->plan->buffers.n; b++) {
    if (c->plan->buffers.items[b].kind == SX_BUFFER_TEMPORARY) continue;
    for (size_t other = b + 1; other < c->plan->buffers.n; other++)
      if (c->data[other] == c->data[b]) c->data[other] = NULL;
    free(c->data[b]);
  }
  free(c->data);
  free(c->block);
  free(c->scratch);
  free(c->cells);
  if (c->planned) planned_free(c->planned);
}

/* ---- executing ------------------------------------------------------------------------------------ */

typedef struct allowed {
  const emit_case *c;
  const sx_launch *launch;
} allowed;

static sim_span span_of(const emit_case *c, const sx_argument *argument) {
  uint64_t begin, n_bytes;
  if (argument->kind == SX_ARGUMENT_FAULT) {
    begin = (uint64_t)(uintptr_t)(c->cells + argument->bits);
    n_bytes = sizeof *c->cells;
  } else if (argument->place.buffer == SX_PLACE_SCRATCH) {
    begin = (uint64_t)(uintptr_t)c->scratch;
    n_bytes = (uint64_t)c->lowering.scratch_bytes;
  } else {
    begin = (uint64_t)(uintptr_t)c->data[argument->place.buffer];
    n_bytes = (uint64_t)c->plan->buffers.items[argument->place.buffer].n_bytes;
  }
  return (sim_span){begin, begin + n_bytes};
}

/* A kernel touches what its arguments name, and writes what they say it writes. */
static bool check(void *context, sim_span *range, uint64_t address, size_t n_bytes, bool writes) {
  const allowed *a = context;
  for (uint32_t i = 0; i < a->launch->n_arguments; i++) {
    const sx_argument *argument = &a->launch->arguments[i];
    if (argument->kind != SX_ARGUMENT_PLACE && argument->kind != SX_ARGUMENT_FAULT) continue;
    if (writes && argument->kind == SX_ARGUMENT_PLACE && !argument->written) continue;
    sim_span span = span_of(a->c, argument);
    if (address < span.begin || address + n_bytes > span.end) continue;
    *range = span;
    return true;
  }
  return false;
}

static uint64_t bits_of(const emit_case *c, const sx_argument *argument) {
  if (argument->kind != SX_ARGUMENT_PLACE && argument->kind != SX_ARGUMENT_FAULT) return argument->bits;
  uint64_t begin = span_of(c, argument).begin;
  return argument->kind == SX_ARGUMENT_PLACE ? begin + (uint64_t)argument->place.offset : begin;
}

static void launch(const emit_case *c, const sx_launch *one, const sim_module *module) {
  const sim_kernel *kernel = sim_module_kernel(module, one->kernel);
  if (!kernel) fail_msg("%s: no kernel %s", c->name, one->kernel);
  _Alignas(16) uint8_t params[4096];
  size_t n_params = 0;
  for (uint32_t i = 0; i < one->n_arguments; i++) {
    size_t offset = 8 * (size_t)i, n_bytes = 8;
    if (!one->packed) sim_kernel_param(kernel, i, &offset, &n_bytes);
    uint64_t bits = bits_of(c, &one->arguments[i]);
    assert_true(offset + n_bytes <= sizeof params);
    memcpy(params + offset, &bits, n_bytes);
    n_params = offset + n_bytes;
  }
  assert_int_equal(sim_kernel_params(kernel), one->packed ? 1 : one->n_arguments);
  assert_int_equal(sim_kernel_max_threads(kernel), one->block[0]);
  allowed a = {c, one};
  char problem[512] = "";
  sim_launch how = {.shared_bytes = one->shared_bytes,
                    .params = params,
                    .n_params = n_params,
                    .check = check,
                    .context = &a,
                    .checks_uninitialized = true,
                    .checks_races = true};
  memcpy(how.grid, one->grid, sizeof how.grid);
  memcpy(how.block, one->block, sizeof how.block);
  if (!sim_kernel_run(kernel, &how, problem, sizeof problem)) fail_msg("%s: %s", c->name, problem);
}

static sx_operand operand_of(const emit_case *c, sx_id id) {
  const sx_node *node = sx_node_at(c->plan->graph, id);
  const sx_view *view = &c->plan->views[id];
  return (sx_operand){(char *)c->data[view->buffer] + view->offset * sx_element_bytes(node->dtype), node->dtype,
                      node->rank, node->dims, view->strides};
}

static void compute(const emit_case *c, sx_id id) {
  const sx_node *node = sx_node_at(c->plan->graph, id);
  sx_operand inputs[2];
  for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = operand_of(c, node->inputs[i]);
  sx_call call = {.node = node, .out = operand_of(c, id), .inputs = inputs, .n_inputs = node->n_inputs};
  sx_reference[node->op](&call);
}

void emit_run(emit_case *c, const sim_module *module) {
  for (size_t i = 0; i < c->lowering.works.n; i++) {
    const sx_work *one = &c->lowering.works.items[i];
    if (one->kind == SX_WORK_PRODUCT)
      compute(c, one->node);
    else
      launch(c, &one->launch, module);
  }
}

/* ---- comparing ------------------------------------------------------------------------------------ */

static void check_output(const emit_case *c, const sx_buffer *buffer, const void *got, const void *want) {
  int64_t each = (int64_t)sx_dtype_bytes(buffer->dtype), at = 0;
  if (!memcmp(got, want, (size_t)buffer->n_bytes)) return;
  while (!memcmp((const char *)got + at * each, (const char *)want + at * each, (size_t)each)) at++;
  uint32_t a = 0, b = 0;
  memcpy(&a, (const char *)got + at * each, (size_t)each);
  memcpy(&b, (const char *)want + at * each, (size_t)each);
  sx_text text;
  sx_text_init(&text, c->lowering.arena);
  sx_plan_print(&text, c->plan);
  fail_msg("%s: output %s, element %lld of %lld is %08x, the reference says %08x\n%s", c->name, buffer->name,
           (long long)at, (long long)(buffer->n_bytes / each), a, b, sx_text_get(&text));
}

void emit_check(emit_case *c) {
  const sx_graph *graph = c->plan->graph;
  void **values = c->moderate ? execute_reference(graph, c->lowering.arena, fill_moderate, c)
                              : interpret(graph, EMIT_DRAW_SEED, c->seed);
  for (size_t b = 0; b < c->plan->buffers.n; b++) {
    const sx_buffer *buffer = &c->plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_OUTPUT) continue;
    sx_id id = sx_graph_find_output(graph, buffer->name);
    int64_t n = buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype);
    sx_canonical_nans(c->data[b], buffer->dtype, n);
    if (c->moderate) sx_canonical_nans(values[id], buffer->dtype, n);
    check_output(c, buffer, c->data[b], values[id]);
  }
  if (!c->moderate) interpret_free(graph, values);
}
