#include "selection.h"

#include "failure.h"

int tool_selection_take_file(tool_selection *selection, const tool_list *operands) {
  if (operands->n != 1)
    return tool_fail(TOOL_INPUT, TOOL_E_ENV_OPERANDS, "found %zu files, expected one experiment", operands->n);
  selection->file = operands->items[0];
  return TOOL_DONE;
}

sexp_options tool_selection_options(const tool_selection *selection) {
  sexp_options options = SEXP_OPTIONS_DEFAULT;
  options.run = selection->run;
  options.variant = selection->variant;
  options.sets = selection->sets.items;
  options.n_sets = selection->sets.n;
  options.steps = selection->steps;
  options.eval_every = selection->eval_every;
  options.diagnostics = selection->diagnostics.n ? selection->diagnostics.items : NULL;
  options.n_diagnostics = selection->diagnostics.n;
  options.eval_limit = selection->eval_limit;
  options.optimize = selection->optimize;
  return options;
}

void tool_selection_free(tool_selection *selection) {
  tool_list_free(&selection->sets);
  tool_list_free(&selection->diagnostics);
}
