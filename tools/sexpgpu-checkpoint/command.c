#include "command.h"

#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static int refuse_operands(const command_usage *usage, size_t n) {
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found %zu operand%s, expected %s", n, n == 1 ? "" : "s",
                   usage->operands);
}

int command_read(const command_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now) {
  const tool_usage words = {usage->tool, usage->operands, usage->purpose, usage->settings, usage->n_settings};
  *operands = (tool_list){0};
  int status = tool_settings_read(&words, argc, argv, operands, exit_now);
  if (!status && !*exit_now && (operands->n < usage->least || (usage->most && operands->n > usage->most)))
    status = refuse_operands(usage, operands->n);
  return status;
}

void *command_memory(void *pointer) {
  if (!pointer) exit(tool_no_memory());
  return pointer;
}

ckpt_json *command_json(void) { return command_memory(ckpt_json_new(CKPT_JSON_LINE)); }

void command_print_json(ckpt_json *json) {
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  if (!text) exit(tool_no_memory());
  fwrite(text, 1, n, stdout);
  ckpt_json_reset(json);
}

char *command_text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = command_memory(n < 0 ? NULL : malloc((size_t)n + 1));
  va_start(arguments, format);
  vsnprintf(text, (size_t)n + 1, format, arguments);
  va_end(arguments);
  return text;
}

int command_refuse_terminal(FILE *to, const char *what) {
  if (!isatty(fileno(to))) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_TERMINAL, "%s is not written to a terminal", what);
}
