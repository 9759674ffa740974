/* The subcommands of sexpgpu-checkpoint: one row each in the table of main.c, one file each. */
#ifndef CHECKPOINT_COMMAND_H
#define CHECKPOINT_COMMAND_H

#include <stdio.h>

#include "../common/command.h"

tool_command_function command_bundle, command_choices, command_cp, command_diff, command_digest, command_get,
    command_ls, command_prune, command_show, command_tensors, command_verify;

/* The value of a JSON writer on standard output; the writer then starts anew. */
void command_print_json(ckpt_json *json);

/* A new writer of one line; ends the process with E-CKPT-001 where memory fails. */
ckpt_json *command_json(void);

/* Refuses to write what is no text to a terminal: E-ENV-010, or 0. */
int command_refuse_terminal(FILE *to, const char *what);

#endif
