/* What of an experiment is compiled, as sexpgpu-run and sexpgpu-explain are told it. */
#ifndef TOOL_SELECTION_H
#define TOOL_SELECTION_H

#include "../../libsexp/sexp.h"
#include "settings.h"

typedef struct tool_selection {
  const char *file, *run, *variant; /* run and variant NULL: none named */
  tool_list sets, diagnostics;
  int64_t steps, eval_every, eval_limit; /* steps, eval_every 0: the file's */
  bool optimize;
} tool_selection;
#define TOOL_SELECTION_DEFAULT \
  { .eval_limit = 10000000, .optimize = true }

/* Takes the one operand as the file: E-ENV-004, printed; TOOL_INPUT. */
int tool_selection_take_file(tool_selection *selection, const tool_list *operands);
/* The library's options; they borrow. */
sexp_options tool_selection_options(const tool_selection *selection);
void tool_selection_free(tool_selection *selection);

#endif
