/* Kernels of the CUDA device have the bits of the CPU's reference loops: every operation on random operands of every
 * dtype and layout, and random graphs over every operation, fused and not, in place and not. Kernels are executed from
 * NVRTC's PTX. */
#include <stdatomic.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/ir/draw_key.h"
#include "../../libsexp/pass/plan_parts.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"
#include "../common/random_graph.h"
#include "../cudasim/emit_case.h"
#include "../cudasim/ptx_case.h"

static bool is_quick(void) { return getenv("QUICK") != NULL; }

static sim_module *compile(const emit_case *cases, size_t n, int architecture) {
  char *unit = emit_unit(cases, n);
  sim_module *module = ptx_module(unit, architecture);
  free(unit);
  return module;
}

/* ---- graphs --------------------------------------------------------------------------------------- */

static void run_graphs(emit_case *cases, size_t n) {
  sim_module *module = compile(cases, n, 80);
  for (size_t i = 0; i < n; i++) {
    emit_take(&cases[i]);
    emit_run(&cases[i], module);
    emit_check(&cases[i]);
    emit_free(&cases[i]);
  }
  sim_module_free(module);
}

static void graphs_of_every_operation(void **state) {
  (void)state;
  enum { BATCH = 8 };
  const char *from = getenv("SEED"), *count = getenv("COUNT");
  uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : is_quick() ? 8 : 16;
  for (uint64_t at = 0; at < n; at += BATCH) {
    emit_case cases[BATCH] = {0};
    size_t taken = 0;
    for (; taken < BATCH && at + taken < n; taken++) {
      uint64_t seed = first + at + taken;
      emit_case *c = &cases[taken];
      planned *graph = planned_random(seed, 120);
      *c = (emit_case){.seed = seed, .in_place = true, .wide = seed % 8 == 5};
      const char *name = sx_format(&graph->arena, "random graph %llu", (unsigned long long)seed);
      emit_lower(c, name, graph, seed % 4 != 3, seed % 2 == 0, seed % 4 == 0);
    }
    run_graphs(cases, taken);
  }
}

/* ---- single operations ---------------------------------------------------------------------------- */

/* A kernel_case as a plan of one task. Its operands lie as in the case, in buffers that end where they end. */
typedef struct single {
  kernel_case call;
  sx_memory memory;
  sx_arena arena;
  emit_case emitted;
} single;

static sx_plan *plan_of(single *s) {
  kernel_case *c = &s->call;
  sx_intern *names = SX_NEW(&s->arena, sx_intern);
  sx_intern_init(names, &s->arena);
  sx_graph *graph = sx_graph_new(&s->arena, names, "g");
  sx_plan *plan = SX_NEW(&s->arena, sx_plan);
  plan->graph = graph;
  plan->views = SX_NEW_N(&s->arena, sx_view, c->n_inputs + 1);
  sx_node node = c->node;
  node.inputs = SX_NEW_N(&s->arena, sx_id, c->n_inputs + 1);
  for (uint32_t k = 0; k < c->n_inputs; k++) {
    const sx_operand *x = &c->inputs[k];
    int64_t low = 0, high = 0;
    for (int axis = 0; axis < x->rank; axis++) {
      int64_t reach = (x->dims[axis] - 1) * x->strides[axis];
      *(reach < 0 ? &low : &high) += reach;
    }
    if (sx_operand_count(x) == 0) low = high = 0;
    sx_node input = {.op = SX_OP_INPUT, .dtype = x->dtype, .rank = x->rank, .dims = c->dims[k], .path = ""};
    SX_PUSH(&s->arena, graph->nodes, input);
    sx_buffer buffer = {.kind = SX_BUFFER_EXTERNAL, .dtype = x->dtype, .node = k, .name = sx_format(&s->arena, "%u", k)};
    buffer.n_bytes = (high - low + 1) * sx_element_bytes(x->dtype);
    SX_PUSH(&s->arena, plan->buffers, buffer);
    plan->views[k] = (sx_view){.buffer = k, .offset = -low};
    memcpy(plan->views[k].strides, x->strides, (size_t)x->rank * sizeof *x->strides);
    node.inputs[k] = k;
  }
  SX_PUSH(&s->arena, graph->nodes, node);
  sx_view *out = &plan->views[c->n_inputs];
  out->buffer = c->n_inputs;
  memcpy(out->strides, c->out.strides, (size_t)c->out.rank * sizeof *c->out.strides);
  sx_buffer buffer = {.kind = SX_BUFFER_OUTPUT, .dtype = node.dtype, .n_bytes = kernel_case_bytes(c), .name = "y"};
  SX_PUSH(&s->arena, plan->buffers, buffer);
  sx_id *nodes = SX_NEW(&s->arena, sx_id);
  *nodes = c->n_inputs;
  sx_task task = {.kind = SX_TASK_NODE, .nodes = nodes, .n_nodes = 1, .target = c->n_inputs};
  if (sx_op_describe(node.op)->class == SX_CLASS_ELEMENT) {
    task.kind = SX_TASK_ELEMENT;
    task.stored = SX_NEW(&s->arena, bool);
    *task.stored = true;
  }
  SX_PUSH(&s->arena, plan->tasks, task);
  return plan;
}

