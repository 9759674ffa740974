/* Builders of single nodes and of NumPy's broadcasting. Products are in build_product.c. */
#include "build.h"

#include <string.h>

#include "../base/bug.h"
#include "infer.h"

sx_id sx_unary(sx_graph *graph, sx_op op, sx_id a) {
  return sx_graph_add(graph, &(sx_spec){.op = op, .inputs = &a, .n_inputs = 1});
}

sx_id sx_binary(sx_graph *graph, sx_op op, sx_id a, sx_id b) {
  return sx_graph_add(graph, &(sx_spec){.op = op, .inputs = (sx_id[]){a, b}, .n_inputs = 2});
}

sx_id sx_where(sx_graph *graph, sx_id condition, sx_id a, sx_id b) {
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_WHERE, .inputs = (sx_id[]){condition, a, b}, .n_inputs = 3});
}

sx_id sx_cast(sx_graph *graph, sx_id a, sx_dtype dtype) {
  if (sx_node_at(graph, a)->dtype == dtype) return a;
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_CAST, .dtype = dtype, .inputs = &a, .n_inputs = 1});
}

sx_id sx_const(sx_graph *graph, sx_dtype dtype, int rank, const int64_t *dims, double value) {
  return sx_graph_add(
      graph,
      &(sx_spec){.op = SX_OP_CONST, .dtype = dtype, .rank = rank, .dims = dims, .real = sx_dtype_round(dtype, value)});
}

sx_id sx_const_like(sx_graph *graph, sx_id a, double value) {
  const sx_node *node = sx_node_at(graph, a);
  return sx_const(graph, node->dtype, node->rank, node->dims, value);
}

