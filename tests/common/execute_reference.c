#include "execute_reference.h"

#include <stdatomic.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/cpu/kernel.h"

static sx_operand operand_of(sx_arena *arena, const sx_node *node, void *data) {
  int64_t *strides = SX_NEW_N(arena, int64_t, node->rank + 1), stride = 1;
  for (int i = node->rank; i-- > 0;) {
    strides[i] = stride;
    stride *= node->dims[i];
  }
  return (sx_operand){data, node->dtype, node->rank, node->dims, strides};
}

static void execute(const sx_graph *graph, sx_arena *arena, const sx_node *node, void **values, void *out) {
  sx_fault fault;
  atomic_init(&fault.at, INT64_MAX);
  sx_operand *inputs = SX_NEW_N(arena, sx_operand, node->n_inputs + 1);
  for (uint32_t i = 0; i < node->n_inputs; i++)
    inputs[i] = operand_of(arena, sx_node_at(graph, node->inputs[i]), values[node->inputs[i]]);
  sx_call call = {.node = node,
                  .out = operand_of(arena, node, out),
                  .inputs = inputs,
                  .n_inputs = node->n_inputs,
                  .stream_key = 1 + (uint64_t)node->n_ints,
                  .fault = &fault,
                  .scratch = SX_NEW_N(arena, float, sx_node_elements(node) + 1)};
  sx_reference[node->op](&call);
}

void **execute_reference(const sx_graph *graph, sx_arena *arena, fill_leaf *fill, void *context) {
  void **values = SX_NEW_N(arena, void *, graph->nodes.n + 1);
  for (size_t i = 0; i < graph->nodes.n; i++) {
    const sx_node *node = &graph->nodes.items[i];
    int64_t n = sx_node_elements(node);
    values[i] = sx_arena_take(arena, (size_t)n + 1, sx_dtype_bytes(node->dtype));
    if (node->op == SX_OP_INPUT || node->op == SX_OP_PARAM || node->op == SX_OP_STATE)
      fill(context, node, values[i], n);
    else
      execute(graph, arena, node, values, values[i]);
  }
  return values;
}

static uint32_t canonical(sx_dtype dtype, const void *values, int64_t i) {
  uint16_t half;
  float x;
  memcpy(&half, (const char *)values + 2 * i, dtype == SX_BF16 || dtype == SX_F16 ? 2 : 0);
  switch (dtype) {
    case SX_F32:
      memcpy(&x, (const char *)values + 4 * i, 4);
      return sx_bits_f32(sx_canonical_f32(x));
    case SX_BF16:
      return sx_bits_f32(sx_canonical_f32(sx_f32_from_bf16(half)));
    case SX_F16:
      return sx_bits_f32(sx_canonical_f32(sx_f32_from_f16(half)));
    case SX_I32:
      return (uint32_t)((const int32_t *)values)[i];
    default:
      return ((const uint8_t *)values)[i];
  }
}

bool same_bits(sx_dtype dtype, const void *a, const void *b, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (canonical(dtype, a, i) != canonical(dtype, b, i)) return false;
  return true;
}
