/* Tensors as such: what they are, constants, selection, casts, gradients. */
#include <string.h>

#include "machine.h"
#include "tensor.h"

/* ---- questions ---- */

static bool shape_of(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (sx_is_number(a)) {
    *result = sx_list(NULL, 0);
    return true;
  }
  if (a->kind != SX_KIND_TENSOR) return sx_expected(call, a, "a tensor");
  const sx_node *node = sx_value_node(a);
  if (!sx_spend(call->evaluator, (uint64_t)node->rank)) return false;
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, node->rank);
  for (int i = 0; i < node->rank; i++) items[i] = sx_integer(node->dims[i]);
  *result = sx_list(items, (uint32_t)node->rank);
  return true;
}

static bool dim(sx_call *call, sx_value *result) {
  if (call->args[0].kind != SX_KIND_TENSOR) return sx_expected(call, &call->args[0], "a tensor");
  const sx_node *node = sx_value_node(&call->args[0]);
  int axis;
  if (!sx_get_axis(call, &call->args[1], node->rank, &axis)) return false;
  *result = sx_integer(node->dims[axis]);
  return true;
}

static bool rank(sx_call *call, sx_value *result) {
  const sx_value *a = &call->args[0];
  if (a->kind != SX_KIND_TENSOR && !sx_is_number(a)) return sx_expected(call, a, "a tensor");
  *result = sx_integer(a->kind == SX_KIND_TENSOR ? sx_value_node(a)->rank : 0);
  return true;
}

static bool dtype_of(sx_call *call, sx_value *result) {
  if (call->args[0].kind != SX_KIND_TENSOR) return sx_expected(call, &call->args[0], "a tensor");
  *result = (sx_value){SX_KIND_DTYPE, 0, {.dtype = sx_value_node(&call->args[0])->dtype}};
  return true;
}

/* ---- constants ---- */

static bool add_constant(const sx_call *call, const sx_value *shape, const sx_value *value, const sx_value *dtype_key,
                         sx_value *result) {
  int64_t dims[SX_RANK_MAX];
  double element;
  sx_spec spec = {.op = SX_OP_CONST, .dtype = value->kind == SX_KIND_BOOLEAN ? SX_BOOL : SX_F32, .dims = dims};
  if (!sx_get_shape(call, shape, dims, &spec.rank)) return false;
  if (dtype_key->kind != SX_KIND_NONE && !sx_get_dtype(call, dtype_key, &spec.dtype)) return false;
  if (!sx_get_element(call, value, spec.dtype, &element)) return false;
  spec.real = sx_dtype_round(spec.dtype, element);
  return sx_add_node(call, &spec, result);
}

/* (full shape value): the value is a number, or a scalar tensor that is broadcast. */
static bool full(sx_call *call, sx_value *result) {
  const sx_value *value = &call->args[1], *dtype_key = &call->keys[0];
  if (value->kind != SX_KIND_TENSOR) return add_constant(call, &call->args[0], value, dtype_key, result);
  int64_t dims[SX_RANK_MAX];
  sx_id id;
  sx_spec spec = {.op = SX_OP_BROADCAST, .dims = dims, .inputs = &id, .n_inputs = 1};
  if (!sx_get_tensor(call, value, &id) || !sx_get_shape(call, &call->args[0], dims, &spec.rank)) return false;
  sx_dtype dtype = sx_value_node(value)->dtype;
  if (dtype_key->kind != SX_KIND_NONE && !sx_get_dtype(call, dtype_key, &dtype)) return false;
  id = sx_cast(sx_call_graph(call), id, dtype);
  return sx_add_node(call, &spec, result);
}

/* zeros and ones; as bool false and true. */
static bool filled(sx_call *call, sx_value *result) {
  const sx_value *dtype = &call->keys[0];
  bool is_bool = dtype->kind == SX_KIND_DTYPE && dtype->dtype == SX_BOOL;
  sx_value value = is_bool ? sx_boolean(call->builtin->op) : sx_integer(call->builtin->op);
  return add_constant(call, &call->args[0], &value, dtype, result);
}

static bool iota(sx_call *call, sx_value *result) {
  int64_t dims[SX_RANK_MAX], ints[1];
  int axis = 0;
  sx_spec spec = {.op = SX_OP_IOTA, .dtype = SX_I32, .dims = dims, .ints = ints, .n_ints = 1};
  if (!sx_get_shape(call, &call->args[0], dims, &spec.rank)) return false;
  bool given = call->keys[0].kind != SX_KIND_NONE;
  if (!given && !spec.rank)
    return sx_value_fail(call, &call->args[0], SX_E_SHAPE_AXIS, "a scalar has no axis to count");
  if (given && !sx_get_axis(call, &call->keys[0], spec.rank, &axis)) return false;
  ints[0] = axis;
  return sx_add_node(call, &spec, result);
}

/* ---- selection, casts ---- */

/* Where c is a tensor, numbers for both of a and b are f32; a compile-time c chooses one of two compile-time values,
 * and is a constant where one of them is a tensor. */
