#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/engine.h"
#include "../common/failure.h"

static int read_table(evaluate_settings *s, int argc, char **argv, tool_list *operands, bool *exit_now) {
  const tool_setting table[] = {
      {"eval", 'e', "NAME", NULL, TOOL_LIST, &s->evals, "an evaluation; may be given again; all by default"},
      {"steps", 0, "A..B", NULL, TOOL_TEXT, &s->range, "of a location: only these; also A.., ..B, N"},
      {"watch", 'w', NULL, NULL, TOOL_FLAG, &s->watch, "then each as it appears, to the run's last step"},
      {"poll", 0, "SECONDS", NULL, TOOL_REAL, &s->poll_s, "how often a watch looks without being told; 10"},
      {"file", 'f', "FILE", NULL, TOOL_TEXT, &s->file, "evaluate with this experiment file"},
      {"root", 0, "DIR", NULL, TOOL_TEXT, &s->root, "the folder that relative data lie in; the current one"},
      {"device", 'd', "DEVICE", "SEXPGPU_DEVICE", TOOL_TEXT, &s->engine.device, "cpu (the default) or cuda"},
      {"threads", 't', "N", NULL, TOOL_COUNT, &s->engine.threads, "threads; all processors by default; same bits"},
      {"metrics", 'm', "TARGET", "SEXPGPU_METRICS", TOOL_TEXT, &s->metrics,
       "jsonl:PATH, syvain, or stdout in place of a table"},
      {"status", 0, "PATH", "SEXPGPU_STATUS", TOOL_TEXT, &s->status, "a status file, replaced as it goes"},
      {"choices", 0, "RECORD", "SEXPGPU_CHOICES", TOOL_TEXT, &s->choices,
       "take a record's choices: a checkpoint, a file, -; or fresh"},
      {"deterministic", 0, NULL, "SEXPGPU_DETERMINISTIC", TOOL_FLAG, &s->strict,
       "measure no choice (a CPU never does); recorded"},
      {"portable", 0, NULL, NULL, TOOL_FLAG, &s->engine.portable, "the CPU's bits, on any device; recorded"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &s->quiet, "no report, no words but errors"},
      {"verbose", 'v', NULL, NULL, TOOL_FLAG, &s->verbose, "also what is left out because it is recorded"},
      {NULL, 0, NULL, "SEXPGPU_EVAL_LIMIT", TOOL_COUNT, &s->eval_limit, NULL},
      {NULL, 0, NULL, "SEXPGPU_OPTIMIZE", TOOL_BOOLEAN, &s->optimize, NULL},
      {NULL, 0, NULL, "SEXPGPU_DEVICES", TOOL_TEXT, &s->engine.devices, NULL},
      {NULL, 0, NULL, "SEXPGPU_PATTERNS", TOOL_BOOLEAN, &s->engine.patterns, NULL},
      {NULL, 0, NULL, "SEXPGPU_PIN", TOOL_BOOLEAN, &s->engine.pin, NULL},
      {NULL, 0, NULL, "SEXPGPU_MEMORY", TOOL_REAL, &s->engine.memory_gib, NULL},
      {NULL, 0, NULL, "SEXPGPU_SIMD", TOOL_TEXT, &s->engine.simd, NULL},
  };
  const tool_usage usage = {"sexpgpu-evaluate", "CHECKPOINT|LOCATION",
                            "Runs the evaluations of a run from its checkpoints.", table,
                            sizeof table / sizeof table[0]};
  return tool_settings_read(&usage, argc, argv, operands, exit_now);
}

/* The digits at *at; *at moves behind them. False: none, or too many. */
static bool read_step(const char **at, int64_t *step) {
  char *end = NULL;
  if (**at < '0' || **at > '9') return false;
  errno = 0;
  long long value = strtoll(*at, &end, 10);
  *at = end;
  *step = value;
  return errno == 0;
}

/* A..B, A.., ..B, N */
static bool read_range(evaluate_settings *s) {
  const char *at = s->range;
  bool first = *at != '.', dots, last;
  if (first && !read_step(&at, &s->first)) return false;
  dots = strncmp(at, "..", 2) == 0;
  if (dots) at += 2;
  last = dots && *at;
  if (last && !read_step(&at, &s->last)) return false;
  if (!dots) s->last = s->first;
  return !*at && (first || last) && s->first <= s->last;
}

static int check(evaluate_settings *s) {
  int status = tool_engine_check(&s->engine);
  if (status) return status;
  if (s->range && !read_range(s))
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--steps: found \"%s\", expected A..B, A.., ..B or N", s->range);
  if (s->file && s->root)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION, "--root with --file: the data of %s lie relative to its folder",
                     s->file);
  return TOOL_DONE;
}

int evaluate_settings_read(evaluate_settings *settings, int argc, char **argv, bool *exit_now) {
  *settings = (evaluate_settings){
      .last = INT64_MAX, .poll_s = 10, .eval_limit = 10000000, .optimize = true, .engine = TOOL_ENGINE_DEFAULT};
  tool_list operands = {0};
  int status = read_table(settings, argc, argv, &operands, exit_now);
  if (!status && !*exit_now && operands.n != 1)
    status =
        tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found %zu names, expected one checkpoint or location", operands.n);
  if (!status && !*exit_now) {
    settings->place = operands.items[0];
    status = check(settings);
  }
  tool_list_free(&operands);
  return status;
}

void evaluate_settings_free(evaluate_settings *settings) { tool_list_free(&settings->evals); }
