/* What a tool ends with for each code, and messages of one line. */
#include <string.h>

#include "../../libchoices/error.h"
#include "../common/choices.h"
#include "../common/cmocka_all.h"

static const struct {
  const char *code;
  choices_status status;
} expected[] = {
    {"E-CHOICE-001", CHOICES_REFUSED}, {"E-CHOICE-002", CHOICES_REFUSED}, {"E-CHOICE-003", CHOICES_IO},
    {"E-CHOICE-004", CHOICES_INVALID}, {"E-CHOICE-005", CHOICES_INVALID}, {"E-CHOICE-006", CHOICES_INVALID},
    {"E-CHOICE-007", CHOICES_INVALID}, {"E-CHOICE-008", CHOICES_IO},      {"E-CHOICE-009", CHOICES_INVALID},
    {"E-CHOICE-010", CHOICES_IO},      {"E-CHOICE-011", CHOICES_IO},      {"E-CHOICE-012", CHOICES_IO},
    {"E-CHOICE-013", CHOICES_IO},      {"E-CHOICE-014", CHOICES_IO},      {"E-CHOICE-015", CHOICES_IO},
    {"E-CHOICE-016", CHOICES_IO},      {"E-CHOICE-017", CHOICES_REFUSED}, {"E-CHOICE-018", CHOICES_REFUSED},
    {"E-CHOICE-019", CHOICES_REFUSED}, {"E-CHOICE-022", CHOICES_INVALID}, {"E-CHOICE-023", CHOICES_REFUSED}};

static void statuses(void **state) {
  (void)state;
  unsigned n = 0;
  choices_error error;
  const choices_code *codes = choices_codes(&n);
  assert_int_equal(n, sizeof expected / sizeof *expected);
  for (unsigned i = 0; i < n; i++) {
    assert_string_equal(codes[i].code, expected[i].code);
    assert_int_equal(ch_fail(&error, (ch_code)i, NULL, 0, "found"), expected[i].status);
    assert_int_equal(ch_fail(NULL, (ch_code)i, NULL, 0, "found"), expected[i].status);
    assert_string_equal(error.code, expected[i].code);
    assert_true(codes[i].title[0] && codes[i].page[0]);
  }
}

static void one_line(void **state) {
  (void)state;
  choices_error error;
  ch_fail(&error, CH_E_RECORD_READ, "a\nb\x1b[1m", 2, "it \xff\xc3");
  assert_string_equal(error.message, "a?b?[1m: a file that cannot be read: it ??: No such file or directory");
  ch_error_clear(&error);
  assert_int_equal(error.status, CHOICES_OK);
  assert_string_equal(error.code, "");
  char name[4096];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  ch_fail(&error, CH_E_RECORD_READ, name, 2, "%s", name);
  assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(statuses), cmocka_unit_test(one_line)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
