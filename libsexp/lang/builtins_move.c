/* Operations that move elements. */
#include <inttypes.h>
#include <string.h>

#include "tensor.h"

/* Replaces one -1 by what the number of elements leaves. */
static bool infer_size(const sx_call *call, const sx_node *node, int64_t *dims, int rank) {
  int unknown = -1;
  int64_t known = 1, n = sx_node_elements(node);
  for (int i = 0; i < rank; i++) {
    if (dims[i] == -1 && unknown >= 0)
      return sx_value_fail(call, &call->args[1], SX_E_SHAPE_ELEMENTS, "only one size may be -1");
    if (dims[i] == -1)
      unknown = i;
    else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known))
      return sx_value_fail(call, &call->args[1], SX_E_SHAPE_SIZE, "a size of %" PRId64 " is not possible", dims[i]);
  }
  if (unknown < 0) return true;
  if (known == 0 || n % known != 0)
    return sx_call_fail(call, SX_E_SHAPE_ELEMENTS,
                        "%" PRId64 " elements cannot be cut into parts of %" PRId64 " for the size -1", n, known);
  dims[unknown] = n / known;
  return true;
}

static bool reshape(sx_call *call, sx_value *result) {
  int64_t dims[SX_RANK_MAX];
  sx_id id;
  sx_spec spec = {.op = SX_OP_RESHAPE, .dims = dims, .inputs = &id, .n_inputs = 1};
  if (!sx_get_tensor(call, &call->args[0], &id) || !sx_get_shape(call, &call->args[1], dims, &spec.rank)) return false;
  return infer_size(call, sx_value_node(&call->args[0]), dims, spec.rank) && sx_add_node(call, &spec, result);
}

/* Without perm the axes are reversed. */
static bool transpose(sx_call *call, sx_value *result) {
  int64_t perm[SX_RANK_MAX];
  int n;
  sx_id id;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  int rank = n = sx_value_node(&call->args[0])->rank;
  if (call->n == 1)
    for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
  else if (!sx_get_shape(call, &call->args[1], perm, &n))
    return false;
  for (int i = 0; i < n; i++)
    if (perm[i] < 0) perm[i] += rank;
  return sx_add_node(
      call, &(sx_spec){.op = SX_OP_TRANSPOSE, .inputs = &id, .n_inputs = 1, .ints = perm, .n_ints = (uint32_t)n},
      result);
}

static bool broadcast_to(sx_call *call, sx_value *result) {
  int64_t dims[SX_RANK_MAX];
  sx_id id;
  sx_spec spec = {.op = SX_OP_BROADCAST, .dims = dims, .inputs = &id, .n_inputs = 1};
  return sx_get_operand(call, &call->args[0], SX_F32, &id) && sx_get_shape(call, &call->args[1], dims, &spec.rank) &&
         sx_add_node(call, &spec, result);
}

/* An end of a slice, from the end of the axis when negative. */
static bool get_bound(const sx_call *call, const sx_value *value, const char *what, int64_t size, int64_t *bound) {
  if (!sx_get_integer(call, value, what, bound)) return false;
  int64_t given = *bound;
  if (given < 0) *bound += size;
  if (*bound >= 0 && *bound <= size) return true;
  return sx_value_fail(call, value, SX_E_SHAPE_RANGE, "%s %" PRId64 " lies outside an axis of %" PRId64, what, given,
                       size);
}

static bool slice(sx_call *call, sx_value *result) {
  int64_t start, end, step = 1, ints[3 * SX_RANK_MAX];
  int axis;
  sx_id id;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  const sx_node *node = sx_value_node(&call->args[0]);
  if (!sx_get_axis(call, &call->args[1], node->rank, &axis)) return false;
  if (!get_bound(call, &call->args[2], "the start", node->dims[axis], &start)) return false;
  if (!get_bound(call, &call->args[3], "the end", node->dims[axis], &end)) return false;
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_range(call, &call->keys[0], ":step", 1, INT64_MAX, &step))
    return false;
  for (int i = 0; i < node->rank; i++) {
    ints[3 * i] = i == axis ? start : 0;
    ints[3 * i + 1] = i == axis ? (end < start ? start : end) : node->dims[i];
    ints[3 * i + 2] = i == axis ? step : 1;
  }
  return sx_add_node(
      call,
      &(sx_spec){.op = SX_OP_SLICE, .inputs = &id, .n_inputs = 1, .ints = ints, .n_ints = 3 * (uint32_t)node->rank},
      result);
}

