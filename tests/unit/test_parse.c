/* Text of graphs: what is printed parses back to the same, and every error names its place. */
#include <string.h>

#include "../../libsexp/ir/build.h"
#include "../common/cmocka_all.h"
#include "../common/graphs.h"

static const char everything[] =
    "graph \"a \\\"b\\\" \\\\ \\x07\\x0a\xc3\xa9\"\n"
    "%0 = const {value 0.1} : f32 [2 3]\n"
    "%1 = const {value nan} : bf16 []\n"
    "%2 = const {value -inf} : f16 [0]\n"
    "%3 = const {value -0} : f32 [1]\n"
    "%4 = const {value -2147483648} : i32 []\n"
    "%5 = const {value 1e-45} : f32 []\n"
    "%6 = const {value 1} : bool [2 3]\n"
    "%7 = iota {axis 1} : i32 [2 3]\n"
    "%8 = input {name \"counter/step\"} : i32 []\n"
    "%9 = param {path \"a b/\\\"w\\\"\"} : f32 [2 3]\n"
    "%10 = where %6 %0 %9 : f32 [2 3]\n"
    "%11 = slice %10 {start [0 1], end [2 3], step [1 2]} : f32 [2 1]\n"
    "%12 = pad %11 {value 0.5, low [1 0], high [0 2], inner [0 1]} : f32 [3 3]\n"
    "%13 = sum %12 {axes []} : f32 [3 3]\n"
    "%14 = sum %12 {axes [0 1]} : f32 []\n"
    "%15 = einsum %12 %12 {labels \"ab,cb->ac\"} : bf16 [3 3]\n"
    "%16 = uniform %8 %8 {draw 3} : f32 [4]\n"
    "%17 = normal {draw 1, stream \"init/w\"} : f32 [4]\n"
    "%18 = concat %12 %12 {axis 0} : f32 [6 3]\n"
    "output \"y\" %14\n"
    "output \"param/a b/\\\"w\\\"\" %15\n";

static void test_print_parse_print(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g, everything);
  if (!graph) fail_msg("%s", graphs_error(&g));
  assert_string_equal(graphs_print(&g, graph), everything);
  assert_int_equal(graph->n_draws, 4);
  graphs_free(&g);
}

static void test_places(void **state) {
  (void)state;
  static const char placed[] =
      "graph \"t\"\n%0 = const {value 1} : f32 [] @ \"a/\\\"b\\\"\" 1:20:4294967295\n%1 = neg %0 : f32 [] @ \"\" "
      "0:0:0\n";
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g, placed);
  if (!graph) fail_msg("%s", graphs_error(&g));
  assert_string_equal(sx_node_at(graph, 0)->path, "a/\"b\"");
  assert_int_equal(sx_node_at(graph, 0)->span.end, 4294967295u);
  sx_text text;
  sx_text_init(&text, &g.arena);
  sx_graph_print(&text, graph, true);
  assert_string_equal(sx_text_get(&text), placed);
  graphs_free(&g);
}

static void test_free_form(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph =
      graphs_parse(&g,
                   "; a comment\n\n  graph\t\"t\" ; its name\r\n\n%0=const{value 1.50e0}:f32[ 2  3 ];here\n"
                   "   \n  output \"y\"%0");
  if (!graph) fail_msg("%s", graphs_error(&g));
  assert_string_equal(graphs_print(&g, graph), "graph \"t\"\n%0 = const {value 1.5} : f32 [2 3]\noutput \"y\" %0\n");
  graphs_free(&g);
}

/* No good node has a negative attribute; the line of a bad one can still be read. */
static void test_a_negative_attribute(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g, "graph \"t\"\n%0 = iota {axis 0} : i32 [2]\n");
  assert_non_null(graph);
  graph->nodes.items[0].ints[0] = INT64_MIN;
  assert_string_equal(graphs_print(&g, graph), "graph \"t\"\n%0 = iota {axis -9223372036854775808} : i32 [2]\n");
  graphs_free(&g);
}

/* Reals are rounded to their dtype once, from the text. */
static void test_reals(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph =
      graphs_parse(&g, "graph \"t\"\n%0 = const {value 0.1} : f32 []\n%1 = const {value 16777217} : i32 []\n");
  assert_non_null(graph);
  assert_true(sx_node_at(graph, 0)->real == (double)0.1f);
  assert_true(sx_node_at(graph, 1)->real == 16777217);
  graphs_free(&g);
}

typedef struct error_row {
  const char *text, *error;
} error_row;

#define G "graph \"t\"\n"
#define G0 "graph \"t\"\n%0 = const {value 1} : f32 [2]\n"

