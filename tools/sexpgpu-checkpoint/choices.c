/* choices C: the choices object, for piping. */
#include "command.h"
#include "open.h"

int command_choices(int argc, char **argv) {
  const tool_command_usage usage = {"sexpgpu-checkpoint choices",
                                    "C",
                                    "Prints the choices that a checkpoint's run recorded, one JSON object in one line.",
                                    NULL,
                                    0,
                                    1,
                                    1};
  tool_list operands;
  bool exit_now = false;
  int status = tool_command_read(&usage, argc, argv, &operands, &exit_now);
  ckpt_checkpoint *checkpoint = NULL;
  if (!status && !exit_now) status = checkpoint_open_or_say(&checkpoint, operands.items[0]);
  if (checkpoint) {
    const char *choices = ckpt_checkpoint_experiment(checkpoint)->choices;
    puts(choices ? choices : "null");
  }
  ckpt_checkpoint_close(checkpoint);
  tool_list_free(&operands);
  return status;
}
