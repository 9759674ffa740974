/* Counters of the run, and random draws, which they may salt. */
#include <string.h>

#include "names.h"
#include "tensor.h"

/* Which counters exist where. */
static const struct {
  const char *name;
  bool in[SX_PLACE_TRIP + 1];
} counters[] = {
    /*                 file   loss   init   update eval   generator trip */
    {"step", {false, true, false, true, true, true, true}},
    {"microbatch", {false, true, false, false, true, true, true}},
    {"records", {false, true, false, true, true, true, true}},
    {"stage-records", {false, true, false, true, true, true, true}},
    {"stage", {false, true, false, true, true, true, true}},
    {"trip", {false, false, false, false, false, false, true}},
};
enum { N_COUNTERS = sizeof counters / sizeof *counters };

static const char *const place_names[] = {
    [SX_PLACE_FILE] = "a top-level form",    [SX_PLACE_LOSS] = "a loss",
    [SX_PLACE_INIT] = "a starting value",    [SX_PLACE_UPDATE] = "an optimizer",
    [SX_PLACE_EVAL] = "an evaluation",       [SX_PLACE_GENERATOR] = "a generator's :init or :emit",
    [SX_PLACE_TRIP] = "a generator's :trip",
};

/* The node counter/NAME, i32. */
static bool add_counter(const sx_call *call, const sx_value *value, sx_value *result) {
  sx_nearest nearest = sx_nearest_begin(value->text);
  sx_place place = call->evaluator->context.place;
  for (int i = 0; i < N_COUNTERS; i++) {
    sx_nearest_add(&nearest, counters[i].name);
    if (strcmp(counters[i].name, value->text) != 0) continue;
    if (!counters[i].in[place])
      return sx_value_fail(call, value, SX_E_EVAL_PLACE, "there is no :%s in %s", value->text, place_names[place]);
    const char *name = sx_format(call->evaluator->arena, "counter/%s", value->text);
    return sx_add_node(call, &(sx_spec){.op = SX_OP_INPUT, .dtype = SX_I32, .text = name}, result);
  }
  sx_value_fail(call, value, SX_E_EVAL_VALUE,
                "unknown counter :%s; there are :step :microbatch :records :stage-records "
                ":stage, and :trip in a generator",
                value->text);
  return false;
}

static bool input(sx_call *call, sx_value *result) {
  const sx_value *name = &call->args[0];
  return name->kind == SX_KIND_KEYWORD ? add_counter(call, name, result)
                                       : sx_expected(call, name, "a counter, as (input :step)");
}

/* ---- draws ---- */

/* One salt: a counter, a number or an i32 scalar. */
static bool add_salt(const sx_call *call, const sx_value *value, sx_id *id) {
  sx_value counter;
  if (value->kind == SX_KIND_KEYWORD) {
    if (!add_counter(call, value, &counter)) return false;
    *id = counter.n;
    return true;
  }
  if (value->kind == SX_KIND_INTEGER) return sx_get_operand(call, value, SX_I32, id);
  if (value->kind != SX_KIND_TENSOR)
    return sx_expected(call, value, "a salt: a counter as :step, an i32 scalar, or a list of them");
  return sx_get_tensor(call, value, id);
}

static bool add_salts(const sx_call *call, const sx_value *value, sx_id **ids, uint32_t *n) {
  bool many = value->kind == SX_KIND_LIST;
  *n = many ? value->n : value->kind == SX_KIND_NONE ? 0 : 1;
  if (!sx_spend(call->evaluator, *n)) return false;
  *ids = SX_NEW_N(call->evaluator->arena, sx_id, *n);
  for (uint32_t i = 0; i < *n; i++)
    if (!add_salt(call, many ? &value->items[i] : value, &(*ids)[i])) return false;
  return true;
}

/* The node itself: draw `draw` of the graph, or of a stream. */
static bool add_draw(const sx_call *call, sx_value *result) {
  int64_t dims[SX_RANK_MAX], draw = 0;
  sx_id *salts;
  sx_graph *graph = sx_call_graph(call);
  sx_spec spec = {.op = (sx_op)call->builtin->op, .dtype = SX_F32, .dims = dims, .ints = &draw, .n_ints = 1};
  if (!graph || !sx_get_shape(call, &call->args[0], dims, &spec.rank)) return false;
  if (!add_salts(call, &call->keys[2], &salts, &spec.n_inputs)) return false;
  spec.inputs = salts;
  const sx_value *stream = &call->keys[3];
  if (stream->kind != SX_KIND_NONE && !sx_get_text(call, stream, ":stream", &spec.text)) return false;
  if (!spec.text) draw = graph->n_draws++;
  return sx_add_node(call, &spec, result);
}

/* x times factor unless it is 1, plus term unless it is 0; both rounded to f32. */
static bool add_scaling(const sx_call *call, double factor, double term, sx_value *result) {
  sx_value operands[2] = {*result, sx_real(factor)};
  if (factor != 1 && !sx_add_element(call, SX_OP_MUL, operands, 2, result)) return false;
  operands[0] = *result;
  operands[1] = sx_real(term);
  return term == 0 || sx_add_element(call, SX_OP_ADD, operands, 2, result);
}

static bool get_key_number(const sx_call *call, uint32_t key, const char *what, double *number) {
  return call->keys[key].kind == SX_KIND_NONE || sx_get_number(call, &call->keys[key], what, number);
}

static bool uniform(sx_call *call, sx_value *result) {
  double low = 0, high = 1;
  if (!get_key_number(call, 0, ":low", &low) || !get_key_number(call, 1, ":high", &high)) return false;
  return add_draw(call, result) && add_scaling(call, high - low, low, result);
}

static bool normal(sx_call *call, sx_value *result) {
  double mean = 0, std = 1;
  if (!get_key_number(call, 0, ":mean", &mean) || !get_key_number(call, 1, ":std", &std)) return false;
  return add_draw(call, result) && add_scaling(call, std, mean, result);
}

const sx_builtin sx_builtins_random[] = {
    {"input", 1, 1, input, "(input counter)", 0, NULL},
    {"uniform", 1, 1, uniform, "(uniform shape :low 0 :high 1 :salt s :stream name)", SX_OP_UNIFORM, NULL},
    {"normal", 1, 1, normal, "(normal shape :mean 0 :std 1 :salt s :stream name)", SX_OP_NORMAL, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
