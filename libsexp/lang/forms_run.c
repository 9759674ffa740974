/* (defrun name ...): the stages of a run, each with its loss graph, and what the run says of itself. */
#include <string.h>

#include "call.h"
#include "declare.h"
#include "load.h"
#include "names.h"

static const char *const run_options[] = {"seed",
                                          "data",
                                          "batch",
                                          "microbatches",
                                          "steps",
                                          "loss",
                                          "metrics",
                                          "optimizer",
                                          "clip",
                                          "checkpoint-every",
                                          "checkpoint-keep",
                                          "diagnostics",
                                          "diagnostics-every",
                                          "stages",
                                          "recompute",
                                          NULL};
enum {
  OPTION_SEED,
  OPTION_DATA,
  OPTION_BATCH,
  OPTION_MICROBATCHES,
  OPTION_STEPS,
  OPTION_LOSS,
  OPTION_METRICS,
  OPTION_OPTIMIZER,
  OPTION_CLIP,
  OPTION_CHECKPOINT_EVERY,
  OPTION_CHECKPOINT_KEEP,
  OPTION_DIAGNOSTICS,
  OPTION_DIAGNOSTICS_EVERY,
  OPTION_STAGES,
  OPTION_RECOMPUTE
};
/* What a stage may say for itself, as numbers of the run's options. */
static const char *const stage_options[] = {"data", "batch", "microbatches", "steps", "loss", "metrics", NULL};
enum { STAGE_FIRST = OPTION_DATA, N_STAGE_OPTIONS = 6 };

enum { DIAGNOSTICS_EVERY = 10 };

typedef struct stage {
  const char *name;
  sx_options options; /* of the run's form, with the stage's in their place */
  sx_reading reading;
  sx_metric *metrics;
  uint32_t n_metrics;
  sx_graph *graph;
  sx_id loss;
} stage;

/* ---- selecting ---- */

static const sx_declaration *select_run(sx_evaluator *evaluator) {
  const char *name = evaluator->selection->run;
  sx_declarations *runs = &evaluator->declarations[SX_DECLARE_RUN];
  const char *list = sx_list_declarations(evaluator, SX_DECLARE_RUN);
  sx_span none = {0, 0, 0};
  if (!name && runs->n == 1) return &runs->items[0];
  const sx_declaration *found = name ? sx_find_declaration(evaluator, SX_DECLARE_RUN, name) : NULL;
  if (found) return found;
  if (!runs->n) {
    sx_error(evaluator->diags, SX_E_RUN_UNKNOWN, none, "the file defines no run");
  } else if (!name) {
    sx_error(evaluator->diags, SX_E_RUN_UNKNOWN, none, "the file defines several runs: %s", list)->hint =
        "choose one with --run NAME";
  } else {
    sx_nearest nearest = sx_nearest_begin(name);
    for (size_t i = 0; i < runs->n; i++) sx_nearest_add(&nearest, runs->items[i].name);
    sx_error(evaluator->diags, SX_E_RUN_UNKNOWN, none, "there is no run %s; the runs are %s", name, list)->hint =
        sx_nearest_hint(&nearest, evaluator->arena);
  }
  return NULL;
}

/* ---- stages ---- */

static bool read_stage(const sx_options *run, const sx_datum *form, stage *made) {
  sx_options own = {0};
  made->name = "";
  made->options = *run;
  if (form) {
    bool good = form->kind == SX_DATUM_LIST && form->n >= 2 && form->items[0]->kind == SX_DATUM_SYMBOL &&
                strcmp(form->items[0]->text, "stage") == 0 &&
                (form->items[1]->kind == SX_DATUM_STRING || form->items[1]->kind == SX_DATUM_SYMBOL);
    if (!good || !form->items[1]->text[0]) return sx_option_fail(run, form, "a stage is (stage \"name\" :steps n ...)");
    made->name = form->items[1]->text;
    if (!sx_read_options(&own, run->evaluator, form, 2, run->code, stage_options)) return false;
  }
  for (int i = 0; i < N_STAGE_OPTIONS; i++)
    if (own.values[i]) made->options.values[STAGE_FIRST + i] = own.values[i];
  const sx_datum *at = form ? form : run->form;
  if (!made->options.values[OPTION_LOSS]) return sx_option_fail(run, at, "a run needs a :loss");
  if (!made->options.values[OPTION_STEPS]) return sx_option_fail(run, at, "a run needs :steps");
  return sx_read_metrics(&made->options, OPTION_METRICS, false, &made->metrics, &made->n_metrics);
}

