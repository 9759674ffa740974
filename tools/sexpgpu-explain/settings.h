/* What sexpgpu-explain was asked to do. */
#ifndef EXPLAIN_SETTINGS_H
#define EXPLAIN_SETTINGS_H

#include "../common/engine.h"
#include "../common/selection.h"

typedef struct explain_settings {
  tool_selection selection;
  tool_engine_settings engine;
  const char *after, *choices, *node_gradients, *explain_what;
  bool report, ir, plan, json, dot; /* one of them, or after; report where none was asked for */
  bool strict;
} explain_settings;

/* Reads flags and environment. *exit_now: --help or --version was answered. The exit status of an error. */
int explain_settings_read(explain_settings *settings, int argc, char **argv, bool *exit_now);
void explain_settings_free(explain_settings *settings);

#endif
