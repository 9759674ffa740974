#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

static const choices_code codes[] = {
#define CHOICES_ERROR(area, number, name, title, hint, page) {"E-" #area "-" number, #name, title, hint, page},
#include "errors.def"
#undef CHOICES_ERROR
};

const choices_code *choices_codes(unsigned *n_out) {
  *n_out = sizeof codes / sizeof *codes;
  return codes;
}

static choices_status status_of(ch_code code) {
  switch (code) {
    case CH_E_PIN:
    case CH_E_DETERMINISTIC:
    case CH_E_CONFLICT:
    case CH_E_NO_CANDIDATE:
    case CH_E_CANDIDATE_MEMORY:
    case CH_E_AUDIT:
      return CHOICES_REFUSED;
    case CH_E_NO_MEMORY:
    case CH_E_RECORD_READ:
    case CH_E_STORE_OPEN:
    case CH_E_STORE_VERSION:
    case CH_E_STORE_CORRUPT:
    case CH_E_STORE_READ_ONLY:
    case CH_E_STORE_WRITE:
    case CH_E_STORE_BUSY:
    case CH_E_STORE_NOWHERE:
      return CHOICES_IO;
    default:
      return CHOICES_INVALID;
  }
}

static void append(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t room, const char *format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, room - used, format, arguments);
  va_end(arguments);
}

choices_status ch_fail(choices_error *error, ch_code code, const char *name, int errno_value, const char *format, ...) {
  if (!error) return status_of(code);
  *error = (choices_error){.status = status_of(code), .errno_value = errno_value, .hint = codes[code].hint};
  snprintf(error->code, sizeof error->code, "%s", codes[code].code);
  size_t room = sizeof error->message;
  if (name) append(error->message, room, "%.1000s: ", name);
  append(error->message, room, "%s: ", codes[code].title);
  size_t used = strlen(error->message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->message + used, room - used, format, arguments);
  va_end(arguments);
  char words[256];
  if (errno_value && strerror_r(errno_value, words, sizeof words) == 0) append(error->message, room, ": %s", words);
  ch_utf8_tidy(error->message);
  return error->status;
}

choices_status ch_no_memory(choices_error *error) {
  return ch_fail(error, CH_E_NO_MEMORY, NULL, 0, "an allocation failed");
}

void ch_error_clear(choices_error *error) {
  if (error) *error = (choices_error){.hint = ""};
}