static bool read_stages(const sx_options *run, stage **stages, uint32_t *n) {
  const sx_datum *list = run->values[OPTION_STAGES];
  sx_arena *arena = run->evaluator->arena;
  if (list && ((list->kind != SX_DATUM_LIST && list->kind != SX_DATUM_VECTOR) || !list->n))
    return sx_option_fail(run, list, ":stages is a list of (stage \"name\" ...)");
  *n = list ? list->n : 1;
  *stages = SX_NEW_N(arena, stage, *n);
  for (uint32_t i = 0; i < *n; i++) {
    if (!read_stage(run, list ? list->items[i] : NULL, &(*stages)[i])) return false;
    for (uint32_t k = 0; k < i; k++)
      if (strcmp((*stages)[i].name, (*stages)[k].name) == 0)
        return sx_option_fail(run, list->items[i], "the stage %s stands twice", (*stages)[i].name);
  }
  return true;
}

static bool read_sizes(stage *made, sx_stage_run *out) {
  const sx_options *options = &made->options;
  *out = (sx_stage_run){.name = made->name, .steps = 1, .batch = 1, .microbatches = 1, .data = -1, .generator = -1};
  if (!sx_use_data(options, OPTION_DATA, "data", &made->reading)) return false;
  out->data = made->reading.data;
  bool reads = out->data >= 0 || made->reading.generator;
  if (reads && !options->values[OPTION_BATCH])
    return sx_option_fail(options, options->values[OPTION_DATA], "data need a :batch, the records of a microbatch");
  return sx_option_integer(options, OPTION_BATCH, "batch", 1, &out->batch) &&
         sx_option_integer(options, OPTION_MICROBATCHES, "microbatches", 1, &out->microbatches) &&
         sx_option_integer(options, OPTION_STEPS, "steps", 1, &out->steps);
}

/* The loss and the metrics of a stage; gradients are added once all parameters are known. */
static bool build_loss(sx_evaluator *evaluator, stage *made, sx_stage_run *out) {
  const sx_datum *loss = made->options.values[OPTION_LOSS];
  const char *name = made->name[0] ? sx_format(evaluator->arena, "loss/%s", made->name) : "loss";
  sx_context before = sx_enter_context(evaluator, SX_PLACE_LOSS, name, "", true);
  sx_value value;
  evaluator->form = loss;
  evaluator->probes = (sx_name_map){0};
  made->graph = out->loss = evaluator->context.graph;
  bool good = sx_evaluate_with_fields(evaluator, loss, ":loss", made->reading.fields, made->reading.n_fields,
                                      out->batch, &value) &&
              sx_give_scalar(evaluator, made->graph, &value, loss, "the loss", &made->loss);
  if (good) sx_graph_output(made->graph, "loss", made->loss);
  good = good && sx_add_metrics(evaluator, made->metrics, made->n_metrics, &made->reading, out->batch);
  sx_leave_context(evaluator, before);
  return good;
}

/* ---- gradients ---- */

/* Marks what the node depends on. */
static bool *reach(const sx_graph *graph, sx_id from, sx_arena *arena) {
  bool *reached = SX_NEW_N(arena, bool, graph->nodes.n);
  reached[from] = true;
  for (size_t i = from + 1u; i-- > 0;) {
    const sx_node *node = &graph->nodes.items[i];
    for (uint32_t k = 0; reached[i] && k < node->n_inputs; k++) reached[node->inputs[k]] = true;
  }
  return reached;
}

