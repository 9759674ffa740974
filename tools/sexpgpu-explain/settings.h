/* What sexpgpu-explain was asked to do. */
#ifndef EXPLAIN_SETTINGS_H
#define EXPLAIN_SETTINGS_H

#include "../common/settings.h"

typedef struct explain_settings {
  const char *file, *run, *variant, *after, *device, *simd, *choices, *node_gradients, *explain_what;
  tool_list sets, diagnostics;
  int64_t steps, eval_every, threads, eval_limit;
  double memory_gib;
  bool report, ir, plan, json, dot; /* one of them, or after; report where none was asked for */
  bool strict, portable, optimize;
} explain_settings;

/* Reads flags and environment. *exit_now: --help or --version was answered. The exit status of an error. */
int explain_settings_read(explain_settings *settings, int argc, char **argv, bool *exit_now);
void explain_settings_free(explain_settings *settings);

#endif
