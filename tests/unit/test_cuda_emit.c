/* Kernels of the CUDA device have the bits of the CPU's reference loops: every operation on random operands of every
 * dtype and layout, and random graphs over every operation, fused and not, in place and not. Kernels are executed from
 * NVRTC's PTX. SEED=n COUNT=n in the environment choose other random cases. */
#include <stdarg.h>
#include <stdatomic.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/ir/draw_key.h"
#include "../../libsexp/pass/plan_parts.h"
#include "../common/case_plan.h"
#include "../common/cmocka_all.h"
#include "../common/kernel_case.h"
#include "../common/random_graph.h"
#include "../cudasim/emit_case.h"
#include "../cudasim/ptx_case.h"

static bool is_quick(void) { return getenv("QUICK") && *getenv("QUICK"); }

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
  uint64_t first = from ? strtoull(from, NULL, 10) : 1, n = count        ? strtoull(count, NULL, 10)
                                                            : is_quick()   ? 8
                                                                           : 16;
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

/* ---- sums, rows, lines of chosen lengths ----------------------------------------------------------- */

enum { CASES = 160 };
static emit_case chosen[CASES];
static size_t n_chosen;

/* Adds the graph of a text to what run_chosen runs. */
static emit_case *choose(const char *format, ...) __attribute__((format(printf, 1, 2)));
static emit_case *choose(const char *format, ...) {
  static char text[1 << 13];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  assert_true(n_chosen < CASES);
  emit_case *c = &chosen[n_chosen++];
  planned *graph = planned_text(text);
  *c = (emit_case){.seed = n_chosen, .in_place = true, .wide = n_chosen % 5 == 4, .moderate = n_chosen % 8 != 0};
  emit_lower(c, sx_arena_copy_text(&graph->arena, text, strlen(text)), graph, true, true, true);
  return c;
}

static void run_chosen(void) {
  run_graphs(chosen, n_chosen);
  n_chosen = 0;
}

static int begin_choosing(void **state) {
  (void)state;
  n_chosen = 0;
  return 0;
}

static bool has_kernel(const emit_case *c, const char *prefix) {
  for (size_t i = 0; i < c->lowering.kernels.n; i++)
    if (!strncmp(c->lowering.kernels.items[i].name, prefix, strlen(prefix))) return true;
  return false;
}

static const int lengths[] = {1, 2, 31, 32, 33, 63, 64, 65, 100, 1000, 4095, 4096, 4097, 8192, 8200, 70000};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

/* Of rows, of columns, of all; short floats and integers too. */
static void sums_of_many_lengths(void **state) {
  (void)state;
  static const char *const dtypes[] = {"f32", "bf16", "f16", "i32"};
  for (size_t i = 0; i < N_LENGTHS; i++) {
    int n = lengths[i];
    const char *d = dtypes[i % 4];
    choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : f32 [3 %d]\n%%1 = sum %%0 {axes [1]} : f32 [3]\n"
        "%%2 = input {name \"z\"} : %s [%d]\n%%3 = sum %%2 {axes [0]} : %s []\noutput \"y\" %%1\noutput \"s\" %%3\n",
        n, d, n, d);
    emit_case *c = choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : f32 [%d 40]\n%%1 = sum %%0 {axes [0]} : f32 [40]\n"
        "output \"y\" %%1\n",
        n > 9000 ? 9000 : n);
    if (n > 64) assert_true(has_kernel(c, "fold_columns"));
    choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : %s [2 %d 3]\n%%1 = transpose %%0 {perm [2 1 0]} : %s [3 %d 2]\n"
        "%%2 = reduce-max %%1 {axes [1]} : %s [3 2]\n%%3 = reduce-min %%1 {axes [0 1]} : %s [2]\n"
        "%%4 = argmax %%1 {axis [1]} : i32 [3 2]\noutput \"y\" %%2\noutput \"z\" %%3\noutput \"at\" %%4\n",
        d, n > 9000 ? 9000 : n, d, n > 9000 ? 9000 : n, d, d);
  }
  choose(
      "graph \"g\"\n%%0 = input {name \"x\"} : f32 [1500 7]\n%%1 = sum %%0 {axes [1]} : f32 [1500]\n"
      "%%2 = argmin %%0 {axis [1]} : i32 [1500]\n%%3 = transpose %%0 {perm [1 0]} : f32 [7 1500]\n"
      "%%4 = argmax %%3 {axis [0]} : i32 [1500]\noutput \"y\" %%1\noutput \"z\" %%2\noutput \"w\" %%4\n");
  choose(
      "graph \"g\"\n%%0 = input {name \"zero\"} : f32 [40 70]\n%%1 = sum %%0 {axes [1]} : f32 [40]\n"
      "%%2 = sum %%0 {axes [0]} : f32 [70]\n%%3 = transpose %%0 {perm [1 0]} : f32 [70 40]\n"
      "%%4 = sum %%3 {axes [0 1]} : f32 []\noutput \"y\" %%1\noutput \"z\" %%2\noutput \"w\" %%4\n");
  run_chosen();
}

