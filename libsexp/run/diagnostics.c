/* Statistics of selected values, as nodes of the graphs that compute them: they have the bits of numerics 1
 * on every device, and no code of their own. */
#include <math.h>
#include <string.h>

#include "../base/glob.h"
#include "../ir/build.h"
#include "compiled.h"

const char *const sx_statistic_names[SX_N_STATISTICS] = {"mean", "std", "min", "max", "absmax", "nonfinite"};

static bool is_selected(const sx_program *program, const char *name) {
  for (uint32_t i = 0; i < program->n_diagnostics; i++)
    if (sx_glob_matches(program->diagnostics[i], name)) return true;
  return false;
}

static bool has_prefix(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

/* A reduction over all axes. */
static sx_id over_all(sx_graph *graph, sx_op op, sx_id x) {
  int64_t axes[SX_RANK_MAX];
  int rank = sx_node_at(graph, x)->rank;
  for (int i = 0; i < rank; i++) axes[i] = i;
  return rank ? sx_reduce(graph, op, x, axes, rank, false) : x;
}

static sx_id mean_of(sx_graph *graph, sx_id x) {
  sx_id sum = over_all(graph, SX_OP_SUM, x);
  double n = (double)sx_node_elements(sx_node_at(graph, x));
  return sx_binary(graph, SX_OP_DIV, sum, sx_const_like(graph, sum, n));
}

static sx_id deviation_of(sx_graph *graph, sx_id x, sx_id mean) {
  const sx_node *node = sx_node_at(graph, x);
  int64_t dims[SX_RANK_MAX];
  int rank = node->rank;
  for (int i = 0; i < rank; i++) dims[i] = node->dims[i];
  sx_id centred = sx_binary(graph, SX_OP_SUB, x, sx_broadcast(graph, mean, rank, dims));
  return sx_unary(graph, SX_OP_SQRT, mean_of(graph, sx_binary(graph, SX_OP_MUL, centred, centred)));
}

static sx_id nonfinite_of(sx_graph *graph, sx_id magnitude) {
  sx_id finite = sx_binary(graph, SX_OP_LT, magnitude, sx_const_like(graph, magnitude, HUGE_VAL));
  sx_id count = sx_cast(graph, sx_unary(graph, SX_OP_NOT, finite), SX_I32);
  return sx_cast(graph, over_all(graph, SX_OP_SUM, count), SX_F32);
}

/* Adds the outputs statistic/NAME/... of x. A value without elements has none. */
static void add_statistics(sx_graph *graph, const char *name, sx_id x) {
  if (!sx_node_elements(sx_node_at(graph, x))) return;
  x = sx_cast(graph, x, SX_F32);
  sx_id magnitude = sx_unary(graph, SX_OP_ABS, x);
  sx_id statistics[SX_N_STATISTICS];
  statistics[0] = mean_of(graph, x);
  statistics[1] = deviation_of(graph, x, statistics[0]);
  statistics[2] = over_all(graph, SX_OP_REDUCEMIN, x);
  statistics[3] = over_all(graph, SX_OP_REDUCEMAX, x);
  statistics[4] = over_all(graph, SX_OP_REDUCEMAX, magnitude);
  statistics[5] = nonfinite_of(graph, magnitude);
  for (int i = 0; i < SX_N_STATISTICS; i++)
    sx_graph_output(graph, sx_format(graph->arena, "statistic/%s/%s", name, sx_statistic_names[i]), statistics[i]);
}

typedef SX_VEC(sx_output) output_list;

static sx_graph *copy_with(const sx_graph *graph, const output_list *outputs) {
  return sx_graph_extract(graph, graph->name, outputs->items, outputs->n);
}

sx_graph *sx_without_probes(sx_graph *loss) {
  output_list kept = {0};
  for (size_t i = 0; i < loss->outputs.n; i++)
    if (!has_prefix(loss->outputs.items[i].name, "probe/")) SX_PUSH(loss->arena, kept, loss->outputs.items[i]);
  return kept.n == loss->outputs.n ? loss : copy_with(loss, &kept);
}

sx_graph *sx_diagnose_loss(const sx_graph *loss, const sx_program *program) {
  output_list kept = {0};
  bool any = false;
  for (size_t i = 0; i < loss->outputs.n; i++) {
    sx_output output = loss->outputs.items[i];
    bool probe = has_prefix(output.name, "probe/"), selected = probe && is_selected(program, output.name + 6);
    if (!probe || selected) SX_PUSH(loss->arena, kept, output);
    any |= selected;
  }
  if (!any) return NULL;
  sx_graph *graph = copy_with(loss, &kept);
  size_t n = graph->outputs.n, n_kept = 0;
  sx_output *outputs = graph->outputs.items;
  graph->outputs.items = SX_NEW_N(graph->arena, sx_output, n);
  graph->outputs.room = n;
  graph->outputs.n = 0;
  for (size_t i = 0; i < n; i++)
    if (!has_prefix(outputs[i].name, "probe/")) graph->outputs.items[n_kept++] = outputs[i];
  graph->outputs.n = n_kept;
  for (size_t i = 0; i < n; i++)
    if (has_prefix(outputs[i].name, "probe/")) add_statistics(graph, outputs[i].name + 6, outputs[i].node);
  return graph;
}

/* ---- gradients, parameters, updates ---- */

/* The leaf of that operation and text; added where the graph does not read it. */
static sx_id find_leaf(sx_graph *graph, sx_op op, const char *text, const sx_param *param) {
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(graph, id);
    if (node->op == op && !strcmp(node->text, text)) return id;
  }
  return sx_graph_add(
      graph, &(sx_spec){.op = op, .dtype = param->dtype, .rank = param->rank, .dims = param->dims, .text = text});
}

static void diagnose_param(sx_graph *graph, const sx_program *program, const sx_param *param) {
  const char *gradient = sx_format(graph->arena, "grad/%s", param->path);
  const char *value = sx_format(graph->arena, "param/%s", param->path);
  const char *update = sx_format(graph->arena, "update/%s", param->path);
  sx_id after = sx_graph_find_output(graph, value);
  graph->span = param->span;
  graph->path = param->path;
  if (param->trainable && is_selected(program, gradient))
    add_statistics(graph, gradient, find_leaf(graph, SX_OP_INPUT, gradient, param));
  if (is_selected(program, value))
    add_statistics(graph, value, after == SX_NO_NODE ? find_leaf(graph, SX_OP_PARAM, param->path, param) : after);
  if (after == SX_NO_NODE || !is_selected(program, update)) return;
  sx_id before = sx_cast(graph, find_leaf(graph, SX_OP_PARAM, param->path, param), SX_F32);
  after = sx_cast(graph, after, SX_F32);
  add_statistics(graph, update, sx_binary(graph, SX_OP_SUB, after, before));
}

sx_graph *sx_diagnose_update(const sx_graph *update, const sx_program *program) {
  output_list kept = {0};
  if (!program->n_diagnostics) return NULL;
  for (size_t i = 0; i < update->outputs.n; i++) SX_PUSH(update->arena, kept, update->outputs.items[i]);
  sx_graph *graph = copy_with(update, &kept);
  for (size_t i = 0; i < program->params.n; i++) diagnose_param(graph, program, &program->params.items[i]);
  return graph->outputs.n > kept.n ? graph : NULL;
}
