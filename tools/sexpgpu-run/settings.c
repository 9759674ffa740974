#include "settings.h"

#include <string.h>

#include "../common/engine.h"
#include "../common/failure.h"

static int read_table(run_settings *s, int argc, char **argv, tool_list *operands, bool *exit_now) {
  const tool_setting table[] = {
      {"run", 'r', "NAME", NULL, TOOL_TEXT, &s->selection.run,
       "the defrun to train; needed where the file has several"},
      {"variant", 0, "NAME", NULL, TOOL_TEXT, &s->selection.variant, "the defvariant whose knob values hold"},
      {"set", 's', "KNOB=VALUE", NULL, TOOL_LIST, &s->selection.sets, "a knob's value; may be given again"},
      {"steps", 'n', "N", NULL, TOOL_COUNT, &s->selection.steps, "train N steps instead of the file's"},
      {"eval-every", 0, "N", NULL, TOOL_COUNT, &s->selection.eval_every,
       "evaluate every N steps instead of the file's"},
      {"device", 'd', "DEVICE", "SEXPGPU_DEVICE", TOOL_TEXT, &s->engine.device, "cpu (the default) or cuda"},
      {"threads", 't', "N", NULL, TOOL_COUNT, &s->engine.threads, "threads; all processors by default; same bits"},
      {"metrics", 'm', "TARGET", "SEXPGPU_METRICS", TOOL_TEXT, &s->metrics,
       "jsonl:PATH, stdout or syvain; nowhere by default"},
      {"status", 0, "PATH", "SEXPGPU_STATUS", TOOL_TEXT, &s->status, "a status file, replaced as the run goes"},
      {"checkpoint-dir", 'c', "DIR", "SEXPGPU_CHECKPOINT_DIR", TOOL_TEXT, &s->checkpoint_dir,
       "a directory or s3://bucket/prefix for checkpoints"},
      {"resume", 0, "CHECKPOINT", "SEXPGPU_RESUME", TOOL_TEXT, &s->resume,
       "go on from a checkpoint, or the latest of --checkpoint-dir"},
      {"choices", 0, "RECORD", "SEXPGPU_CHOICES", TOOL_TEXT, &s->choices,
       "take a record's choices: a checkpoint, a file, -; or fresh"},
      {"deterministic", 0, NULL, "SEXPGPU_DETERMINISTIC", TOOL_FLAG, &s->strict,
       "measure no choice (a CPU run never does); recorded"},
      {"portable", 0, NULL, NULL, TOOL_FLAG, &s->engine.portable, "the CPU's bits, on any device; recorded"},
      {"diagnostics", 0, "GLOB", "SEXPGPU_DIAGNOSTICS", TOOL_LIST, &s->selection.diagnostics,
       "probes to log instead of the file's; may be given again"},
      {"digest", 0, "every=N", NULL, TOOL_EVERY, &s->digest_every,
       "log digests of batch, gradients, state every N steps"},
      {"digest-nodes", 0, "step=N", NULL, TOOL_EVERY, &s->digest_nodes_at, "log a digest of every node of step N"},
      {"explain", 'e', NULL, NULL, TOOL_FLAG, &s->explain, "print the lowering report and end"},
      {"quiet", 'q', NULL, NULL, TOOL_FLAG, &s->quiet, "no report, no progress"},
      {"verbose", 'v', NULL, NULL, TOOL_FLAG, &s->verbose, "a longer report: products, or memory and stacking on cuda"},
      {NULL, 0, NULL, "SEXPGPU_RUN_SLUG", TOOL_TEXT, &s->slug, NULL},
      {NULL, 0, NULL, "SEXPGPU_EVAL_LIMIT", TOOL_COUNT, &s->selection.eval_limit, NULL},
      {NULL, 0, NULL, "SEXPGPU_MEMORY", TOOL_REAL, &s->engine.memory_gib, NULL},
      {NULL, 0, NULL, "SEXPGPU_EXPLAIN", TOOL_TEXT, &s->explain_what, NULL},
      {NULL, 0, NULL, "SEXPGPU_OPTIMIZE", TOOL_BOOLEAN, &s->selection.optimize, NULL},
      {NULL, 0, NULL, "SEXPGPU_DEVICES", TOOL_TEXT, &s->engine.devices, NULL},
      {NULL, 0, NULL, "SEXPGPU_PATTERNS", TOOL_BOOLEAN, &s->engine.patterns, NULL},
      {NULL, 0, NULL, "SEXPGPU_PIN", TOOL_BOOLEAN, &s->engine.pin, NULL},
      {NULL, 0, NULL, "SEXPGPU_SIMD", TOOL_TEXT, &s->engine.simd, NULL},
      {NULL, 0, NULL, "SEXPGPU_NODES", TOOL_LATER, NULL, "several nodes are not part of this version"},
      {NULL, 0, NULL, "SEXPGPU_NODE_RANK", TOOL_LATER, NULL, "several nodes are not part of this version"},
      {NULL, 0, NULL, "SEXPGPU_RENDEZVOUS", TOOL_LATER, NULL, "several nodes are not part of this version"},
      {NULL, 0, NULL, "SEXPGPU_NODE_GRADIENTS", TOOL_TEXT, &s->node_gradients, NULL},
  };
  const tool_usage usage = {"sexpgpu-run", "FILE", "Compiles an experiment and trains one of its runs.", table,
                            sizeof table / sizeof table[0]};
  return tool_settings_read(&usage, argc, argv, operands, exit_now);
}

static int check(const run_settings *s) {
  int status = tool_engine_check(&s->engine);
  if (status) return status;
  if (s->explain_what && strcmp(s->explain_what, "kernels") != 0)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "SEXPGPU_EXPLAIN: found \"%s\", expected kernels", s->explain_what);
  return TOOL_DONE;
}

int run_settings_read(run_settings *settings, int argc, char **argv, bool *exit_now) {
  *settings = (run_settings){.selection = TOOL_SELECTION_DEFAULT, .engine = TOOL_ENGINE_DEFAULT};
  tool_list operands = {0};
  int status = read_table(settings, argc, argv, &operands, exit_now);
  if (!status && !*exit_now) status = tool_selection_take_file(&settings->selection, &operands);
  if (!status && !*exit_now) status = check(settings);
  tool_list_free(&operands);
  return status;
}

void run_settings_free(run_settings *settings) { tool_selection_free(&settings->selection); }
