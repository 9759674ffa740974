/* verify C...: reads everything. */
#include "../common/table.h"
#include "command.h"
#include "open.h"

static int verify(const char *name, bool quiet) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  ckpt_status status = checkpoint_open(&checkpoint, name, &error);
  if (status == CKPT_OK) status = ckpt_checkpoint_verify(checkpoint, &error);
  if (status != CKPT_OK || !quiet) {
    table_put(name, stdout);
    if (status == CKPT_OK)
      printf(": ok %s\n", ckpt_checkpoint_experiment(checkpoint)->digest);
    else
      printf(": %s: %s\n", error.code, error.message);
    fflush(stdout);
  }
  ckpt_checkpoint_close(checkpoint);
  return status == CKPT_OK ? TOOL_DONE : tool_status_unverified(&error);
}

int command_verify(int argc, char **argv) {
  bool quiet = false;
  const tool_setting settings[] = {
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &quiet, "no word about those that are in order"}};
  const tool_command_usage usage = {
      "sexpgpu-checkpoint verify",
      "C...",
      "Reads each checkpoint whole: sizes and SHA-256 of its files, dtypes, shapes, the digest.",
      settings,
      1,
      1,
      0};
  tool_list operands;
  bool exit_now = false;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  size_t n = status || exit_now ? 0 : operands.n;
  for (size_t i = 0; i < n; i++) {
    int each = verify(operands.items[i], quiet);
    if (each > status) status = each;
  }
  tool_list_free(&operands);
  return status;
}
