/* What the parts of recomputation share: recompute.c decides, recompute_clone.c makes the graph. */
#ifndef SX_PASS_RECOMPUTE_PARTS_H
#define SX_PASS_RECOMPUTE_PARTS_H

#include "plan_parts.h"
#include "recompute.h"

/* Nodes that a group computes again, in the order of the graph, RESHAPEs between them too. */
typedef struct sx_chain {
  sx_id nodes[SX_GROUP_NODES];
  uint32_t n;
} sx_chain;

static inline bool sx_chain_has(const sx_chain *chain, sx_id id) {
  for (uint32_t i = 0; i < chain->n; i++)
    if (chain->nodes[i] == id) return true;
  return false;
}

/* The graph in which each task with a chain reads copies of what the chain has, and nothing is left that is not needed.
 * task_of: per node, 1 + its element task, or 0. chains: per task. */
sx_recomputed sx_recompute_clone(const sx_plan *plan, const uint32_t *task_of, const sx_chain *chains, sx_arena *arena);

#endif
