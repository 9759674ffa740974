#include "interpret.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../libsexp/cpu/canonical.h"
#include "../../libsexp/cpu/kernel.h"
#include "../../libsexp/ir/draw_key.h"
#include "random_graph.h"

void leaf_fill(const char *name, uint64_t seed, sx_dtype dtype, int64_t n, void *data) {
  random_source random = {seed};
  for (; *name; name++) random.state = random.state * 31 + (unsigned char)*name;
  random_fill(&random, dtype, n, data);
}

/* Ends the process: this is no test of cmocka's alone. */
static void require(bool holds) {
  if (holds) return;
  fputs("interpret: no memory, or a graph that cannot be computed\n", stderr);
  abort();
}

static void fill_leaf(const sx_node *node, uint64_t seed, void *data) {
  const char *prefix = node->op == SX_OP_PARAM ? "param/" : node->op == SX_OP_STATE ? "state/" : "";
  char name[256];
  snprintf(name, sizeof name, "%s%s", prefix, node->text);
  leaf_fill(name, seed, node->dtype, sx_node_elements(node), data);
}

static sx_operand contiguous(const sx_node *node, void *data, int64_t strides[SX_RANK_MAX]) {
  int64_t stride = 1;
  for (int axis = node->rank - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= node->dims[axis];
  }
  return (sx_operand){data, node->dtype, node->rank, node->dims, strides};
}

static void compute(const sx_graph *graph, sx_id id, int64_t draw_seed, void **values) {
  const sx_node *node = sx_node_at(graph, id);
  sx_fault fault = {INT64_MAX, 0, 0};
  int64_t strides[SX_RANK_MAX];
  int64_t(*input_strides)[SX_RANK_MAX] = calloc(node->n_inputs + 1, sizeof *input_strides);
  sx_operand *inputs = calloc(node->n_inputs + 1, sizeof *inputs);
  for (uint32_t i = 0; i < node->n_inputs; i++)
    inputs[i] = contiguous(sx_node_at(graph, node->inputs[i]), values[node->inputs[i]], input_strides[i]);
  sx_call call = {.node = node, .inputs = inputs, .n_inputs = node->n_inputs, .fault = &fault};
  call.out = contiguous(node, values[id], strides);
  size_t scratch = (size_t)sx_kernel_scratch(sx_kernels(SX_SIMD_REFERENCE), graph, id, 1);
  call.scratch = aligned_alloc(64, scratch + 64 - scratch % 64);
  if (sx_op_describe(node->op)->class == SX_CLASS_RANDOM) require(sx_draw_key(graph, id, draw_seed, &call.stream_key));
  sx_reference[node->op](&call);
  require(fault.at == INT64_MAX);
  free(call.scratch);
  free(inputs);
  free(input_strides);
}

void **interpret(const sx_graph *graph, int64_t draw_seed, uint64_t seed) {
  void **values = calloc(graph->nodes.n + 1, sizeof *values);
  require(values != NULL);
  for (sx_id id = 0; id < graph->nodes.n; id++) {
    const sx_node *node = sx_node_at(graph, id);
    int64_t n = sx_node_elements(node);
    values[id] = calloc((size_t)n + 1, sx_dtype_bytes(node->dtype));
    require(values[id] != NULL);
    if (node->op == SX_OP_INPUT || node->op == SX_OP_PARAM || node->op == SX_OP_STATE)
      fill_leaf(node, seed, values[id]);
    else
      compute(graph, id, draw_seed, values);
  }
  for (sx_id id = 0; id < graph->nodes.n; id++)
    sx_canonical_nans(values[id], sx_node_at(graph, id)->dtype, sx_node_elements(sx_node_at(graph, id)));
  return values;
}

void interpret_free(const sx_graph *graph, void **values) {
  for (sx_id id = 0; id < graph->nodes.n; id++) free(values[id]);
  free(values);
}
