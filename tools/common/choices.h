/* Where the store of choices is, and errors of libchoices in words. Needs libchoices alone. */
#ifndef TOOL_CHOICES_H
#define TOOL_CHOICES_H

#include "../../libchoices/choices.h"

typedef struct tool_store_place {
  char *path;         /* ${XDG_CACHE_HOME:-~/.cache}/sexpgpu/choices.db, owned; NULL: nowhere */
  const char *system; /* SEXPGPU_CHOICES_SYSTEM; NULL: none */
} tool_store_place;

/* From the environment. A relative XDG_CACHE_HOME counts as unset, as its specification says. */
void tool_store_find(tool_store_place *place);
void tool_store_place_free(tool_store_place *place);

/* The store of this user. */
choices_status tool_store_open(choices_store **out, choices_access access, choices_error *error);

/* Prints an error of libchoices and its hint; the exit status. */
int tool_fail_choices(const choices_error *error);

#endif
