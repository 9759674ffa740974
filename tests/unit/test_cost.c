/* The cost model: bytes and operations as counted by hand, time as the rates say; the plans of stacking degrees, their
 * memory and their time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/pass/cost.h"
#include "../../libsexp/pass/degrees.h"
#include "../../libsexp/pass/recompute.h"
#include "../common/cmocka_all.h"
#include "../common/example.h"
#include "../common/graphs.h"
#include "../common/planned.h"

static const sx_cost_rates rates = {.bytes_ns = 2, .product_ns = {10, 40, 40}, .element_ns = 5, .launch_ns = 100};

/* ---- counting ----------------------------------------------------------------------------------------- */

typedef struct counts {
  double read, written, product, element;
} counts;

/* The costs of the tasks of a graph's plan, in order. */
static void check_counts(const char *text, const counts *wanted, size_t n) {
  planned *p = planned_text(text);
  const sx_plan *plan = planned_plan(p, true, true);
  if (plan->tasks.n != n) fail_msg("%zu tasks: %s", plan->tasks.n, planned_print(p, true, true));
  for (size_t t = 0; t < n; t++) {
    sx_task_cost cost = sx_cost_of_task(plan, t, &p->arena);
    bool equal = cost.read_bytes == wanted[t].read && cost.written_bytes == wanted[t].written &&
                 cost.product_flops == wanted[t].product && cost.element_flops == wanted[t].element;
    if (!equal)
      fail_msg("task %zu: read %g, written %g, products %g, elements %g\n%s", t, cost.read_bytes, cost.written_bytes,
               cost.product_flops, cost.element_flops, planned_print(p, true, true));
  }
  planned_free(p);
}

static void products_groups_and_sums(void **state) {
  (void)state;
  check_counts(
      "graph \"t\"\n%0 = input {name \"field/x\"} : f32 [8 3]\n%1 = param {path \"w\"} : f32 [3 2]\n"
      "%2 = einsum %0 %1 {labels \"ij,jk->ik\"} : f32 [8 2]\n%3 = exp %2 : f32 [8 2]\n"
      "%4 = mul %3 %2 : f32 [8 2]\n%5 = sum %4 {axes [0 1]} : f32 []\noutput \"loss\" %5\n",
      (counts[]){{96 + 24, 64, 2 * 8 * 3 * 2, 0}, {64, 64, 0, 16 * 71}, {64, 4, 0, 16}}, 3);
}

static void a_label_of_one_operand_alone(void **state) {
  (void)state;
  check_counts(
      "graph \"t\"\n%0 = input {name \"x\"} : bf16 [8 3]\n%1 = input {name \"y\"} : bf16 [5 2]\n"
      "%2 = einsum %0 %1 {labels \"ij,kl->ik\"} : f32 [8 5]\noutput \"y\" %2\n",
      (counts[]){{48 + 20, 160, 2 * 8 * 3 * 5 * 2, 0}}, 1);
}

static void convolutions(void **state) {
  (void)state;
  check_counts(
      "graph \"t\"\n%0 = input {name \"field/x\"} : f32 [2 5 4 2]\n%1 = param {path \"w\"} : f32 [3 2 2 2]\n"
      "%2 = conv2d %0 %1 {stride 2, padding 1} : f32 [2 3 3 3]\n"
      "%3 = conv2d-data %2 %1 {stride 2, padding 1, height 5, width 4} : f32 [2 5 4 2]\n"
      "%4 = conv2d-weight %2 %0 {stride 2, padding 1, height 2, width 2} : f32 [3 2 2 2]\n"
      "output \"a\" %3\noutput \"b\" %4\n",
      (counts[]){{320 + 96, 216, 2 * 54 * 8, 0}, {216 + 96, 320, 2 * 54 * 8, 0}, {216 + 320, 96, 2 * 54 * 8, 0}}, 3);
}

/* Of a table the rows asked for; of a row that is repeated itself; of parts of a buffer no more than it; of constants
 * nothing. */
static void what_is_read(void **state) {
  (void)state;
  check_counts(
      "graph \"t\"\n%0 = param {path \"t\"} : f32 [100 4]\n%1 = input {name \"i\"} : i32 [5]\n"
      "%2 = gather %0 %1 : f32 [5 4]\n%3 = scatter-add %1 %2 {n 100} : f32 [100 4]\noutput \"y\" %3\n",
      (counts[]){{80 + 20, 80, 0, 0}, {20 + 80, 1600, 0, 20}}, 2);
  check_counts(
      "graph \"t\"\n%0 = input {name \"x\"} : f32 [6 4]\n%1 = param {path \"b\"} : f32 [4]\n"
      "%2 = broadcast %1 : f32 [6 4]\n%3 = add %0 %2 : f32 [6 4]\n%4 = const {value 2} : f32 [6 4]\n"
      "%5 = mul %3 %4 : f32 [6 4]\noutput \"y\" %5\n",
      (counts[]){{96 + 16, 96, 0, 48}}, 1);
  check_counts(
      "graph \"t\"\n%0 = input {name \"x\"} : f32 [10]\n"
      "%1 = slice %0 {start [0], end [8], step [1]} : f32 [8]\n"
      "%2 = slice %0 {start [2], end [10], step [1]} : f32 [8]\n%3 = add %1 %2 : f32 [8]\noutput \"y\" %3\n",
      (counts[]){{40, 32, 0, 8}}, 1);
  check_counts(
      "graph \"t\"\n%0 = input {name \"x\"} : f32 [4 3]\n%1 = transpose %0 {perm [1 0]} : f32 [3 4]\n"
      "output \"y\" %1\n",
      (counts[]){{48, 48, 0, 0}}, 1);
}

