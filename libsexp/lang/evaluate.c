/* sx_language_evaluate: from a file to a program. */
#include "declare.h"
#include "knobs.h"
#include "load.h"
#include "machine.h"
#include "names.h"

static void evaluate_forms(sx_evaluator *evaluator) {
  int64_t limit = evaluator->selection->eval_limit, most = INT64_MAX / SX_STEP_INSTRUCTIONS;
  evaluator->steps = limit;
  evaluator->instructions = limit < most ? limit * SX_STEP_INSTRUCTIONS : INT64_MAX;
  for (size_t i = 0; i < evaluator->forms.n && !evaluator->spent; i++)
    sx_evaluate_form(evaluator, evaluator->forms.items[i]);
  evaluator->context = (sx_context){.place = SX_PLACE_FILE, .path = ""};
  sx_knobs_check_variants(evaluator);
  sx_build_datas(evaluator);
  sx_check_runs(evaluator);
  sx_check_evals(evaluator);
  sx_check_generators(evaluator);
}

/* The parameters of the run in path order. */
static void record_params(sx_evaluator *evaluator) {
  for (size_t i = 0; i < evaluator->params.n; i++)
    SX_PUSH(evaluator->arena, evaluator->program->params, evaluator->params.items[i]->param);
}

bool sx_language_evaluate(sx_program *program, const char *path, const sx_selection *selection,
                          const sx_language_host *host) {
  sx_evaluator *evaluator = SX_NEW(program->arena, sx_evaluator);
  *evaluator = (sx_evaluator){.program = program,
                              .arena = program->arena,
                              .names = &program->names,
                              .diags = &program->diags,
                              .selection = selection,
                              .host = host,
                              .steps = INT64_MAX, /* the prelude is not counted */
                              .instructions = INT64_MAX,
                              .context = {.place = SX_PLACE_FILE, .path = ""}};
  program->variant = selection->variant;
  sx_machine_begin(evaluator);
  sx_names_begin(evaluator);
  if (!sx_load_prelude(evaluator) || !sx_load_file(evaluator, path) || !sx_knobs_select(evaluator)) return false;
  evaluate_forms(evaluator);
  if (program->diags.n_errors) return false;
  sx_knobs_record(evaluator);
  if (!sx_build_run(evaluator)) return false;
  sx_build_evals(evaluator);
  sx_sort_params(evaluator); /* evaluations may have added ones that are not trained */
  record_params(evaluator);
  return program->diags.n_errors == 0;
}
