#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

#define RUN "\n(defrun r :steps 1 :loss (sum (param \"p\" [1] :init 0)) :optimizer (lambda (p g) g))"

static const char knobs[] =
    "(defknob width 128 :doc \"units\" :min 1 :max 4096)\n"
    "(defknob rate 0.1)\n"
    "(defknob name \"a b\")\n"
    "(defknob kind f32)\n"
    "(defknob act 'relu)\n"
    "(defknob flag false)\n"
    "(defknob sizes [1 2.5])\n"
    "(defknob half (div width 2))\n"
    "(defvariant wide :width 512 :rate 1 :half (+ width 1))\n"
    "(defvariant odd :name \"odd\")\n"
    "(print width rate name kind act flag sizes half)" RUN;

static void expect(const char *variant, const char *set_a, const char *set_b, const char *printed) {
  const char *sets[] = {set_a, set_b};
  sx_selection selection = {
      .variant = variant, .sets = sets, .n_sets = set_a ? set_b ? 2 : 1 : 0, .eval_limit = 100000};
  language *made = language_of(knobs, &selection);
  const char *got = strncmp(printed, "E-", 2) == 0 ? language_error(made) : sx_text_get(&made->printed);
  if (!strstr(got, printed) || (strncmp(printed, "E-", 2) != 0 && *language_error(made))) {
    print_error("wanted %s\ngot    %s%s\n", printed, got, language_error(made));
    fail();
  }
  language_free(made);
}

static void test_values(void **state) {
  (void)state;
  expect(NULL, NULL, NULL, "128 0.1 a b f32 relu false [1.0 2.5] 64\n");
  expect("wide", NULL, NULL, "512 1.0 a b f32 relu false [1.0 2.5] 513\n");
  expect("wide", "width=256", NULL, "256 1.0 a b f32 relu false [1.0 2.5] 257\n");
  expect(NULL, "rate=2", "width=1", "1 2.0 a b f32 relu false [1.0 2.5] 0\n");
  expect(NULL, "name=plain text", NULL, "plain text");
  expect(NULL, "name=\"quoted\"", NULL, "128 0.1 quoted");
  expect(NULL, "name=", NULL, "128 0.1  f32");
  expect(NULL, "kind=bf16", "act=gelu", "bf16 gelu");
  expect(NULL, "act=f32", NULL, "f32 f32");
  expect(NULL, "flag=true", "sizes=[3]", "true [3.0]");
  expect(NULL, "sizes=(4 5 6)", NULL, "[4.0 5.0 6.0]");
  expect(NULL, "sizes=[]", NULL, "[]");
  expect(NULL, "width=2", "width=3", "3 0.1"); /* the last one */
}

static void test_mistakes(void **state) {
  (void)state;
  expect(NULL, "width=0", NULL,
         "E-KNOB-002 1:1 knob width must be at least 1, found 0; the knobs are width, rate, name,");
  expect(NULL, "width=5000", NULL, "E-KNOB-002 1:1 knob width must be at most 4096");
  expect(NULL, "width=1.5", NULL, "E-KNOB-002 1:1 knob width must be an integer, found 1.5");
  expect(NULL, "rate=fast", NULL, "E-KNOB-002");
  expect(NULL, "kind=f64", NULL, "E-KNOB-002");
  expect(NULL, "flag=1", NULL, "E-KNOB-002");
  expect(NULL, "sizes=[a]", NULL, "E-KNOB-002");
  expect(NULL, "sizes=1", NULL, "E-KNOB-002");
  expect(NULL, "widht=1", NULL,
         "E-KNOB-001 unknown knob widht; the knobs are width, rate, name, kind, act, flag, sizes, half "
         "| did you mean width?");
  expect(NULL, "width", NULL, "E-KNOB-003 --set width: the form is --set knob=value");
  expect(NULL, "=1", NULL, "E-KNOB-003");
  expect(NULL, "width=", NULL, "E-KNOB-003");
  expect(NULL, "width=1 2", NULL, "E-KNOB-003");
  expect(NULL, "width=(", NULL, "E-READ-001");
  expect("wdie", NULL, NULL, "E-KNOB-004 unknown variant wdie; the variants are wide, odd");
}