static bool where(sx_call *call, sx_value *result) {
  const sx_value *c = &call->args[0], *a = &call->args[1], *b = &call->args[2];
  sx_graph *graph;
  sx_dtype dtype = a->kind == SX_KIND_BOOLEAN && b->kind == SX_KIND_BOOLEAN ? SX_BOOL : SX_F32;
  if (c->kind != SX_KIND_TENSOR && c->kind != SX_KIND_BOOLEAN)
    return sx_expected(call, c, "true, false or a tensor of bool");
  if (c->kind == SX_KIND_BOOLEAN && a->kind != SX_KIND_TENSOR && b->kind != SX_KIND_TENSOR) {
    *result = c->boolean ? *a : *b;
    return true;
  }
  if (b->kind == SX_KIND_TENSOR) dtype = sx_value_node(b)->dtype;
  if (a->kind == SX_KIND_TENSOR) dtype = sx_value_node(a)->dtype;
  if (!(graph = sx_call_graph(call))) return false;
  sx_id ids[3], id;
  size_t before = graph->nodes.n;
  if (!sx_get_operand(call, c, SX_BOOL, &ids[0]) || !sx_get_operand(call, a, dtype, &ids[1]) ||
      !sx_get_operand(call, b, dtype, &ids[2]))
    return false;
  sx_problem why;
  if (!sx_try_element(graph, SX_OP_WHERE, ids, 3, &id, &why)) return sx_report_problem(call, &why, ids, 3);
  *result = sx_tensor(graph, id);
  return sx_count_nodes(call, before);
}

bool sx_logic_join(sx_evaluator *evaluator, sx_op op, const sx_value *a, const sx_value *b, const sx_datum *at,
                   sx_value *result) {
  static const sx_builtin names[] = {{.name = "and", .usage = "(and a b ...)"},
                                     {.name = "or", .usage = "(or a b ...)"}};
  sx_value operands[2] = {*a, *b};
  if (a->kind != SX_KIND_TENSOR) { /* neither false for `and` nor true for `or`: the other one decides */
    *result = *b;
    return true;
  }
  sx_call call = {.evaluator = evaluator, .builtin = &names[op == SX_OP_OR], .at = at, .args = operands, .n = 2};
  return sx_add_element(&call, op, operands, 2, result);
}

static bool cast(sx_call *call, sx_value *result) {
  sx_dtype dtype;
  sx_id id;
  const sx_value *x = &call->args[0];
  if (!sx_get_dtype(call, &call->args[1], &dtype)) return false;
  if (x->kind == SX_KIND_BOOLEAN || sx_is_number(x)) {
    double number = x->kind == SX_KIND_BOOLEAN ? x->boolean : sx_number(x);
    return sx_add_node(call, &(sx_spec){.op = SX_OP_CONST, .dtype = dtype, .real = sx_dtype_round(dtype, number)},
                       result);
  }
  if (!sx_get_tensor(call, x, &id)) return false;
  sx_graph *graph = sx_call_graph(call);
  size_t before = graph->nodes.n;
  *result = sx_tensor(graph, sx_cast(graph, id, dtype));
  return sx_count_nodes(call, before);
}

/* ---- gradients ---- */

static bool stop_gradient(sx_call *call, sx_value *result) {
  sx_id id;
  if (sx_is_number(&call->args[0])) {
    *result = call->args[0];
    return true;
  }
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  return sx_add_node(call, &(sx_spec){.op = SX_OP_STOP, .inputs = &id, .n_inputs = 1}, result);
}

static bool add_gradient(const sx_call *call, sx_id y, const sx_value *x, sx_value *result) {
  sx_id ids[2] = {y, 0};
  if (!sx_get_tensor(call, x, &ids[1])) return false;
  return sx_add_node(call, &(sx_spec){.op = SX_OP_GRAD, .inputs = ids, .n_inputs = 2}, result);
}

/* (grad y x), (grad y [x ...]) */
static bool grad(sx_call *call, sx_value *result) {
  const sx_value *x = &call->args[1];
  sx_id y;
  if (!sx_get_tensor(call, &call->args[0], &y)) return false;
  if (x->kind != SX_KIND_LIST) return add_gradient(call, y, x, result);
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, x->n);
  for (uint32_t i = 0; i < x->n; i++)
    if (!add_gradient(call, y, &x->items[i], &items[i])) return false;
  *result = sx_list(items, x->n);
  return true;
}

const sx_builtin sx_builtins_tensor[] = {
    {"shape-of", 1, 1, shape_of, "(shape-of x)", 0, NULL},
    {"dim", 2, 2, dim, "(dim x axis)", 0, NULL},
    {"rank", 1, 1, rank, "(rank x)", 0, NULL},
    {"dtype-of", 1, 1, dtype_of, "(dtype-of x)", 0, NULL},
    {"full", 2, 2, full, "(full shape value :dtype f32)", 0, NULL},
    {"zeros", 1, 1, filled, "(zeros shape :dtype f32)", 0, NULL},
    {"ones", 1, 1, filled, "(ones shape :dtype f32)", 1, NULL},
    {"iota", 1, 1, iota, "(iota shape :axis 0)", 0, NULL},
    {"where", 3, 3, where, "(where condition a b)", 0, NULL},
    {"cast", 2, 2, cast, "(cast x dtype)", 0, NULL},
    {"stop-gradient", 1, 1, stop_gradient, "(stop-gradient x)", 0, NULL},
    {"grad", 2, 2, grad, "(grad y x)", 0, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
