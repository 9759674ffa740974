/* Which family of kernels computes a task. */
#include "emit.h"

#include "emit_parts.h"

static sx_emit_node *const nodes[SX_N_OPS] = {
    [SX_OP_RESHAPE] = sx_emit_reshape,   [SX_OP_PAD] = sx_emit_pad,      [SX_OP_CONCAT] = sx_emit_concat,
    [SX_OP_FOLD] = sx_emit_fold,         [SX_OP_SUM] = sx_emit_sum,      [SX_OP_REDUCEMAX] = sx_emit_extreme,
    [SX_OP_REDUCEMIN] = sx_emit_extreme, [SX_OP_ANY] = sx_emit_any_all,  [SX_OP_ALL] = sx_emit_any_all,
    [SX_OP_ARGMAX] = sx_emit_arg,        [SX_OP_ARGMIN] = sx_emit_arg,   [SX_OP_GATHER] = sx_emit_gather,
    [SX_OP_SCATTER] = sx_emit_scatter,   [SX_OP_TAKE] = sx_emit_take,    [SX_OP_PUT] = sx_emit_put,
    [SX_OP_ONEHOT] = sx_emit_one_hot,    [SX_OP_CUMSUM] = sx_emit_scan,  [SX_OP_SCANLINEAR] = sx_emit_scan,
    [SX_OP_ARGSORT] = sx_emit_argsort,   [SX_OP_UNIFORM] = sx_emit_draw, [SX_OP_NORMAL] = sx_emit_draw,
};

static void emit_copy_task(sx_lowering *l, uint32_t task) {
  const sx_task *one = &l->plan->tasks.items[task];
  const sx_node *node = sx_node_at(l->plan->graph, one->nodes[1]);
  int64_t strides[SX_RANK_MAX];
  sx_row_major(strides, node->dims, node->rank);
  sx_emit_copy(l, task, one->nodes[0], one->nodes[1], (sx_place){one->target, 0}, strides);
}

bool sx_emit_task(sx_lowering *lowering, uint32_t task) {
  const sx_task *one = &lowering->plan->tasks.items[task];
  if (one->kind == SX_TASK_ELEMENT) {
    sx_emit_group(lowering, task);
    return true;
  }
  if (one->kind == SX_TASK_COPY) {
    emit_copy_task(lowering, task);
    return true;
  }
  sx_emit_node *emit = nodes[sx_node_at(lowering->plan->graph, one->nodes[0])->op];
  if (!emit) return false;
  emit(lowering, task, one->nodes[0]);
  return true;
}