static bool pad(sx_call *call, sx_value *result) {
  int64_t counts[2][SX_RANK_MAX], ints[3 * SX_RANK_MAX] = {0};
  double value = 0;
  sx_id id;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  const sx_node *node = sx_value_node(&call->args[0]);
  for (uint32_t side = 0; side < 2; side++) {
    int n;
    if (!sx_get_shape(call, &call->args[side + 1], counts[side], &n)) return false;
    if (n != node->rank)
      return sx_value_fail(call, &call->args[side + 1], SX_E_SHAPE_RANK, "%d counts for a tensor of rank %d", n,
                           node->rank);
    for (int i = 0; i < n; i++) ints[(size_t)3 * (size_t)i + side] = counts[side][i];
  }
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_element(call, &call->keys[0], node->dtype, &value)) return false;
  return sx_add_node(call,
                     &(sx_spec){.op = SX_OP_PAD,
                                .inputs = &id,
                                .n_inputs = 1,
                                .ints = ints,
                                .n_ints = 3 * (uint32_t)node->rank,
                                .real = sx_dtype_round(node->dtype, value)},
                     result);
}

/* The tensors of a list, which is not empty. */
static bool get_tensors(const sx_call *call, sx_id **ids, uint32_t *n) {
  const sx_value *list = &call->args[0];
  if (!sx_get_list(call, list, NULL)) return false;
  if (!list->n) return sx_value_fail(call, list, SX_E_EVAL_INDEX, "the list is empty");
  *n = list->n;
  if (!sx_spend(call->evaluator, list->n)) return false;
  *ids = SX_NEW_N(call->evaluator->arena, sx_id, list->n);
  for (uint32_t i = 0; i < list->n; i++)
    if (!sx_get_tensor(call, &list->items[i], &(*ids)[i])) return false;
  return true;
}

static bool concat(sx_call *call, sx_value *result) {
  sx_id *ids;
  uint32_t n;
  int axis = 0;
  if (!get_tensors(call, &ids, &n)) return false;
  int rank = sx_value_node(&call->args[0].items[0])->rank;
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_axis(call, &call->keys[0], rank, &axis)) return false;
  int64_t ints[1] = {axis};
  return sx_add_node(call, &(sx_spec){.op = SX_OP_CONCAT, .inputs = ids, .n_inputs = n, .ints = ints, .n_ints = 1},
                     result);
}

/* Each gets a new axis of 1, along which they are put together. */
static bool stack(sx_call *call, sx_value *result) {
  sx_id *ids;
  uint32_t n;
  int axis = 0;
  if (!get_tensors(call, &ids, &n)) return false;
  sx_graph *graph = call->evaluator->context.graph;
  size_t before = graph->nodes.n;
  const sx_node *first = sx_node_at(graph, ids[0]);
  int rank = first->rank + 1;
  if (rank > SX_RANK_MAX) return sx_call_fail(call, SX_E_SHAPE_RANK, "at most %d axes are possible", (int)SX_RANK_MAX);
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_axis(call, &call->keys[0], rank, &axis)) return false;
  int64_t dims[SX_RANK_MAX], ints[1] = {axis};
  for (int i = 0; i < rank; i++) dims[i] = i == axis ? 1 : first->dims[i - (i > axis)];
  for (uint32_t i = 0; i < n; i++) {
    sx_problem why = {.code = SX_E_SHAPE_DIFFER};
    if (!sx_shape_equal(first, sx_node_at(graph, ids[i]))) {
      sx_text text;
      sx_text_init(&text, call->evaluator->arena);
      sx_text_add(&text, "shapes differ, ");
      sx_text_add_shape(&text, first->dims, first->rank);
      sx_text_add(&text, " and ");
      sx_text_add_shape(&text, sx_node_at(graph, ids[i])->dims, sx_node_at(graph, ids[i])->rank);
      strncpy(why.message, sx_text_get(&text), sizeof why.message - 1);
      return sx_report_problem(call, &why, ids, n);
    }
    ids[i] = sx_reshape(graph, ids[i], rank, dims);
  }
  return sx_count_nodes(call, before) &&
         sx_add_node(call, &(sx_spec){.op = SX_OP_CONCAT, .inputs = ids, .n_inputs = n, .ints = ints, .n_ints = 1},
                     result);
}

