/* What passes that build a new graph node by node begin and end with. */
#ifndef SX_PASS_REWRITE_H
#define SX_PASS_REWRITE_H

#include "pass.h"

typedef struct sx_rewrite {
  const sx_graph *from;
  sx_graph *to;
  sx_id *map; /* from node of `from` to node of `to`; filled by the pass */
} sx_rewrite;

static inline sx_rewrite sx_rewrite_begin(const sx_graph *graph) {
  return (sx_rewrite){graph, sx_graph_like(graph, graph->name), SX_NEW_N(graph->arena, sx_id, graph->nodes.n)};
}

/* The new graph, with the outputs of the old. */
static inline sx_graph *sx_rewrite_end(const sx_rewrite *rewrite) {
  const sx_graph *from = rewrite->from;
  for (size_t i = 0; i < from->outputs.n; i++)
    sx_graph_output(rewrite->to, from->outputs.items[i].name, rewrite->map[from->outputs.items[i].node]);
  rewrite->to->span = from->span;
  rewrite->to->path = from->path;
  return rewrite->to;
}

#endif
