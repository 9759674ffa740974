#include "choices.h"

#include <stdio.h>
#include <string.h>

#include "cmocka_all.h"

void choices_expect_error_at(choices_status status, const choices_error *error, const char *code, const char *word,
                             const char *file, int line) {
  bool good = status != CHOICES_OK && status == error->status && strcmp(error->code, code) == 0 &&
              strstr(error->message, word) && !strchr(error->message, '\n');
  if (!good) print_error("status %d, found %s: %s\n", (int)status, error->code, error->message);
  _assert_true(good, "the expected error", file, line);
}

void choices_expect_ok_at(choices_status status, const choices_error *error, const char *file, int line) {
  if (status != CHOICES_OK) print_error("found %s: %s\n", error->code, error->message);
  _assert_true(status == CHOICES_OK, "no error", file, line);
}
