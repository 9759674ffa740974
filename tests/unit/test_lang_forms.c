#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

static void test_forms(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(let ((x 1) (y (+ x 1)) (x (* y 10))) [x y])", "[20 2]"},
      {"(let [(x 1)] x)", "1"},
      {"(if (< 1 2) \"a\" (error \"no\"))", "a"},
      {"(if false 1 (if true 2 3))", "2"},
      {"(cond ((= 1 2) 1) ((= 1 1) 2 3) (else 4))", "3"},
      {"(cond (false 1) (else 4))", "4"},
      {"(and)", "E-EVAL-002"},
      {"(and true true)", "true"},
      {"(and true false (error \"no\"))", "false"},
      {"(and true)", "true"},
      {"(or false true (error \"no\"))", "true"},
      {"(or false false)", "false"},
      {"(begin 1 2 3)", "3"},
      {"(begin (def a 2) (defun f (x) (if (= x 0) a (f (- x 1)))) (f 3))", "2"},
      {"(let ((a 1)) (def a 2) (def b (+ a 1)) b)", "3"},
      {"((lambda (x &rest r) [x r]) 1 2 3)", "[1 [2 3]]"},
      {"((lambda (&rest r) r))", "[]"},
      {"((lambda (a &key (b (+ a 1)) (c (* b 2))) [a b c]) 1 :c 5)", "[1 2 5]"},
      {"((lambda (a &key (b (+ a 1)) (c (* b 2))) [a b c]) 1)", "[1 2 4]"},
      {"((lambda (&key x) x) :x 7)", "7"},
      {"((lambda (a &key (b 1) &rest r) [a b r]) 1 :b 2 3 4)", "[1 2 [3 4]]"},
      {"((lambda (k) (= k ':step)) ':step)", "true"},
      {"(let ((k 3)) ((lambda (x) ((lambda () (+ x k)))) 4))", "7"},
      {"(let ((add (lambda (n) (lambda (x) (+ x n)))) (two (add 2)) (five (add 5))) [(two 1) (five 1)])", "[3 6]"},
      {"(let ((list 3) (if 4)) (+ list if))", "7"},
      {"(let ((scope (lambda (x) x))) (scope 5))", "5"},
      {"training?", "false"},
      {"(training?)", "false"},
      {"(scope-path)", ""},
      {"(scope \"a\" (scope 1 (scope-path)))", "a/1"},
      {"(begin (scope \"a\" 1) (scope-path))", ""},
      {"(let ((scopes (lambda () (scope-path)))) (scope 'm (scopes)))", "m"},
      {"(if 1 2 3)", "E-TYPE-011 a condition is true or false, found an integer, 1"},
      {"(if true 1)", "E-EVAL-002 malformed if; the form is (if condition then else)"},
      {"(cond (false 1))", "E-EVAL-016 cond: no condition holds"},
      {"(cond (else 1) (true 2))", "E-EVAL-002"},
      {"(cond true)", "E-EVAL-002"},
      {"(let ((x)) x)", "E-EVAL-002 let binds names as (name expression)"},
      {"(let (x 1) x)", "E-EVAL-002"},
      {"(let ((x 1)))", "E-EVAL-002"},
      {"(lambda (x))", "E-EVAL-002"},
      {"(lambda (x x) 1)", "E-EVAL-002 the parameter x stands twice"},
      {"(lambda (1) 1)", "E-EVAL-002 a parameter is a name"},
      {"(lambda (&rest) 1)", "E-EVAL-002 a name follows &rest"},
      {"(lambda (&rest a b) 1)", "E-EVAL-002 nothing follows the name after &rest"},
      {"(lambda (&opt a) 1)", "E-EVAL-002 &opt does not belong here"},
      {"(lambda (&key (a 1 2)) 1)", "E-EVAL-002 a keyword parameter is name or (name default)"},
      {"(lambda x 1)", "E-EVAL-002 expected a list of parameters"},
      {"(begin (def a 1))", "E-EVAL-002 a body ends with an expression, not a definition"},
      {"(if true (def a 1) 2)", "E-EVAL-007 def stands at the top level"},
      {"(if true (defrun a) 2)", "E-EVAL-007 defrun stands at the top level"},
      {"()", "E-EVAL-002 an empty call; the empty list is written []"},
      {"let", "E-EVAL-002 let is a special form and no value"},
      {"(1 2)", "E-EVAL-003 an integer is no function: 1"},
      {"(for (i [1]))", "E-EVAL-002"},
      {"(for i [1] i)", "E-EVAL-002"},
      {"(fold + 0)", "E-EVAL-002"},
      {"(scope 1.5 1)", "E-TYPE-010 scope: its name is a text or an integer"},
      {"(scope \"\" 1)", "E-TYPE-010"},
      {"(and 1 true)", "E-TYPE-010 and: expected true, false or a tensor of bool, found an integer, 1"},
      {"(or false 1)", "E-TYPE-010"},
      {"(quote)", "E-EVAL-002"},
      {"(softmaxx 1)", "E-EVAL-001 unknown name softmaxx | did you mean softmax?"},
      {"(let ((width 1)) widht)", "E-EVAL-001 unknown name widht | did you mean width?"},
      {"zzz", "E-EVAL-001 unknown name zzz"},
      {"((lambda (a b) 1) 2)", "E-EVAL-004 lambda takes 2 arguments, got 1"},
      {"((lambda (a &rest b) 1))", "E-EVAL-004 lambda takes at least 1 argument, got 0"},
      {"((lambda (&key (alpha 1)) alpha) :alhpa 2)",
       "E-EVAL-005 lambda takes no keyword :alhpa | did you mean :alpha?"},
      {"((lambda (a) a) :b 2)", "E-EVAL-005 lambda takes no keyword :b"},
      {"((lambda (&key (a 1)) a) :a 1 :a 2)", "E-EVAL-005 lambda: :a stands twice"},
      {"((lambda (&key a) a))", "E-EVAL-005 lambda needs the keyword :a"},
      {"(sum 1 :axs 2)", "E-EVAL-005 sum takes no keyword :axs | did you mean :axis?"},
      {"(sum 1 :axis 1 :axis 1)", "E-EVAL-005 sum: :axis stands twice"},
      {"(scope (fold (lambda (s i) (str s s)) \"aaaaaaaa\" (range 10)) 1)", "E-EVAL-042"},
  };
  LANGUAGE_CHECK(cases);
}

