/* sexpgpu-choices: shows, carries, compares and empties the store of choices. */
#include <errno.h>
#include <string.h>

#include "command.h"

static const struct {
  const char *name, *operands, *purpose;
  command_function *run;
} commands[] = {
    {"list", "", "the choices of the store", command_list},
    {"show", "KEY", "all about the choices whose key is, or holds, KEY", command_show},
    {"why", "KEY", "candidates, timings and decision; --miss RECORD: why a record does not match", command_why},
    {"export", "", "the store as JSON Lines", command_export},
    {"import", "[FILE]", "an export into the store", command_import},
    {"merge", "A B...", "several exports or stores as one export", command_merge},
    {"diff", "A B", "what differs between two records or stores", command_diff},
    {"rm", "[KEY]", "remove choices", command_rm},
    {"prune", "", "remove choices of other executables, or old ones", command_prune},
    {"check", "[RECORD]", "whether the store, or a record, is whole", command_check},
    {"verify", "RECORD", "compare a record's bit probes with this device", command_verify},
    {"path", "", "where the store is", command_path},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
  puts("usage: sexpgpu-choices COMMAND [OPTION]... [OPERAND]...");
  puts("Shows, carries, compares and empties the store of recorded choices.\n");
  for (size_t i = 0; i < N_COMMANDS; i++)
    printf("  %-7s %-9s %s\n", commands[i].name, commands[i].operands, commands[i].purpose);
  puts("\nA record is an export, a store, a checkpoint, an experiment.json, a choices object, or - (standard input).");
  puts("sexpgpu-choices COMMAND --help shows a command's options. man sexpgpu-choices says everything.");
}

static int dispatch(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found no command");
  if (strcmp(name, "--help") == 0) return print_help(), TOOL_DONE;
  if (strcmp(name, "--version") == 0) return printf("sexpgpu-choices %s\n", SEXPGPU_VERSION), TOOL_DONE;
  for (size_t i = 0; i < N_COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found \"%s\"", name);
}

/* An error that came first keeps its status: it has been told. */
int main(int argc, char **argv) {
  int status = dispatch(argc, argv);
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  int failed = tool_fail(TOOL_STORAGE, TOOL_E_ENV_OUTPUT, "standard output cannot be written%s%s", errno ? ": " : "",
                         errno ? strerror(errno) : "");
  return status > TOOL_NO ? status : failed;
}
