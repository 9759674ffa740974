/* Tables of dtypes and operations, rounding to a dtype, adding, outputs, extraction. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/cpu/kernel.h"
#include "../../libsexp/ir/build.h"
#include "../common/cmocka_all.h"
#include "../common/graphs.h"

static void test_dtypes(void **state) {
  (void)state;
  static const size_t bytes[SX_N_DTYPES] = {4, 2, 2, 4, 1, 1};
  for (int i = 0; i < SX_N_DTYPES; i++) {
    sx_dtype dtype;
    assert_true(sx_dtype_parse(sx_dtype_name((sx_dtype)i), &dtype));
    assert_int_equal(dtype, i);
    assert_int_equal(sx_dtype_bytes(dtype), bytes[i]);
    assert_int_equal(sx_dtype_is_float(dtype), i <= SX_F16);
  }
  sx_dtype dtype;
  assert_false(sx_dtype_parse("f64", &dtype));
}

static void test_operations(void **state) {
  (void)state;
  for (int i = 0; i < SX_N_OPS; i++) {
    sx_op op;
    assert_true(sx_op_parse(sx_op_describe((sx_op)i)->name, &op));
    assert_int_equal(op, i);
    assert_true(sx_op_describe(op)->text[0]);
    sx_op_class class = sx_op_describe(op)->class;
    bool computes = (class != SX_CLASS_LEAF && class != SX_CLASS_META) || op == SX_OP_CONST || op == SX_OP_IOTA;
    if (computes != (sx_reference[op] != NULL)) fail_msg("the reference loop of %s", sx_op_describe(op)->name);
  }
  sx_op op;
  assert_false(sx_op_parse("grads", &op));
}

/* docs/ir.md has a row of every operation, as ops.def has it (docs/make-ir.py). */
static void test_the_page_of_operations(void **state) {
  (void)state;
  static char page[1 << 16];
  FILE *file = fopen("docs/ir.md", "rb");
  assert_non_null(file);
  size_t n = fread(page, 1, sizeof page - 1, file);
  fclose(file);
  page[n] = 0;
  for (int i = 0; i < SX_N_OPS; i++) {
    const sx_op_info *op = sx_op_describe((sx_op)i);
    char row[64];
    snprintf(row, sizeof row, "\n| `%s` | ", op->name);
    const char *found = strstr(page, row), *text = found ? strstr(found, op->text) : NULL;
    bool escaped = strchr(op->text, '|') != NULL;
    if (!found || !(escaped || (text && text < strchr(found + 1, '\n')))) fail_msg("%s: run docs/make-ir.py", op->name);
  }
}

static void test_attributes(void **state) {
  (void)state;
  sx_attributes pad = sx_op_attributes(SX_OP_PAD), draw = sx_op_attributes(SX_OP_NORMAL);
  assert_int_equal(pad.n, 4);
  assert_true(pad.has_real && !pad.has_text);
  assert_int_equal(pad.n_lists, 3);
  assert_int_equal(pad.n_fixed, 0);
  assert_memory_equal(pad.items[3].name, "inner", pad.items[3].length);
  assert_true(draw.has_text && draw.n_fixed == 1 && draw.n_lists == 0);
  assert_int_equal(sx_op_attributes(SX_OP_ADD).n, 0);
}

