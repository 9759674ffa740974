#include <stdio.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

/* A run whose loss sums the parts. */
#define RUN(loss) "(defrun r :steps 1 :optimizer (lambda (p g) (- p g)) :loss " loss ")"

static const sx_param *find_param(const language *made, const char *path) {
  for (size_t i = 0; i < made->program.params.n; i++)
    if (strcmp(made->program.params.items[i].path, path) == 0) return &made->program.params.items[i];
  return NULL;
}

static void test_paths_and_order(void **state) {
  (void)state;
  language *made = language_of(
      "(defun part (i) (scope \"blocks\" (scope i (sum (param 'w [2] :init 1)))))\n"
      "(defun inner () (param \"x/y\" [] :init 0))\n" RUN("(+ (part 10) (part 2) (part 1) (scope 'a (inner)))"),
      NULL);
  static const char *const paths[] = {"a/x/y", "blocks/1/w", "blocks/10/w", "blocks/2/w"};
  assert_string_equal(language_codes(made), "");
  assert_int_equal(made->program.params.n, 4);
  for (size_t i = 0; i < 4; i++) {
    assert_string_equal(made->program.params.items[i].path, paths[i]);
    char output[40];
    snprintf(output, sizeof output, "grad/%s", paths[i]);
    assert_int_not_equal(sx_graph_find_output(made->program.stages[0].loss, output), SX_NO_NODE);
    snprintf(output, sizeof output, "param/%s", paths[i]);
    assert_string_equal(made->program.update->outputs.items[i].name, output);
  }
  /* nodes know their place in the model */
  const sx_graph *graph = made->program.stages[0].loss;
  assert_string_equal(sx_node_at(graph, 0)->path, "blocks/10/w");
  assert_string_equal(sx_node_at(graph, 1)->path, "blocks/10");
  language_free(made);
}

static void test_initial_values(void **state) {
  (void)state;
  language *made =
      language_of("(defun init (shape) (* 2 (normal shape)))\n" RUN(
                      "(+ (sum (param \"a\" [2 3] :init (normal shape :std 0.5))) (sum (param \"b\" [2] :init 3))"
                      "(sum (param \"c\" [2] :init init)) (sum (param \"d\" [2] :init zeros))"
                      "(sum (cast (param \"e\" [2] :dtype bf16 :init (uniform shape)) f32))"
                      "(cast (param \"f\" [] :dtype i32 :trainable false :init 7) f32)"
                      "(sum (param \"g\" [(length (param-or 1))] :init 0)))") "(defun param-or (x) (print x) [1 2 3])",
                  NULL);
  assert_string_equal(language_codes(made), "");
  assert_string_equal(language_graph(made, find_param(made, "a")->init),
                      "graph \"init/a\"\n%0 = normal {draw 0} : f32 [2 3]\n%1 = const {value 0.5} : f32 []\n"
                      "%2 = const {value 0.5} : f32 [2 3]\n%3 = mul %0 %2 : f32 [2 3]\noutput \"value\" %3\n");
  assert_string_equal(language_graph(made, find_param(made, "b")->init),
                      "graph \"init/b\"\n%0 = const {value 3} : f32 [2]\noutput \"value\" %0\n");
  assert_non_null(strstr(language_graph(made, find_param(made, "c")->init), "normal"));
  assert_non_null(strstr(language_graph(made, find_param(made, "d")->init), "const {value 0} : f32 [2]"));
  assert_non_null(strstr(language_graph(made, find_param(made, "e")->init), "cast %0 : bf16 [2]"));
  assert_non_null(strstr(language_graph(made, find_param(made, "f")->init), "const {value 7} : i32 []"));
  assert_false(find_param(made, "f")->trainable);
  assert_int_equal(sx_graph_find_output(made->program.stages[0].loss, "grad/f"), SX_NO_NODE);
  assert_int_equal(find_param(made, "g")->dims[0], 3);
  language_free(made);
}

