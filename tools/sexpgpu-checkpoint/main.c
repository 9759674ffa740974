/* sexpgpu-checkpoint: shows, verifies, compares, copies, bundles and prunes checkpoints. */
#include <errno.h>
#include <string.h>

#include "command.h"
#include "open.h"

static const struct {
  const char *name, *operands, *purpose;
  command_function *run;
} commands[] = {
    {"show", "C", "what a checkpoint is of", command_show},
    {"ls", "LOCATION", "the checkpoints of a location", command_ls},
    {"verify", "C...", "read everything, check every hash", command_verify},
    {"digest", "C...", "SHA-256 of the tensors' bits", command_digest},
    {"diff", "A B", "what differs between two checkpoints", command_diff},
    {"choices", "C", "the recorded choices, as JSON", command_choices},
    {"tensors", "C", "the tensors: path, dtype, shape, bytes, kind", command_tensors},
    {"get", "C PATH", "a tensor as .npy on standard output", command_get},
    {"cp", "SRC DST", "copy a checkpoint, or all of a location", command_cp},
    {"bundle", "C OUT.tar", "all that a resume elsewhere needs, as a tar file", command_bundle},
    {"prune", "LOCATION --keep N", "remove all but the newest N", command_prune},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(void) {
  puts("usage: sexpgpu-checkpoint COMMAND [OPTION]... [OPERAND]...");
  puts("Shows, verifies, compares, copies, bundles and prunes checkpoints.\n");
  for (size_t i = 0; i < N_COMMANDS; i++)
    printf("  %-8s %-18s %s\n", commands[i].name, commands[i].operands, commands[i].purpose);
  puts("\nC is step-<n> of a LOCATION, or LOCATION/latest; a LOCATION is a directory or s3://bucket/prefix.");
  puts("sexpgpu-checkpoint COMMAND --help shows a command's options.");
  puts("man sexpgpu-checkpoint says everything.");
}

static int dispatch(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;
  if (!name) return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found no command");
  if (strcmp(name, "--help") == 0) return print_help(), TOOL_DONE;
  if (strcmp(name, "--version") == 0) return printf("sexpgpu-checkpoint %s\n", SEXPGPU_VERSION), TOOL_DONE;
  for (size_t i = 0; i < N_COMMANDS; i++)
    if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_COMMAND, "found \"%s\"", name);
}

/* An error that came first keeps its status: it has been told. */
int main(int argc, char **argv) {
  int status = dispatch(argc, argv);
  checkpoint_forget_credentials();
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  int failed = tool_fail(TOOL_STORAGE, TOOL_E_ENV_OUTPUT, "standard output cannot be written%s%s", errno ? ": " : "",
                         errno ? strerror(errno) : "");
  return status > TOOL_NO ? status : failed;
}