static void expect_codes(const char *text, const char *codes) {
  language *made = language_of(text, NULL);
  if (strcmp(language_codes(made), codes) != 0) print_error("%s\n%s\n", text, language_error(made));
  assert_string_equal(language_codes(made), codes);
  language_free(made);
}

static void test_forms(void **state) {
  (void)state;
  expect_codes("(defknob a 1 :dco \"x\")" RUN, "E-KNOB-005");
  expect_codes("(defknob a (lambda (x) x))" RUN, "E-KNOB-005");
  expect_codes("(defknob a \"x\" :min 1)" RUN, "E-KNOB-005");
  expect_codes("(defknob a 1 :min \"x\")" RUN, "E-KNOB-005");
  expect_codes("(defknob a 1 :doc 1)" RUN, "E-KNOB-005");
  expect_codes("(defknob a 5 :max 3)" RUN, "E-KNOB-002");
  expect_codes("(defknob a)" RUN, "E-EVAL-002");
  expect_codes("(defknob a 1) (defknob a 2)" RUN, "E-EVAL-006");
  expect_codes("(defknob a 1) (def a 2)" RUN, "E-EVAL-006");
  expect_codes("(defknob a 1) (defvariant v :b 2)" RUN, "E-KNOB-001");
  expect_codes("(defknob a 1) (defvariant v :a \"x\")" RUN, "E-KNOB-002"); /* also when it is not selected */
  expect_codes("(defknob a 1 :max 3) (defvariant v :a 4)" RUN, "E-KNOB-002");
  expect_codes("(defknob a 1) (defvariant v a 4)" RUN, "E-KNOB-004");
  expect_codes("(defknob a 1) (defvariant v :a)" RUN, "E-KNOB-004");
  expect_codes("(defvariant v :a 1) (defknob a 1) (defvariant v :a 2)" RUN, "E-EVAL-006");
}

static void test_record(void **state) {
  (void)state;
  const char *sets[] = {"rate=2"}, *globs[] = {"grad/*", "x"};
  sx_selection selection = {.variant = "wide",
                            .sets = sets,
                            .n_sets = 1,
                            .steps = 7,
                            .eval_every = 3,
                            .diagnostics = globs,
                            .n_diagnostics = 2,
                            .eval_limit = 100000};
  static const char *const wanted[][3] = {
      {"width", "512", "variant"},
      {"rate", "2.0", "set"},
      {"name", "\"a b\"", "default"},
      {"kind", "f32", "default"},
      {"act", "relu", "default"},
      {"flag", "false", "default"},
      {"sizes", "(1.0 2.5)", "default"},
      {"half", "513", "variant"},
      {"steps", "7", "override"},
      {"eval-every", "3", "override"},
      {"diagnostics", "(\"grad/*\" \"x\")", "override"},
  };
  language *made = language_of(knobs, &selection);
  assert_string_equal(language_error(made), "");
  assert_int_equal(made->program.knobs.n, sizeof wanted / sizeof *wanted);
  for (size_t i = 0; i < made->program.knobs.n; i++) {
    const sx_knob *knob = &made->program.knobs.items[i];
    sx_text text;
    sx_text_init(&text, &made->arena);
    sx_datum_print(&text, knob->value);
    assert_string_equal(knob->name, wanted[i][0]);
    assert_string_equal(sx_text_get(&text), wanted[i][1]);
    assert_string_equal(knob->source, wanted[i][2]);
  }
  assert_string_equal(made->program.knobs.items[0].doc, "units");
  assert_string_equal(made->program.variant, "wide");
  assert_int_equal(made->program.stages[0].steps, 7);
  assert_int_equal(made->program.n_diagnostics, 2);
  language_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_mistakes),
      cmocka_unit_test(test_forms),
      cmocka_unit_test(test_record),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