/* A softmax with a row's sum of what came of it, and a normalization by mean and variance with a bias of the columns.
 */
static void rows_of_many_lengths(void **state) {
  (void)state;
  static const int sizes[] = {48, 63, 64, 100, 128, 640, 1000, 1024, 1025, 4095, 4096, 4097, 9000, 32768};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int n = sizes[i];
    emit_case *c = choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : f32 [9 %d]\n%%1 = reduce-max %%0 {axes [1]} : f32 [9]\n"
        "%%2 = reshape %%1 : f32 [9 1]\n%%3 = broadcast %%2 : f32 [9 %d]\n%%4 = sub %%0 %%3 : f32 [9 %d]\n"
        "%%5 = exp %%4 : f32 [9 %d]\n%%6 = sum %%5 {axes [1]} : f32 [9]\n%%7 = log %%6 : f32 [9]\n"
        "%%8 = reshape %%6 : f32 [9 1]\n%%9 = broadcast %%8 : f32 [9 %d]\n%%10 = div %%5 %%9 : f32 [9 %d]\n"
        "output \"y\" %%10\noutput \"z\" %%7\n",
        n, n, n, n, n, n);
    assert_true(has_kernel(c, "rows"));
    choose(
        "graph \"g\"\n%%0 = param {path \"x\"} : f32 [8 %d]\n%%1 = param {path \"b\"} : f32 [%d]\n"
        "%%2 = const {value %d} : f32 [8]\n%%3 = abs %%0 : f32 [8 %d]\n%%4 = sum %%3 {axes [1]} : f32 [8]\n"
        "%%5 = div %%4 %%2 : f32 [8]\n%%6 = reshape %%5 : f32 [8 1]\n%%7 = broadcast %%6 : f32 [8 %d]\n"
        "%%8 = sub %%3 %%7 : f32 [8 %d]\n%%9 = mul %%8 %%8 : f32 [8 %d]\n%%10 = sum %%9 {axes [1]} : f32 [8]\n"
        "%%11 = rsqrt %%10 : f32 [8]\n%%12 = reshape %%11 : f32 [8 1]\n%%13 = broadcast %%12 : f32 [8 %d]\n"
        "%%14 = mul %%8 %%13 : f32 [8 %d]\n%%15 = broadcast %%1 : f32 [8 %d]\n%%16 = add %%14 %%15 : f32 [8 %d]\n"
        "%%17 = cast %%16 : bf16 [8 %d]\noutput \"param/x\" %%16\noutput \"y\" %%17\n",
        n, n, n, n, n, n, n, n, n, n, n, n);
  }
  run_chosen();
}

