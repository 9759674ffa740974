#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

/* p is f32 [2 3], i an i32 scalar. */

static void test_questions_and_constants(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(shape-of p)", "[2 3]"},
      {"(shape-of 1)", "[]"},
      {"(dim p 0)", "2"},
      {"(dim p -1)", "3"},
      {"(rank p)", "2"},
      {"(rank 3)", "0"},
      {"(dtype-of p)", "f32"},
      {"(full [2] 3)", "f32 [2]"},
      {"(full [] 3 :dtype i32)", "i32 []"},
      {"(full [2] true)", "bool [2]"},
      {"(full [4] i)", "i32 [4]"},
      {"(full [4] i :dtype f32)", "f32 [4]"},
      {"(zeros 5)", "f32 [5]"},
      {"(zeros [2 0] :dtype u8)", "u8 [2 0]"},
      {"(ones [] :dtype bool)", "bool []"},
      {"(iota [2 3])", "i32 [2 3]"},
      {"(iota [2 3] :axis -1)", "i32 [2 3]"},
      {"(iota 4)", "i32 [4]"},
      {"(dim p 2)", "E-SHAPE-002 dim: there is no axis 2 in a tensor of rank 2"},
      {"(dim p -3)", "E-SHAPE-002"},
      {"(dim 1 0)", "E-TYPE-010"},
      {"(dtype-of 1)", "E-TYPE-010"},
      {"(zeros [-1])", "E-SHAPE-006"},
      {"(zeros [4611686018427387904])", "E-SHAPE-006"},
      {"(zeros [1 1 1 1 1 1 1 1 1])", "E-SHAPE-004"},
      {"(zeros [1.5])", "E-TYPE-010 zeros: a size is an integer, found 1.5 in [1.5]"},
      {"(zeros \"a\")", "E-TYPE-010"},
      {"(zeros [1] :dtype 3)", "E-TYPE-010 a dtype (f32 bf16 f16 i32 u8 bool)"},
      {"(full [2] 300 :dtype u8)", "E-TYPE-003 full: u8 does not hold 300"},
      {"(full [2] 1 :dtype bool)", "E-TYPE-010"},
      {"(iota [])", "E-SHAPE-002"},
      {"(iota [2] :axis 1)", "E-SHAPE-002"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_selection(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(where (< p 0) p 1)", "f32 [2 3]"},
      {"(where (< p 0) 1 0)", "f32 [2 3]"},
      {"(where (< p 0) true false)", "bool [2 3]"},
      {"(where (< i 0) i 3)", "i32 []"},
      {"(where true p 0)", "f32 [2 3]"},
      {"(where false 1 2)", "2"},
      {"(where (< p 0) (ones [3]) (zeros [2 1]))", "f32 [2 3]"},
      {"(where true p (ones [4 1 1]))", "f32 [4 2 3]"},
      {"(cast p bf16)", "bf16 [2 3]"},
      {"(cast p f32)", "f32 [2 3]"},
      {"(cast 2 i32)", "i32 []"},
      {"(cast true f32)", "f32 []"},
      {"(cast (< p 0) f32)", "f32 [2 3]"},
      {"(stop-gradient p)", "f32 [2 3]"},
      {"(stop-gradient 2)", "2"},
      {"(grad (sum p) p)", "f32 [2 3]"},
      {"(grad (sum p) [p p])", "[f32 [2 3] f32 [2 3]]"},
      {"(grad (sum (grad (sum (* p p p)) p)) p)", "f32 [2 3]"},
      {"(where p 1 2)", "E-TYPE-002"},
      {"(where 1 p p)", "E-TYPE-010"},
      {"(where (< p 0) p i)", "E-TYPE-001"},
      {"(where (< i 0) i 0.5)", "E-TYPE-003"},
      {"(cast p 3)", "E-TYPE-010"},
      {"(cast \"a\" f32)", "E-TYPE-010"},
      {"(grad p p)", "E-GRAD-002"},
      {"(grad (sum p) i)", "E-GRAD-003"},
      {"(grad 1 p)", "E-TYPE-010"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_reductions(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(sum p)", "f32 []"},
      {"(sum p :axis 0)", "f32 [3]"},
      {"(sum p :axis [0 -1])", "f32 []"},
      {"(sum p :axis -1 :keep true)", "f32 [2 1]"},
      {"(sum p :axis [])", "f32 [2 3]"},
      {"(sum i)", "i32 []"},
      {"(reduce-max p :axis 1)", "f32 [2]"},
      {"(reduce-min p :keep true)", "f32 [1 1]"},
      {"(any (< p 0))", "bool []"},
      {"(all (< p 0) :axis 0)", "bool [3]"},
      {"(argmax p :axis -1)", "i32 [2]"},
      {"(argmax p)", "i32 []"},
      {"(argmin p :axis 0 :keep true)", "i32 [1 3]"},
      {"(mean p :axis -1)", "f32 [2]"},
      {"(sum p :axis 2)", "E-SHAPE-002"},
      {"(sum p :axis [0 -2])", "E-SHAPE-002 sum: the axis 0 stands twice"},
      {"(sum p :axis \"a\")", "E-TYPE-010"},
      {"(sum p :keep 1)", "E-TYPE-010"},
      {"(sum (< p 0))", "E-TYPE-002"},
      {"(any p)", "E-TYPE-002"},
      {"(reduce-max (zeros [0]))", "E-SHAPE-009"},
      {"(argmax p :axis [0 1])", "E-TYPE-010"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_products_and_scans(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(matmul p (ones [3 4]))", "f32 [2 4]"},
      {"(matmul p (ones [3]))", "f32 [2]"},
      {"(matmul (ones [5 1 2 3]) (ones [4 3 6]))", "f32 [5 4 2 6]"},
      {"(matmul p (ones [3 4]) :dtype bf16)", "bf16 [2 4]"},
      {"(matmul (cast p bf16) (ones [3 4] :dtype bf16))", "bf16 [2 4]"},
      {"(einsum \"ij,jk->ik\" p (ones [3 4]))", "f32 [2 4]"},
      {"(einsum \"ij->j\" p)", "f32 [3]"},
      {"(einsum \"ij,ij,ij->\" p p p)", "f32 []"},
      {"(conv2d (ones [2 8 8 3]) (ones [5 3 3 3]) :stride 2 :padding 1)", "f32 [2 4 4 5]"},
      {"(cumsum p :axis 0)", "f32 [2 3]"},
      {"(cumsum p)", "f32 [2 3]"},
      {"(cumsum p :axis 1 :segments (iota [3]))", "f32 [2 3]"},
      {"(cumsum p :axis 0 :segments (iota [2 3]))", "f32 [2 3]"},
      {"(cumsum (ones [2 3 4]) :axis 1 :segments (iota [2 3]))", "f32 [2 3 4]"},
      {"(cumsum (ones [2 3 4]) :axis 1 :segments (iota [3]))", "f32 [2 3 4]"},
      {"(cumsum (ones [2 3 4]) :axis 0 :segments (iota [2]))", "f32 [2 3 4]"},
      {"(cumsum (ones [2 3 4]) :axis 1 :segments (iota [2]))", "E-SHAPE-008"},
      {"(linear-scan p p :axis 1)", "f32 [2 3]"},
      {"(linear-scan p p :axis 1 :segments (iota [3]))", "f32 [2 3]"},
      {"(matmul p (ones [4 5]))", "E-SHAPE-003 matmul: inner sizes differ, [2 3] by [4 5]"},
      {"(matmul p 2)", "E-TYPE-010"},
      {"(matmul p (ones [3 4] :dtype bf16))", "E-TYPE-001"},
      {"(einsum \"ij,kl\" p)", "E-TYPE-004 einsum: \"ij,kl\" has 2 operands, got 1"},
      {"(einsum \"i!\" p)", "E-SHAPE-010"},
      {"(einsum 3 p)", "E-TYPE-010"},
      {"(conv2d (ones [8 8 3]) (ones [5 3 3 3]))", "E-SHAPE-004"},
      {"(conv2d (ones [1 8 8 3]) (ones [5 3 3 3]) :stride 0)", "E-EVAL-016 conv2d: :stride must lie from 1"},
      {"(cumsum p :axis 3)", "E-SHAPE-002"},
      {"(cumsum p :segments p)", "E-TYPE-002"},
      {"(linear-scan p (ones [2]))", "E-SHAPE-008"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_moves(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(reshape p [3 2])", "f32 [3 2]"},
      {"(reshape p [-1])", "f32 [6]"},
      {"(reshape p [3 -1 1])", "f32 [3 2 1]"},
      {"(reshape p 6)", "f32 [6]"},
      {"(transpose p [1 0])", "f32 [3 2]"},
      {"(transpose p)", "f32 [3 2]"},
      {"(transpose p [-1 0])", "f32 [3 2]"},
      {"(broadcast-to p [4 2 3])", "f32 [4 2 3]"},
      {"(broadcast-to 1 [2])", "f32 [2]"},
      {"(slice p 1 0 2)", "f32 [2 2]"},
      {"(slice p 1 1 -1)", "f32 [2 1]"},
      {"(slice p -1 0 3 :step 2)", "f32 [2 2]"},
      {"(slice p 1 2 1)", "f32 [2 0]"},
      {"(pad p [1 0] [0 2])", "f32 [3 5]"},
      {"(pad p [1 0] [0 2] :value -inf)", "f32 [3 5]"},
      {"(concat [p p])", "f32 [4 3]"},
      {"(concat [p p] :axis -1)", "f32 [2 6]"},
      {"(stack [p p])", "f32 [2 2 3]"},
      {"(stack [p p p] :axis -1)", "f32 [2 3 3]"},
      {"(reverse p :axis 1)", "f32 [2 3]"},
      {"(unfold (ones [2 9]) :axis 1 :size 3 :step 2)", "f32 [2 4 3]"},
      {"(reshape p [4])", "E-SHAPE-005"},
      {"(reshape p [-1 -1])", "E-SHAPE-005 reshape: only one size may be -1"},
      {"(reshape p [4 -1])", "E-SHAPE-005"},
      {"(reshape p [-2 3])", "E-SHAPE-006"},
      {"(transpose p [0 0])", "E-SHAPE-002"},
      {"(transpose p [0])", "E-SHAPE-004"},
      {"(broadcast-to p [3 2])", "E-SHAPE-001"},
      {"(slice p 1 0 4)", "E-SHAPE-007 slice: the end 4 lies outside an axis of 3"},
      {"(slice p 1 -4 3)", "E-SHAPE-007"},
      {"(slice p 1 0 3 :step 0)", "E-EVAL-016"},
      {"(pad p [1] [0 2])", "E-SHAPE-004 pad: 1 counts for a tensor of rank 2"},
      {"(pad i [] [] :value 0.5)", "E-TYPE-003"},
      {"(concat [])", "E-EVAL-010"},
      {"(concat p)", "E-TYPE-010"},
      {"(concat [p (ones [2 4])])", "E-SHAPE-008"},
      {"(stack [p (ones [2 4])])", "E-SHAPE-008 stack: shapes differ, [2 3] and [2 4]"},
      {"(unfold p :size 2)", "E-EVAL-005 unfold: :axis is missing"},
      {"(unfold p :axis 0 :size 3)", "E-SHAPE-007"},
      {"(reverse p :axis 2)", "E-SHAPE-002"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_indices(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(gather p (iota [4 5]))", "f32 [4 5 3]"},
      {"(gather p 1)", "f32 [3]"},
      {"(take-along p (iota [2 1]) :axis 1)", "f32 [2 1]"},
      {"(scatter-add (iota [2]) p 7)", "f32 [7 3]"},
      {"(one-hot (iota [4]) 5)", "f32 [4 5]"},
      {"(one-hot i 5 :dtype i32)", "i32 [5]"},
      {"(sort p)", "f32 [2 3]"},
      {"(sort p :axis 0 :descending true)", "f32 [2 3]"},
      {"(argsort p)", "i32 [2 3]"},
      {"(top-k p 2)", "[f32 [2 2] i32 [2 2]]"},
      {"(gather p p)", "E-TYPE-002"},
      {"(gather i (iota [2]))", "E-SHAPE-004"},
      {"(take-along p (iota [2]) :axis 1)", "E-SHAPE-008"},
      {"(scatter-add (iota [3]) p 7)", "E-SHAPE-008"},
      {"(scatter-add (iota [2]) p -1)", "E-EVAL-016"},
      {"(one-hot (iota [4]) 1.5)", "E-TYPE-010"},
      {"(sort i)", "E-SHAPE-002"},
      {"(top-k p 4)", "E-EVAL-016 top-k: k must lie from 0 to 3, found 4"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_draws(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(uniform [2])", "f32 [2]"},
      {"(uniform [2] :low -1 :high 1 :salt :step)", "f32 [2]"},
      {"(normal [] :mean 1 :std 2 :salt [:step :microbatch i 3])", "f32 []"},
      {"(normal [3] :stream \"noise\")", "f32 [3]"},
      {"(normal [3] :salt [])", "f32 [3]"},
      {"(input :records)", "i32 []"},
      {"(input :stage-records)", "i32 []"},
      {"(input :trip)", "E-EVAL-007 input: there is no :trip in a loss"},
      {"(input :stepp)", "E-EVAL-016 input: unknown counter :stepp"},
      {"(input \"step\")", "E-TYPE-010"},
      {"(uniform [2] :low p)", "E-TYPE-010"},
      {"(uniform [2] :salt 0.5)", "E-TYPE-010"},
      {"(uniform [2] :salt p)", "E-TYPE-002"},
      {"(uniform [2] :stream 3)", "E-TYPE-010"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_graph_of_draws(void **state) {
  (void)state;
  language *made = language_of(
      "(defrun r :steps 1 :optimizer (lambda (p g) g) :loss (+ (sum (param \"p\" [] :init 0))\n"
      "(uniform [] :low 1 :high 3 :salt [:step 7]) (normal []) (normal [] :stream \"s\" :std 2)))",
      NULL);
  assert_string_equal(language_error(made), "");
  const sx_graph *graph = made->program.stages[0].loss;
  const sx_node *draws[3];
  size_t n = 0;
  for (size_t i = 0; i < graph->nodes.n; i++)
    if (graph->nodes.items[i].op == SX_OP_UNIFORM || graph->nodes.items[i].op == SX_OP_NORMAL)
      draws[n++] = &graph->nodes.items[i];
  assert_int_equal(n, 3);
  assert_int_equal(draws[0]->ints[0], 0);
  assert_int_equal(draws[0]->n_inputs, 2);
  assert_string_equal(sx_node_at(graph, draws[0]->inputs[0])->text, "counter/step");
  assert_true(sx_node_at(graph, draws[0]->inputs[1])->real == 7);
  assert_int_equal(draws[1]->ints[0], 1);
  assert_string_equal(draws[2]->text, "s"); /* it counts no draw */
  assert_int_equal(draws[2]->ints[0], 0);
  assert_int_equal(graph->n_draws, 2);
  assert_int_equal(sx_node_at(graph, 0)->op, SX_OP_PARAM);
  assert_non_null(strstr(language_graph(made, graph),
                         "%5 = const {value 2} : f32 []\n%6 = mul %4 %5 : f32 []\n"
                         "%7 = const {value 1} : f32 []\n%8 = add %6 %7 : f32 []\n"));
  language_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_questions_and_constants),
      cmocka_unit_test(test_selection),
      cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_products_and_scans),
      cmocka_unit_test(test_moves),
      cmocka_unit_test(test_indices),
      cmocka_unit_test(test_draws),
      cmocka_unit_test(test_graph_of_draws),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
