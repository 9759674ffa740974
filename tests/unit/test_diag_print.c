#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/reading.h"

static sx_span span_of(const char *text, const char *part) {
  const char *found = strstr(text, part);
  assert_non_null(found);
  uint32_t begin = (uint32_t)(found - text);
  return (sx_span){1, begin, begin + (uint32_t)strlen(part)};
}

static const char *printed(reading *made, const sx_diag *diag) {
  sx_text text;
  sx_text_init(&text, &made->arena);
  sx_diag_print(&text, diag, &made->sources);
  return sx_text_get(&text);
}

/* What an error at `part` of the text looks like. */
static void expect_excerpt(const char *source, const char *part, const char *wanted) {
  reading *made = reading_of_text(source);
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, span_of(source, part), "m");
  assert_string_equal(printed(made, diag), wanted);
  reading_free(made);
}

static void test_the_whole_look(void **state) {
  (void)state;
  const char *source =
      "(defun classify (image)\n"
      "  (let ((h (relu (dense image 784 128))))\n"
      "  (matmul h w2)))\n"
      "(classify   ; now\n   image)\n";
  reading *made = reading_of_text(source);
  sx_frame frame = {"classify", span_of(source, "(classify   ; now\n   image)"), NULL};
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, span_of(source, "matmul"),
                           "matmul: inner sizes differ, [32 128] by [64 10]");
  diag->second_span = span_of(source, "relu");
  diag->second_label = "the left operand comes from here, [32 128]";
  diag->frames = &frame;
  diag->hint = "w2 is [64 10]; did you mean [128 10]?";
  assert_string_equal(printed(made, diag),
                      "t.sexp:3:4: E-READ-007: matmul: inner sizes differ, [32 128] by [64 10]\n"
                      "    3 |   (matmul h w2)))\n"
                      "      |    ^^^^^^\n"
                      "  the left operand comes from here, [32 128]\n"
                      "    2 |   (let ((h (relu (dense image 784 128))))\n"
                      "      |             ^^^^\n"
                      "  called from (classify image), t.sexp:4:1\n"
                      "  hint: w2 is [64 10]; did you mean [128 10]?\n");
  diag->warning = true;
  assert_memory_equal(printed(made, diag), "t.sexp:3:4: warning: E-READ-007: ", 33);
  reading_free(made);
}

static void test_without_a_place(void **state) {
  (void)state;
  reading *made = reading_of_text("");
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_FILE, (sx_span){0, 0, 0}, "no such file: a.sexp");
  diag->hint = "look again";
  assert_string_equal(printed(made, diag), "E-READ-008: no such file: a.sexp\n  hint: look again\n");
  diag->warning = true;
  assert_memory_equal(printed(made, diag), "warning: E-READ-008: ", 21);
  reading_free(made);
}

static void test_carets(void **state) {
  (void)state;
  expect_excerpt("abc def", "def", "t.sexp:1:5: E-READ-007: m\n    1 | abc def\n      |     ^^^\n");
  expect_excerpt("a (b\n c) d", "(b\n c)", "t.sexp:1:3: E-READ-007: m\n    1 | a (b\n      |   ^^\n");
  expect_excerpt("a\tb\tc", "b", "t.sexp:1:3: E-READ-007: m\n    1 | a       b       c\n      |         ^\n");
  expect_excerpt("\xc3\xa9 x", "x", "t.sexp:1:3: E-READ-007: m\n    1 | \xc3\xa9 x\n      |   ^\n");
  expect_excerpt("\xe4\xb8\xad x", "x", "t.sexp:1:3: E-READ-007: m\n    1 | \xe4\xb8\xad x\n      |    ^\n");
  expect_excerpt("e\xcc\x81 x", "x", "t.sexp:1:4: E-READ-007: m\n    1 | e\xcc\x81 x\n      |   ^\n");
  expect_excerpt("a b\r\nc", "b", "t.sexp:1:3: E-READ-007: m\n    1 | a b\n      |   ^\n");
}

static void test_a_span_without_bytes_has_one_caret(void **state) {
  (void)state;
  reading *made = reading_of_text("ab\n\n");
  const struct {
    uint32_t at;
    const char *wanted;
  } cases[] = {{1, "t.sexp:1:2: E-READ-007: m\n    1 | ab\n      |  ^\n"},
               {2, "t.sexp:1:3: E-READ-007: m\n    1 | ab\n      |   ^\n"},
               {4, "t.sexp:3:1: E-READ-007: m\n    3 | \n      | ^\n"}};
  for (size_t i = 0; i < 3; i++) {
    sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, (sx_span){1, cases[i].at, cases[i].at}, "m");
    assert_string_equal(printed(made, diag), cases[i].wanted);
  }
  reading_free(made);
}

