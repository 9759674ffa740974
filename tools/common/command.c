#include "command.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static int longest(const tool_commands *commands, bool operands) {
  size_t most = 0;
  for (size_t i = 0; i < commands->n; i++) {
    size_t n = strlen(operands ? commands->items[i].operands : commands->items[i].name);
    if (n > most) most = n;
  }
  return (int)most;
}

static void print_help(const tool_commands *commands) {
  int name = longest(commands, false), operands = longest(commands, true);
  printf("usage: %s COMMAND [OPTION]... [OPERAND]...\n%s\n\n", commands->tool, commands->purpose);
  for (size_t i = 0; i < commands->n; i++) {
    const tool_command *command = &commands->items[i];
    printf("  %-*s %-*s %s\n", name, command->name, operands, command->operands, command->purpose);
  }
  printf("\n%s\n%s COMMAND --help shows a command's options. man %s says everything.\n", commands->notes,
         commands->tool, commands->tool);
}

int tool_commands_run(const tool_commands *commands, int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found no command");
  if (strcmp(name, "--help") == 0) return print_help(commands), TOOL_DONE;
  if (strcmp(name, "--version") == 0) return printf("%s %s\n", commands->tool, SEXPGPU_VERSION), TOOL_DONE;
  for (size_t i = 0; i < commands->n; i++)
    if (strcmp(name, commands->items[i].name) == 0) return commands->items[i].run(argc - 1, argv + 1);
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found \"%s\"", name);
}

/* ---- a command ---- */

int tool_command_read(const tool_command_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now) {
  const tool_usage words = {usage->tool, usage->operands, usage->purpose, usage->settings, usage->n_settings};
  *operands = (tool_list){0};
  int status = tool_settings_read(&words, argc, argv, operands, exit_now);
  if (status || *exit_now || (operands->n >= usage->least && (!usage->most || operands->n <= usage->most)))
    return status;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found %zu operand%s, expected %s", operands->n,
                   operands->n == 1 ? "" : "s", usage->operands[0] ? usage->operands : "none");
}

void *tool_memory(void *pointer) {
  if (!pointer) exit(tool_no_memory());
  return pointer;
}

char *tool_text(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int n = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *text = tool_memory(n < 0 ? NULL : malloc((size_t)n + 1));
  va_start(arguments, format);
  vsnprintf(text, (size_t)n + 1, format, arguments);
  va_end(arguments);
  return text;
}
