/* What sexpgpu-run was asked to do. */
#ifndef RUN_SETTINGS_H
#define RUN_SETTINGS_H

#include "../common/settings.h"

typedef struct run_settings {
  const char *file;
  const char *run, *variant, *device, *metrics, *status, *checkpoint_dir, *resume, *slug, *explain_what, *simd;
  const char *choices, *node_gradients;
  tool_list sets, diagnostics;
  int64_t steps, eval_every, digest_every, digest_nodes_at, threads, eval_limit;
  double memory_gib;
  bool strict, portable, explain, quiet, verbose, optimize;
} run_settings;

/* Reads flags and environment. *exit_now: --help or --version was answered. The exit status of an error. */
int run_settings_read(run_settings *settings, int argc, char **argv, bool *exit_now);
void run_settings_free(run_settings *settings);

#endif
