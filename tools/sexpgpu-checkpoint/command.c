#include "command.h"

#include <stdlib.h>
#include <unistd.h>

ckpt_json *command_json(void) { return tool_memory(ckpt_json_new(CKPT_JSON_LINE)); }

void command_print_json(ckpt_json *json) {
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  if (!text) exit(tool_no_memory());
  fwrite(text, 1, n, stdout);
  ckpt_json_reset(json);
}

int command_refuse_terminal(FILE *to, const char *what) {
  if (!isatty(fileno(to))) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_TERMINAL, "%s is not written to a terminal", what);
}
