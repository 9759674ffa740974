/* Tools of several commands: the table of commands, how one is called, and the memory and words they share. Needs no
 * library of ours. */
#ifndef TOOL_COMMAND_H
#define TOOL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "failure.h"
#include "settings.h"

/* argv[0] is the command's name. The exit status. */
typedef int tool_command_function(int argc, char **argv);

typedef struct tool_command {
  const char *name, *operands, *purpose;
  tool_command_function *run;
} tool_command;

typedef struct tool_commands {
  const char *tool;    /* "sexpgpu-checkpoint" */
  const char *purpose; /* one line */
  const char *notes;   /* lines of --help after the table of commands */
  const tool_command *items;
  size_t n;
} tool_commands;

/* Runs the command that argv[1] names, or answers --help and --version. The exit status: E-ENV-011 printed. */
int tool_commands_run(const tool_commands *commands, int argc, char **argv);

/* How a command is called. */
typedef struct tool_command_usage {
  const char *tool;     /* "sexpgpu-checkpoint diff" */
  const char *operands; /* "A B" */
  const char *purpose;
  const tool_setting *settings;
  size_t n_settings;
  size_t least, most; /* operands; most 0: any number */
} tool_command_usage;

/* Reads options and operands, which the caller frees. *exit_now: --help or --version was answered. */
int tool_command_read(const tool_command_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now);

/* `pointer`, or the end of the process with E-CKPT-001 where it is NULL. */
void *tool_memory(void *pointer);
/* printf into owned memory. */
char *tool_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
