/* What sexpgpu-run was asked to do. */
#ifndef RUN_SETTINGS_H
#define RUN_SETTINGS_H

#include "../common/engine.h"
#include "../common/selection.h"

typedef struct run_settings {
  tool_selection selection;
  tool_engine_settings engine;
  const char *metrics, *status, *checkpoint_dir, *resume, *slug, *explain_what;
  const char *choices, *node_gradients;
  int64_t digest_every, digest_nodes_at;
  bool strict, explain, quiet, verbose;
} run_settings;

/* Reads flags and environment. *exit_now: --help or --version was answered. The exit status of an error. */
int run_settings_read(run_settings *settings, int argc, char **argv, bool *exit_now);
void run_settings_free(run_settings *settings);

#endif
