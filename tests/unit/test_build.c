/* Builders: broadcasting, constants that move, sums that undo broadcasting. */
#include <string.h>

#include "../../libsexp/ir/build.h"
#include "../common/cmocka_all.h"
#include "../common/graphs.h"

typedef struct fixture {
  graphs g;
  sx_graph *graph;
} fixture;

static void begin(fixture *f) {
  graphs_init(&f->g);
  f->graph = sx_graph_new(&f->g.arena, &f->g.names, "t");
}

static sx_id input(fixture *f, sx_dtype dtype, int rank, const int64_t *dims) {
  return sx_graph_add(f->graph, &(sx_spec){.op = SX_OP_INPUT, .dtype = dtype, .rank = rank, .dims = dims, .text = "x"});
}

/* Shapes end with -1. */
typedef struct broadcast_row {
  int64_t a[9], b[9], expected[9];
  const char *problem;
} broadcast_row;

static int rank_of(const int64_t *dims) {
  int rank = 0;
  while (dims[rank] >= 0) rank++;
  return rank;
}

static const broadcast_row broadcasts[] = {
    {{2, 3, -1}, {2, 3, -1}, {2, 3, -1}, NULL},
    {{2, 3, -1}, {3, -1}, {2, 3, -1}, NULL},
    {{3, -1}, {4, 1, -1}, {4, 3, -1}, NULL},
    {{-1}, {2, 2, -1}, {2, 2, -1}, NULL},
    {{5, 1, 4, 1, -1}, {3, 1, 6, -1}, {5, 3, 4, 6, -1}, NULL},
    {{0, 3, -1}, {1, 3, -1}, {0, 3, -1}, NULL},
    {{2, 3, -1}, {2, -1}, {-1}, "E-SHAPE-001 shapes [2 3] and [2] do not broadcast together"},
    {{0, -1}, {2, -1}, {-1}, "E-SHAPE-001 shapes [0] and [2] do not broadcast together"},
    {{1 << 30, 1, -1}, {1 << 30, -1}, {-1}, "E-SHAPE-006 a result of shape [1073741824 1073741824] is not possible"},
};

static void test_broadcasting(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof broadcasts / sizeof *broadcasts; i++) {
    const broadcast_row *r = &broadcasts[i];
    fixture f;
    begin(&f);
    sx_id inputs[2] = {input(&f, SX_F32, rank_of(r->a), r->a), 0}, id;
    inputs[1] = input(&f, SX_F32, rank_of(r->b), r->b);
    sx_problem why;
    bool good = sx_try_element(f.graph, SX_OP_ADD, inputs, 2, &id, &why);
    assert_int_equal(good, !r->problem);
    if (!good)
      assert_string_equal(sx_format(&f.g.arena, "%s %s", sx_code_describe(why.code)->code, why.message), r->problem);
    else
      assert_true(sx_node_at(f.graph, id)->rank == rank_of(r->expected) &&
                  memcmp(sx_node_at(f.graph, id)->dims, r->expected, sizeof(int64_t) * (size_t)rank_of(r->expected)) ==
                      0);
    graphs_free(&f.g);
  }
}

static void test_three_operands(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id inputs[3] = {input(&f, SX_BOOL, 1, (int64_t[]){3}), 0, 0}, id;
  inputs[1] = input(&f, SX_F32, 2, (int64_t[]){2, 1});
  inputs[2] = sx_const(f.graph, SX_F32, 0, NULL, 7);
  sx_problem why;
  assert_true(sx_try_element(f.graph, SX_OP_WHERE, inputs, 3, &id, &why));
  assert_int_equal(sx_node_elements(sx_node_at(f.graph, id)), 6);
  graphs_free(&f.g);
}

/* A constant broadcast or reshaped is a constant of the shape. */
static void test_constants_move(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id c = sx_const(f.graph, SX_F32, 0, NULL, 0.1);
  sx_id wide = sx_broadcast(f.graph, c, 2, (int64_t[]){2, 3}), long_one = sx_reshape(f.graph, wide, 1, (int64_t[]){6});
  assert_int_equal(sx_node_at(f.graph, wide)->op, SX_OP_CONST);
  assert_int_equal(sx_node_at(f.graph, long_one)->op, SX_OP_CONST);
  assert_int_equal(sx_node_at(f.graph, long_one)->dims[0], 6);
  assert_true(sx_node_at(f.graph, long_one)->real == (double)0.1f);
  assert_int_equal(sx_reshape(f.graph, long_one, 1, (int64_t[]){6}), long_one);
  graphs_free(&f.g);
}

static void test_nothing_to_do(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id x = input(&f, SX_F32, 2, (int64_t[]){2, 3});
  assert_int_equal(sx_cast(f.graph, x, SX_F32), x);
  assert_int_equal(sx_transpose(f.graph, x, (int64_t[]){0, 1}), x);
  assert_int_equal(sx_broadcast(f.graph, x, 2, (int64_t[]){2, 3}), x);
  assert_int_equal(sx_sum_to(f.graph, x, 2, (int64_t[]){2, 3}), x);
  assert_int_equal(f.graph->nodes.n, 1);
  graphs_free(&f.g);
}

static void test_reduce(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id x = input(&f, SX_F32, 3, (int64_t[]){2, 3, 4});
  sx_id sum = sx_reduce(f.graph, SX_OP_SUM, x, (int64_t[]){2, 0}, 2, false);
  sx_id kept = sx_reduce(f.graph, SX_OP_REDUCEMAX, x, (int64_t[]){2, 0}, 2, true);
  sx_text text;
  sx_text_init(&text, &f.g.arena);
  sx_node_print(&text, f.graph, sum, false);
  assert_string_equal(sx_text_get(&text), "%1 = sum %0 {axes [0 2]} : f32 [3]");
  const sx_node *node = sx_node_at(f.graph, kept);
  assert_true(node->rank == 3 && node->dims[0] == 1 && node->dims[1] == 3 && node->dims[2] == 1);
  graphs_free(&f.g);
}

static void test_sum_to(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id x = input(&f, SX_F32, 3, (int64_t[]){2, 3, 4});
  sx_id sum = sx_sum_to(f.graph, x, 2, (int64_t[]){3, 1}), scalar = sx_sum_to(f.graph, x, 0, NULL);
  const sx_node *node = sx_node_at(f.graph, sum);
  assert_true(node->rank == 2 && node->dims[0] == 3 && node->dims[1] == 1);
  assert_int_equal(sx_node_at(f.graph, node->inputs[0])->op, SX_OP_SUM);
  assert_int_equal(sx_node_at(f.graph, scalar)->n_ints, 3);
  graphs_free(&f.g);
}

static void test_slice_and_pad(void **state) {
  (void)state;
  fixture f;
  begin(&f);
  sx_id x = input(&f, SX_F32, 2, (int64_t[]){2, 5});
  sx_id slice = sx_slice_axis(f.graph, x, 1, 1, 5, 2), pad = sx_pad_axis(f.graph, slice, 0, 1, 3, 0.1);
  const sx_node *node = sx_node_at(f.graph, pad);
  assert_true(node->dims[0] == 6 && node->dims[1] == 2);
  assert_true(node->real == (double)0.1f);
  graphs_free(&f.g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_broadcasting),   cmocka_unit_test(test_three_operands),
      cmocka_unit_test(test_constants_move), cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_reduce),         cmocka_unit_test(test_sum_to),
      cmocka_unit_test(test_slice_and_pad),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
