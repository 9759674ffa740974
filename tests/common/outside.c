#include "outside.h"

#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/canonical.h"
#include "cmocka_all.h"
#include "interpret.h"

static int64_t n_elements(const sx_buffer *buffer) { return buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype); }

outside outside_of(const sx_plan *plan, uint64_t seed) {
  size_t n = plan->buffers.n;
  outside o = {calloc(n + 1, sizeof *o.data), calloc(n + 1, sizeof *o.lent), n};
  assert_true(o.data && o.lent);
  for (size_t b = 0; b < n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    o.data[b] = aligned_alloc(64, (size_t)(buffer->n_bytes + 127) / 64 * 64);
    assert_non_null(o.data[b]);
    memset(o.data[b], 0xa5, (size_t)buffer->n_bytes);
    if (buffer->kind == SX_BUFFER_EXTERNAL) leaf_fill(buffer->name, seed, buffer->dtype, n_elements(buffer), o.data[b]);
  }
  return o;
}

static size_t find(const sx_plan *plan, sx_buffer_kind kind, const char *name) {
  size_t b = 0;
  while (b < plan->buffers.n && (plan->buffers.items[b].kind != kind || strcmp(plan->buffers.items[b].name, name) != 0))
    b++;
  return b;
}

void outside_in_place(outside *o, const sx_plan *plan, sx_arena *arena) {
  const bool *in_place = sx_plan_in_place(plan, arena);
  for (size_t b = 0; b < o->n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    size_t input = buffer->kind == SX_BUFFER_OUTPUT ? find(plan, SX_BUFFER_EXTERNAL, buffer->name) : o->n;
    if (input == o->n || !in_place[b]) continue;
    free(o->data[b]);
    o->data[b] = o->data[input];
    o->lent[b] = true;
  }
}

void outside_free(outside *o) {
  for (size_t b = 0; b < o->n; b++)
    if (!o->lent[b]) free(o->data[b]);
  free(o->data);
  free(o->lent);
}

bool outside_run(planned *p, const sx_plan *plan, sx_simd simd, int threads, outside *o, sx_stopped *why) {
  sx_pool *pool = sx_pool_new(threads);
  sx_cpu cpu = {sx_kernels(simd), pool, &p->memory, NULL};
  sx_executable *e = sx_executable_new(&cpu, plan, 7, &p->arena);
  assert_non_null(e);
  for (uint32_t b = 0; b < o->n; b++)
    if (o->data[b]) sx_executable_bind(e, b, o->data[b]);
  bool ok = sx_executable_execute(e, why);
  sx_executable_free(e);
  sx_pool_free(pool);
  return ok;
}

const char *outside_differs(const sx_graph *graph, void *const *expected, const sx_plan *plan, outside *o) {
  for (size_t i = 0; i < graph->outputs.n; i++) {
    const sx_output *output = &graph->outputs.items[i];
    size_t b = find(plan, SX_BUFFER_OUTPUT, output->name);
    if (b == o->n) fail_msg("no output %s", output->name);
    const sx_buffer *buffer = &plan->buffers.items[b];
    sx_canonical_nans(o->data[b], buffer->dtype, n_elements(buffer));
    if (memcmp(expected[output->node], o->data[b], (size_t)buffer->n_bytes)) return output->name;
  }
  return NULL;
}
