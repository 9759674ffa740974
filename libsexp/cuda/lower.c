#include "lower.h"

#include "convolve.h"
#include "emit.h"
#include "product.h"

static bool lower_task(sx_lowering *lowering, uint32_t task) {
  const sx_task *at = &lowering->plan->tasks.items[task];
  sx_op op = sx_node_at(lowering->plan->graph, at->nodes[0])->op;
  if (at->kind != SX_TASK_NODE || sx_op_describe(op)->class != SX_CLASS_CONTRACT) return sx_emit_task(lowering, task);
  return op == SX_OP_EINSUM ? sx_lower_product(lowering, task) : sx_lower_convolution(lowering, task);
}

bool sx_lower(sx_lowering *lowering) {
  for (uint32_t task = 0; task < lowering->plan->tasks.n; task++)
    if (!lower_task(lowering, task)) return false;
  if (lowering->patterns) sx_emit_merge(lowering);
  return true;
}
