#include <stdio.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

static void test_depth(void **state) {
  (void)state;
  static const language_case cases[] = {
      /* deep, and in constant depth where the call is the last */
      {"(begin (defun count (n) (if (= n 0) 0 (+ 1 (count (- n 1))))) (count 20000))", "20000"},
      {"(begin (defun loop (n acc) (if (= n 0) acc (loop (- n 1) (+ acc n)))) (loop 1000000 0))", "500000500000"},
      {"(begin (defun loop (n &key (acc 0)) (cond ((= n 0) acc) (else (begin 1 (loop (- n 1) :acc (+ acc 1)))))) (loop "
       "300000))",
       "300000"},
      {"(begin (defun even (n odd) (if (= n 0) true (odd (- n 1) (lambda (m o) (even m odd))))) (even 2 (lambda (n f) "
       "(= n 1))))",
       "true"},
      {"(fold (lambda (f i) (lambda (x) (+ 1 (f x)))) (lambda (x) x) (range 5))", "function lambda"},
      {"((fold (lambda (f i) (lambda (x) (+ 1 (f x)))) (lambda (x) x) (range 50000)) 1)", "50001"},
      {"(begin (defun f (n) (+ 1 (f n))) (f 1))", "E-EVAL-042 calls are nested more than 100000 deep"},
      {"(begin (defun f (x) (+ (apply + (append x (range 1000))) (f x))) (f (range 60)))", "E-EVAL-041"},
      {"(begin (defun f (&rest x) (list 1 2 3 4 5 6 7 (f 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20))) (f))",
       "E-EVAL-042"},
      {"(fold + 0 (range 1000000))", "499999500000"},
      {"(length (for (i (range 1000000)) i))", "1000000"},
      {"(length (apply list (range 300000)))", "300000"},
  };
  LANGUAGE_CHECK(cases);
}

static void test_budget(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(begin (defun f () (f)) (f))", "E-EVAL-041 the work budget of 10000000 evaluation steps is spent"},
      {"(begin (defun f (x) (f (lambda () x))) (f 1))", "E-EVAL-041"},
      {"(begin (defun f (x &key (y 1)) (f x :y [y])) (f 1))", "E-EVAL-041"},
      {"(begin (defun f (x) (f (scope (str \"s\" x) (scope-path)))) (f 1))",
       "E-EVAL-042 a model path of more than 4000 bytes"},
      {"(for (i (range 4000)) (for (j (range 4000)) (* i j)))", "E-EVAL-041"},
      {"(fold (lambda (l i) (append l l)) [1] (range 60))", "E-EVAL-041"},
      {"(let ((a (range 900000)) (b (range 900000))) (for (i (range 1000)) (= a b)))", "E-EVAL-041"},
      {"(let ((s (fold (lambda (s i) (str s s)) \"a\" (range 20)))) (for (i (range 100000)) (length s)))",
       "E-EVAL-041"},
      {"(begin (defun f () (begin 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 "
       "(f))) (f))",
       "E-EVAL-041"},
  };
  LANGUAGE_CHECK(cases);
  static const language_case tensors[] = {
      {"(fold (lambda (x j) (+ x x)) p (range 2000000))", "E-EVAL-041"},
  };
  LANGUAGE_CHECK_TENSORS(tensors);
}

static void test_limit_is_exact(void **state) {
  (void)state;
  static const char text[] = "(print (fold + 0 (range 100)))\n(defrun r :steps 1 :loss 1)"; /* 301 steps and print */
  sx_selection selection = {.eval_limit = 310};
  language *made = language_of(text, &selection);
  assert_string_equal(language_codes(made), "");
  language_free(made);
  selection.eval_limit = 250;
  made = language_of(text, &selection);
  assert_string_equal(language_codes(made), "E-EVAL-041"); /* one error, and nothing after it */
  assert_string_equal(sx_text_get(&made->printed), "");
  language_free(made);
}

/* As deep as the reader lets lists nest: 512 levels. */
static void test_nested_expressions(void **state) {
  (void)state;
  static const char *const parts[][3] = {
      {"(+ 1 ", ")", "509"}, {"(if true ", " 0)", "1"}, {"(begin 0 ", ")", "1"}, {"((lambda (x) x) ", ")", "1"}};
  for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
    char text[20000] = "(print ";
    for (int i = 0; i < 508; i++) strcat(text, parts[k][0]);
    strcat(text, "1");
    for (int i = 0; i < 508; i++) strcat(text, parts[k][1]);
    strcat(text, ")\n(defrun r :steps 1 :loss 1)");
    language *made = language_of(text, NULL);
    assert_string_equal(language_error(made), "");
    assert_memory_equal(sx_text_get(&made->printed), parts[k][2], strlen(parts[k][2]));
    language_free(made);
  }
  char closures[20000] = "(print (let ((a 7)) ";
  for (int i = 0; i < 250; i++) strcat(closures, "((lambda () ");
  strcat(closures, "a");
  for (int i = 0; i < 250; i++) strcat(closures, "))");
  strcat(closures, "))\n(defrun r :steps 1 :loss 1)");
  language *made = language_of(closures, NULL);
  assert_string_equal(sx_text_get(&made->printed), "7\n");
  language_free(made);
}

/* Graphs within graphs are limited, whatever makes them. */
static void test_nested_graphs(void **state) {
  (void)state;
  language *made = language_of(
      "(defun nest (n p) (state (str \"s\" n) p (lambda (old) (if (= n 0) old (nest (- n 1) p)))))\n"
      "(defrun r :steps 1 :loss (sum (param \"w\" [1] :init 0)) :optimizer (lambda (p g) (nest 20 p)))",
      NULL);
  assert_string_equal(language_error(made), "");
  assert_int_equal(made->program.states.n, 21);
  language_free(made);
  made = language_of(
      "(defun nest (n p) (state (str \"s\" n) p (lambda (old) (nest (+ n 1) p))))\n"
      "(defrun r :steps 1 :loss (sum (param \"w\" [1] :init 0)) :optimizer (lambda (p g) (nest 0 p)))",
      NULL);
  assert_string_equal(language_codes(made), "E-EVAL-042");
  language_free(made);
}

/* A network of n layers takes time linear in n: its nodes are counted here, the time by the benchmarks. */
static void test_large_network(void **state) {
  (void)state;
  size_t nodes[2];
  for (int k = 0; k < 2; k++) {
    char text[600];
    snprintf(text, sizeof text,
             "(defun layer (x i) (scope i (relu (+ (matmul x (param \"w\" [8 8] :init (he shape))) (param \"b\" [8] "
             ":init 0)))))\n"
             "(defrun r :steps 1 :loss (mean (fold layer (ones [4 8]) (range %d))) :optimizer (adamw :lr 1e-3))",
             k ? 400 : 200);
    language *made = language_of(text, NULL);
    assert_string_equal(language_error(made), "");
    nodes[k] = made->program.stages[0].loss->nodes.n + made->program.update->nodes.n;
    language_free(made);
  }
  assert_true(nodes[1] < 2 * nodes[0] + 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_limit_is_exact),
      cmocka_unit_test(test_nested_graphs),
      cmocka_unit_test(test_nested_expressions),
      cmocka_unit_test(test_large_network),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
