/* Every rule of the verifier, broken once in a graph that is otherwise good. */
#include <string.h>

#include "../../libsexp/ir/build.h"
#include "../common/cmocka_all.h"
#include "../common/graphs.h"

static const char good[] =
    "graph \"t\"\n%0 = input {name \"x\"} : f32 [3]\n%1 = exp %0 : f32 [3]\n%2 = sum %1 {axes [0]} : f32 []\n"
    "output \"y\" %2\n";

typedef struct fixture {
  graphs g;
  sx_graph *graph;
} fixture;

static void begin(fixture *f, const char *text) {
  graphs_init(&f->g);
  f->graph = graphs_parse(&f->g, text);
  assert_non_null(f->graph);
}

static void expect(fixture *f, sx_stage stage, const char *error) {
  bool holds = sx_graph_verify(f->graph, stage, &f->g.diags);
  assert_string_equal(graphs_error(&f->g), error);
  assert_int_equal(holds, error[0] == 0);
  graphs_free(&f->g);
}

static void test_good(void **state) {
  (void)state;
  for (int stage = SX_STAGE_BUILT; stage <= SX_STAGE_READY; stage++) {
    fixture f;
    begin(&f, good);
    expect(&f, (sx_stage)stage, "");
  }
}

static void test_operands_come_before(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  f.graph->nodes.items[1].inputs[0] = 2;
  expect(&f, SX_STAGE_BUILT, "E-RUN-002 graph t: %1 breaks the rule that operands come before: operand 0 comes later");
}

static void test_type_is_inferred(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  f.graph->nodes.items[1].dims[0] = 4;
  expect(&f, SX_STAGE_BUILT,
         "E-RUN-002 graph t: %1 breaks the rule that the type is what is inferred: its operands give f32 [3]");
}

static void test_attributes(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  f.graph->nodes.items[2].ints[0] = 1;
  expect(&f, SX_STAGE_BUILT,
         "E-RUN-002 graph t: %2 breaks the rule that the type is what is inferred: axis 1 does not exist in shape [3]");
}

static void test_operation_exists(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  f.graph->nodes.items[2].op = SX_N_OPS;
  expect(&f, SX_STAGE_BUILT, "E-RUN-002 graph t: %2 breaks the rule that the operation exists: ");
}

static void test_texts_are_interned(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  static const char other[] = "x";
  f.graph->nodes.items[0].text = other;
  expect(&f, SX_STAGE_BUILT,
         "E-RUN-002 graph t: %0 breaks the rule that texts are interned: its text is not the graph's");
}

static void test_no_meta(void **state) {
  (void)state;
  static const char meta[] =
      "graph \"t\"\n%0 = input {name \"x\"} : f32 [3]\n%1 = stop-gradient %0 : f32 [3]\noutput \"y\" %1\n";
  fixture f;
  begin(&f, meta);
  expect(&f, SX_STAGE_BUILT, "");
  begin(&f, meta);
  expect(&f, SX_STAGE_EXPANDED,
         "E-RUN-002 graph t: %1 breaks the rule that no META operation is left: it is to be expanded");
}

static void test_every_node_is_needed(void **state) {
  (void)state;
  static const char unused[] =
      "graph \"t\"\n%0 = input {name \"x\"} : f32 [3]\n%1 = exp %0 : f32 [3]\noutput \"y\" %0\n";
  fixture f;
  begin(&f, unused);
  expect(&f, SX_STAGE_EXPANDED, "");
  begin(&f, unused);
  expect(&f, SX_STAGE_READY, "E-RUN-002 graph t: %1 breaks the rule that every node is needed: no output needs it");
}

static void test_outputs(void **state) {
  (void)state;
  fixture f;
  begin(&f, good);
  sx_graph_output(f.graph, "y", 1);
  expect(&f, SX_STAGE_BUILT, "E-RUN-002 graph t: two outputs are named y");
  begin(&f, good);
  f.graph->outputs.items[0].node = 9;
  expect(&f, SX_STAGE_BUILT, "E-RUN-002 graph t: output y is no node");
}

static void test_errors_are_limited(void **state) {
  (void)state;
  fixture f;
  begin(&f, "graph \"t\"\n%0 = input {name \"x\"} : f32 [3]\n");
  for (int i = 0; i < 100; i++) sx_unary(f.graph, SX_OP_EXP, 0);
  assert_false(sx_graph_verify(f.graph, SX_STAGE_READY, &f.g.diags));
  assert_int_equal(f.g.diags.n_errors, SX_DIAG_LIMIT);
  graphs_free(&f.g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_operands_come_before),
      cmocka_unit_test(test_type_is_inferred),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_operation_exists),
      cmocka_unit_test(test_texts_are_interned),
      cmocka_unit_test(test_no_meta),
      cmocka_unit_test(test_every_node_is_needed),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_errors_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