static void lines_of_many_lengths(void **state) {
  (void)state;
  for (size_t i = 0; i < N_LENGTHS; i++) {
    int n = lengths[i] > 9000 ? 9000 : lengths[i];
    choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : f32 [2 %d]\n%%1 = argsort %%0 {axis 1, descending %d} : i32 [2 %d]\n"
        "%%2 = argsort %%1 {axis 1, descending %d} : i32 [2 %d]\n%%3 = cumsum %%0 {axis 1, reverse %d} : f32 [2 %d]\n"
        "%%4 = cumsum %%0 {axis 0, reverse 1} : f32 [2 %d]\n%%5 = linear-scan %%0 %%3 {axis 1, reverse 0} : f32 [2 "
        "%d]\n"
        "output \"a\" %%1\noutput \"b\" %%2\noutput \"c\" %%3\noutput \"d\" %%4\noutput \"e\" %%5\n",
        n, (int)i % 2, n, (int)i / 2 % 2, n, (int)i % 2, n, n, n);
  }
  run_chosen();
}

/* Sources that meet in few targets and in many, some targets without any; rows that four elements fit and not. */
static void additions_at_many_ids(void **state) {
  (void)state;
  static const int sizes[][3] = {{3, 5, 4}, {40, 7, 8}, {33, 1, 1}, {2000, 50, 12}, {1500, 3000, 3}, {5000, 11, 1}};
  static const char *const dtypes[] = {"f32", "bf16", "i32"};
  for (size_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
    int m = sizes[i / 3][0], n = sizes[i / 3][1], k = sizes[i / 3][2];
    const char *d = dtypes[i % 3];
    choose(
        "graph \"g\"\n%%0 = input {name \"i\"} : i32 [%d]\n%%1 = const {value %d} : i32 [%d]\n"
        "%%2 = iota {axis 0} : i32 [%d]\n%%3 = mul %%2 %%2 : i32 [%d]\n%%4 = add %%3 %%0 : i32 [%d]\n"
        "%%5 = mod %%4 %%1 : i32 [%d]\n%%6 = input {name \"v\"} : %s [%d %d]\n"
        "%%7 = scatter-add %%5 %%6 {n %d} : %s [%d %d]\n%%8 = reshape %%5 : i32 [%d 1]\n"
        "%%9 = broadcast %%8 : i32 [%d %d]\n%%10 = put-along %%9 %%6 {axis 0, n %d} : %s [%d %d]\n"
        "%%11 = gather %%7 %%5 : %s [%d %d]\noutput \"y\" %%7\noutput \"z\" %%10\noutput \"w\" %%11\n",
        m, n, m, m, m, m, m, d, m, k, n, d, n, k, m, m, k, n, d, n, k, d, m, k);
  }
  run_chosen();
}

static void copies_of_every_kind(void **state) {
  (void)state;
  static const int sizes[][3] = {{1, 40, 70}, {3, 33, 31}, {2, 8, 200}, {5, 7, 9}, {1, 1, 1}, {4, 64, 1}};
  static const char *const dtypes[] = {"f32", "f16", "bool"};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    int a = sizes[i][0], b = sizes[i][1], c = sizes[i][2];
    const char *d = dtypes[i % 3];
    emit_case *made = choose(
        "graph \"g\"\n%%0 = input {name \"x\"} : %s [%d %d %d]\n%%1 = transpose %%0 {perm [0 2 1]} : %s [%d %d %d]\n"
        "%%2 = transpose %%0 {perm [2 0 1]} : %s [%d %d %d]\n%%3 = reverse %%0 {axis 1} : %s [%d %d %d]\n"
        "%%4 = concat %%1 %%1 {axis 1} : %s [%d %d %d]\n%%5 = reshape %%0 : %s [%d]\n"
        "output \"a\" %%1\noutput \"b\" %%2\noutput \"c\" %%3\noutput \"d\" %%4\noutput \"e\" %%0\noutput \"f\" %%5\n",
        d, a, b, c, d, a, c, b, d, c, a, b, d, a, b, c, d, a, 2 * c, b, d, a * b * c);
    if (i == 0) assert_true(has_kernel(made, "transpose"));
  }
  run_chosen();
}

