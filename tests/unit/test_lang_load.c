#include <stdio.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/language.h"

#define RUN "\n(defrun r :steps 1 :loss 1)"

static void expect_files(const language_file *files, size_t n, const char *printed, const char *error) {
  language *made = language_of_files(files, n, NULL);
  assert_string_equal(sx_text_get(&made->printed), printed);
  const char *got = language_error(made);
  if (*error ? !strstr(got, error) : *got != 0) fail_msg("wanted %s, got %s", error, got);
  language_free(made);
}

static void test_include(void **state) {
  (void)state;
  static const language_file files[] = {
      {"lab/a.sexp", "(def before 1)\n(include \"sub/b.sexp\")\n(include \"sub/c.sexp\")\n(print from-b from-c)" RUN},
      {"lab/sub/b.sexp", "(include \"c.sexp\") (def from-b [before from-c])"},
      {"lab/sub/c.sexp", "(def from-c 3)"},
  };
  expect_files(files, 3, "[1 3] 3\n", ""); /* c is read once */
}

static void test_include_mistakes(void **state) {
  (void)state;
  static const language_file cycle[] = {
      {"a.sexp", "(include \"b.sexp\")"}, {"b.sexp", "\n (include \"c.sexp\")"}, {"c.sexp", "(include \"b.sexp\")"}};
  expect_files(cycle, 3, "", "E-READ-009 1:10 b.sexp includes itself");
  static const language_file self[] = {{"a.sexp", "(include \"a.sexp\")"}};
  expect_files(self, 1, "", "E-READ-009 1:10 a.sexp includes itself");
  static const language_file missing[] = {{"d/a.sexp", "(include \"b.sexp\")"}};
  expect_files(missing, 1, "", "E-READ-008 1:10 d/b.sexp: no such file");
  static const language_file form[] = {{"a.sexp", "(include b)"}};
  expect_files(form, 1, "", "E-EVAL-002 1:1 malformed include; the form is (include \"path\")");
  static const language_file inner[] = {{"a.sexp", "(def f (if true (include \"b.sexp\") 1))"}};
  expect_files(inner, 1, "", "E-EVAL-007 1:17 include stands at the top level of a file only");
  static const language_file broken[] = {{"a.sexp", "(include \"b.sexp\")"}, {"b.sexp", "(def x (+ 1"}};
  expect_files(broken, 2, "", "E-READ-001");
  static const language_file twice[] = {{"a.sexp", "(def x 1)\n(include \"b.sexp\")"}, {"b.sexp", "(def x 2)"}};
  expect_files(twice, 2, "", "E-EVAL-006 1:6 x is defined a second time @ 1:6");
}

static void test_deep_chain_of_includes(void **state) {
  (void)state;
  enum { N = 40 };
  static char texts[N][64], paths[N][16];
  language_file files[N];
  for (int i = 0; i < N; i++) {
    snprintf(paths[i], sizeof paths[i], "%d.sexp", i);
    snprintf(texts[i], sizeof texts[i], "(include \"%d.sexp\")", i + 1);
    files[i] = (language_file){paths[i], texts[i]};
  }
  expect_files(files, N, "", "E-READ-009 1:10 files include each other more than 32 deep");
}

static void test_no_file(void **state) {
  (void)state;
  static const language_file files[] = {{"a.sexp", ""}};
  expect_files(files, 1, "", "E-RUN-021 the file defines no run");
  language_file none = {"x.sexp", ""};
  none.path = "y.sexp";
  language *made = language_of_files(&none, 0, NULL);
  assert_string_equal(language_error(made), "E-READ-008 y.sexp: no such file");
  language_free(made);
}

/* What the prelude defines is translated when it is used: all of it translates. */
static void test_whole_prelude(void **state) {
  (void)state;
  static const language_case cases[] = {
      {"(mean p)", "f32 []"},
      {"(var p :axis 0)", "f32 [3]"},
      {"(softmax p)", "f32 [2 3]"},
      {"(log-softmax p :axis 0)", "f32 [2 3]"},
      {"(logsumexp p :axis -1)", "f32 [2]"},
      {"(sigmoid p)", "f32 [2 3]"},
      {"(relu p)", "f32 [2 3]"},
      {"(gelu p)", "f32 [2 3]"},
      {"(gelu p :approximate \"tanh\")", "f32 [2 3]"},
      {"(silu p)", "f32 [2 3]"},
      {"(softplus p)", "f32 [2 3]"},
      {"(layer-norm p (ones [3]) (zeros [3]))", "f32 [2 3]"},
      {"(rms-norm p (ones [3]))", "f32 [2 3]"},
      {"(batch-norm p (ones [3]) (zeros [3]))", "f32 [2 3]"},
      {"(linear p (ones [5 3]) (ones [5]))", "f32 [2 5]"},
      {"(embedding (iota [4]) p)", "f32 [4 3]"},
      {"(conv (ones [1 8 8 2]) (ones [3 3 3 2]) :padding \"same\")", "f32 [1 8 8 3]"},
      {"(max-pool (ones [1 8 8 2]))", "f32 [1 4 4 2]"},
      {"(avg-pool (ones [1 8 8 2]) :window 2 :stride 2)", "f32 [1 4 4 2]"},
      {"(dropout p)", "f32 [2 3]"},
      {"(attention (ones [1 2 4 8]) (ones [1 2 4 8]) (ones [1 2 4 8]) :causal true)", "f32 [1 2 4 8]"},
      {"(rotary (ones [1 2 4 8]))", "f32 [1 2 4 8]"},
      {"(cross-entropy p (iota [2]))", "f32 []"},
      {"(mse p 1)", "f32 []"},
      {"(bernoulli [4])", "f32 [4]"},
      {"(clip-norm p 1)", "f32 [2 3]"},
      {"(glorot [2 3])", "f32 [2 3]"},
      {"(he [2 3])", "f32 [2 3]"},
      {"(truncated-normal [2])", "f32 [2]"},
      {"((cosine :peak 1 :warmup 2 :total 9) i)", "f32 []"},
      {"((constant 2) i)", "2"},
      {"((warmup 0.5 :steps 4) i)", "f32 []"},
  };
  LANGUAGE_CHECK_TENSORS(cases);
}

static void test_prelude_optimizers(void **state) {
  (void)state;
  static const char *const optimizers[] = {
      "(sgd :lr 0.1)",
      "(momentum :lr 0.1 :nesterov true)",
      "(adam :lr 1e-3)",
      "(adamw :lr 1e-3)",
      "(lion :lr 1e-3)",
      "(adafactor :lr 1e-2)",
      "(muon :lr 0.1 :other (sgd :lr 0.1))",
  };
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
    char text[400];
    snprintf(
        text, sizeof text,
        "(defrun r :steps 1 :optimizer %s :loss (+ (sum (param \"w\" [2 3] :init 0)) (sum (param \"b\" [3] :init 0))))",
        optimizers[i]);
    language *made = language_of(text, NULL);
    if (!made->good) fail_msg("%s: %s", optimizers[i], language_error(made));
    language_free(made);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_include),
      cmocka_unit_test(test_include_mistakes),
      cmocka_unit_test(test_deep_chain_of_includes),
      cmocka_unit_test(test_no_file),
      cmocka_unit_test(test_whole_prelude),
      cmocka_unit_test(test_prelude_optimizers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
