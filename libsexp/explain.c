/* Facts of graphs for sexp_explain.h, and the graphs as text for Graphviz. */
#include <inttypes.h>
#include <string.h>

#include "compile.h"

const char sx_contraction_implementation[] = "fma in blocks of 256";

/* ---- facts ---- */

static sexp_place place_of(const sx_program *program, const sx_node *node) {
  sexp_place place = {.path = node->path ? node->path : ""};
  if (!node->span.file) return place;
  const sx_source *source = sx_sources_get(&program->sources, node->span.file);
  place.file = source->path;
  sx_source_place(source, node->span.begin, &place.line, &place.column);
  return place;
}

static sexp_shape shape_of(const sx_node *node) {
  return (sexp_shape){sx_public_dtype(node->dtype), node->rank, node->dims};
}

static sexp_contraction describe_contraction(const sx_program *program, const sx_graph *graph, const sx_node *node) {
  sexp_shape *inputs = SX_NEW_N(program->arena, sexp_shape, node->n_inputs);
  for (uint32_t i = 0; i < node->n_inputs; i++) inputs[i] = shape_of(sx_node_at(graph, node->inputs[i]));
  return (sexp_contraction){.op = sx_op_describe(node->op)->name,
                            .equation = node->op == SX_OP_EINSUM ? node->text : NULL,
                            .n_inputs = node->n_inputs,
                            .inputs = inputs,
                            .output = shape_of(node),
                            .implementation = sx_contraction_implementation,
                            .place = place_of(program, node)};
}

static void describe_contractions(sexp_graph *graph, const sx_program *program, const sx_unit *unit) {
  size_t n = unit->graph->nodes.n;
  for (size_t i = 0; i < n; i++) {
    sx_op op = unit->graph->nodes.items[i].op;
    graph->n_products += op == SX_OP_EINSUM;
    graph->n_convolutions += sx_is_convolution(op);
  }
  sexp_contraction *products = SX_NEW_N(program->arena, sexp_contraction, graph->n_products);
  sexp_contraction *convolutions = SX_NEW_N(program->arena, sexp_contraction, graph->n_convolutions);
  graph->products = products;
  graph->convolutions = convolutions;
  for (size_t i = 0; i < n; i++) {
    const sx_node *node = &unit->graph->nodes.items[i];
    if (node->op == SX_OP_EINSUM) *products++ = describe_contraction(program, unit->graph, node);
    if (sx_is_convolution(node->op)) *convolutions++ = describe_contraction(program, unit->graph, node);
  }
}

static sexp_graph describe_graph(const sx_compiled *compiled, const sx_unit *unit) {
  const sx_plan *plan = unit->plan;
  sexp_graph graph = {.name = unit->label,
                      .training = sx_is_training(compiled, unit),
                      .n_nodes_built = unit->n_built,
                      .n_nodes = (int64_t)unit->graph->nodes.n,
                      .n_tasks = (int64_t)plan->tasks.n,
                      .block_bytes = plan->block_bytes,
                      .bound_bytes = plan->bound_bytes};
  for (size_t i = 0; i < plan->tasks.n; i++)
    graph.n_groups += plan->tasks.items[i].kind == SX_TASK_ELEMENT && plan->tasks.items[i].n_nodes > 1;
  describe_contractions(&graph, compiled->program, unit);
  return graph;
}

const sexp_graph *sx_describe_graphs(const sx_compiled *compiled) {
  sexp_graph *graphs = SX_NEW_N(compiled->program->arena, sexp_graph, compiled->units.n);
  for (size_t i = 0; i < compiled->units.n; i++) graphs[i] = describe_graph(compiled, compiled->units.items[i]);
  return graphs;
}

/* ---- Graphviz ---- */

/* Within quotes: those and backslashes are escaped, control characters shown as '?'. */
static void add_escaped(sx_text *text, const char *string) {
  for (const char *at = string; *at; at++) {
    unsigned char c = (unsigned char)*at;
    if (c == '"' || c == '\\') sx_text_add(text, "\\");
    sx_text_add_bytes(text, c < ' ' || c == 0x7f ? "?" : at, 1);
  }
}

/* %12 einsum ik,kj->ij, then dtype and shape, then the model path: a line each. */
static void add_dot_node(sx_text *text, const sx_graph *graph, size_t cluster, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  sx_text_addf(text, "    n%zu_%" PRIu32 " [label=\"%%%" PRIu32 " %s", cluster, id, id, sx_op_describe(node->op)->name);
  if (node->text) {
    sx_text_add(text, " ");
    add_escaped(text, node->text);
  }
  sx_text_addf(text, "\\n%s ", sx_dtype_name(node->dtype));
  sx_text_add_shape(text, node->dims, node->rank);
  if (node->path && node->path[0]) {
    sx_text_add(text, "\\n");
    add_escaped(text, node->path);
  }
  sx_text_add(text, "\"];\n");
  for (uint32_t i = 0; i < node->n_inputs; i++)
    sx_text_addf(text, "    n%zu_%" PRIu32 " -> n%zu_%" PRIu32 ";\n", cluster, node->inputs[i], cluster, id);
}

static void add_dot_output(sx_text *text, const sx_graph *graph, size_t cluster, size_t index) {
  sx_text_addf(text, "    o%zu_%zu [shape=plaintext, label=\"", cluster, index);
  add_escaped(text, graph->outputs.items[index].name);
  sx_text_addf(text, "\"];\n    n%zu_%" PRIu32 " -> o%zu_%zu;\n", cluster, graph->outputs.items[index].node, cluster,
               index);
}

void sx_describe_dot(sx_text *text, const sx_compiled *compiled) {
  sx_text_add(text, "digraph \"");
  add_escaped(text, compiled->program->run_name);
  sx_text_add(text, "\" {\n  node [shape=box];\n");
  for (size_t cluster = 0; cluster < compiled->units.n; cluster++) {
    const sx_unit *unit = compiled->units.items[cluster];
    sx_text_addf(text, "  subgraph cluster_%zu {\n    label=\"", cluster);
    add_escaped(text, unit->label);
    sx_text_add(text, "\";\n");
    for (size_t id = 0; id < unit->graph->nodes.n; id++) add_dot_node(text, unit->graph, cluster, (sx_id)id);
    for (size_t i = 0; i < unit->graph->outputs.n; i++) add_dot_output(text, unit->graph, cluster, i);
    sx_text_add(text, "  }\n");
  }
  sx_text_add(text, "}\n");
}
