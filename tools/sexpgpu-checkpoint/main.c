/* sexpgpu-checkpoint: shows, verifies, compares, copies, bundles and prunes checkpoints. */
#include "command.h"
#include "open.h"

static const tool_command items[] = {
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
static const tool_commands commands = {
    "sexpgpu-checkpoint", "Shows, verifies, compares, copies, bundles and prunes checkpoints.",
    "C is step-<n> of a LOCATION, or LOCATION/latest; a LOCATION is a directory or s3://bucket/prefix.", items,
    sizeof items / sizeof *items};

int main(int argc, char **argv) {
  int status = tool_commands_run(&commands, argc, argv);
  checkpoint_forget_credentials();
  return tool_end_output(status);
}
