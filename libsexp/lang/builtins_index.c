/* Operations by index: gather, scatter, sort. ids are i32. */
#include "tensor.h"

/* :axis, the last one by default. */
static bool get_last_axis(const sx_call *call, const sx_value *value, const sx_node *node, int *axis) {
  sx_value last = sx_integer(-1);
  return sx_get_axis(call, value->kind == SX_KIND_NONE ? &last : value, node->rank, axis);
}

static bool gather(sx_call *call, sx_value *result) {
  sx_id ids[2];
  if (!sx_get_tensor(call, &call->args[0], &ids[0]) || !sx_get_operand(call, &call->args[1], SX_I32, &ids[1]))
    return false;
  return sx_add_node(call, &(sx_spec){.op = SX_OP_GATHER, .inputs = ids, .n_inputs = 2}, result);
}

static bool add_take(const sx_call *call, sx_id x, sx_id ids, int axis, sx_value *result) {
  int64_t ints[1] = {axis};
  sx_spec spec = {.op = SX_OP_TAKE, .inputs = (sx_id[]){x, ids}, .n_inputs = 2, .ints = ints, .n_ints = 1};
  return sx_add_node(call, &spec, result);
}

static bool take_along(sx_call *call, sx_value *result) {
  sx_id ids[2];
  int axis;
  if (!sx_get_tensor(call, &call->args[0], &ids[0]) || !sx_get_tensor(call, &call->args[1], &ids[1])) return false;
  if (!get_last_axis(call, &call->keys[0], sx_value_node(&call->args[0]), &axis)) return false;
  return add_take(call, ids[0], ids[1], axis, result);
}

static bool scatter_add(sx_call *call, sx_value *result) {
  sx_id ids[2];
  int64_t n;
  if (!sx_get_tensor(call, &call->args[0], &ids[0]) || !sx_get_tensor(call, &call->args[1], &ids[1])) return false;
  if (!sx_get_range(call, &call->args[2], "the number of targets", 0, INT32_MAX, &n)) return false;
  sx_spec spec = {.op = SX_OP_SCATTER,
                  .dtype = sx_value_node(&call->args[1])->dtype,
                  .inputs = ids,
                  .n_inputs = 2,
                  .ints = &n,
                  .n_ints = 1};
  return sx_add_node(call, &spec, result);
}

static bool one_hot(sx_call *call, sx_value *result) {
  sx_id id;
  int64_t n;
  sx_spec spec = {.op = SX_OP_ONEHOT, .dtype = SX_F32, .inputs = &id, .n_inputs = 1, .ints = &n, .n_ints = 1};
  if (!sx_get_operand(call, &call->args[0], SX_I32, &id)) return false;
  if (!sx_get_range(call, &call->args[1], "the number of classes", 0, INT32_MAX, &n)) return false;
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_dtype(call, &call->keys[0], &spec.dtype)) return false;
  return sx_add_node(call, &spec, result);
}

/* ---- order ---- */

static bool add_order(const sx_call *call, sx_id x, int axis, bool descending, sx_value *result) {
  int64_t ints[2] = {axis, descending};
  sx_spec spec = {.op = SX_OP_ARGSORT, .inputs = &x, .n_inputs = 1, .ints = ints, .n_ints = 2};
  return sx_add_node(call, &spec, result);
}

/* sort and argsort; op: whether the values are wanted. */
static bool sort(sx_call *call, sx_value *result) {
  sx_id id;
  int axis;
  bool descending = false;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  if (!get_last_axis(call, &call->keys[0], sx_value_node(&call->args[0]), &axis)) return false;
  if (call->keys[1].kind != SX_KIND_NONE && !sx_get_boolean(call, &call->keys[1], ":descending", &descending))
    return false;
  if (!add_order(call, id, axis, descending, result)) return false;
  return !call->builtin->op || add_take(call, id, result->n, axis, result);
}

/* The k largest of the last axis, largest first: [values ids]. */
static bool top_k(sx_call *call, sx_value *result) {
  sx_id id;
  int axis;
  int64_t k;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  const sx_node *node = sx_value_node(&call->args[0]);
  sx_value none = {0};
  if (!get_last_axis(call, &none, node, &axis)) return false;
  if (!sx_get_range(call, &call->args[1], "k", 0, node->dims[axis], &k)) return false;
  sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, 2);
  if (!add_order(call, id, axis, true, &items[1])) return false;
  sx_graph *graph = call->evaluator->context.graph;
  size_t before = graph->nodes.n;
  items[1] = sx_tensor(graph, sx_slice_axis(graph, items[1].n, axis, 0, k, 1));
  *result = sx_list(items, 2);
  return sx_count_nodes(call, before) && add_take(call, id, items[1].n, axis, &items[0]);
}

const sx_builtin sx_builtins_index[] = {
    {"gather", 2, 2, gather, "(gather table ids)", 0, NULL},
    {"take-along", 2, 2, take_along, "(take-along x ids :axis -1)", 0, NULL},
    {"scatter-add", 3, 3, scatter_add, "(scatter-add ids values n)", 0, NULL},
    {"one-hot", 2, 2, one_hot, "(one-hot ids n :dtype f32)", 0, NULL},
    {"sort", 1, 1, sort, "(sort x :axis -1 :descending false)", 1, NULL},
    {"argsort", 1, 1, sort, "(argsort x :axis -1 :descending false)", 0, NULL},
    {"top-k", 2, 2, top_k, "(top-k x k)", 0, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