static const error_row errors[] = {
    {"", "E-READ-010 line 1, column 1: expected graph"},
    {"grap \"t\"", "E-READ-010 line 1, column 1: expected graph"},
    {"\n\n graph t", "E-READ-010 line 3, column 8: expected '\"'"},
    {"graph \"t", "E-READ-010 line 1, column 9: expected '\"'"},
    {"graph \"t\n\"", "E-READ-010 line 1, column 9: a character that a string cannot hold"},
    {"graph \"\\n\"", "E-READ-010 line 1, column 8: a character that a string cannot hold"},
    {"graph \"\\x00\"", "E-READ-010 line 1, column 8: a character that a string cannot hold"},
    {"graph \"\\x4", "E-READ-010 line 1, column 8: a character that a string cannot hold"},
    {"graph \"t\" x", "E-READ-010 line 1, column 11: expected the end of the line"},
    {G "% = neg", "E-READ-010 line 2, column 3: expected an integer"},
    {G "%1 = neg", "E-READ-012 line 2, column 1: node %1 stands where %0 is next"},
    {G "%0 neg", "E-READ-010 line 2, column 4: expected '='"},
    {G "%0 = ", "E-READ-010 line 2, column 6: expected an operation"},
    {G "%0 = negg", "E-READ-011 line 2, column 6: \"negg\" is no operation"},
    {G "%0 = neg %0", "E-READ-012 line 2, column 10: %0 is not defined before here"},
    {G0 "%1 = neg %0", "E-READ-010 line 3, column 12: expected ':'"},
    {G0 "%1 = neg %0 : f64 [2]", "E-READ-011 line 3, column 15: \"f64\" is no dtype"},
    {G0 "%1 = neg %0 : f32 2", "E-READ-010 line 3, column 19: expected '['"},
    {G0 "%1 = neg %0 : f32 [2", "E-READ-010 line 3, column 21: expected an integer"},
    {G0 "%1 = neg %0 : f32 [3]", "E-READ-012 line 3, column 1: neg gives f32 [2]"},
    {G0 "%1 = neg %0 : bf16 [2]", "E-READ-012 line 3, column 1: neg gives f32 [2]"},
    {G0 "%1 = add %0 : f32 [2]", "E-READ-012 line 3, column 1: add takes 2 operands, got 1"},
    {G0 "%1 = neg %0 : f32 [1 1 1 1 1 1 1 1 2]", "E-READ-013 line 3, column 15: a shape has more than 8 axes"},
    {G0 "%1 = neg %0 {x 1} : f32 [2]", "E-READ-011 line 3, column 14: more attributes than neg has"},
    {G0 "%1 = sum %0 {axis [0]} : f32 []", "E-READ-011 line 3, column 14: attribute \"axis\" is not the next of sum"},
    {G "%0 = const : f32 [2]", "E-READ-011 line 2, column 12: attribute \"value\" of const is missing"},
    {G0 "%1 = pad %0 {value 0, low [0], high [0]} : f32 [2]",
     "E-READ-011 line 3, column 13: attribute \"inner\" of pad is missing"},
    {G0 "%1 = sum %0 {axes 0} : f32 []", "E-READ-010 line 3, column 19: expected '['"},
    {G0 "%1 = sum %0 {axes [0], axes [0]} : f32 []", "E-READ-011 line 3, column 23: more attributes than sum has"},
    {G0 "%1 = sum %0 {axes [0] : f32 []", "E-READ-010 line 3, column 23: expected '}'"},
    {G0 "%1 = slice %0 {start [0], end [0 1], step [1]} : f32 [2]",
     "E-READ-010 line 3, column 15: lists of attributes differ in length"},
    {G0 "%1 = sum %0 {axes [9999999999999999999]} : f32 []",
     "E-READ-013 line 3, column 20: an integer does not fit 64 bits"},
    {G0 "%99999999999 = neg", "E-READ-013 line 3, column 2: 99999999999 is out of range"},
    {G "%0 = const {value 1.2.3} : f32 []", "E-READ-013 line 2, column 19: \"1.2.3\" is no real"},
    {G "%0 = const {value 0x1p3} : f32 []", "E-READ-013 line 2, column 19: \"0x1p3\" is no real"},
    {G "%0 = const {value infinity} : f32 []", "E-READ-013 line 2, column 19: \"infinity\" is no real"},
    {G "%0 = const {value } : f32 []", "E-READ-010 line 2, column 19: expected a real"},
    {G "%0 = const {value 1e39} : i32 []", "E-READ-012 line 2, column 1: const i32 does not hold the value 1e+39"},
    {G0 "output \"y\" %1", "E-READ-012 line 3, column 12: %1 is not defined before here"},
    {G0 "output y %0", "E-READ-010 line 3, column 8: expected '\"'"},
    {G0 "result \"y\" %0", "E-READ-010 line 3, column 1: expected output"},
    {G0 "%1 = neg %0 : f32 [2] @ \"a\" 1:2", "E-READ-010 line 3, column 32: expected ':'"},
    {G0 "%1 = neg %0 : f32 [2] @ \"a\" -1:2:3", "E-READ-013 line 3, column 29: -1 is out of range"},
};

static void test_errors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    graphs g;
    graphs_init(&g);
    assert_null(graphs_parse(&g, errors[i].text));
    if (strcmp(graphs_error(&g), errors[i].error) != 0)
      fail_msg("\"%s\": expected %s, given %s", errors[i].text, errors[i].error, graphs_error(&g));
    graphs_free(&g);
  }
}

/* Bytes after the end are not looked at. */
static void test_every_prefix(void **state) {
  (void)state;
  for (size_t n = 0; n < sizeof everything; n++) {
    graphs g;
    graphs_init(&g);
    sx_graph *graph = sx_graph_parse(&g.arena, &g.names, everything, n, &g.diags);
    assert_int_equal(graph == NULL, g.diags.n_errors > 0);
    graphs_free(&g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_print_parse_print),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_free_form),
      cmocka_unit_test(test_reals),
      cmocka_unit_test(test_a_negative_attribute),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_every_prefix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
