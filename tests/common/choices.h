/* For tests of libchoices: a status and its error agree with what is expected. */
#ifndef TEST_CHOICES_H
#define TEST_CHOICES_H

#include "../../libchoices/choices.h"

/* A failed call that gave this code; the message holds `word`. Prints what was found else. */
#define choices_expect_error(status, error, code, word) \
  choices_expect_error_at(status, error, code, word, __FILE__, __LINE__)
void choices_expect_error_at(choices_status status, const choices_error *error, const char *code, const char *word,
                             const char *file, int line);
#define choices_expect_ok(status, error) choices_expect_ok_at(status, error, __FILE__, __LINE__)
void choices_expect_ok_at(choices_status status, const choices_error *error, const char *file, int line);

#endif
