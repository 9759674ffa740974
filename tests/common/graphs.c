#include "graphs.h"

#include <string.h>

#include "../../libsexp/pass/stack.h"

void graphs_init(graphs *g) {
  g->memory = sx_memory_default();
  sx_arena_init(&g->arena, &g->memory);
  sx_intern_init(&g->names, &g->arena);
  sx_diags_init(&g->diags, &g->arena);
}

void graphs_free(graphs *g) { sx_arena_free(&g->arena); }

sx_graph *graphs_parse(graphs *g, const char *text) {
  return sx_graph_parse(&g->arena, &g->names, text, strlen(text), &g->diags);
}

const char *graphs_print(graphs *g, const sx_graph *graph) {
  sx_text text;
  sx_text_init(&text, &g->arena);
  sx_graph_print(&text, graph, false);
  return sx_text_get(&text);
}

const char *graphs_error(graphs *g) {
  if (g->diags.list.n == 0) return "";
  const sx_diag *first = &g->diags.list.items[0];
  return sx_format(&g->arena, "%s %s", sx_code_describe(first->code)->code, first->message);
}

/* A refusal is an error here. */
static sx_graph *stack(sx_graph *graph, sx_diags *diags, int64_t degree) {
  sx_stack_refusal why;
  sx_graph *stacked = NULL;
  if (!sx_stack(&stacked, graph, degree, &why)) sx_error(diags, SX_E_RUN_GRAPH, why.span, "%s", why.text);
  return stacked;
}

static sx_graph *stack_2(sx_graph *graph, sx_diags *diags) { return stack(graph, diags, 2); }
static sx_graph *stack_3(sx_graph *graph, sx_diags *diags) { return stack(graph, diags, 3); }

static const struct {
  const char *name;
  sx_pass *function;
  sx_stage gives;
} passes_known[] = {
    {"gradient", sx_pass_gradient, SX_STAGE_EXPANDED},
    {"simplify", sx_pass_simplify, SX_STAGE_EXPANDED},
    {"cse", sx_pass_cse, SX_STAGE_EXPANDED},
    {"dce", sx_pass_dce, SX_STAGE_READY},
    {"stack-2", stack_2, SX_STAGE_READY},
    {"stack-3", stack_3, SX_STAGE_READY},
};

static sx_graph *apply_one(graphs *g, sx_graph *graph, const char *name, size_t length) {
  for (size_t i = 0; i < sizeof passes_known / sizeof *passes_known; i++) {
    if (strlen(passes_known[i].name) != length || strncmp(name, passes_known[i].name, length) != 0) continue;
    graph = passes_known[i].function(graph, &g->diags);
    return graph && sx_graph_verify(graph, passes_known[i].gives, &g->diags) ? graph : NULL;
  }
  sx_error(&g->diags, SX_E_RUN_DUMP, (sx_span){0}, "no pass %.*s", (int)length, name);
  return NULL;
}

sx_graph *graphs_apply(graphs *g, sx_graph *graph, const char *passes) {
  for (const char *at = passes + strspn(passes, " "); graph && *at; at += strspn(at, " ")) {
    size_t length = strcspn(at, " ");
    graph = apply_one(g, graph, at, length);
    at += length;
  }
  return graph;
}