static void every_operation_counts(void **state) {
  (void)state;
  for (int op = 0; op < SX_N_OPS; op++) {
    sx_op_class class = sx_op_describe((sx_op)op)->class;
    bool works =
        class == SX_CLASS_ELEMENT || class == SX_CLASS_REDUCE || class == SX_CLASS_SCAN || class == SX_CLASS_RANDOM;
    if (works != (sx_op_flops((sx_op)op) > 0) && class != SX_CLASS_INDEX)
      fail_msg("%s", sx_op_describe((sx_op)op)->name);
  }
}

/* ---- time --------------------------------------------------------------------------------------------- */

static void the_longer_of_memory_and_arithmetic(void **state) {
  (void)state;
  sx_task_cost cost = {.read_bytes = 60, .written_bytes = 40, .dtype = SX_F32};
  assert_true(sx_cost_task_ns(&cost, &rates) == 100 + 50);
  cost.product_flops = 600;
  cost.element_flops = 20;
  assert_true(sx_cost_task_ns(&cost, &rates) == 100 + 60 + 4);
  cost.dtype = SX_BF16;
  assert_true(sx_cost_task_ns(&cost, &rates) == 100 + 50);
  sx_cost_rates none = rates;
  cost.product_flops = 0;
  none.product_ns[SX_BF16] = 0; /* not asked for without products */
  assert_true(sx_cost_task_ns(&cost, &none) == 100 + 50);
}

/* No rate that rises makes a plan cost more, and every one of an example's makes it cost less somewhere. */
static void faster_devices_cost_less(void **state) {
  (void)state;
  example *e = example_open("king-james");
  const sx_plan *plan = sx_plan_make(e->loss, &(sx_plan_options){.fuse = true, .reuse = true}, &e->arena);
  double before = sx_cost_ns(plan, &rates, &e->arena);
  assert_int_equal(sx_cost_dtypes(plan, &e->arena), 1u << SX_F32);
  for (int i = 0; i < 4; i++) {
    sx_cost_rates other = rates;
    double *const changed[] = {&other.bytes_ns, &other.product_ns[SX_F32], &other.element_ns, &other.launch_ns};
    *changed[i] *= i < 3 ? 2 : 0.5;
    assert_true(sx_cost_ns(plan, &other, &e->arena) < before);
  }
  example_free(e);
}

/* ---- degrees ------------------------------------------------------------------------------------------ */

static sx_degrees_request request_of(const sx_graph *const *losses, const int64_t *microbatches, size_t n_stages) {
  return (sx_degrees_request){.losses = losses, .microbatches = microbatches, .n_stages = n_stages, .optimize = true};
}

static double product_flops(const sx_plan *plan, sx_arena *arena) {
  double sum = 0;
  for (size_t t = 0; t < plan->tasks.n; t++) sum += sx_cost_of_task(plan, t, arena).product_flops;
  return sum;
}

/* Stacked passes do the products of their microbatches, in fewer launches: a step gets shorter and its plan larger. */
static void higher_degrees_take_less_time_and_more_memory(void **state) {
  (void)state;
  for (int i = 0; i < N_EXAMPLES; i++) {
    example *e = example_open(example_names[i]);
    const sx_graph *loss = e->loss;
    int64_t microbatches = 8;
    sx_degrees_request request = request_of(&loss, &microbatches, 1);
    sx_degree degrees[SX_STACK_CANDIDATES];
    sx_stack_refusal why;
    assert_int_equal(sx_degrees(degrees, &request, &why), 4);
    assert_null(why.text);
    assert_ptr_equal(degrees[0].plans[0]->graph, loss);
    double before = 0;
    for (int k = 0; k < 4; k++) {
      double step_ns = sx_passes_ns(degrees[k].plans[0], 8 >> k, &rates, &e->arena);
      assert_int_equal(degrees[k].degree, 1 << k);
      print_message("%s of degree %d: block %lld, fields %lld bytes; a step %.0f ns\n", example_names[i], 1 << k,
                    (long long)degrees[k].plans[0]->block_bytes, (long long)degrees[k].field_bytes, step_ns);
      int64_t saved = (degrees[0].field_bytes << k) - degrees[k].field_bytes; /* by rounding up to 64 once */
      assert_true(saved >= 0 && saved < 2 * (64 << k));
      assert_true(product_flops(degrees[k].plans[0], &e->arena) ==
                      ldexp(product_flops(degrees[0].plans[0], &e->arena), k) ||
                  !strcmp(example_names[i], "linear"));
      assert_true(!k || step_ns < before);
      before = step_ns;
      assert_true(!k || degrees[k].plans[0]->block_bytes >= degrees[k - 1].plans[0]->block_bytes);
    }
    example_free(e);
  }
}

