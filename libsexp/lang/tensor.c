#include "tensor.h"

#include <math.h>
#include <string.h>

sx_graph *sx_call_graph(const sx_call *call) {
  sx_evaluator *evaluator = call->evaluator;
  sx_graph *graph = evaluator->context.graph;
  if (!graph) {
    sx_call_fail(call, SX_E_EVAL_GRAPH, "there is no graph here to build tensors in");
    return NULL;
  }
  graph->span = sx_head_span(sx_here(evaluator));
  graph->path = evaluator->context.path;
  return graph;
}

bool sx_count_nodes(const sx_call *call, size_t before) {
  return sx_spend(call->evaluator, (call->evaluator->context.graph->nodes.n - before) * SX_NODE_STEPS);
}

bool sx_get_tensor(const sx_call *call, const sx_value *value, sx_id *id) {
  if (value->kind != SX_KIND_TENSOR) return sx_expected(call, value, "a tensor");
  sx_graph *graph = sx_call_graph(call);
  if (!graph) return false;
  *id = value->n;
  if (value->graph == graph) return true;
  const sx_node *node = sx_value_node(value);
  if (node->op == SX_OP_PARAM) {
    *id = sx_graph_add(
        graph,
        &(sx_spec){
            .op = SX_OP_PARAM, .dtype = node->dtype, .rank = node->rank, .dims = node->dims, .text = node->text});
    return sx_spend(call->evaluator, SX_NODE_STEPS);
  }
  return sx_value_fail(call, value, SX_E_EVAL_FOREIGN, "a tensor of the graph %s cannot be used in the graph %s",
                       value->graph->name, graph->name);
}

static bool fits_integer(double number, sx_dtype dtype) {
  double lo = dtype == SX_U8 ? 0 : -0x1p31, hi = dtype == SX_U8 ? 255 : 0x1p31 - 1;
  return number == floor(number) && number >= lo && number <= hi;
}

bool sx_get_element(const sx_call *call, const sx_value *value, sx_dtype dtype, double *element) {
  if (dtype == SX_BOOL) {
    if (value->kind != SX_KIND_BOOLEAN) return sx_expected(call, value, "true, false or a tensor of bool");
    *element = value->boolean;
    return true;
  }
  if (!sx_is_number(value)) return sx_expected(call, value, "a tensor or a number");
  *element = sx_number(value);
  if (sx_dtype_is_float(dtype) || fits_integer(*element, dtype)) return true;
  return sx_value_fail(call, value, SX_E_TYPE_VALUE, "%s does not hold %s", sx_dtype_name(dtype),
                       sx_value_show(call->evaluator->arena, value));
}

bool sx_get_operand(const sx_call *call, const sx_value *value, sx_dtype dtype, sx_id *id) {
  if (value->kind == SX_KIND_TENSOR) return sx_get_tensor(call, value, id);
  double element;
  if (!sx_get_element(call, value, dtype, &element)) return false;
  sx_graph *graph = sx_call_graph(call);
  if (!graph) return false;
  *id = sx_const(graph, dtype, 0, NULL, element);
  return true;
}

/* "the left operand comes from here, [32 128]" */
static void show_operand(const sx_call *call, sx_diag *diag, const sx_node *node, uint32_t n_inputs) {
  if (!node->span.file || memcmp(&node->span, &diag->span, sizeof node->span) == 0) return;
  if (sx_sources_get(&call->evaluator->program->sources, node->span.file)->prelude) return;
  sx_text label;
  sx_text_init(&label, call->evaluator->arena);
  sx_text_addf(&label, "the %soperand comes from here, ", n_inputs == 2 ? "left " : n_inputs > 2 ? "first " : "");
  sx_text_add_shape(&label, node->dims, node->rank);
  diag->second_span = node->span;
  diag->second_label = sx_text_get(&label);
}

/* "w2 is [64 10]; did you mean [128 10]?": the right operand of a matmul is a parameter of a wrong inner size. */
static const char *parameter_hint(const sx_call *call, const sx_node *left, const sx_node *right) {
  bool plain = right->op == SX_OP_PARAM && right->rank == 2 && left->rank >= 1;
  if (!plain || strcmp(call->builtin->name, "matmul") != 0) return NULL;
  int64_t dims[2] = {left->dims[left->rank - 1], right->dims[1]};
  sx_text text;
  sx_text_init(&text, call->evaluator->arena);
  sx_text_addf(&text, "%s is ", right->text);
  sx_text_add_shape(&text, right->dims, 2);
  sx_text_add(&text, "; did you mean ");
  sx_text_add_shape(&text, dims, 2);
  sx_text_add(&text, "?");
  return sx_text_get(&text);
}

bool sx_report_problem(const sx_call *call, const sx_problem *why, const sx_id *inputs, uint32_t n_inputs) {
  sx_diag *diag =
      sx_fail(call->evaluator, why->code, sx_head_span(call->at), "%s: %s", call->builtin->name, why->message);
  const sx_graph *graph = call->evaluator->context.graph;
  if (!n_inputs) return false;
  const sx_node *first = sx_node_at(graph, inputs[0]);
  show_operand(call, diag, first, n_inputs);
  const char *hint =
      n_inputs == 2 && why->code == SX_E_SHAPE_INNER ? parameter_hint(call, first, sx_node_at(graph, inputs[1])) : NULL;
  if (hint) diag->hint = hint;
  return false;
}

bool sx_add_node(const sx_call *call, const sx_spec *spec, sx_value *result) {
  sx_graph *graph = sx_call_graph(call);
  sx_problem why;
  sx_id id;
  if (!graph) return false;
  size_t before = graph->nodes.n;
  if (!sx_graph_try(graph, spec, &id, &why)) return sx_report_problem(call, &why, spec->inputs, spec->n_inputs);
  *result = sx_tensor(graph, id);
  return sx_count_nodes(call, before);
}

bool sx_add_element(const sx_call *call, sx_op op, const sx_value *operands, uint32_t n, sx_value *result) {
  sx_graph *graph = sx_call_graph(call);
  sx_id ids[3];
  sx_dtype dtype = SX_F32;
  if (!graph) return false;
  size_t before = graph->nodes.n;
  for (uint32_t i = n; i-- > 0;)
    if (operands[i].kind == SX_KIND_TENSOR) dtype = sx_value_node(&operands[i])->dtype;
  for (uint32_t i = 0; i < n; i++)
    if (!sx_get_operand(call, &operands[i], dtype, &ids[i])) return false;
  sx_problem why;
  sx_id id;
  if (!sx_try_element(graph, op, ids, n, &id, &why)) return sx_report_problem(call, &why, ids, n);
  *result = sx_tensor(graph, id);
  return sx_count_nodes(call, before);
}
