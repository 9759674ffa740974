/* Evaluates any bytes as an experiment, with a small work budget and made-up data. It ends with a program whose graphs
 * hold what the verifier asks of graphs as they are built, or with errors that print. */
#include <stdlib.h>
#include <string.h>

#include "../common/language.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUDGET = 30000, SIZE_MAX_TEXT = 8192 };

static void verify(language *made, const sx_graph *graph) {
  if (!graph || sx_graph_verify(graph, SX_STAGE_BUILT, &made->program.diags)) return;
  language_error(made);
  abort();
}

static void verify_all(language *made) {
  const sx_program *program = &made->program;
  for (uint32_t i = 0; i < program->n_stages; i++) verify(made, program->stages[i].loss);
  verify(made, program->update);
  for (size_t i = 0; i < program->params.n; i++) verify(made, program->params.items[i].init);
  for (size_t i = 0; i < program->states.n; i++) verify(made, program->states.items[i].init);
  for (size_t i = 0; i < program->evals.n; i++) {
    verify(made, program->evals.items[i].graph);
    verify(made, program->evals.items[i].partial);
  }
  for (size_t i = 0; i < program->generators.n; i++) {
    verify(made, program->generators.items[i].init);
    verify(made, program->generators.items[i].trip);
    verify(made, program->generators.items[i].emit);
  }
}

/* The first line chooses variant and knobs when it begins with ";; ". */
static void select_from(char *text, sx_selection *selection, const char *sets[1]) {
  if (strncmp(text, ";; ", 3) != 0) return;
  char *end = strchr(text, '\n'), *comma = strchr(text, ',');
  if (!end || !comma || comma > end) return;
  *comma = *end = 0;
  selection->variant = text[3] ? text + 3 : NULL;
  sets[0] = comma + 1;
  selection->sets = sets;
  selection->n_sets = 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char included[] = "(def from-file 3)\n(defun twice (f x) (f (f x)))\n(include \"test.sexp\")\n";
  if (size > SIZE_MAX_TEXT) return 0;
  char *text = malloc(size + 1), *head = malloc(size + 1);
  if (!text || !head) abort();
  memcpy(text, data, size);
  text[size] = 0;
  memcpy(head, text, size + 1);
  const char *sets[1];
  sx_selection selection = {.eval_limit = BUDGET};
  select_from(head, &selection, sets);
  language_file files[] = {{"test.sexp", text}, {"other.sexp", included}};
  language *made = language_of_files(files, 2, &selection);
  if (made->good) verify_all(made);
  language_free(made);
  free(text);
  free(head);
  return 0;
}
