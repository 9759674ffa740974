/* sexpgpu-choices: shows, carries, compares and empties the store of choices. */
#include "command.h"

static const tool_command items[] = {
    {"list", "", "the choices of the store", command_list},
    {"show", "KEY", "all about the choices whose key is, or holds, KEY", command_show},
    {"why", "KEY", "candidates, timings and decision; --miss RECORD: why a record does not match", command_why},
    {"export", "", "the store as JSON Lines", command_export},
    {"import", "[FILE]", "an export into the store", command_import},
    {"merge", "A B...", "several exports or stores as one export", command_merge},
    {"diff", "A B", "what differs between two records or stores", command_diff},
    {"rm", "[KEY]", "remove choices", command_rm},
    {"prune", "", "remove choices of other executables, or old ones", command_prune},
    {"check", "[RECORD]", "whether the store, or a record, is whole; --file F: whether a run takes it", command_check},
    {"verify", "RECORD", "compare a record's bit probes with this device", command_verify},
    {"path", "", "where the store is", command_path},
};
static const tool_commands commands = {
    "sexpgpu-choices", "Shows, carries, compares and empties the store of recorded choices.",
    "A record is an export, a store, a checkpoint, an experiment.json, a choices object, or - (standard input).", items,
    sizeof items / sizeof *items};

int main(int argc, char **argv) { return tool_end_output(tool_commands_run(&commands, argc, argv)); }