/* Of a list its items, of a tensor an axis backwards. */
static bool reverse(sx_call *call, sx_value *result) {
  const sx_value *x = &call->args[0];
  int axis = 0;
  sx_id id;
  if (x->kind == SX_KIND_LIST) {
    if (!sx_spend(call->evaluator, x->n)) return false;
    sx_value *items = SX_NEW_N(call->evaluator->arena, sx_value, x->n);
    for (uint32_t i = 0; i < x->n; i++) items[i] = x->items[x->n - 1 - i];
    *result = sx_list(items, x->n);
    return true;
  }
  if (!sx_get_tensor(call, x, &id)) return false;
  if (call->keys[0].kind != SX_KIND_NONE && !sx_get_axis(call, &call->keys[0], sx_value_node(x)->rank, &axis))
    return false;
  int64_t ints[1] = {axis};
  return sx_add_node(call, &(sx_spec){.op = SX_OP_REVERSE, .inputs = &id, .n_inputs = 1, .ints = ints, .n_ints = 1},
                     result);
}

static bool unfold(sx_call *call, sx_value *result) {
  sx_id id;
  int axis;
  int64_t size, step = 1;
  if (!sx_get_tensor(call, &call->args[0], &id)) return false;
  int rank = sx_value_node(&call->args[0])->rank;
  for (int i = 0; i < 2; i++)
    if (call->keys[i].kind == SX_KIND_NONE)
      return sx_call_fail(call, SX_E_EVAL_KEYWORD, "%s is missing, the form is %s", i ? ":size" : ":axis",
                          call->builtin->usage);
  if (!sx_get_axis(call, &call->keys[0], rank, &axis) || !sx_get_integer(call, &call->keys[1], ":size", &size))
    return false;
  if (call->keys[2].kind != SX_KIND_NONE && !sx_get_integer(call, &call->keys[2], ":step", &step)) return false;
  int64_t ints[3] = {axis, size, step};
  return sx_add_node(call, &(sx_spec){.op = SX_OP_UNFOLD, .inputs = &id, .n_inputs = 1, .ints = ints, .n_ints = 3},
                     result);
}

const sx_builtin sx_builtins_move[] = {
    {"reshape", 2, 2, reshape, "(reshape x shape)", 0, NULL},
    {"transpose", 1, 2, transpose, "(transpose x perm)", 0, NULL},
    {"broadcast-to", 2, 2, broadcast_to, "(broadcast-to x shape)", 0, NULL},
    {"slice", 4, 4, slice, "(slice x axis start end :step 1)", 0, NULL},
    {"pad", 3, 3, pad, "(pad x lows highs :value 0)", 0, NULL},
    {"concat", 1, 1, concat, "(concat list :axis 0)", 0, NULL},
    {"stack", 1, 1, stack, "(stack list :axis 0)", 0, NULL},
    {"reverse", 1, 1, reverse, "(reverse x :axis 0)", 0, NULL},
    {"unfold", 1, 1, unfold, "(unfold x :axis a :size k :step 1)", 0, NULL},
    {NULL, 0, 0, NULL, NULL, 0, NULL},
};