#define SMALL                                                                                        \
  "graph \"loss\"\n%0 = input {name \"field/x\"} : f32 [8 32]\n%1 = param {path \"w\"} : f32 [32]\n" \
  "%2 = broadcast %1 : f32 [8 32]\n%3 = mul %0 %2 : f32 [8 32]\n%4 = exp %3 : f32 [8 32]\n"          \
  "%5 = sum %4 {axes [0 1]} : f32 []\n%6 = sum %3 {axes [0]} : f32 [32]\noutput \"loss\" %5\noutput \"grad/w\" %6\n"

static void fields_and_time_add_up(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  const sx_graph *losses[2] = {graphs_parse(&g, SMALL), graphs_parse(&g, SMALL)};
  int64_t microbatches[2] = {4, 8};
  sx_degrees_request request = request_of(losses, microbatches, 2);
  sx_degree degrees[SX_STACK_CANDIDATES];
  sx_stack_refusal why;
  assert_int_equal(sx_degrees(degrees, &request, &why), 3);
  const int64_t leaf = 64 + 128;
  for (int k = 0; k < 3; k++) {
    const sx_degree *d = &degrees[k];
    assert_int_equal(d->field_bytes, (8 * 32 * 4) << k);
    double pass = sx_cost_ns(d->plans[0], &rates, &g.arena), addition = 100 + 3 * (double)leaf / 2;
    int n_passes = 8 >> k;
    double step = sx_passes_ns(d->plans[1], n_passes, &rates, &g.arena);
    assert_true(fabs(step - (n_passes * pass + (n_passes - 1) * addition)) < 1e-6);
  }
  graphs_free(&g);
}

static void the_degrees_of_a_refusal(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  const sx_graph *losses[2] = {graphs_parse(&g, SMALL),
                               graphs_parse(&g,
                                            "graph \"loss\"\n%0 = input {name \"counter/records\"} : i32 []\n"
                                            "%1 = cast %0 : f32 []\noutput \"loss\" %1\n")};
  const sx_graph *generators[3] = {
      NULL, losses[0], graphs_parse(&g, "graph \"emit\"\n%0 = const {value 1} : bf16 [2]\noutput \"field/x\" %0\n")};
  int64_t microbatches[2] = {4, 4};
  sx_degrees_request request = request_of(losses, microbatches, 2);
  sx_degree degrees[SX_STACK_CANDIDATES];
  sx_stack_refusal why;
  assert_int_equal(sx_degrees(degrees, &request, &why), 1);
  assert_string_equal(why.text, "input: it reads :records, which counts microbatches");
  request.n_stages = 1;
  request.generators = generators;
  request.n_generators = 2;
  assert_int_equal(sx_degrees(degrees, &request, &why), 3);
  assert_null(why.text);
  request.n_generators = 3;
  assert_int_equal(sx_degrees(degrees, &request, &why), 1);
  assert_string_equal(why.text, "const: a generator with bf16 values is not stacked");
  microbatches[0] = 1; /* nothing to stack: nothing to refuse */
  assert_int_equal(sx_degrees(degrees, &request, &why), 1);
  assert_null(why.text);
  graphs_free(&g);
}

/* Plans are those of the recomputed graphs; without optimization none is. */
static void the_budget_reaches_the_plans(void **state) {
  (void)state;
  example *e = example_open("king-james");
  const sx_graph *loss = e->loss;
  int64_t microbatches = 2;
  sx_degrees_request request = request_of(&loss, &microbatches, 1);
  sx_degree without[SX_STACK_CANDIDATES], with[SX_STACK_CANDIDATES];
  sx_stack_refusal why;
  assert_int_equal(sx_degrees(without, &request, &why), 2);
  request.recompute = 9;
  assert_int_equal(sx_degrees(with, &request, &why), 2);
  for (int k = 0; k < 2; k++) assert_true(with[k].plans[0]->block_bytes < without[k].plans[0]->block_bytes);
  request.optimize = false;
  assert_int_equal(sx_degrees(with, &request, &why), 2);
  assert_ptr_equal(with[0].plans[0]->graph, loss);
  assert_true(with[0].plans[0]->block_bytes > without[0].plans[0]->block_bytes);
  example_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_groups_and_sums),
      cmocka_unit_test(a_label_of_one_operand_alone),
      cmocka_unit_test(convolutions),
      cmocka_unit_test(what_is_read),
      cmocka_unit_test(every_operation_counts),
      cmocka_unit_test(the_longer_of_memory_and_arithmetic),
      cmocka_unit_test(faster_devices_cost_less),
      cmocka_unit_test(higher_degrees_take_less_time_and_more_memory),
      cmocka_unit_test(fields_and_time_add_up),
      cmocka_unit_test(the_degrees_of_a_refusal),
      cmocka_unit_test(the_budget_reaches_the_plans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
