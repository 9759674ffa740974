/* Raising errors. */
#ifndef CH_ERROR_H
#define CH_ERROR_H

#include <stddef.h>

#include "choices_status.h"

typedef enum ch_code {
#define CHOICES_ERROR(area, number, name, title, hint, page) CH_E_##name,
#include "errors.def"
#undef CHOICES_ERROR
  CH_N_CODES
} ch_code;

/* Fills *error (which may be NULL) and returns the status of the code. name (a file's) may be NULL, errno_value 0. The
 * message becomes "name: title: detail: system's words", one line without control characters. */
choices_status ch_fail(choices_error *error, ch_code code, const char *name, int errno_value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

choices_status ch_no_memory(choices_error *error);

/* No error. */
void ch_error_clear(choices_error *error);

#endif