static void test_rounding(void **state) {
  (void)state;
  assert_true(sx_dtype_round(SX_F32, 0.1) == (double)0.1f);
  assert_true(signbit(sx_dtype_round(SX_F32, -0.0)));
  assert_true(isnan(sx_dtype_round(SX_BF16, (double)NAN)));
  assert_true(isinf(sx_dtype_round(SX_F16, 65520)));
  assert_true(sx_dtype_round(SX_F16, 65519.999) == 65504);
  /* Just above a tie of bf16: f32 in between would round to the tie, and that down. */
  assert_true(sx_dtype_round(SX_BF16, 1 + 0x1p-8) == 1);
  assert_true(sx_dtype_round(SX_BF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
  assert_true(sx_dtype_round(SX_BF16, -1 - 0x1p-8 - 0x1p-40) == -1 - 0x1p-7);
  assert_true(sx_dtype_round(SX_BF16, 1 + 0x3p-8 - 0x1p-40) == 1 + 0x1p-7);
  assert_true(sx_dtype_round(SX_I32, 1e10) == 2147483647.0);
  assert_true(sx_dtype_round(SX_I32, -1e10) == -2147483648.0);
  assert_true(sx_dtype_round(SX_I32, -2.9) == -2);
  assert_true(sx_dtype_round(SX_I32, (double)NAN) == 0);
  assert_true(sx_dtype_round(SX_U8, -1) == 0 && sx_dtype_round(SX_U8, 300) == 255 &&
              sx_dtype_round(SX_U8, (double)NAN) == 0);
  assert_true(sx_dtype_round(SX_BOOL, 0.5) == 1 && sx_dtype_round(SX_BOOL, 0) == 0);
}

/* Rounding twice by odd equals rounding once, for every bf16 and values around its neighbours' middles. */
static void test_rounding_of_middles(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x7f80; bits++) {
    double low = (double)sx_f32_from_bf16((uint16_t)bits), high = (double)sx_f32_from_bf16((uint16_t)(bits + 1));
    if (isinf(high)) high = 0x1p128;
    double middle = low + (high - low) / 2, above = nextafter(middle, HUGE_VAL), below = nextafter(middle, 0);
    double up = bits + 1 == 0x7f80 ? HUGE_VAL : high;
    assert_true(sx_dtype_round(SX_BF16, above) == up);
    assert_true(sx_dtype_round(SX_BF16, below) == low);
    assert_true(sx_dtype_round(SX_BF16, middle) == (bits % 2 ? up : low));
  }
}

static void test_nodes_keep_their_place(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = sx_graph_new(&g.arena, &g.names, "t");
  graph->span = (sx_span){1, 20, 30};
  graph->path = "blocks/0";
  sx_id a = sx_const(graph, SX_F32, 0, NULL, 1), b = sx_unary(graph, SX_OP_NEG, a);
  assert_int_equal(sx_node_at(graph, b)->span.begin, 20);
  assert_string_equal(sx_node_at(graph, b)->path, "blocks/0");
  sx_graph_output(graph, "y", b);
  assert_int_equal(sx_graph_find_output(graph, "y"), b);
  assert_int_equal(sx_graph_find_output(graph, "z"), SX_NO_NODE);
  graphs_free(&g);
}

static void test_nan_is_one_nan(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = sx_graph_new(&g.arena, &g.names, "t");
  double nans[2] = {-(double)NAN, (double)NAN};
  sx_id ids[2];
  for (int i = 0; i < 2; i++) ids[i] = sx_graph_add(graph, &(sx_spec){.op = SX_OP_CONST, .real = nans[i]});
  assert_memory_equal(&sx_node_at(graph, ids[0])->real, &sx_node_at(graph, ids[1])->real, sizeof(double));
  graphs_free(&g);
}

static void test_extract(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g,
                                 "graph \"t\"\n%0 = param {path \"a\"} : f32 [3]\n%1 = param {path \"b\"} : f32 [3]\n"
                                 "%2 = exp %0 : f32 [3]\n%3 = exp %1 : f32 [3]\n%4 = add %3 %1 : f32 [3]\n");
  assert_non_null(graph);
  sx_graph *part = sx_graph_extract(graph, "part", (sx_output[]){{"y", 4}, {"x", 3}}, 2);
  assert_string_equal(graphs_print(&g, part),
                      "graph \"part\"\n%0 = param {path \"b\"} : f32 [3]\n%1 = exp %0 : f32 [3]\n"
                      "%2 = add %1 %0 : f32 [3]\noutput \"y\" %2\noutput \"x\" %1\n");
  graphs_free(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dtypes),
      cmocka_unit_test(test_operations),
      cmocka_unit_test(test_the_page_of_operations),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_rounding_of_middles),
      cmocka_unit_test(test_nodes_keep_their_place),
      cmocka_unit_test(test_nan_is_one_nan),
      cmocka_unit_test(test_extract),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
