#include "../common/cmocka_all.h"
#include "../common/language.h"

static void test_lists(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"[1 [2.5 \"a\"] 'b :c true f32]", "[1 [2.5 \"a\"] b :c true f32]"},
      {"(list 1 2)", "[1 2]"},
      {"(list)", "[]"},
      {"(list :a 1)", "[:a 1]"},
      {"'(1 (a \"b\") [c] :d 'e)", "[1 [a \"b\"] [c] :d e]"},
      {"(quote a)", "a"},
      {"(first [1 2])", "1"},
      {"(rest [1 2 3])", "[2 3]"},
      {"(rest [1])", "[]"},
      {"(nth [5 6 7] 1)", "6"},
      {"(nth 1 [5 6 7])", "6"},
      {"(nth [5 6 7] -1)", "7"},
      {"(length [1 2])", "2"},
      {"(length \"a\xc3\xa9z\")", "3"},
      {"(append [1] [2 3] [] [4])", "[1 2 3 4]"},
      {"(append)", "[]"},
      {"(reverse [1 2 3])", "[3 2 1]"},
      {"(range 3)", "[0 1 2]"},
      {"(range 1 4)", "[1 2 3]"},
      {"(range 5 0 -2)", "[5 3 1]"},
      {"(range 0 5 2)", "[0 2 4]"},
      {"(range -1)", "[]"},
      {"(range 3 3)", "[]"},
      {"(length (range -9223372036854775808 9223372036854775807 9223372036854775807))", "3"},
      {"(zip [1 2 3] [4 5])", "[[1 4] [2 5]]"},
      {"(zip [1 2])", "[[1] [2]]"},
      {"(map (lambda (x) (* x x)) [1 2 3])", "[1 4 9]"},
      {"(map + [1 2] [10 20 30])", "[11 22]"},
      {"(map - [1 2])", "[-1 -2]"},
      {"(filter (lambda (x) (> x 1)) [1 2 3])", "[2 3]"},
      {"(apply + [1 2 3])", "6"},
      {"(apply + 1 2 [3])", "6"},
      {"(apply apply [+ [1 2]])", "3"},
      {"(fold + 0 [1 2 3])", "6"},
      {"(fold (lambda (acc x) (append [x] acc)) [] [1 2 3])", "[3 2 1]"},
      {"((lambda (f) (f + 0 [1 2])) fold)", "3"},
      {"(sum [1 2 3])", "6"},
      {"(sum [1 2.5])", "3.5"},
      {"(sum [])", "0"},
      {"(reduce-max [1 3 2])", "3"},
      {"(reduce-min [1.5 -1])", "-1"},
      {"(sum 4)", "4"},
      {"(for (i [1 2]) (* 2 i))", "[2 4]"},
      {"(for (i (range 2)) (for (j (range i 2)) [i j]))", "[[[0 0] [0 1]] [[1 1]]]"},
      {"(first [])", "E-EVAL-010 first: the list is empty"},
      {"(rest [])", "E-EVAL-010"},
      {"(nth [1] 1)", "E-EVAL-010 nth: there is no item 1 in a list of 1"},
      {"(nth [1] -2)", "E-EVAL-010"},
      {"(nth [1] 1.0)", "E-TYPE-010"},
      {"(first 1)", "E-TYPE-010 first: expected a list, found an integer, 1"},
      {"(range 0 1 0)", "E-EVAL-016"},
      {"(range 1.5)", "E-TYPE-010"},
      {"(length 1)", "E-TYPE-010"},
      {"(append [1] 2)", "E-TYPE-010"},
      {"(apply + 1)", "E-TYPE-010"},
      {"(for (i 3) i)", "E-TYPE-010 expected a list, found an integer, 3 | count with (range n)"},
      {"(filter (lambda (x) x) [1])", "E-TYPE-011 filter: a condition is true or false"},
      {"(reduce-max [])", "E-EVAL-010"},
      {"(sum [1 \"a\"])", "E-TYPE-010"},
      {"(sum [9223372036854775807 1])", "E-EVAL-008"},
      {"(range 1000000000)", "E-EVAL-041"},
  };
  LANGUAGE_CHECK(cases);
}

static void test_kinds(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(for (q [number? integer? real?]) (q 1))", "[true true false]"},
      {"(for (q [number? integer? real?]) (q 1.0))", "[true false true]"},
      {"[(boolean? true) (string? \"a\") (symbol? 'a) (keyword? ':a) (list? []) (dtype? f32)]",
       "[true true true true true true]"},
      {"[(function? +) (function? map) (function? (lambda (x) x)) (function? 1)]", "[true true true false]"},
      {"(tensor? 1)", "false"},
      {"(list? \"a\")", "false"},
      {"+", "function +"},
      {"(lambda (x) x)", "function lambda"},
      {"map", "function map"},
  };
  LANGUAGE_CHECK(cases);
}

static void test_texts(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(str \"a\" 1 2.0 'b :c [1 \"x\"] true)", "a12.0b:c[1 \"x\"]true"},
      {"(str)", ""},
      {"(path \"a\" 0 'w)", "a/0/w"},
      {"(matches \"*/w\" \"blocks/0/w\")", "true"},
      {"(matches \"fc?/w\" \"fc1/b\")", "false"},
      {"[\"a\\n\\t\\\"\\\\\"]", "[\"a\\n\\t\\\"\\\\\"]"},
      {"(= (str \"a\" \"b\") \"ab\")", "true"},
      {"(+ 1 (print \"x\" 2))", "x 2\n3"},
      {"(assert (= 1 1))", "true"},
      {"(assert (= 1 2))", "E-EVAL-011 does not hold: (= 1 2)"},
      {"(assert false \"size \" 3 \" is odd\")", "E-EVAL-011 size 3 is odd"},
      {"(assert 1)", "E-TYPE-010"},
      {"(error \"no \" 'such)", "E-EVAL-012 no such"},
      {"(path 1.5)", "E-TYPE-010"},
      {"(matches 1 \"a\")", "E-TYPE-010"},
      {"(length (fold (lambda (s i) (str s s)) \"a\" (range 60)))", "E-EVAL-041"},
      {"(length (str (fold (lambda (l i) [l l]) 1 (range 60))))", "1048813"},
  };
  LANGUAGE_CHECK(cases);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
