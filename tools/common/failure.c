#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *code, *hint;
} codes[TOOL_N_CODES] = {
#define SX_ERROR(area, number, name, title, hint, page) [TOOL_E_##name] = {"E-" #area "-" number, hint},
#include "errors.def"
#undef SX_ERROR
};

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

ckpt_status tool_error(ckpt_error *error, tool_code code, const char *format, ...) {
  va_list arguments;
  *error = (ckpt_error){.status = CKPT_INVALID, .offset = -1, .hint = codes[code].hint};
  snprintf(error->code, sizeof error->code, "%s", codes[code].code);
  va_start(arguments, format);
  vsnprintf(error->message, sizeof error->message, format, arguments);
  va_end(arguments);
  return CKPT_INVALID;
}

int tool_fail_ckpt(const ckpt_error *error) {
  fprintf(stderr, "%s: %s\n", error->code, error->message);
  if (error->hint && error->hint[0]) fprintf(stderr, "  hint: %s\n", error->hint);
  return error->status == CKPT_IO ? TOOL_STORAGE : TOOL_INPUT;
}

/* A listed file that is not there makes a checkpoint that does not verify; any other error of the system leaves it
 * unread. */
int tool_status_unverified(const ckpt_error *error) {
  bool missing = strcmp(error->code, "E-CKPT-011") == 0 && error->errno_value == ENOENT;
  return error->status == CKPT_IO && !missing ? TOOL_STORAGE : TOOL_NO;
}

int tool_no_memory(void) {
  fputs("E-CKPT-001: out of memory\n", stderr);
  return TOOL_STORAGE;
}

int tool_end_output(int status) {
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  int failed = tool_fail(TOOL_STORAGE, TOOL_E_ENV_OUTPUT, "standard output cannot be written%s%s", errno ? ": " : "",
                         errno ? strerror(errno) : "");
  return status > TOOL_NO ? status : failed;
}
