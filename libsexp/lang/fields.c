/* Fields and metrics: expressions in which the data's fields are bound by name. */
#include <string.h>

#include "declare.h"
#include "machine.h"
#include "translate.h"

static bool add_field(sx_evaluator *evaluator, const sx_field_type *field, int64_t batch, const sx_datum *at,
                      sx_value *value) {
  sx_graph *graph = evaluator->context.graph;
  int64_t dims[SX_RANK_MAX] = {batch};
  if (field->rank + 1 > SX_RANK_MAX) {
    sx_fail(evaluator, SX_E_SHAPE_RANK, at->span, "field %s: a batch of it would have more than %d axes", field->name,
            (int)SX_RANK_MAX);
    return false;
  }
  if (field->rank) memcpy(dims + 1, field->dims, (size_t)field->rank * sizeof *dims);
  graph->span = sx_head_span(at);
  graph->path = "";
  sx_spec spec = {.op = SX_OP_INPUT,
                  .dtype = field->dtype,
                  .rank = field->rank + 1,
                  .dims = dims,
                  .text = sx_format(evaluator->arena, "field/%s", field->name)};
  sx_problem why;
  sx_id id;
  if (!sx_graph_try(graph, &spec, &id, &why)) {
    sx_fail(evaluator, why.code, at->span, "field %s: %s", field->name, why.message);
    return false;
  }
  *value = sx_tensor(graph, id);
  return true;
}

bool sx_evaluate_with_fields(sx_evaluator *evaluator, const sx_datum *expression, const char *name,
                             const sx_field_type *fields, uint32_t n_fields, int64_t batch, sx_value *result) {
  const char **names = SX_NEW_N(evaluator->arena, const char *, n_fields);
  sx_value *values = SX_NEW_N(evaluator->arena, sx_value, n_fields);
  for (uint32_t i = 0; i < n_fields; i++) names[i] = sx_intern_text(evaluator->names, fields[i].name);
  evaluator->form = expression;
  const sx_body *body = sx_translate_expression(evaluator, expression, name, names, n_fields);
  if (body->poisoned) return false;
  for (uint32_t i = 0; i < n_fields; i++)
    if (body->used[i] && !add_field(evaluator, &fields[i], batch, expression, &values[i])) return false;
  return sx_run_body(evaluator, body, values, n_fields, result);
}

bool sx_give_scalar(sx_evaluator *evaluator, sx_graph *graph, const sx_value *value, const sx_datum *at,
                    const char *what, sx_id *id) {
  if (sx_is_number(value)) {
    graph->span = at->span;
    *id = sx_const(graph, SX_F32, 0, NULL, sx_number(value));
    return true;
  }
  const sx_node *node = value->kind == SX_KIND_TENSOR && value->graph == graph ? sx_node_at(graph, value->n) : NULL;
  if (node && !node->rank && node->dtype == SX_F32) {
    *id = value->n;
    return true;
  }
  sx_diag *diag = sx_fail(evaluator, SX_E_RUN_SCALAR, at->span, "%s must be a scalar of f32, found %s, %s", what,
                          sx_kind_phrase((sx_kind)value->kind), sx_value_show(evaluator->arena, value));
  if (node) diag->hint = node->rank ? "reduce it with mean or sum" : "cast it, (cast x f32)";
  return false;
}

/* ---- metrics ---- */

static bool read_metric(const sx_options *options, const sx_datum *datum, bool reduces, sx_metric *metric) {
  static const char *const names[] = {"reduce", NULL};
  static const char *const kinds[] = {"mean", "sum", "max", "min", NULL};
  static const sx_reduce_kind values[] = {SX_REDUCE_MEAN, SX_REDUCE_SUM, SX_REDUCE_MAX, SX_REDUCE_MIN};
  bool good = datum->kind == SX_DATUM_LIST && datum->n >= 2 && (datum->n == 2 || reduces);
  const sx_datum *name = good ? datum->items[0] : NULL;
  if (!good || (name->kind != SX_DATUM_STRING && name->kind != SX_DATUM_SYMBOL) || !name->text[0])
    return sx_option_fail(options, datum, "a metric is (\"name\" expression%s)", reduces ? " :reduce mean" : "");
  sx_options own;
  int reduce = 0;
  *metric = (sx_metric){.name = name->text, .expression = datum->items[1]};
  if (!sx_read_options(&own, options->evaluator, datum, 2, options->code, names)) return false;
  if (!sx_option_choice(&own, 0, "reduce", kinds, &reduce)) return false;
  metric->reduce = values[reduce];
  return true;
}

bool sx_read_metrics(const sx_options *options, int option, bool reduces, sx_metric **metrics, uint32_t *n) {
  const sx_datum *list = options->values[option];
  *n = 0;
  if (!list) return true;
  if (list->kind != SX_DATUM_LIST && list->kind != SX_DATUM_VECTOR)
    return sx_option_fail(options, list, ":metrics is a list of (\"name\" expression)");
  *n = list->n;
  *metrics = SX_NEW_N(options->evaluator->arena, sx_metric, list->n);
  for (uint32_t i = 0; i < list->n; i++) {
    if (!read_metric(options, list->items[i], reduces, &(*metrics)[i])) return false;
    for (uint32_t k = 0; k < i; k++)
      if (strcmp((*metrics)[i].name, (*metrics)[k].name) == 0)
        return sx_option_fail(options, list->items[i], "the metric %s stands twice", (*metrics)[i].name);
  }
  return true;
}

bool sx_add_metrics(sx_evaluator *evaluator, const sx_metric *metrics, uint32_t n, const sx_reading *reading,
                    int64_t batch) {
  sx_graph *graph = evaluator->context.graph;
  bool good = true;
  for (uint32_t i = 0; i < n; i++) {
    const sx_metric *metric = &metrics[i];
    const char *what = sx_format(evaluator->arena, "the metric %s", metric->name);
    sx_value value;
    sx_id id;
    if (!sx_evaluate_with_fields(evaluator, metric->expression, what, reading->fields, reading->n_fields, batch,
                                 &value) ||
        !sx_give_scalar(evaluator, graph, &value, metric->expression, what, &id)) {
      good = false;
      continue;
    }
    sx_graph_output(graph, sx_format(evaluator->arena, "metric/%s", metric->name), id);
  }
  return good;
}