static void test_bytes_that_a_terminal_should_not_get(void **state) {
  (void)state;
  reading *made = reading_of("a\x1b[2J\xff\xe2\x80\xaex", 10);
  sx_diag *diag = &made->diags.list.items[0];
  assert_string_equal(printed(made, diag),
                      "t.sexp:1:6: E-READ-003: byte 0xff at offset 5 is not UTF-8\n"
                      "    1 | a\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbdx\n"
                      "      |      ^\n"
                      "  hint: save the file as UTF-8\n");
  reading_free(made);
}

static void test_long_lines_are_cut_around_the_span(void **state) {
  (void)state;
  char source[1001];
  memset(source, '.', 1000);
  source[1000] = 0;
  memcpy(source + 500, "here", 4);
  reading *made = reading_of_text(source);
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, (sx_span){1, 500, 504}, "m");
  char dots[121], blanks[121];
  memset(dots, '.', 120);
  memset(blanks, ' ', 120);
  const char *wanted =
      sx_format(&made->arena, "t.sexp:1:501: E-READ-007: m\n    1 | ...%.60shere%.56s...\n      |    %.60s^^^^\n", dots,
                dots, blanks);
  assert_string_equal(printed(made, diag), wanted);
  reading_free(made);
}

static void test_a_second_span_in_another_file_says_where(void **state) {
  (void)state;
  reading *made = reading_of_text("(def a 1)");
  uint32_t file = sx_sources_add(&made->sources, "lib/b.sexp", "\n(def a 2)", 10, false);
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, (sx_span){file, 1, 10}, "a is defined twice");
  diag->second_span = (sx_span){1, 0, 9};
  diag->second_label = "first defined here";
  assert_string_equal(printed(made, diag),
                      "lib/b.sexp:2:1: E-READ-007: a is defined twice\n"
                      "    2 | (def a 2)\n"
                      "      | ^^^^^^^^^\n"
                      "  first defined here, t.sexp:1:1\n"
                      "    1 | (def a 1)\n"
                      "      | ^^^^^^^^^\n");
  reading_free(made);
}

static void test_long_chains_lose_their_middle(void **state) {
  (void)state;
  reading *made = reading_of_text("(f)");
  sx_frame frames[100];
  for (size_t n = 13; n <= 100; n += 87) {
    for (size_t i = 0; i < n; i++) frames[i] = (sx_frame){"f", {1, 0, 3}, i + 1 < n ? &frames[i + 1] : NULL};
    sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, (sx_span){0, 0, 0}, "m");
    diag->frames = frames;
    const char *text = printed(made, diag);
    size_t lines = 0;
    for (const char *p = text; (p = strstr(p, "  called from (f), t.sexp:1:1\n")); p++) lines++;
    assert_int_equal(lines, n == 13 ? 13 : 12);
    assert_int_equal(strstr(text, "  ... 88 more calls ...\n") != NULL, n == 100);
  }
  reading_free(made);
}

static void test_long_calls_are_cut(void **state) {
  (void)state;
  const char *source = "(f \"a;b\\\"c\"   aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)";
  reading *made = reading_of_text(source);
  sx_frame frame = {"f", {1, 0, (uint32_t)strlen(source)}, NULL};
  sx_diag *diag = sx_error(&made->diags, SX_E_READ_TOKEN, (sx_span){0, 0, 0}, "m");
  diag->frames = &frame;
  assert_string_equal(
      printed(made, diag),
      "E-READ-007: m\n"
      "  called from (f \"a;b\\\"c\" aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ..., t.sexp:1:1\n");
  reading_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_whole_look),
      cmocka_unit_test(test_without_a_place),
      cmocka_unit_test(test_carets),
      cmocka_unit_test(test_a_span_without_bytes_has_one_caret),
      cmocka_unit_test(test_bytes_that_a_terminal_should_not_get),
      cmocka_unit_test(test_long_lines_are_cut_around_the_span),
      cmocka_unit_test(test_a_second_span_in_another_file_says_where),
      cmocka_unit_test(test_long_chains_lose_their_middle),
      cmocka_unit_test(test_long_calls_are_cut),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
