/* What the parts of planning share while a plan is made: view.c, attention.c, fuse.c, join.c, schedule.c, memory.c in
 * this order, called by plan.c; layout.c serves view.c, attention_skip.c attention.c, wait.c fuse.c, rows.c serves
 * attention.c, fuse.c and plan.c. */
#ifndef SX_PASS_PLAN_PARTS_H
#define SX_PASS_PLAN_PARTS_H

#include "plan.h"

/* How a node comes to its value. */
typedef enum sx_role {
  SX_ROLE_LEAF,     /* from outside, or known */
  SX_ROLE_VIEW,     /* a view of its root */
  SX_ROLE_COPY,     /* its input, materialized */
  SX_ROLE_ELEMENT,  /* in a group */
  SX_ROLE_ROWS,     /* a reduction that may be in a group: while groups are made, then ELEMENT or NODE */
  SX_ROLE_NODE,     /* a task of its own */
  SX_ROLE_JOINED,   /* a concatenation all of whose pieces are written in its buffer: no task */
  SX_ROLE_ATTENTION /* in a region; stored where it is one of its results */
} sx_role;

/* Nodes that become one ATTENTION task. */
typedef struct sx_region {
  sx_task task;
  sx_id first;         /* of its results; the roots of what it reads are leaves or come before */
  const sx_id *inputs; /* what it reads */
  uint32_t n_inputs;
  uint32_t level; /* while groups are made */
} sx_region;

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
  int64_t *rows;    /* per node that stands for a group: elements of its rows; 0: it has none */
  bool *stored;     /* per ELEMENT or ATTENTION node: used outside its group or region */
  sx_id *joins;     /* per node: the CONCAT in whose buffer it is computed; SX_NO_NODE: in its own */
  SX_VEC(sx_region) regions;
  uint32_t *region_of; /* per result of a region: its number; else UINT32_MAX */
  sx_lists reads;      /* per task, in the order of creation: buffers with a writer, each once */
  sx_lists writes;
  uint32_t *order; /* tasks in execution order, as numbers of creation */
} sx_planning;

enum { SX_GROUP_NODES = 64 }; /* at most this many nodes in a group */
/* Elements of a row that a group may reduce: fewer do not fill the registers, more do not stay in the cache. And
 * rows, which is what threads share. */
enum { SX_ROW_LEAST = 48, SX_ROW_MOST = 1 << 15, SX_ROWS_FEWEST = 8 };

/* Per node: the TRANSPOSE as whose value a product's result is laid out; SX_NO_NODE: row-major. */
void sx_plan_layouts(const sx_graph *graph, sx_id *layouts, sx_arena *arena);
/* Fills roles, roots and plan->views; a view's buffer is filled by plan.c. */
void sx_plan_views(sx_planning *planning);
/* The view `in` of `from`, as its RESHAPE to `node` is one; false: it is none. */
bool sx_view_reshape(const sx_node *node, const sx_node *from, const sx_view *in, sx_view *out);
/* What the input of a RESHAPE or TRANSPOSE must be for it to have the view; false: no view says that. */
bool sx_view_of_input(const sx_graph *graph, sx_id id, const sx_view *view, sx_view *input);
/* Whether the node is all of the buffer that it is seen in, in order. */
bool sx_view_is_whole(const sx_plan *plan, sx_id id);
/* Fills regions, region_of and the role ATTENTION, where the options ask for it. */
void sx_plan_attention(sx_planning *planning);
/* Fills left of the results of regions, whose views are final: sx_plan_join comes before. */
void sx_plan_attention_results(sx_planning *planning);
/* Fills attention->skip, and stores what that names. */
void sx_plan_attention_skip(const sx_planning *planning, struct sx_attention *attention);
/* Fills groups, rows and stored, and turns the role ROWS into ELEMENT or NODE. */
void sx_plan_fuse(sx_planning *planning);
/* Fills joins, turns the role NODE into JOINED, and changes the views of pieces, where the options ask for it. */
void sx_plan_join(sx_planning *planning);
/* Puts the nodes of a group with rows in the order in which they are evaluated. A group all of whose nodes turn out
 * to be of one size, without reductions, has no rows. */
void sx_plan_rows(const sx_graph *graph, sx_task *task, sx_arena *arena);
/* Per node of the task, whose nodes come after what they read of it: in which walk over the row it is evaluated. */
void sx_row_phases(const sx_graph *graph, const sx_task *task, uint32_t *phases);
/* Whether the element operation can be evaluated in registers, on f32 and bools. */
bool sx_chain_can(const sx_graph *graph, sx_id id);
/* Whether the node is a BROADCAST that repeats each element in turn: [R 1] or [R] reshaped so, to [R L]. */
bool sx_is_stretch(const sx_graph *graph, sx_id id);
/* Elements that each result of the reduction takes, where it is one that a group may have; else 0. */
int64_t sx_reduced_row(const sx_graph *graph, sx_id id);
/* Rows that the node adds, where it is a sum of columns of f32 that a group may make of what it computes; else 0. */
int64_t sx_summed_rows(const sx_graph *graph, sx_id id);
/* Fills order. */
void sx_plan_schedule(sx_planning *planning);
/* Fills first, last and offset of the temporaries, and the plan's sums. */
void sx_plan_memory(sx_planning *planning);

/* The node whose elements these are, in the same places. */
static inline sx_id sx_unshaped(const sx_graph *graph, sx_id id) {
  while (sx_node_at(graph, id)->op == SX_OP_RESHAPE) id = sx_node_at(graph, id)->inputs[0];
  return id;
}

static inline int64_t sx_value_bytes(const sx_graph *graph, sx_id id) {
  const sx_node *node = sx_node_at(graph, id);
  return sx_node_elements(node) * (int64_t)sx_dtype_bytes(node->dtype);
}

static inline int64_t sx_aligned(int64_t n_bytes) { return (n_bytes + 63) / 64 * 64; }

#endif
