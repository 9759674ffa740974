/* Values of a plan: which are in memory and who reads them, and how much more each task could hold before the plan's
 * peak is reached; both follow what is decided otherwise. */
#ifndef SX_PASS_LIVES_H
#define SX_PASS_LIVES_H

#include "plan.h"

typedef struct sx_value {
  bool stored;          /* in a buffer of the block, or an output */
  uint32_t readers;     /* tasks that read it, and one more for each output */
  uint32_t first, last; /* tasks: from which on it takes memory, and the last that reads it */
  uint32_t before;      /* the last one that reads it before that; first: there is none */
  sx_id heir;           /* what its last reader writes in its place; SX_NO_NODE: nothing */
} sx_value;

typedef struct sx_lives {
  const sx_plan *plan;
  sx_value *values;  /* per node that is no view: of what its buffer has or would have */
  uint32_t *task_of; /* per node: 1 + its element task; 0: it is in none */
  uint32_t n_leaves; /* of the tree */
  int64_t *least;    /* per node of a tree over the tasks: the least room below it */
  int64_t *given;    /* what all tasks below it have been given */
} sx_lives;

sx_lives *sx_lives_make(const sx_plan *plan, sx_arena *arena);
/* The node whose buffer the value is seen in. */
sx_id sx_lives_root(const sx_plan *plan, sx_id id);
/* Gives tasks from to to, none if from > to, so many bytes more; negative: takes. Whether none has less than 0. */
bool sx_lives_give(sx_lives *lives, uint32_t from, uint32_t to, int64_t n_bytes);

static inline bool sx_is_elementwise(const sx_graph *graph, sx_id id) {
  return sx_op_describe(sx_node_at(graph, id)->op)->class == SX_CLASS_ELEMENT;
}

#endif