static void test_load(void **state) {
  (void)state;
  static const language_file files[] = {
      {"lab/test.sexp", "(include \"parts/w.sexp\")\n" RUN(
                            "(+ (sum (param \"a\" [2] :load (weights \"w.safetensors\" \"t\"))) (sum (loaded \"b\"))"
                            "(sum (param \"c\" [2] :load (weights \"/abs/w\"))) (sum (param \"d\" [2] :load (weights "
                            "\"s3://b/k\"))))")},
      {"lab/parts/w.sexp", "(defun loaded (name) (param name [2] :load (weights \"w.safetensors\")))"},
  };
  language *made = language_of_files(files, 2, NULL);
  assert_string_equal(language_codes(made), "");
  assert_string_equal(find_param(made, "a")->load_file, "lab/w.safetensors");
  assert_string_equal(find_param(made, "a")->load_tensor, "t");
  assert_null(find_param(made, "a")->init);
  assert_string_equal(find_param(made, "b")->load_file, "lab/parts/w.safetensors");
  assert_string_equal(find_param(made, "b")->load_tensor, "b");
  assert_string_equal(find_param(made, "c")->load_file, "/abs/w");
  assert_string_equal(find_param(made, "d")->load_file, "s3://b/k");
  language_free(made);
}

static void expect_error(const char *text, const char *wanted) {
  language *made = language_of(text, NULL);
  if (!strstr(language_error(made), wanted)) {
    print_error("%s\n  wanted %s\n  got    %s\n", text, wanted, language_error(made));
    fail();
  }
  language_free(made);
}

static void expect_good(const char *text, size_t n_params) {
  language *made = language_of(text, NULL);
  assert_string_equal(language_error(made), "");
  assert_int_equal(made->program.params.n, n_params);
  language_free(made);
}

static void test_tying(void **state) {
  (void)state;
  expect_good("(defun w () (param \"w\" [2] :init (normal shape :std 0.1)))" RUN("(sum (* (w) (w)))"), 1);
  expect_good(RUN("(sum (* (param \"w\" [2] :init (ones shape)) (param \"w\" [2] :init (ones shape))))"), 1);
  expect_good(RUN("(sum (* (param \"w\" [2] :init (ones shape)) (param \"w\" [2])))"), 1);
  expect_good("(defun w (s) (param \"w\" [2] :init (normal shape :std s)))" RUN("(sum (* (w 0.1) (w 0.1)))"), 1);
  expect_error("(defun w (s) (param \"w\" [2] :init (normal shape :std s)))\n" RUN("(sum (* (w 0.1) (w 0.2)))"),
               "E-PARAM-001 1:15 parameter w: declared again with another starting value");
  expect_error(RUN("(+ (sum (param \"w\" [2] :init 0))\n (sum (param \"w\" [3] :init 0)))"),
               "E-PARAM-001 2:8 parameter w: declared again with another shape, f32 [3] and not f32 [2]");
  expect_error(RUN("(+ (sum (param \"w\" [2] :init 0))\n (sum (cast (param \"w\" [2] :init 0 :dtype bf16) f32)))"),
               "declared again with another dtype, bf16 [2] and not f32 [2]");
  expect_error(RUN("(+ (sum (param \"w\" [2] :init 0))\n (sum (param \"w\" [2] :load (weights \"f\"))))"),
               "declared again with another starting value");
  expect_error(RUN("(+ (sum (param \"w\" [2] :load (weights \"f\" \"a\")))\n (sum (param \"w\" [2] :load (weights "
                   "\"f\" \"b\"))))"),
               "declared again with another starting value");
  expect_error(RUN("(+ (sum (param \"w\" [2] :init 0))\n (sum (param \"w\" [2] :init 0 :trainable false)))"),
               "declared again with another :trainable");
}

