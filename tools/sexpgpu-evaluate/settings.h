/* What sexpgpu-evaluate was asked to do. */
#ifndef EVALUATE_SETTINGS_H
#define EVALUATE_SETTINGS_H

#include "../common/engine.h"
#include "../common/settings.h"

typedef struct evaluate_settings {
  const char *place; /* a checkpoint or a location */
  tool_engine_settings engine;
  const char *file, *root, *metrics, *status, *range, *choices;
  tool_list evals;
  int64_t first, last; /* of range: steps, inclusive */
  int64_t eval_limit;
  double poll_s;
  bool watch, strict, quiet, verbose, optimize;
} evaluate_settings;

/* Reads flags and environment. *exit_now: --help or --version was answered. The exit status of an error. */
int evaluate_settings_read(evaluate_settings *settings, int argc, char **argv, bool *exit_now);
void evaluate_settings_free(evaluate_settings *settings);

#endif
