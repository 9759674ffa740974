/* Reductions, products and scans. */
#include <string.h>

#include "tensor.h"

/* ---- reductions ---- */

/* Axes of :axis, one or a list, all when it is not given; each at most once. */
static bool get_axes(const sx_call *call, const sx_value *value, int rank, bool reduced[SX_RANK_MAX]) {
  bool all = value->kind == SX_KIND_NONE, many = value->kind == SX_KIND_LIST;
  for (int i = 0; i < SX_RANK_MAX; i++) reduced[i] = all && i < rank;
  if (all) return true;
  uint32_t n = many ? value->n : 1;
  for (uint32_t i = 0; i < n; i++) {
    int axis;
    if (!sx_get_axis(call, many ? &value->items[i] : value, rank, &axis)) return false;
    if (reduced[axis]) return sx_value_fail(call, value, SX_E_SHAPE_AXIS, "the axis %d stands twice", axis);
    reduced[axis] = true;
  }
  return true;
}

static bool get_keep(const sx_call *call, const sx_value *value, bool *keep) {
  *keep = false;
  return value->kind == SX_KIND_NONE || sx_get_boolean(call, value, ":keep", keep);
}

/* The node of a reduction; with `keep` its axes stay with size 1. */
static bool add_reduction(const sx_call *call, sx_id x, const bool reduced[SX_RANK_MAX], bool keep, sx_value *result) {
  const sx_node *node = sx_node_at(call->evaluator->context.graph, x);
  int64_t axes[SX_RANK_MAX], kept[SX_RANK_MAX];
  uint32_t n = 0;
  for (int i = 0; i < node->rank; i++) {
    if (reduced[i]) axes[n++] = i;
    kept[i] = reduced[i] ? 1 : node->dims[i];
  }
  sx_spec spec = {.op = (sx_op)call->builtin->op, .inputs = &x, .n_inputs = 1, .ints = axes, .n_ints = n};
  if (!sx_add_node(call, &spec, result)) return false;
  if (keep) result->n = sx_reshape(call->evaluator->context.graph, result->n, node->rank, kept);
  return true;
}

static sx_value numbers_sum(const sx_value *a, const sx_value *b, bool *over) {
  int64_t sum = 0;
  if (a->kind == SX_KIND_REAL || b->kind == SX_KIND_REAL) return sx_real(sx_number(a) + sx_number(b));
  *over = *over || __builtin_add_overflow(a->integer, b->integer, &sum);
  return sx_integer(sum);
}

static sx_value numbers_extreme(sx_op op, const sx_value *a, const sx_value *b) {
  int order = sx_number_compare(a, b);
  if (order == 2) return a->kind == SX_KIND_REAL && a->real != a->real ? *a : *b;
  return (op == SX_OP_REDUCEMAX ? order >= 0 : order <= 0) ? *a : *b;
}

/* A list of compile-time numbers: their sum, largest or smallest, from the left. */
static bool reduce_numbers(const sx_call *call, sx_value *result) {
  sx_op op = (sx_op)call->builtin->op;
  const sx_value *list = &call->args[0];
  bool over = false;
  if (op != SX_OP_SUM && !list->n) return sx_value_fail(call, list, SX_E_EVAL_INDEX, "the list is empty");
  if (!sx_spend(call->evaluator, list->n)) return false;
  *result = sx_integer(0);
  for (uint32_t i = 0; i < list->n; i++) {
    const sx_value *item = &list->items[i];
    if (!sx_is_number(item)) return sx_expected(call, item, "a number in the list");
    *result = op == SX_OP_SUM ? numbers_sum(result, item, &over) : i ? numbers_extreme(op, result, item) : *item;
  }
  return over ? sx_call_fail(call, SX_E_EVAL_OVERFLOW, "the sum does not fit a 64-bit integer") : true;
}