static void add_gradient(sx_graph *graph, sx_id loss, sx_param_entry *entry, sx_arena *arena) {
  const sx_param *param = &entry->param;
  graph->path = param->path;
  graph->span = param->span;
  sx_spec spec = {.op = SX_OP_GRAD, .inputs = (sx_id[]){loss, entry->node}, .n_inputs = 2};
  sx_id gradient =
      entry->graph == graph ? sx_graph_add(graph, &spec) : sx_const(graph, param->dtype, param->rank, param->dims, 0.0);
  sx_graph_output(graph, sx_format(arena, "grad/%s", param->path), gradient);
}

/* Outputs grad/PATH of every trainable parameter in path order; zero where the loss does not depend on it. */
static void add_gradients(sx_evaluator *evaluator, const stage *made, bool *used) {
  sx_graph *graph = made->graph;
  const bool *reached = reach(graph, made->loss, evaluator->arena);
  for (size_t i = 0; i < evaluator->params.n; i++) evaluator->params.items[i]->graph = NULL;
  for (sx_id i = 0; i <= made->loss; i++) {
    const sx_node *node = sx_node_at(graph, i);
    sx_param_entry *entry =
        node->op == SX_OP_PARAM && reached[i] ? sx_name_map_get(&evaluator->param_names, node->text) : NULL;
    if (!entry) continue;
    entry->graph = graph;
    entry->node = i;
  }
  for (size_t i = 0; i < evaluator->params.n; i++) {
    sx_param_entry *entry = evaluator->params.items[i];
    if (entry->param.trainable) add_gradient(graph, made->loss, entry, evaluator->arena);
    used[i] = used[i] || entry->graph == graph;
  }
}

static void warn_unused(sx_evaluator *evaluator, const bool *used) {
  for (size_t i = 0; i < evaluator->params.n; i++) {
    const sx_param *param = &evaluator->params.items[i]->param;
    if (used[i] || !param->trainable) continue;
    sx_warn(evaluator->diags, SX_E_PARAM_UNUSED, param->span,
            "parameter %s: the loss does not depend on it, its gradient is zero", param->path)
        ->path = param->path;
  }
}

/* ---- the run ---- */

/* --steps: the whole run's; the stages are cut short, or the last one goes on. */
static void override_steps(sx_evaluator *evaluator) {
  sx_program *program = evaluator->program;
  int64_t left = evaluator->selection->steps;
  if (!left) return;
  for (uint32_t i = 0; i < program->n_stages; i++) {
    sx_stage_run *out = &program->stages[i];
    if (out->steps > left || i + 1 == program->n_stages) out->steps = left;
    left -= out->steps;
  }
}

static bool read_recompute(const sx_options *options, double *budget) {
  const sx_datum *datum = options->values[OPTION_RECOMPUTE];
  *budget = -1;
  if (!sx_option_number(options, OPTION_RECOMPUTE, "recompute", budget)) return false;
  if (!datum || (*budget >= 0 && *budget <= SX_RECOMPUTE_MOST)) return true;
  return sx_option_fail(options, datum, ":recompute is a number of operations a byte, 0 to 1e9");
}

static bool read_settings(const sx_options *options) {
  sx_evaluator *evaluator = options->evaluator;
  sx_program *program = evaluator->program;
  const sx_selection *selection = evaluator->selection;
  program->diagnostics_every = DIAGNOSTICS_EVERY;
  bool good =
      sx_option_integer(options, OPTION_SEED, "seed", INT64_MIN, &program->seed) &&
      sx_option_integer(options, OPTION_CHECKPOINT_EVERY, "checkpoint-every", 0, &program->checkpoint_every) &&
      sx_option_integer(options, OPTION_CHECKPOINT_KEEP, "checkpoint-keep", 0, &program->checkpoint_keep) &&
      sx_option_texts(options, OPTION_DIAGNOSTICS, "diagnostics", &program->diagnostics, &program->n_diagnostics) &&
      sx_option_integer(options, OPTION_DIAGNOSTICS_EVERY, "diagnostics-every", 1, &program->diagnostics_every) &&
      read_recompute(options, &program->recompute);
  if (!good || !selection->diagnostics) return good;
  program->n_diagnostics = (uint32_t)selection->n_diagnostics;
  program->diagnostics = SX_NEW_N(evaluator->arena, const char *, selection->n_diagnostics);
  for (size_t i = 0; i < selection->n_diagnostics; i++)
    program->diagnostics[i] =
        sx_arena_copy_text(evaluator->arena, selection->diagnostics[i], strlen(selection->diagnostics[i]));
  return true;
}

