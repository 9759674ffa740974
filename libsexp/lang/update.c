/* The update graph: clipping, then the optimizer once for every trainable parameter, in path order. */
#include <stdlib.h>
#include <string.h>

#include "../ir/build.h"
#include "model.h"

/* ---- gradients as inputs, clipped ---- */

static sx_id add_gradient_input(sx_evaluator *evaluator, const sx_param *param) {
  sx_graph *graph = evaluator->context.graph;
  graph->path = param->path;
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_INPUT,
                                        .dtype = param->dtype,
                                        .rank = param->rank,
                                        .dims = param->dims,
                                        .text = sx_format(evaluator->arena, "grad/%s", param->path)});
}

static sx_id sum_of_squares(sx_graph *graph, sx_id gradient) {
  int64_t axes[SX_RANK_MAX];
  sx_id x = sx_cast(graph, gradient, SX_F32);
  int rank = sx_node_at(graph, x)->rank;
  for (int i = 0; i < rank; i++) axes[i] = i;
  x = sx_binary(graph, SX_OP_MUL, x, x);
  return rank ? sx_reduce(graph, SX_OP_SUM, x, axes, rank, false) : x;
}

static sx_id scaled(sx_graph *graph, sx_id gradient, sx_id scale) {
  const sx_node *node = sx_node_at(graph, gradient);
  sx_dtype dtype = node->dtype;
  sx_id factor = sx_broadcast(graph, scale, node->rank, node->dims);
  return sx_cast(graph, sx_binary(graph, SX_OP_MUL, sx_cast(graph, gradient, SX_F32), factor), dtype);
}

/* Scales all gradients down to the common norm: the root of the sum, in path order, of their sums of squares. */
static void clip_gradients(sx_graph *graph, sx_param_entry **params, sx_id *gradients, size_t n, double clip) {
  sx_id sum = 0;
  for (size_t i = 0; i < n; i++) {
    graph->path = params[i]->param.path;
    sx_id squares = sum_of_squares(graph, gradients[i]);
    sum = i ? sx_binary(graph, SX_OP_ADD, sum, squares) : squares;
  }
  graph->path = "";
  sx_id norm = sx_unary(graph, SX_OP_SQRT, sum), limit = sx_const(graph, SX_F32, 0, NULL, clip);
  /* One statement a node: C leaves the order of arguments open, and the order of nodes is part of the identity. */
  sx_id over = sx_binary(graph, SX_OP_GT, norm, limit), down = sx_binary(graph, SX_OP_DIV, limit, norm);
  sx_id scale = sx_where(graph, over, down, sx_const(graph, SX_F32, 0, NULL, 1.0));
  sx_graph_output(graph, "grad-norm", norm);
  for (size_t i = 0; i < n; i++) {
    graph->path = params[i]->param.path;
    gradients[i] = scaled(graph, gradients[i], scale);
  }
}

/* ---- the optimizer ---- */

static bool update_param(sx_evaluator *evaluator, const sx_value *optimizer, sx_param_entry *entry, sx_id gradient) {
  const sx_param *param = &entry->param;
  sx_graph *graph = evaluator->context.graph;
  evaluator->context.path = param->path;
  evaluator->context.parameter = entry;
  graph->path = param->path;
  graph->span = param->span;
  sx_value args[2] = {sx_tensor(graph, sx_param_node(entry, graph)), sx_tensor(graph, gradient)}, value;
  const char *what = sx_format(evaluator->arena, "the new value of %s", param->path);
  if (!sx_apply(evaluator, optimizer, args, 2, &value)) return false;
  bool typed = value.kind != SX_KIND_TENSOR || sx_value_node(&value)->dtype == param->dtype;
  sx_value given;
  if (!typed) {
    sx_fail(evaluator, SX_E_RUN_OPTIMIZER, (sx_span){0, 0, 0}, "%s is %s, the parameter %s", what,
            sx_dtype_name(sx_value_node(&value)->dtype), sx_dtype_name(param->dtype))
        ->hint = "cast it, (cast x (dtype-of p))";
    return false;
  }
  if (!sx_give_value(evaluator, graph, &value, param->dtype, param->rank, param->dims, what, &given)) return false;
  sx_graph_output(graph, sx_format(evaluator->arena, "param/%s", param->path), given.n);
  return true;
}

/* Says for which parameter the optimizer failed. */
static void name_parameter(sx_evaluator *evaluator, uint32_t errors, const char *path) {
  sx_diags *diags = evaluator->diags;
  if (diags->n_errors == errors || !diags->list.n) return;
  sx_diag *diag = &diags->list.items[diags->list.n - 1];
  diag->path = path;
  if (!strstr(diag->message, path))
    diag->message = sx_format(evaluator->arena, "%s, for parameter %s", diag->message, path);
}

static int by_state_path(const void *a, const void *b) {
  return strcmp(((const sx_state *)a)->path, ((const sx_state *)b)->path);
}

bool sx_build_update(sx_evaluator *evaluator, const sx_value *optimizer, const sx_datum *at, const double *clip) {
  sx_program *program = evaluator->program;
  size_t n = 0;
  sx_param_entry **params = SX_NEW_N(evaluator->arena, sx_param_entry *, evaluator->params.n);
  sx_id *gradients = SX_NEW_N(evaluator->arena, sx_id, evaluator->params.n);
  for (size_t i = 0; i < evaluator->params.n; i++)
    if (evaluator->params.items[i]->param.trainable) params[n++] = evaluator->params.items[i];
  sx_context before = sx_enter_context(evaluator, SX_PLACE_UPDATE, "update", "", true);
  sx_graph *graph = program->update = evaluator->context.graph;
  graph->span = at->span;
  for (size_t i = 0; i < n; i++) gradients[i] = add_gradient_input(evaluator, &params[i]->param);
  if (clip && n) clip_gradients(graph, params, gradients, n, *clip);
  bool good = true;
  for (size_t i = 0; i < n && good; i++) {
    uint32_t errors = evaluator->diags->n_errors;
    good = update_param(evaluator, optimizer, params[i], gradients[i]);
    if (!good) name_parameter(evaluator, errors, params[i]->param.path);
  }
  if (program->states.n) qsort(program->states.items, program->states.n, sizeof(sx_state), by_state_path);
  sx_leave_context(evaluator, before);
  return good;
}
