#include <math.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/reading.h"

static void expect_round_trip(const char *text, const char *printed) {
  reading *first = reading_of_text(text);
  assert_int_equal(first->diags.n_errors, 0);
  assert_string_equal(reading_print(first), printed);
  reading *second = reading_of_text(printed);
  assert_int_equal(second->diags.n_errors, 0);
  assert_int_equal(second->datums.n, first->datums.n);
  for (uint32_t i = 0; i < first->datums.n; i++)
    assert_true(datum_equal(first->datums.items[i], second->datums.items[i]));
  reading_free(first);
  reading_free(second);
}

static void test_integers_and_reals_stay_what_they_are(void **state) {
  (void)state;
  expect_round_trip("1", "1");
  expect_round_trip("1.0", "1.0");
  expect_round_trip("1e0", "1.0");
  expect_round_trip("-0.0", "-0.0");
  expect_round_trip("0.1", "0.1");
  expect_round_trip("1e100", "1e+100");
  expect_round_trip("100000.0", "100000.0");
  expect_round_trip("1e15", "1e+15");
  expect_round_trip("0.30000000000000004", "0.30000000000000004");
  expect_round_trip("inf", "inf");
  expect_round_trip("-inf", "-inf");
  expect_round_trip("nan", "nan");
  expect_round_trip("0x10", "16");
  expect_round_trip("-9223372036854775808", "-9223372036854775808");
}

static void test_strings_escape_what_they_must(void **state) {
  (void)state;
  expect_round_trip("\"\"", "\"\"");
  expect_round_trip("\"a\\u{d}\\u{7f}\\u{1b}\"", "\"a\\u{d}\\u{7f}\\u{1b}\"");
  expect_round_trip("\"\\\\\\\"\\n\\t\"", "\"\\\\\\\"\\n\\t\"");
  expect_round_trip("\"\xc3\xa9\"", "\"\xc3\xa9\"");
}

static void test_nested_lists(void **state) {
  (void)state;
  expect_round_trip("( a  [ b 'c ]\n( ) )", "(a [b 'c] ())");
  expect_round_trip("'[''(a) b]", "'[''(a) b]");
  expect_round_trip("(a :k \"s\" true)", "(a :k \"s\" true)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers_and_reals_stay_what_they_are),
      cmocka_unit_test(test_strings_escape_what_they_must),
      cmocka_unit_test(test_nested_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
