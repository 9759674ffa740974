#include <math.h>
#include <string.h>

#include "../../libsexp/read/number.h"
#include "../common/cmocka_all.h"
#include "../common/reading.h"

static void expect_integer(const char *word, int64_t value) {
  reading *made = reading_of_text(word);
  assert_int_equal(made->diags.n_errors, 0);
  assert_int_equal(made->datums.n, 1);
  assert_int_equal(made->datums.items[0]->kind, SX_DATUM_INTEGER);
  assert_int_equal(made->datums.items[0]->integer, value);
  reading_free(made);
}

static void expect_real(const char *word, double value) {
  reading *made = reading_of_text(word);
  sx_datum wanted = {.kind = SX_DATUM_REAL, .real = value};
  assert_int_equal(made->diags.n_errors, 0);
  assert_int_equal(made->datums.n, 1);
  assert_true(datum_equal(made->datums.items[0], &wanted));
  reading_free(made);
}

static void expect_no_number(const char *word, const char *message) {
  reading *made = reading_of_text(word);
  assert_int_equal(made->diags.n_errors, 1);
  assert_int_equal(made->diags.list.items[0].code, SX_E_READ_NUMBER);
  assert_string_equal(made->diags.list.items[0].message, message);
  reading_free(made);
}

static void test_integers(void **state) {
  (void)state;
  expect_integer("0", 0);
  expect_integer("-0", 0);
  expect_integer("+7", 7);
  expect_integer("007", 7);
  expect_integer("9223372036854775807", INT64_MAX);
  expect_integer("-9223372036854775808", INT64_MIN);
  expect_integer("0x7fffFFFFffffFFFF", INT64_MAX);
  expect_integer("-0x10", -16);
  expect_integer("0xE1", 0xe1);
}

static void test_reals(void **state) {
  (void)state;
  expect_real("1e-3", 1e-3);
  expect_real("-0.5", -0.5);
  expect_real("-0.0", -0.0);
  expect_real(".5", 0.5);
  expect_real("2.", 2.0);
  expect_real("1E+2", 100.0);
  expect_real("0.1", 0.1);
  expect_real("4.9e-324", 4.9e-324);
  expect_real("1.7976931348623157e308", 1.7976931348623157e308);
  expect_real("1e-999", 0.0);
  expect_real("inf", (double)INFINITY);
  expect_real("-inf", -(double)INFINITY);
  expect_real("nan", (double)NAN);
  expect_real("9223372036854775808.0", 9223372036854775808.0);
}

static void test_malformed_and_oversized(void **state) {
  (void)state;
  static const char *const malformed[] = {"1+",  "12ab", "1.2.3", "1e", "1e+",  "0x",
                                          "0xg", "-0x",  "1_000", "3d", "1e5x", "0x1p3"};
  for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
    expect_no_number(malformed[i], "a malformed number");
  expect_no_number("9223372036854775808", "an integer that does not fit 64 bits");
  expect_no_number("-9223372036854775809", "an integer that does not fit 64 bits");
  expect_no_number("0x8000000000000000", "an integer that does not fit 64 bits");
  expect_no_number("1e309", "a real above the largest, 1.7976931348623157e308");
}

static void test_words_that_are_names(void **state) {
  (void)state;
  static const char *const names[] = {"-", "+", "...", "-x", "a1", "information", "nano", "-infinite", "+inf", "e5"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    assert_false(sx_number_starts(names[i], strlen(names[i])));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_reals),
      cmocka_unit_test(test_malformed_and_oversized),
      cmocka_unit_test(test_words_that_are_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
