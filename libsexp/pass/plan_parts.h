/* What the parts of planning share while a plan is made: view.c, fuse.c, schedule.c, memory.c in this order,
 * called by plan.c. */
#ifndef SX_PASS_PLAN_PARTS_H
#define SX_PASS_PLAN_PARTS_H

#include "plan.h"

/* How a node comes to its value. */
typedef enum sx_role {
  SX_ROLE_LEAF,    /* from outside, or known */
  SX_ROLE_VIEW,    /* a view of its root */
  SX_ROLE_COPY,    /* its input, materialized */
  SX_ROLE_ELEMENT, /* in a group */
  SX_ROLE_NODE     /* a task of its own */
} sx_role;

/* Lists of buffers, one list a task: items[starts[t]] to items[starts[t + 1] - 1]. */
typedef struct sx_lists {
  uint32_t *starts;
  SX_VEC(uint32_t) items;
} sx_lists;

typedef struct sx_planning {
  sx_plan *plan;
  const sx_graph *graph;
  const sx_plan_options *options;
  sx_arena *arena;
  uint8_t *roles;   /* per node: sx_role */
  sx_id *roots;     /* per node: the node whose buffer its view is of; itself unless a VIEW */
  uint32_t *groups; /* per ELEMENT node: a node that stands for its group */
  bool *stored;     /* per ELEMENT node: used outside its group */
  sx_lists reads;   /* per task, in the order of creation: buffers with a writer, each once */
  sx_lists writes;
  uint32_t *order; /* tasks in execution order, as numbers of creation */
} sx_planning;

enum { SX_GROUP_NODES = 64 }; /* at most this many nodes in a group */

/* Fills roles, roots and plan->views; a view's buffer is filled by plan.c. */
void sx_plan_views(sx_planning *planning);
/* Fills groups and stored. */
void sx_plan_fuse(sx_planning *planning);
/* Fills order. */
void sx_plan_schedule(sx_planning *planning);
/* Fills first, last and offset of the temporaries, and the plan's sums. */
void sx_plan_memory(sx_planning *planning);

static inline int64_t sx_aligned(int64_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

#endif