/* Parameters of several sizes are updated in place by one launch, unless one needs another's new value. */
static void updates_are_one_launch(void **state) {
  (void)state;
  static const int sizes[] = {5000, 3, 1024, 1, 777, 4096};
  static char text[1 << 13];
  char *at = text + snprintf(text, sizeof text, "graph \"update\"\n%%0 = input {name \"rate\"} : f32 []\n");
  for (int i = 0, id = 1; i < 6; i++, id += 9) {
    int n = sizes[i];
    at += snprintf(at, (size_t)(text + sizeof text - at),
                   "%%%d = param {path \"w%d\"} : f32 [%d]\n%%%d = state {path \"m%d\"} : f32 [%d]\n"
                   "%%%d = input {name \"grad/w%d\"} : f32 [%d]\n%%%d = const {value 0.9} : f32 [%d]\n"
                   "%%%d = mul %%%d %%%d : f32 [%d]\n%%%d = add %%%d %%%d : f32 [%d]\n%%%d = broadcast %%0 : f32 [%d]\n"
                   "%%%d = mul %%%d %%%d : f32 [%d]\n%%%d = sub %%%d %%%d : f32 [%d]\n"
                   "output \"param/w%d\" %%%d\noutput \"state/m%d\" %%%d\n",
                   id, i, n, id + 1, i, n, id + 2, i, n, id + 3, n, id + 4, id + 1, id + 3, n, id + 5, id + 4, id + 2,
                   n, id + 6, n, id + 7, id + 5, id + 6, n, id + 8, id, id + 7, n, i, id + 8, i, id + 5);
  }
  emit_case *c = choose("%s", text);
  assert_int_equal(c->lowering.works.n, 1);
  assert_true(c->lowering.works.items[0].launch.packed);
  c = choose(
      "graph \"g\"\n%%0 = param {path \"a\"} : f32 [10]\n%%1 = param {path \"b\"} : f32 [3]\n"
      "%%2 = exp %%0 : f32 [10]\n%%3 = slice %%2 {start [0], end [3], step [1]} : f32 [3]\n"
      "%%4 = exp %%3 : f32 [3]\n%%5 = exp %%1 : f32 [3]\noutput \"x\" %%2\noutput \"y\" %%4\noutput \"z\" %%5\n");
  assert_true(c->lowering.works.n >= 2);
  run_chosen();
}

/* ---- single operations ---------------------------------------------------------------------------- */

typedef struct single {
  kernel_case call;
  sx_memory memory;
  sx_arena arena;
  emit_case emitted;
} single;

static void begin_single(single *s, sx_op op, uint64_t seed, int64_t largest) {
  kernel_case_make(&s->call, op, seed, largest);
  s->memory = sx_memory_default();
  sx_arena_init(&s->arena, &s->memory);
  s->emitted = (emit_case){.wide = seed % 4 == 3};
  emit_lower_plan(&s->emitted, s->call.text, case_plan((kernel_case *const[]){&s->call}, 1, &s->arena), &s->arena,
                  false);
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

static void fill_single(single *s) {
  for (uint32_t k = 0; k < s->call.n_inputs; k++) case_input(&s->call, k, s->emitted.data[k]);
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
  uint64_t first = from ? strtoull(from, NULL, 10) : 1, each = count        ? strtoull(count, NULL, 10)
                                                               : is_quick()   ? 1
                                                                              : 4;
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
                                     cmocka_unit_test(graphs_of_every_operation),
                                     cmocka_unit_test_setup(sums_of_many_lengths, begin_choosing),
                                     cmocka_unit_test_setup(rows_of_many_lengths, begin_choosing),
                                     cmocka_unit_test_setup(lines_of_many_lengths, begin_choosing),
                                     cmocka_unit_test_setup(additions_at_many_ids, begin_choosing),
                                     cmocka_unit_test_setup(copies_of_every_kind, begin_choosing),
                                     cmocka_unit_test_setup(updates_are_one_launch, begin_choosing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