static void test_mistakes(void **state) {
  (void)state;
  expect_error(RUN("(sum (param \"w\" [2]))"), "E-PARAM-003 1:66 parameter w: it has neither :init nor :load");
  expect_error(RUN("(sum (param \"w\" [2] :init 0 :load (weights \"f\")))"), "E-PARAM-003");
  expect_error(RUN("(sum (param \"w\" [2] :init (ones [3])))"),
               "E-PARAM-004 1:66 :init of w must be f32 [2], found f32 [3]");
  expect_error(RUN("(sum (param \"w\" [2] :init \"a\"))"), "E-PARAM-004");
  expect_error(RUN("(sum (param \"w\" [2] :init true))"), "E-PARAM-004");
  expect_error(RUN("(sum (cast (param \"w\" [2] :init 0 :dtype i32) f32))"), "E-PARAM-005");
  expect_error(RUN("(sum (cast (param \"w\" [2] :init 0.5 :dtype i32 :trainable false) f32))"), "E-PARAM-004");
  expect_error(RUN("(let ((x (ones [2]))) (sum (param \"w\" [2] :init (* x 2))))"),
               "E-EVAL-014 1:109 *: a tensor of the graph loss cannot be used in the graph init/w");
  expect_error(RUN("(sum (param \"w\" [2] :init (param \"v\" [2] :init 0)))"), "E-EVAL-007");
  expect_error(RUN("(sum (param \"w\" [2] :init (* (cast (input :step) f32) (ones shape))))"), "E-EVAL-007");
  expect_error(RUN("(sum (param \"\" [2] :init 0))"), "E-TYPE-010");
  expect_error(RUN("(sum (param \"w\" [-2] :init 0))"), "E-SHAPE-006");
  expect_error(RUN("(sum (param \"w\" [2] :load \"f\"))"), "E-TYPE-010");
  expect_error(RUN("(sum (param \"w\" [2] :ini 0))"),
               "E-EVAL-005 1:80 param takes no keyword :ini | did you mean :init?");
  expect_error("(def w (param \"w\" [2] :init 0))", "E-EVAL-013");
  expect_error(RUN("(state \"m\" 0 (lambda (m) m))"), "E-EVAL-007");
  expect_error(RUN("(begin (param-path) 0)"), "E-EVAL-007");
  expect_error(
      "(defrun r :steps 1 :loss (sum (param \"w\" [] :init 0)) :optimizer (lambda (p g) (param \"v\" [] :init 0)))",
      "E-EVAL-007");
}

static void test_unused_parameter(void **state) {
  (void)state;
  language *made = language_of(RUN("(begin (param \"w\" [2] :init 0) (sum (param \"v\" [3] :init 0)))"), NULL);
  assert_string_equal(language_codes(made), "E-PARAM-007");
  assert_true(made->good && made->program.diags.list.items[0].warning);
  const sx_graph *graph = made->program.stages[0].loss;
  const sx_node *gradient = sx_node_at(graph, sx_graph_find_output(graph, "grad/w"));
  assert_int_equal(gradient->op, SX_OP_CONST);
  assert_int_equal(gradient->dims[0], 2);
  assert_int_equal(sx_node_at(graph, sx_graph_find_output(graph, "grad/v"))->op, SX_OP_GRAD);
  language_free(made);
}

/* ---- optimizers ---- */

#define OPTIMIZER(optimizer) "(defrun r :steps 1 :loss (sum (param \"w\" [2] :init 0)) :optimizer\n" optimizer ")"

static void test_update(void **state) {
  (void)state;
  language *made = language_of(OPTIMIZER("(lambda (p g) (- p (* 0.5 g)))"), NULL);
  assert_string_equal(language_graph(made, made->program.update),
                      "graph \"update\"\n%0 = input {name \"grad/w\"} : f32 [2]\n%1 = param {path \"w\"} : f32 [2]\n"
                      "%2 = const {value 0.5} : f32 []\n%3 = const {value 0.5} : f32 [2]\n%4 = mul %3 %0 : f32 [2]\n"
                      "%5 = sub %1 %4 : f32 [2]\noutput \"param/w\" %5\n");
  language_free(made);
}

static void test_states(void **state) {
  (void)state;
  language *made = language_of(
      OPTIMIZER(
          "(lambda (p g) (let ((m (state \"m\" (* 2 p) (lambda (m) (+ m g)))) (n (state \"n\" 0 (lambda (n) (+ n 1)))))"
          " (- p (* m n))))"),
      NULL);
  assert_string_equal(language_codes(made), "");
  assert_int_equal(made->program.states.n, 2);
  const sx_state *m = &made->program.states.items[0];
  assert_string_equal(m->path, "m/w");
  assert_string_equal(language_graph(made, m->init),
                      "graph \"init-state/m/w\"\n%0 = param {path \"w\"} : f32 [2]\n%1 = const {value 2} : f32 [2]\n"
                      "%2 = mul %1 %0 : f32 [2]\noutput \"value\" %2\n");
  assert_int_equal(made->program.states.items[1].rank, 0);
  const sx_graph *update = made->program.update;
  assert_int_equal(sx_node_at(update, sx_graph_find_output(update, "state/m/w"))->op, SX_OP_ADD);
  assert_int_not_equal(sx_graph_find_output(update, "state/n/w"), SX_NO_NODE);
  language_free(made);
}

