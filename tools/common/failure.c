#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

static const sexp_error_code codes[TOOL_N_CODES] = {
#define SX_ERROR(area, number, name, title, hint, page) \
  [TOOL_E_##name] = {"E-" #area "-" number, title, hint, page},
#include "errors.def"
#undef SX_ERROR
};

const sexp_error_code *tool_code_describe(tool_code code) { return &codes[code]; }

int tool_fail(int status, tool_code code, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s: ", codes[code].code);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  if (codes[code].hint[0]) fprintf(stderr, "  hint: %s\n", codes[code].hint);
  va_end(arguments);
  return status;
}

int tool_fail_ckpt(const ckpt_error *error) {
  fprintf(stderr, "%s: %s\n", error->code, error->message);
  return error->status == CKPT_IO ? TOOL_STORAGE : TOOL_INPUT;
}

void tool_print_messages(const sexp_messages *messages) {
  for (size_t i = 0; i < sexp_messages_count(messages); i++) fputs(sexp_messages_get(messages, i)->text, stderr);
}

int tool_fail_sexp(sexp_status status, const sexp_messages *messages) {
  tool_print_messages(messages);
  return status == SEXP_STORAGE ? TOOL_STORAGE : TOOL_INPUT;
}
