/* The subcommands of sexpgpu-choices: one row each in the table of main.c. */
#ifndef CHOICES_COMMAND_H
#define CHOICES_COMMAND_H

#include <stdio.h>

#include "../common/choices.h"
#include "../common/command.h"
#include "../common/table.h"

tool_command_function command_check, command_diff, command_export, command_import, command_list, command_merge,
    command_path, command_prune, command_rm, command_show, command_verify, command_why;

/* The store's rows with their measurements; of one device ("#2" too) and kind where they are given. Exit status. */
int command_rows(choices_record **out, const char *device, const char *kind);
/* --kind takes the names of kinds in both forms; E-CHOICE-022. */
int command_check_kind(const char *kind);
/* Two records, one of which may be standard input. */
int command_read_two(choices_record **left, choices_record **right, const char *const *names);

/* ---- words ---- */

/* A key as tables have it: "Weight 512x8x8x256 3x3 -> 512 /1 +1 bf16", "768 x 3072 x 65536 n t f32", "graph 9c41e2…  of
 * 1 2 4"; others as they are. Owned. */
char *command_short_key(const char *key);
/* "10.99 flops a byte" of a recompute budget; other values as they are. Owned. */
char *command_value(const char *kind, const char *value);
const char *command_bits(choices_bits bits);
/* "7.2 %", or "-". Owned. */
char *command_ahead(double ahead);

/* ---- JSON on standard output ---- */

void command_json_text(const char *name, const char *value, bool first); /* "name": "value"; NULL: null */
void command_json_value(const char *name, const char *value, bool is_json);

#endif
