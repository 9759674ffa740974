#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/reading.h"

/* The text reads without error and prints as wanted. */
static void expect_datums(const char *text, const char *printed) {
  reading *made = reading_of_text(text);
  assert_string_equal(reading_errors(made), "");
  assert_string_equal(reading_print(made), printed);
  reading_free(made);
}

/* The text has errors of these codes (their numbers, separated by blanks) and what is left prints as wanted. */
static void expect_errors(const char *text, const char *numbers, const char *printed) {
  reading *made = reading_of_text(text);
  sx_text found;
  sx_text_init(&found, &made->arena);
  for (size_t i = 0; i < made->diags.list.n; i++)
    sx_text_addf(&found, "%s%s", i ? " " : "",
                 sx_code_describe(made->diags.list.items[i].code)->code + strlen("E-READ-"));
  assert_string_equal(sx_text_get(&found), numbers);
  assert_string_equal(reading_print(made), printed);
  reading_free(made);
}

static void test_atoms_lists_and_comments(void **state) {
  (void)state;
  expect_datums("", "");
  expect_datums(" \t\r\n\f ", "");
  expect_datums("a (b c) [1 2.5] 'd :key \"s\" true false", "a\n(b c)\n[1 2.5]\n'd\n:key\n\"s\"\ntrue\nfalse");
  expect_datums("; line\na ; more\n", "a");
  expect_datums("#| one #| two |# still |# a #||# b", "a\nb");
  expect_datums("(a #;b c)", "(a c)");
  expect_datums("(a #;(b #;c) d) #;[e] f #; #; g h i", "(a d)\nf\ni");
  expect_datums("''(a 'b)", "''(a 'b)");
  expect_datums("'#;a b", "'b");
  expect_datums("() [] (())", "()\n[]\n(())");
  expect_datums("\xef\xbb\xbf(a)", "(a)");
  expect_datums("x' a'b 'c<= != \xce\xb1\xc3\xa9", "x'\na'b\n'c<=\n!=\n\xce\xb1\xc3\xa9");
  expect_datums("(a)(b)[c]\"d\"e;f", "(a)\n(b)\n[c]\n\"d\"\ne");
}

static void test_strings(void **state) {
  (void)state;
  expect_datums("\"a\\n\\t\\\"\\\\b\"", "\"a\\n\\t\\\"\\\\b\"");
  expect_datums("\"two\nlines\"", "\"two\\nlines\"");
  expect_datums("\"\\u{e9}\\u{1F600}\\u{1}\"", "\"\xc3\xa9\xf0\x9f\x98\x80\\u{1}\"");
  expect_datums("\"(;#|\"", "\"(;#|\"");
  expect_errors("\"a\\qb\" c", "005", "\"ab\"\nc");
  expect_errors("\"\\u{}\" \"\\u{d800}\" \"\\u{110000}\" \"\\u{0}\" \"\\u41\" \"\\u{0000041}\"",
                "005 005 005 005 005 005", "\"\"\n\"\"\n\"\"\n\"\"\n\"41\"\n\"\"");
}

static void test_spans(void **state) {
  (void)state;
  reading *made = reading_of_text("(ab [c] 'd)\n\"s\"");
  const sx_datum *list = made->datums.items[0];
  const sx_span wanted[] = {{1, 0, 11}, {1, 1, 3}, {1, 4, 7}, {1, 5, 6}, {1, 8, 10}, {1, 9, 10}, {1, 12, 15}};
  const sx_span found[] = {
      list->span,           list->items[0]->span,           list->items[1]->span,       list->items[1]->items[0]->span,
      list->items[2]->span, list->items[2]->items[0]->span, made->datums.items[1]->span};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
    assert_memory_equal(&found[i], &wanted[i], sizeof wanted[i]);
  reading_free(made);
}

static void test_reading_goes_on_after_an_error(void **state) {
  (void)state;
  expect_errors("(a 1x) (b 99999999999999999999) (c)", "004 004", "(a 0)\n(b 0)\n(c)");
  expect_errors("(a b] (c)", "002", "(a b)\n(c)");
  expect_errors("(a [b (c] d)", "002", "(a [b (c)] d)");
  expect_errors("(a [b) c", "002", "(a [b])\nc");
  expect_errors("a ) b", "002", "a\nb");
  expect_errors("(a ')", "007", "(a)");
  expect_errors("(a #;)", "007", "(a)");
  expect_errors("a '", "007", "a");
  expect_errors(
      "(a , b : # {c} \xc2\xa0"
      "d :: |)",
      "007 007 007 007 007 007 007", "(a 0 b 0 0 0 0 0 0)");
}

static void test_what_is_not_closed(void **state) {
  (void)state;
  expect_errors("a (b (c", "001", "a");
  expect_errors("a (b \"c", "001", "a");
  expect_errors("a (b #| c", "001", "a");
  expect_errors("(a '", "007 001", "");
  expect_errors("\"\\", "001", "");
  expect_errors("#|", "001", "");
}

static void test_bytes_that_are_no_text(void **state) {
  (void)state;
  expect_errors("(a) \xff (b)", "003", "");
  reading *made = reading_of("(a\0b)", 5);
  assert_int_equal(made->diags.n_errors, 1);
  assert_int_equal(made->diags.list.items[0].code, SX_E_READ_BYTES);
  assert_string_equal(made->diags.list.items[0].message, "a NUL byte at offset 2");
  reading_free(made);
}

static char *repeated(const char *what, size_t n) {
  size_t length = strlen(what);
  char *text = malloc(n * length + 1);
  assert_non_null(text);
  for (size_t i = 0; i < n; i++) memcpy(text + i * length, what, length);
  text[n * length] = 0;
  return text;
}

static void test_depth_has_a_limit(void **state) {
  (void)state;
  static const char *const openings[] = {"(", "[", "'", "#;", "(a #;'["};
  for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++) {
    char *text = repeated(openings[i], 1000000);
    expect_errors(text, "006", "");
    free(text);
  }
  for (size_t depth = SX_DEPTH_MAX; depth <= SX_DEPTH_MAX + 1; depth++) {
    char *opens = repeated("(", depth), *closes = repeated(")", depth);
    reading *made = reading_of_text("");
    const char *text = sx_format(&made->arena, "%s%s", opens, closes);
    if (depth <= SX_DEPTH_MAX)
      expect_datums(text, text);
    else
      expect_errors(text, "006", "");
    reading_free(made);
    free(opens);
    free(closes);
  }
}

static void test_errors_stop_at_the_limit(void **state) {
  (void)state;
  char *text = repeated(")", 1000000);
  reading *made = reading_of_text(text);
  assert_int_equal(made->diags.list.n, SX_DIAG_LIMIT);
  assert_int_equal(made->diags.n_errors, SX_DIAG_LIMIT);
  reading_free(made);
  free(text);
}

static void test_long_files_are_read(void **state) {
  (void)state;
  char *text = repeated("(a \"b\" [1 'c])\n", 100000);
  reading *made = reading_of_text(text);
  assert_int_equal(made->diags.n_errors, 0);
  assert_int_equal(made->datums.n, 100000);
  reading_free(made);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_atoms_lists_and_comments),
      cmocka_unit_test(test_strings),
      cmocka_unit_test(test_spans),
      cmocka_unit_test(test_reading_goes_on_after_an_error),
      cmocka_unit_test(test_what_is_not_closed),
      cmocka_unit_test(test_bytes_that_are_no_text),
      cmocka_unit_test(test_depth_has_a_limit),
      cmocka_unit_test(test_errors_stop_at_the_limit),
      cmocka_unit_test(test_long_files_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
