/* For tests: graphs as text, with what that needs. */
#ifndef TEST_GRAPHS_H
#define TEST_GRAPHS_H

#include "../../libsexp/pass/pass.h"

typedef struct graphs {
  sx_memory memory;
  sx_arena arena;
  sx_intern names;
  sx_diags diags;
} graphs;

void graphs_init(graphs *graphs);
void graphs_free(graphs *graphs);
/* NULL where the text does not parse; errors are in diags. */
sx_graph *graphs_parse(graphs *graphs, const char *text);
/* In the arena. */
const char *graphs_print(graphs *graphs, const sx_graph *graph);
/* Code and message of the first error, "" without one; in the arena. */
const char *graphs_error(graphs *graphs);
/* Applies passes named with spaces between; NULL after an error: of a pass, of the verifier, or an unknown
 * name ("E-RUN-005 ..."). */
sx_graph *graphs_apply(graphs *graphs, sx_graph *graph, const char *passes);

#endif