static void test_clip(void **state) {
  (void)state;
  language *made = language_of(
      "(defrun r :steps 1 :clip 2 :loss (+ (sum (param \"a\" [2] :init 0)) (param \"b\" [] :init 0)) :optimizer "
      "(lambda (p g) (- p g)))",
      NULL);
  assert_string_equal(language_codes(made), "");
  const char *text = language_graph(made, made->program.update);
  assert_non_null(strstr(text,
                         "%2 = mul %0 %0 : f32 [2]\n%3 = sum %2 {axes [0]} : f32 []\n%4 = mul %1 %1 : f32 []\n"
                         "%5 = add %3 %4 : f32 []\n%6 = sqrt %5 : f32 []\n%7 = const {value 2} : f32 []\n"));
  assert_non_null(strstr(text, "gt %6 %7 : bool []"));
  assert_non_null(strstr(text, "div %7 %6 : f32 []"));
  assert_non_null(strstr(text, "output \"grad-norm\" %6\n"));
  language_free(made);
}

static void test_optimizer_mistakes(void **state) {
  (void)state;
  expect_error(OPTIMIZER("(lambda (p g) (sum p))"), "E-PARAM-004 2:2 the new value of w must be f32 [2], found f32 []");
  expect_error(OPTIMIZER("(lambda (p g) (cast p bf16))"), "E-RUN-023");
  expect_error(OPTIMIZER("(lambda (p g) (+ p (ones [3])))"),
               "E-SHAPE-001 2:16 +: shapes [2] and [3] do not broadcast "
               "together, for parameter w");
  expect_error(OPTIMIZER("(lambda (p) p)"), "E-EVAL-004");
  expect_error(OPTIMIZER("3"), "E-RUN-020");
  expect_error(OPTIMIZER("(lambda (p g) (state \"m\" g (lambda (m) m)))"),
               "E-PARAM-006 2:26 state: the starting value of a state may read parameters and draws, not grad/w");
  expect_error(OPTIMIZER("(lambda (p g) (state \"m\" (state \"n\" 0 (lambda (n) n)) (lambda (m) m)))"), "E-PARAM-006");
  expect_error(OPTIMIZER("(lambda (p g) (begin (state \"m\" p (lambda (m) m)) (state \"m\" p (lambda (m) m))))"),
               "E-PARAM-006 2:52 state m/w is declared twice");
  expect_error(OPTIMIZER("(lambda (p g) (state \"m\" p (lambda (m) (sum m))))"), "E-PARAM-004");
  expect_error(OPTIMIZER("(lambda (p g) (state \"m\" p (lambda (m) (cast m bf16))))"), "E-PARAM-006");
  expect_error(OPTIMIZER("(lambda (p g) (state \"\" p (lambda (m) m)))"), "E-TYPE-010");
  expect_error(OPTIMIZER("(lambda (p g) (input :microbatch))"), "E-EVAL-007");
  expect_error(OPTIMIZER("(lambda (p g) (- p g)) :clip 0"), "E-RUN-020");
  expect_error("(defrun r :steps 1 :loss (sum (param \"w\" [2] :init 0)))",
               "E-RUN-020 1:9 a run with trainable parameters");
  expect_good("(defrun r :steps 1 :loss (sum (param \"w\" [2] :init 0 :trainable false)))", 1);
}

static void test_groups_by_path(void **state) {
  (void)state;
  language *made = language_of(
      "(defrun r :steps 1 :loss (+ (sum (param \"a/w\" [2] :init 0)) (sum (param \"a/b\" [2] :init 0)))\n"
      ":optimizer (lambda (p g) (begin (print (param-path) (matches \"*/w\" (param-path))) (- p g))))",
      NULL);
  assert_string_equal(sx_text_get(&made->printed), "a/b false\na/w true\n");
  language_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths_and_order),
      cmocka_unit_test(test_initial_values),
      cmocka_unit_test(test_load),
      cmocka_unit_test(test_tying),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_unused_parameter),
      cmocka_unit_test(test_update),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_clip),
      cmocka_unit_test(test_optimizer_mistakes),
      cmocka_unit_test(test_groups_by_path),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