static bool build_generators(sx_evaluator *evaluator, stage *stages) {
  sx_program *program = evaluator->program;
  bool good = true;
  for (uint32_t i = 0; i < program->n_stages; i++) {
    sx_stage_run *out = &program->stages[i];
    if (stages[i].reading.generator &&
        !sx_build_generator(evaluator, stages[i].reading.generator, out->batch, &out->generator))
      good = false;
  }
  return good;
}

static bool build_update(const sx_options *options) {
  sx_evaluator *evaluator = options->evaluator;
  const sx_datum *datum = options->values[OPTION_OPTIMIZER], *clip_datum = options->values[OPTION_CLIP];
  sx_value optimizer = {0};
  double clip = 0;
  bool trains = false;
  for (size_t i = 0; i < evaluator->params.n; i++) trains = trains || evaluator->params.items[i]->param.trainable;
  if (trains && !datum)
    return sx_option_fail(options, options->form->items[1], "a run with trainable parameters needs an :optimizer");
  evaluator->form = datum ? datum : options->form;
  evaluator->context = (sx_context){.place = SX_PLACE_FILE, .path = ""};
  if (datum && !sx_option_value(options, datum, &optimizer)) return false;
  bool function = optimizer.kind == SX_KIND_FUNCTION || optimizer.kind == SX_KIND_BUILTIN;
  if (datum && !function)
    return sx_option_fail(options, datum, ":optimizer must be a function of (p g), found %s, %s",
                          sx_kind_phrase((sx_kind)optimizer.kind), sx_value_show(evaluator->arena, &optimizer));
  if (!sx_option_number(options, OPTION_CLIP, "clip", &clip)) return false;
  if (clip_datum && !(clip > 0)) return sx_option_fail(options, clip_datum, ":clip must be above 0");
  evaluator->form = datum ? datum : options->form;
  return sx_build_update(evaluator, &optimizer, evaluator->form, clip_datum ? &clip : NULL);
}

bool sx_build_run(sx_evaluator *evaluator) {
  sx_program *program = evaluator->program;
  const sx_declaration *run = select_run(evaluator);
  sx_options options;
  stage *stages = NULL;
  if (!run) return false;
  program->run_name = run->name;
  evaluator->form = run->form;
  if (!sx_read_options(&options, evaluator, run->form, 2, SX_E_RUN_FORM, run_options)) return false;
  if (!read_settings(&options) || !read_stages(&options, &stages, &program->n_stages)) return false;
  program->stages = SX_NEW_N(evaluator->arena, sx_stage_run, program->n_stages);
  for (uint32_t i = 0; i < program->n_stages; i++)
    if (!read_sizes(&stages[i], &program->stages[i]) || !build_loss(evaluator, &stages[i], &program->stages[i]))
      return false;
  override_steps(evaluator);
  if (!build_generators(evaluator, stages)) return false;
  sx_sort_params(evaluator);
  bool *used = SX_NEW_N(evaluator->arena, bool, evaluator->params.n);
  for (uint32_t i = 0; i < program->n_stages; i++) add_gradients(evaluator, &stages[i], used);
  warn_unused(evaluator, used);
  return build_update(&options);
}

void sx_check_runs(sx_evaluator *evaluator) { sx_check_options(evaluator, SX_DECLARE_RUN, SX_E_RUN_FORM, run_options); }
