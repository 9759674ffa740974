#include "settings.h"

#include <string.h>

#include "../../libsexp/sexp.h"
#include "../common/engine.h"
#include "../common/failure.h"

static int read_table(explain_settings *s, int argc, char **argv, tool_list *operands, bool *exit_now) {
  const tool_setting table[] = {
      {"report", 0, NULL, NULL, TOOL_FLAG, &s->report, "how a run is computed, in words (the default)"},
      {"ir", 0, NULL, NULL, TOOL_FLAG, &s->ir, "the graphs as optimized"},
      {"after", 'a', "PASS", NULL, TOOL_TEXT, &s->after, "the graphs after a pass: gradient, simplify, cse, dce"},
      {"plan", 0, NULL, NULL, TOOL_FLAG, &s->plan, "every task of each graph, and where its values lie"},
      {"dot", 0, NULL, NULL, TOOL_FLAG, &s->dot, "the graphs as optimized, for Graphviz"},
      {"json", 'j', NULL, NULL, TOOL_FLAG, &s->json, "one JSON object with the facts of the report"},
      {"run", 'r', "NAME", NULL, TOOL_TEXT, &s->selection.run, "the defrun; needed where the file has several"},
      {"variant", 0, "NAME", NULL, TOOL_TEXT, &s->selection.variant, "the defvariant whose knob values hold"},
      {"set", 's', "KNOB=VALUE", NULL, TOOL_LIST, &s->selection.sets, "a knob's value; may be given again"},
      {"steps", 'n', "N", NULL, TOOL_COUNT, &s->selection.steps, "of a run of N steps instead of the file's"},
      {"eval-every", 0, "N", NULL, TOOL_COUNT, &s->selection.eval_every,
       "evaluations every N steps instead of the file's"},
      {"diagnostics", 0, "GLOB", "SEXPGPU_DIAGNOSTICS", TOOL_LIST, &s->selection.diagnostics,
       "probes instead of the file's; may be given again"},
      {"device", 'd', "DEVICE", "SEXPGPU_DEVICE", TOOL_TEXT, &s->engine.device, "cpu (the default) or cuda"},
      {"threads", 't', "N", NULL, TOOL_COUNT, &s->engine.threads, "threads of the run; all processors by default"},
      {"choices", 0, "RECORD", "SEXPGPU_CHOICES", TOOL_TEXT, &s->choices,
       "pinned to recorded choices: a file, - or fresh"},
      {"deterministic", 0, NULL, "SEXPGPU_DETERMINISTIC", TOOL_FLAG, &s->strict, "of a run that measures no choice"},
      {"portable", 0, NULL, NULL, TOOL_FLAG, &s->engine.portable, "of a run with the bits of numerics 1"},
      {NULL, 0, NULL, "SEXPGPU_EVAL_LIMIT", TOOL_COUNT, &s->selection.eval_limit, NULL},
      {NULL, 0, NULL, "SEXPGPU_MEMORY", TOOL_REAL, &s->engine.memory_gib, NULL},
      {NULL, 0, NULL, "SEXPGPU_EXPLAIN", TOOL_TEXT, &s->explain_what, NULL},
      {NULL, 0, NULL, "SEXPGPU_OPTIMIZE", TOOL_BOOLEAN, &s->selection.optimize, NULL},
      {NULL, 0, NULL, "SEXPGPU_DEVICES", TOOL_TEXT, &s->engine.devices, NULL},
      {NULL, 0, NULL, "SEXPGPU_PATTERNS", TOOL_BOOLEAN, &s->engine.patterns, NULL},
      {NULL, 0, NULL, "SEXPGPU_PIN", TOOL_BOOLEAN, &s->engine.pin, NULL},
      {NULL, 0, NULL, "SEXPGPU_SIMD", TOOL_TEXT, &s->engine.simd, NULL},
      {NULL, 0, NULL, "SEXPGPU_NODE_GRADIENTS", TOOL_TEXT, &s->node_gradients, NULL},
      {NULL, 0, NULL, "SEXPGPU_NODES", TOOL_LATER, NULL, "several nodes are not part of this version"},
      {NULL, 0, NULL, "SEXPGPU_NODE_RANK", TOOL_LATER, NULL, "several nodes are not part of this version"},
      {NULL, 0, NULL, "SEXPGPU_RENDEZVOUS", TOOL_LATER, NULL, "several nodes are not part of this version"},
  };
  const tool_usage usage = {"sexpgpu-explain", "FILE", "Says how an experiment will be computed, and runs nothing.",
                            table, sizeof table / sizeof table[0]};
  return tool_settings_read(&usage, argc, argv, operands, exit_now);
}

/* The level of this machine, which the report names. */
static int check_level(const char *simd) {
  sexp_processor cpu;
  sexp_processor_look(&cpu);
  for (size_t i = 0; i < cpu.n_levels; i++)
    if (!simd || strcmp(cpu.levels[i], simd) == 0) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "SEXPGPU_SIMD: found \"%s\", which this machine does not have", simd);
}

static int check(explain_settings *s) {
  int status = tool_engine_check(&s->engine);
  if (!status) status = check_level(s->engine.simd);
  if (status) return status;
  if (s->explain_what && strcmp(s->explain_what, "kernels") != 0)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "SEXPGPU_EXPLAIN: found \"%s\", expected kernels", s->explain_what);
  int n = s->report + s->ir + s->plan + s->json + s->dot + (s->after != NULL);
  if (n > 1)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPTION,
                     "found %d of --report, --ir, --after, --plan, --dot and --json, "
                     "expected one",
                     n);
  s->report = s->report || n == 0;
  return TOOL_DONE;
}

int explain_settings_read(explain_settings *settings, int argc, char **argv, bool *exit_now) {
  *settings = (explain_settings){.selection = TOOL_SELECTION_DEFAULT, .engine = TOOL_ENGINE_DEFAULT};
  tool_list operands = {0};
  int status = read_table(settings, argc, argv, &operands, exit_now);
  if (!status && !*exit_now) status = tool_selection_take_file(&settings->selection, &operands);
  if (!status && !*exit_now) status = check(settings);
  tool_list_free(&operands);
  return status;
}

void explain_settings_free(explain_settings *settings) { tool_selection_free(&settings->selection); }