static bool has_shape(const sx_node *node, int rank, const int64_t *dims) {
  return node->rank == rank && (rank == 0 || memcmp(node->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

/* A constant is made anew in the other shape: what moves elements of one value gives that value. */
static sx_id move(sx_graph *graph, sx_op op, sx_id a, int rank, const int64_t *dims) {
  const sx_node *node = sx_node_at(graph, a);
  if (has_shape(node, rank, dims)) return a;
  sx_spec spec = {.op = op, .inputs = &a, .n_inputs = 1, .rank = rank, .dims = dims};
  sx_inference inference;
  sx_problem why;
  if (node->op == SX_OP_CONST && sx_infer(&inference, graph, &spec, &why))
    return sx_const(graph, node->dtype, rank, dims, node->real);
  return sx_graph_add(graph, &spec);
}

sx_id sx_reshape(sx_graph *graph, sx_id a, int rank, const int64_t *dims) {
  return move(graph, SX_OP_RESHAPE, a, rank, dims);
}

sx_id sx_broadcast(sx_graph *graph, sx_id a, int rank, const int64_t *dims) {
  return move(graph, SX_OP_BROADCAST, a, rank, dims);
}

sx_id sx_transpose(sx_graph *graph, sx_id a, const int64_t *perm) {
  int rank = sx_node_at(graph, a)->rank;
  bool same = true;
  for (int i = 0; i < rank; i++) same = same && perm[i] == i;
  if (same) return a;
  return sx_graph_add(
      graph, &(sx_spec){.op = SX_OP_TRANSPOSE, .inputs = &a, .n_inputs = 1, .ints = perm, .n_ints = (uint32_t)rank});
}

sx_id sx_reduce(sx_graph *graph, sx_op op, sx_id a, const int64_t *axes, int n_axes, bool keep) {
  const sx_node *node = sx_node_at(graph, a);
  int64_t sorted[SX_RANK_MAX], kept[SX_RANK_MAX];
  bool reduced[SX_RANK_MAX] = {false};
  uint32_t n = 0;
  for (int i = 0; i < n_axes; i++) {
    SX_ASSERT(axes[i] >= 0 && axes[i] < node->rank && !reduced[axes[i]]);
    reduced[axes[i]] = true;
  }
  for (int i = 0; i < node->rank; i++) {
    if (reduced[i]) sorted[n++] = i;
    kept[i] = reduced[i] ? 1 : node->dims[i];
  }
  int rank = node->rank;
  sx_id result = sx_graph_add(graph, &(sx_spec){.op = op, .inputs = &a, .n_inputs = 1, .ints = sorted, .n_ints = n});
  return keep ? sx_reshape(graph, result, rank, kept) : result;
}

sx_id sx_sum_to(sx_graph *graph, sx_id a, int rank, const int64_t *dims) {
  const sx_node *node = sx_node_at(graph, a);
  int64_t axes[SX_RANK_MAX];
  int n_axes = 0, added = node->rank - rank;
  SX_ASSERT(added >= 0);
  for (int i = 0; i < node->rank; i++) {
    bool spread = i < added || (dims[i - added] == 1 && node->dims[i] != 1);
    SX_ASSERT(spread || dims[i - added] == node->dims[i]);
    if (spread) axes[n_axes++] = i;
  }
  if (n_axes > 0) a = sx_reduce(graph, SX_OP_SUM, a, axes, n_axes, false);
  return sx_reshape(graph, a, rank, dims);
}

sx_id sx_slice_axis(sx_graph *graph, sx_id a, int axis, int64_t start, int64_t end, int64_t step) {
  const sx_node *node = sx_node_at(graph, a);
  int64_t ints[3 * SX_RANK_MAX];
  for (int i = 0; i < node->rank; i++) {
    ints[3 * i] = i == axis ? start : 0;
    ints[3 * i + 1] = i == axis ? end : node->dims[i];
    ints[3 * i + 2] = i == axis ? step : 1;
  }
  return sx_graph_add(
      graph,
      &(sx_spec){.op = SX_OP_SLICE, .inputs = &a, .n_inputs = 1, .ints = ints, .n_ints = 3 * (uint32_t)node->rank});
}

sx_id sx_pad_axis(sx_graph *graph, sx_id a, int axis, int64_t low, int64_t high, double value) {
  const sx_node *node = sx_node_at(graph, a);
  int64_t ints[3 * SX_RANK_MAX] = {0};
  ints[3 * axis] = low;
  ints[3 * axis + 1] = high;
  return sx_graph_add(graph, &(sx_spec){.op = SX_OP_PAD,
                                        .inputs = &a,
                                        .n_inputs = 1,
                                        .ints = ints,
                                        .n_ints = 3 * (uint32_t)node->rank,
                                        .real = sx_dtype_round(node->dtype, value)});
}

/* Widens the shape so that the node broadcasts to it. */
static bool join_shape(int *rank, int64_t dims[SX_RANK_MAX], const sx_node *node) {
  if (node->rank > *rank) {
    int added = node->rank - *rank;
    memmove(dims + added, dims, (size_t)*rank * sizeof *dims);
    memcpy(dims, node->dims, (size_t)added * sizeof *dims);
    *rank = node->rank;
  }
  for (int i = 1; i <= node->rank; i++) {
    int64_t *size = &dims[*rank - i], other = node->dims[node->rank - i];
    if (*size == 1) *size = other;
    if (other != *size && other != 1) return false;
  }
  return true;
}

bool sx_try_element(sx_graph *graph, sx_op op, const sx_id *inputs, uint32_t n_inputs, sx_id *id, sx_problem *why) {
  sx_id same[3];
  int rank = 0;
  int64_t dims[SX_RANK_MAX] = {0};
  if (n_inputs > 3) return sx_problem_set(why, SX_E_TYPE_OPERANDS, "takes at most 3 operands, got %u", n_inputs);
  for (uint32_t i = 0; i < n_inputs; i++) {
    const sx_node *node = sx_node_at(graph, inputs[i]);
    int64_t before[SX_RANK_MAX];
    int before_rank = rank;
    memcpy(before, dims, sizeof before);
    if (!join_shape(&rank, dims, node))
      return sx_problem_set(why, SX_E_SHAPE_BROADCAST, "shapes %s and %s do not broadcast together",
                            sx_shape_text_of_dims(before, before_rank).text, sx_shape_text_of(node).text);
  }
  int64_t n;
  if (!sx_shape_elements(dims, rank, &n))
    return sx_problem_set(why, SX_E_SHAPE_SIZE, "a result of shape %s is not possible",
                          sx_shape_text_of_dims(dims, rank).text);
  for (uint32_t i = 0; i < n_inputs; i++) same[i] = sx_broadcast(graph, inputs[i], rank, dims);
  return sx_graph_try(graph, &(sx_spec){.op = op, .inputs = same, .n_inputs = n_inputs}, id, why);
}