static bool reduce(sx_call *call, sx_value *result) {
  const sx_value *x = &call->args[0];
  bool keep, reduced[SX_RANK_MAX], numbers = call->builtin->op != SX_OP_ANY && call->builtin->op != SX_OP_ALL;
  sx_id id;
  if (x->kind == SX_KIND_LIST && numbers) return reduce_numbers(call, result);
  if (sx_is_number(x) && numbers) {
    *result = *x;
    return true;
  }
  if (!sx_get_tensor(call, x, &id)) return false;
  int rank = sx_value_node(x)->rank;
  return get_keep(call, &call->keys[1], &keep) && get_axes(call, &call->keys[0], rank, reduced) &&
         add_reduction(call, id, reduced, keep, result);
}

/* Along one axis; without :axis over all elements in row-major order. */
static bool arg_extreme(sx_call *call, sx_value *result) {
  bool keep, reduced[SX_RANK_MAX] = {false};
  int axis = 0;
  sx_id id;
  if (!sx_get_tensor(call, &call->args[0], &id) || !get_keep(call, &call->keys[1], &keep)) return false;
  const sx_node *node = sx_value_node(&call->args[0]);
  int64_t n = sx_node_elements(node);
  if (call->keys[0].kind == SX_KIND_NONE)
    id = sx_reshape(call->evaluator->context.graph, id, 1, &n);
  else if (!sx_get_axis(call, &call->keys[0], node->rank, &axis))
    return false;
  reduced[axis] = true;
  return add_reduction(call, id, reduced, keep, result);
}

/* ---- products ---- */

/* :dtype, by default that of the first operand. */
static bool get_product_dtype(const sx_call *call, sx_id first, sx_dtype *dtype) {
  *dtype = sx_node_at(call->evaluator->context.graph, first)->dtype;
  return call->keys[0].kind == SX_KIND_NONE || sx_get_dtype(call, &call->keys[0], dtype);
}

static bool end_product(const sx_call *call, bool made, size_t before, sx_id id, const sx_problem *why,
                        const sx_id *inputs, uint32_t n, sx_value *result) {
  if (!made) return sx_report_problem(call, why, inputs, n);
  *result = sx_tensor(call->evaluator->context.graph, id);
  return sx_count_nodes(call, before);
}

static bool matmul(sx_call *call, sx_value *result) {
  sx_id ids[2], id = 0;
  sx_dtype dtype;
  sx_problem why;
  if (!sx_get_tensor(call, &call->args[0], &ids[0]) || !sx_get_tensor(call, &call->args[1], &ids[1])) return false;
  if (!get_product_dtype(call, ids[0], &dtype)) return false;
  sx_graph *graph = sx_call_graph(call);
  size_t before = graph->nodes.n;
  bool made = sx_try_matmul(graph, ids[0], ids[1], dtype, &id, &why);
  return end_product(call, made, before, id, &why, ids, 2, result);
}

static bool einsum(sx_call *call, sx_value *result) {
  const char *equation;
  sx_dtype dtype;
  sx_problem why;
  sx_id id = 0;
  if (!sx_get_text(call, &call->args[0], "the equation", &equation)) return false;
  uint32_t n = call->n - 1;
  sx_id *ids = SX_NEW_N(call->evaluator->arena, sx_id, n);
  for (uint32_t i = 0; i < n; i++)
    if (!sx_get_tensor(call, &call->args[i + 1], &ids[i])) return false;
  if (!get_product_dtype(call, ids[0], &dtype)) return false;
  sx_graph *graph = sx_call_graph(call);
  size_t before = graph->nodes.n;
  bool made = sx_try_einsum(graph, equation, ids, n, dtype, &id, &why);
  return end_product(call, made, before, id, &why, ids, n, result);
}

static bool conv2d(sx_call *call, sx_value *result) {
  sx_id ids[2];
  int64_t ints[2] = {1, 0};
  if (!sx_get_tensor(call, &call->args[0], &ids[0]) || !sx_get_tensor(call, &call->args[1], &ids[1])) return false;
  for (int i = 0; i < 2; i++)
    if (call->keys[i].kind != SX_KIND_NONE &&
        !sx_get_range(call, &call->keys[i], i ? ":padding" : ":stride", 1 - i, INT32_MAX, &ints[i]))
      return false;
  return sx_add_node(call, &(sx_spec){.op = SX_OP_CONV, .inputs = ids, .n_inputs = 2, .ints = ints, .n_ints = 2},
                     result);
}

