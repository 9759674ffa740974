/* Settings of a tool: one table of options and the environment variables that stand for them. A flag wins
 * over its variable; each variable is read once, at start; a malformed value of either is an error. */
#ifndef TOOL_SETTINGS_H
#define TOOL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tool_kind {
  TOOL_FLAG,    /* bool *: true when given; as a variable 1 or 0 */
  TOOL_TEXT,    /* const char ** */
  TOOL_COUNT,   /* int64_t *: a positive integer */
  TOOL_EVERY,   /* int64_t *: KEY=N, N positive; key is the word before the equals sign in `argument` */
  TOOL_REAL,    /* double *: a positive real */
  TOOL_LIST,    /* tool_list *: may be given again; its variable is split at commas */
  TOOL_BOOLEAN, /* bool *: 0 or 1 (of a variable alone) */
  TOOL_LATER    /* belongs to a part that this version lacks: refused by name; help says which */
} tool_kind;

typedef struct tool_list {
  const char **items;
  size_t n, room;
} tool_list;

typedef struct tool_setting {
  const char *option;   /* "steps" for --steps, or NULL: a variable alone */
  char letter;          /* 'q' for -q, or 0 */
  const char *argument; /* "N", or NULL for a flag */
  const char *variable; /* "SEXPGPU_METRICS", or NULL */
  tool_kind kind;
  void *target;
  const char *help;
} tool_setting;

typedef struct tool_usage {
  const char *tool;     /* "sexpgpu-run", or with a subcommand "sexpgpu-checkpoint diff" */
  const char *operands; /* "FILE" */
  const char *purpose;  /* one line */
  const tool_setting *settings;
  size_t n_settings;
} tool_usage;

/* Reads the environment, then the arguments; operands are left in *operands. *exit_now is set where --help
 * or --version was given and printed. The exit status on an error (printed), else TOOL_DONE. */
int tool_settings_read(const tool_usage *usage, int argc, char **argv, tool_list *operands, bool *exit_now);
void tool_list_free(tool_list *list);

/* What a variable of that kind must be, where the value is not that; NULL: it is. */
const char *tool_setting_expected(tool_kind kind, const char *value);

#endif
