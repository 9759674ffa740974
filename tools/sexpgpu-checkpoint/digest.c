/* digest C...: the digest of the tensors, a line a checkpoint as sha256sum prints them. */
#include "../common/table.h"
#include "command.h"
#include "open.h"

static int print_digest(const char *name, bool recorded) {
  char digest[CKPT_SHA256_TEXT];
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  int status = checkpoint_open_or_say(&checkpoint, name);
  if (status) return status;
  if (recorded)
    snprintf(digest, sizeof digest, "%s", ckpt_checkpoint_experiment(checkpoint)->digest);
  else if (ckpt_checkpoint_digest(digest, checkpoint, &error) != CKPT_OK)
    status = tool_fail_ckpt(&error);
  if (!status) {
    printf("%s  ", digest);
    table_put(name, stdout);
    putchar('\n');
  }
  ckpt_checkpoint_close(checkpoint);
  return status;
}

int command_digest(int argc, char **argv) {
  bool recorded = false;
  const tool_setting settings[] = {
      {"recorded", 0, NULL, NULL, TOOL_FLAG, &recorded, "what experiment.json says, without reading the tensors"}};
  const tool_command_usage usage = {"sexpgpu-checkpoint digest",
                                    "C...",
                                    "Computes the digest of each checkpoint's tensors: equal digests mean equal bits.",
                                    settings,
                                    1,
                                    1,
                                    0};
  tool_list operands;
  bool exit_now = false;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  size_t n = status || exit_now ? 0 : operands.n;
  for (size_t i = 0; i < n; i++) {
    int each = print_digest(operands.items[i], recorded);
    if (each > status) status = each;
  }
  tool_list_free(&operands);
  return status;
}