/* ---- scans ---- */

static bool same_dims(const int64_t *a, const int64_t *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i] != b[i]) return false;
  return true;
}

/* Segments of the axes up to the scanned one, [b t] for x [b t d], or of that axis alone, spread over the others. */
static bool get_segments(const sx_call *call, const sx_value *value, const sx_node *x, int axis, sx_id *id) {
  if (!sx_get_tensor(call, value, id)) return false;
  const sx_node *node = sx_value_node(value);
  sx_graph *graph = call->evaluator->context.graph;
  bool up_to = node->rank == axis + 1 && same_dims(node->dims, x->dims, node->rank);
  bool alone = node->rank == 1 && node->dims[0] == x->dims[axis];
  if (node->rank == x->rank || (!up_to && !alone)) return true; /* the operation checks the shape */
  int64_t dims[SX_RANK_MAX];
  for (int i = 0; i < x->rank; i++) dims[i] = i == axis || (up_to && i < axis) ? x->dims[i] : 1;
  *id = sx_broadcast(graph, sx_reshape(graph, *id, x->rank, dims), x->rank, x->dims);
  return true;
}

/* cumsum of one operand, linear-scan of two, along :axis, the last by default. */
static bool scan(sx_call *call, sx_value *result) {
  sx_id ids[3];
  int axis = 0;
  for (uint32_t i = 0; i < call->n; i++)
    if (!sx_get_tensor(call, &call->args[i], &ids[i])) return false;
  const sx_node *x = sx_value_node(&call->args[0]);
  sx_value last = sx_integer(-1);
  if (!sx_get_axis(call, call->keys[0].kind == SX_KIND_NONE ? &last : &call->keys[0], x->rank, &axis)) return false;
  uint32_t n = call->n;
  if (call->keys[1].kind != SX_KIND_NONE && !get_segments(call, &call->keys[1], x, axis, &ids[n++])) return false;
  int64_t ints[2] = {axis, 0};
  sx_spec spec = {.op = (sx_op)call->builtin->op, .inputs = ids, .n_inputs = n, .ints = ints, .n_ints = 2};
  return sx_add_node(call, &spec, result);
}

const sx_builtin sx_builtins_reduce[] = {
    {"sum", 1, 1, reduce, "(sum x :axis a :keep false)", SX_OP_SUM, NULL},
    {"reduce-max", 1, 1, reduce, "(reduce-max x :axis a :keep false)", SX_OP_REDUCEMAX, NULL},
    {"reduce-min", 1, 1, reduce, "(reduce-min x :axis a :keep false)", SX_OP_REDUCEMIN, NULL},
    {"any", 1, 1, reduce, "(any x :axis a :keep false)", SX_OP_ANY, NULL},
    {"all", 1, 1, reduce, "(all x :axis a :keep false)", SX_OP_ALL, NULL},
    {"argmax", 1, 1, arg_extreme, "(argmax x :axis a :keep false)", SX_OP_ARGMAX, NULL},
    {"argmin", 1, 1, arg_extreme, "(argmin x :axis a :keep false)", SX_OP_ARGMIN, NULL},
    {"matmul", 2, 2, matmul, "(matmul a b :dtype f32)", 0, NULL},
    {"einsum", 2, -1, einsum, "(einsum equation a b ... :dtype f32)", 0, NULL},
    {"conv2d", 2, 2, conv2d, "(conv2d x w :stride 1 :padding 0)", 0, NULL},
    {"cumsum", 1, 1, scan, "(cumsum x :axis -1 :segments ids)", SX_OP_CUMSUM, NULL},
    {"linear-scan", 2, 2, scan, "(linear-scan a b :axis -1 :segments ids)", SX_OP_SCANLINEAR, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