static void expect(const char *text, const char *printed, const char *codes) {
  language *made = language_of(text, NULL);
  assert_string_equal(language_codes(made), codes);
  assert_string_equal(sx_text_get(&made->printed), printed);
  language_free(made);
}

#define RUN "\n(defrun r :steps 1 :loss (sum (param \"p\" [1] :init 0)) :optimizer (lambda (p g) g))"

static void test_definitions(void **state) {
  (void)state;
  expect(
      "(defun even (n) \"docs\" (if (= n 0) true (odd (- n 1))))\n(defun odd (n) (if (= n 0) false (even (- n 1))))\n"
      "(def a (even 7)) (print a (even 10))" RUN,
      "false true\n", "");
  expect("(begin (def a 1) (begin (def b 2))) (print a b)" RUN, "1 2\n", "");
  /* the library's names may be defined anew; the library goes on with its own */
  expect("(defun relu (x) 5) (defun exp (x) 6) (print (relu 1) (exp 2) (sigmoid? 1))" RUN, "", "E-EVAL-001");
  expect("(def mean 3) (defun reverse (x) x) (print mean (reverse [1 2]))" RUN, "3 [1 2]\n", "");
  expect(
      "(defun mean (x) 1) (defrun r :steps 1 :optimizer (lambda (p g) g) :loss (begin (print (cross-entropy "
      "(param \"p\" [2 3] :init 0) (iota [2]))) (sum (param \"p\" [2 3] :init 0))))",
      "f32 []\n", "");
  expect("(def a 1)\n(def a 2)" RUN, "", "E-EVAL-006");
  expect("(def if 2)" RUN, "", "E-EVAL-006");
  expect("(def a b) (def b 1)" RUN, "", "E-EVAL-015");
  expect("(defun f () b) (def b 1) (print (f))" RUN, "1\n", "");
  expect("(def 1 2) (defun f) (defun g (x)) (def a 1 2)" RUN, "", "E-EVAL-002 E-EVAL-002 E-EVAL-002 E-EVAL-002");
}

static void test_errors_go_on(void **state) {
  (void)state;
  /* one error a form; nothing more of what depends on them */
  expect("(def a (+ 1 \"x\")) (def b (+ a 1)) (defun f (x) (nope x)) (def c (f 1)) (print 5) (def d (/ 1 0))" RUN,
         "5\n", "E-TYPE-010 E-EVAL-001 E-EVAL-009");
  /* all mistakes of one body */
  expect("(defun f (x) (let ((y)) (if x)) zork (quote))" RUN, "", "E-EVAL-002 E-EVAL-002 E-EVAL-001 E-EVAL-002");
  char text[4000] = "";
  for (int i = 0; i < 30; i++) strcat(text, "(nope)\n");
  language *made = language_of(text, NULL);
  assert_int_equal(made->program.diags.list.n, SX_DIAG_LIMIT);
  assert_int_equal(made->program.diags.n_errors, 30);
  language_free(made);
}

static void test_second_places(void **state) {
  (void)state;
  language *made = language_of("(def a 1)\n(defun a (x) 2)", NULL);
  assert_string_equal(language_error(made), "E-EVAL-006 2:8 a is defined a second time @ 1:6");
  language_free(made);
  made = language_of("(defun f (a b) a)\n(f 1)", NULL);
  assert_string_equal(language_error(made),
                      "E-EVAL-004 2:1 f takes 2 arguments, got 1 | it is defined as (f a b) @ 1:2");
  language_free(made);
}

static void test_call_chain(void **state) {
  (void)state;
  language *made =
      language_of("(defun f (x) (+ 1 (g x)))\n(defun g (x)\n (map (lambda (y) (sqrt y)) [x]))\n(f \"a\")", NULL);
  const sx_diag *diag = &made->program.diags.list.items[0];
  assert_string_equal(language_error(made),
                      "E-TYPE-010 3:25 sqrt: expected a number or a tensor, found a string, \"a\"");
  assert_string_equal(diag->frames->name, "map"); /* the call in the user's file that led to the lambda */
  assert_string_equal(diag->frames->outer->name, "g");
  assert_string_equal(diag->frames->outer->outer->name, "f");
  assert_null(diag->frames->outer->outer->outer);
  language_free(made);
  /* inside the prelude the place is the user's call */
  made = language_of("(defun h (x)\n (+ 1 (silu x)))\n(h \"a\")", NULL);
  diag = &made->program.diags.list.items[0];
  assert_true(strncmp(language_error(made), "E-TYPE-010 2:8 silu: ", 21) == 0);
  assert_string_equal(diag->frames->name, "h");
  assert_null(diag->frames->outer);
  language_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),         cmocka_unit_test(test_definitions), cmocka_unit_test(test_errors_go_on),
      cmocka_unit_test(test_second_places), cmocka_unit_test(test_call_chain),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
