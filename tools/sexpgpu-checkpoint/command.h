/* The subcommands of sexpgpu-checkpoint: one row each in the table of main.c, one file each. */
#ifndef CHECKPOINT_COMMAND_H
#define CHECKPOINT_COMMAND_H

#include <stdio.h>

#include "../common/failure.h"
#include "../common/settings.h"

/* argv[0] is the subcommand's name. The exit status. */
typedef int command_function(int argc, char **argv);
command_function command_bundle, command_choices, command_cp, command_diff, command_digest, command_get, command_ls,
    command_prune, command_show, command_tensors, command_verify;

/* How one is called. */
typedef struct command_usage {
  const char *tool;     /* "sexpgpu-checkpoint diff" */
  const char *operands; /* "A B" */
  const char *purpose;
  const tool_setting *settings;
  size_t n_settings;
  size_t least, most; /* operands; most 0: any number */
} command_usage;

/* Reads options and operands, which the caller frees. *exit_now: --help or --version was answered. */
int command_read(const command_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now);

/* The value of a JSON writer on standard output; the writer then starts anew. */
void command_print_json(ckpt_json *json);

/* A new writer of one line; ends the process with E-CKPT-001 where memory fails. */
ckpt_json *command_json(void);

/* `pointer`, or the end of the process with E-CKPT-001 where it is NULL. */
void *command_memory(void *pointer);

/* printf into owned memory. */
char *command_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Refuses to write what is no text to a terminal: E-ENV-010, or 0. */
int command_refuse_terminal(FILE *to, const char *what);

#endif
