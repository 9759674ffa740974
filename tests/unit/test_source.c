#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/reading.h"

static void expect_place(const char *text, uint32_t offset, uint32_t line, uint32_t column) {
  reading *made = reading_of_text("");
  uint32_t file = sx_sources_add(&made->sources, "p.sexp", text, strlen(text), false), l = 0, c = 0;
  sx_source_place(sx_sources_get(&made->sources, file), offset, &l, &c);
  assert_int_equal(l, line);
  assert_int_equal(c, column);
  reading_free(made);
}

static void test_lines_and_columns(void **state) {
  (void)state;
  expect_place("", 0, 1, 1);
  expect_place("abc", 2, 1, 3);
  expect_place("ab\ncd\n", 2, 1, 3); /* the newline belongs to its line */
  expect_place("ab\ncd\n", 3, 2, 1);
  expect_place("ab\ncd\n", 6, 3, 1);
  expect_place("ab\ncd\n", 600, 3, 1); /* past the end is the end */
  expect_place("\n\n\nx", 3, 4, 1);
}

static void test_columns_count_code_points(void **state) {
  (void)state;
  expect_place("\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80x", 9, 1, 4);
  expect_place("a\tb", 2, 1, 3);
}

static void test_a_byte_order_mark_is_no_column(void **state) {
  (void)state;
  expect_place("\xef\xbb\xbf(a)", 3, 1, 1);
  expect_place("\xef\xbb\xbf(a)\nb", 7, 2, 1);
}

static void test_files_are_numbered_from_1_and_copied(void **state) {
  (void)state;
  reading *made = reading_of_text("first");
  char bytes[] = "second\nline";
  assert_int_equal(sx_sources_add(&made->sources, "two.sexp", bytes, strlen(bytes), true), 2);
  memset(bytes, 'x', sizeof bytes - 1);
  const sx_source *source = sx_sources_get(&made->sources, 2);
  assert_string_equal(source->path, "two.sexp");
  assert_string_equal(source->bytes, "second\nline");
  assert_int_equal(source->n_bytes, 11);
  assert_int_equal(source->n_lines, 2);
  assert_true(source->prelude);
  assert_string_equal(sx_sources_get(&made->sources, 1)->bytes, "first");
  reading_free(made);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines_and_columns),
      cmocka_unit_test(test_columns_count_code_points),
      cmocka_unit_test(test_a_byte_order_mark_is_no_column),
      cmocka_unit_test(test_files_are_numbered_from_1_and_copied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