static void begin_single(single *s, sx_op op, uint64_t seed, int64_t largest) {
  kernel_case_make(&s->call, op, seed, largest);
  s->memory = sx_memory_default();
  sx_arena_init(&s->arena, &s->memory);
  s->emitted = (emit_case){.wide = seed % 4 == 3};
  emit_lower_plan(&s->emitted, s->call.text, plan_of(s), &s->arena, false);
}

/* The lowest bad id's number and the id, as the cell has them. */
static uint64_t fault_of(const kernel_case *c, int64_t at) {
  const sx_operand *ids = &c->inputs[c->node.op == SX_OP_GATHER || c->node.op == SX_OP_TAKE];
  int64_t index[SX_RANK_MAX] = {0}, rest = at;
  if (at == INT64_MAX) return UINT64_MAX;
  for (int axis = ids->rank - 1; axis >= 0; axis--) {
    index[axis] = rest % ids->dims[axis];
    rest /= ids->dims[axis];
  }
  return (uint64_t)at << 32 | (uint32_t)sx_operand_load(ids, index).i;
}

static void check_single(single *s) {
  kernel_case *c = &s->call;
  int64_t n_bytes = kernel_case_bytes(c), scratch_bytes, n = kernel_case_elements(c);
  void *want = calloc(1, (size_t)n_bytes + 1), *got = s->emitted.data[c->n_inputs];
  void *scratch = kernel_case_scratch(c, SX_SIMD_REFERENCE, 1, &scratch_bytes);
  sx_fault fault;
  sx_call call = kernel_case_call(c, want, scratch, &fault, NULL);
  if (sx_op_describe(c->node.op)->class == SX_CLASS_RANDOM)
    assert_true(sx_draw_key(s->emitted.plan->graph, c->n_inputs, EMIT_DRAW_SEED, &call.stream_key));
  sx_reference[c->node.op](&call);
  canonicalize(want, c->out.dtype, n);
  canonicalize(got, c->out.dtype, n);
  for (int64_t k = 0, each = sx_element_bytes(c->out.dtype); k < n; k++) {
    uint32_t a = 0, b = 0;
    memcpy(&a, (char *)got + k * each, (size_t)each);
    memcpy(&b, (char *)want + k * each, (size_t)each);
    if (a == b) continue;
    for (size_t i = 0; i < s->emitted.lowering.kernels.n; i++) puts(s->emitted.lowering.kernels.items[i].text);
    fail_msg("%s: element %lld of %lld is %08x, the reference says %08x", c->text, (long long)k, (long long)n, a, b);
  }
  if (s->emitted.lowering.faults.n && s->emitted.cells[0].at != fault_of(c, atomic_load(&fault.at)))
    fail_msg("%s: another id is reported", c->text);
  free(want);
  free(scratch);
}

static void end_single(single *s) {
  emit_free(&s->emitted);
  kernel_case_free(&s->call);
  sx_arena_free(&s->arena);
}

static bool is_emitted(sx_op op) {
  if (!kernel_case_has(op)) return false;
  switch (sx_op_describe(op)->class) {
    case SX_CLASS_LEAF:
    case SX_CLASS_CONTRACT:
    case SX_CLASS_META:
      return false;
    case SX_CLASS_MOVE:
      return op == SX_OP_RESHAPE || op == SX_OP_PAD || op == SX_OP_CONCAT;
    default:
      return true;
  }
}

/* Memory that the case's operand lies in, without what is around it. */
static void fill_single(single *s) {
  for (uint32_t k = 0; k < s->call.n_inputs; k++) {
    const sx_operand *x = &s->call.inputs[k];
    const sx_view *view = &s->emitted.plan->views[k];
    if (sx_operand_count(x) == 0) continue;
    memcpy(s->emitted.data[k], (const char *)x->data - view->offset * sx_element_bytes(x->dtype),
           (size_t)s->emitted.plan->buffers.items[k].n_bytes);
  }
}

enum { SINGLES = 400 };
static single singles[SINGLES];

static void run_singles(size_t n) {
  static emit_case cases[SINGLES];
  for (size_t i = 0; i < n; i++) cases[i] = singles[i].emitted;
  sim_module *module = compile(cases, n, 80);
  for (size_t i = 0; i < n; i++) {
    emit_take(&singles[i].emitted);
    fill_single(&singles[i]);
    emit_run(&singles[i].emitted, module);
    check_single(&singles[i]);
    end_single(&singles[i]);
  }
  sim_module_free(module);
}

static void operations_of_every_layout(void **state) {
  (void)state;
  const char *from = getenv("SEED"), *count = getenv("COUNT");
  uint64_t first = from ? strtoull(from, NULL, 10) : 1, each = count ? strtoull(count, NULL, 10) : is_quick() ? 1 : 4;
  size_t n = 0;
  for (int op = 0; op < SX_N_OPS; op++) {
    if (!is_emitted((sx_op)op)) continue;
    for (uint64_t seed = first; seed < first + each; seed++) {
      begin_single(&singles[n++], (sx_op)op, seed, seed % 3 == 0 ? 300 : 40);
      if (n < SINGLES) continue;
      run_singles(n);
      n = 0;
    }
  }
  if (n) run_singles(n);
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(operations_of_every_layout),
                                     cmocka_unit_test(graphs_of_every_operation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
