/* A plan: a READY graph laid out for execution. Tasks in order, a view of a buffer for every value, and
 * an offset in one block of memory for every temporary buffer, so that a step allocates nothing.
 *
 * Movement without computation costs nothing where a view can say it: TRANSPOSE, BROADCAST, SLICE, REVERSE,
 * UNFOLD, and a RESHAPE that strides allow, are views of their input's buffer. A CONST is a buffer of one
 * element seen with strides 0, an IOTA one of 0, 1, 2, ... seen with stride 1 along its axis. */
#ifndef SX_PASS_PLAN_H
#define SX_PASS_PLAN_H

#include "../ir/ir.h"

typedef enum sx_buffer_kind {
  SX_BUFFER_TEMPORARY, /* in the plan's block, at `offset` */
  SX_BUFFER_EXTERNAL,  /* INPUT, PARAM, STATE: bound by name by who executes */
  SX_BUFFER_OUTPUT,    /* written for outside: bound by name as well */
  SX_BUFFER_CONST,     /* one element of `value` */
  SX_BUFFER_IOTA       /* 0, 1, 2, ... as i32; one for all of a graph */
} sx_buffer_kind;

typedef struct sx_buffer {
  sx_buffer_kind kind;
  sx_dtype dtype;
  int64_t n_bytes;
  int64_t offset;       /* TEMPORARY: bytes, a multiple of 64 */
  uint32_t first, last; /* TEMPORARY: tasks that write first and read last */
  uint32_t whole;       /* the task that writes last: several do where pieces are joined (join.c) */
  const char *name;     /* EXTERNAL: "field/x" "param/w"; OUTPUT: the output's name */
  double value;         /* CONST */
  sx_id node;           /* that it holds: names it in reports */
} sx_buffer;

typedef struct sx_view {
  uint32_t buffer;
  int64_t offset;               /* elements */
  int64_t strides[SX_RANK_MAX]; /* elements, one an axis of the node; 0 broadcasts, negative reverses */
} sx_view;

typedef enum sx_task_kind {
  SX_TASK_ELEMENT,   /* a group of ELEMENT nodes of one number of elements, evaluated tile by tile; one may read
                        another through RESHAPE, which leaves elements in their places. With rows: reductions of rows
                        too, and nodes of one element a row (rows.c) */
  SX_TASK_NODE,      /* one node of another class */
  SX_TASK_ATTENTION, /* products and the rows between them, by tiles of rows (attention.h); nodes of the first ones may
                        be evaluated in several such tasks, and only results of the last products are stored */
  SX_TASK_COPY       /* nodes[1], as its view sees it, in row-major order into `target`, as value of nodes[0]:
                        a RESHAPE that is no view, or (nodes[0] = nodes[1]) an output that is a view or a leaf */
} sx_task_kind;

typedef struct sx_task {
  sx_task_kind kind;
  sx_id *nodes; /* ELEMENT, ATTENTION: in the order of evaluation; those in `stored` are written to their buffers */
  uint32_t n_nodes;
  bool *stored;    /* per node; else NULL */
  int64_t row;     /* ELEMENT: elements that a reduction of the group takes, or for which an element of another node
                      is repeated; 0: all nodes have one number of elements */
  uint32_t target; /* COPY: the buffer written */
  const struct sx_attention *attention; /* ATTENTION */
} sx_task;

typedef struct sx_plan {
  const sx_graph *graph;
  SX_VEC(sx_task) tasks;
  SX_VEC(sx_buffer) buffers;
  sx_view *views; /* per node; buffer UINT32_MAX: never materialized (inside a group) */
  bool joins;     /* some nodes are written in the buffer of a CONCAT: its task, if any, copies the others */
  bool columns;   /* who executes need not store what only a sum of columns reads (cpu/columns.c) */
  int64_t block_bytes; /* of the temporaries */
  int64_t sum_bytes;   /* of all temporaries, without reuse */
  int64_t bound_bytes; /* largest total alive at one task: a lower bound of block_bytes */
} sx_plan;

/* Whether to make ATTENTION tasks, which not every executor has. */
typedef enum sx_attention_use {
  SX_ATTENTION_NEVER,
  SX_ATTENTION_FASTER, /* where that is faster or saves much memory */
  SX_ATTENTION_ALWAYS  /* where it is possible */
} sx_attention_use;

typedef struct sx_plan_options {
  bool fuse;  /* groups of several nodes; false: one node a task */
  bool reuse; /* buffers share memory; false: every value stays until the end of the graph */
  /* Per node of the graph: an ELEMENT node that is evaluated in the group that reads it, whatever that reads instead
   * (recompute.h); NULL: none. */
  const bool *again;
  /* Products may be laid out as their transpositions (layout.c): who executes writes them by their views. */
  bool layout;
  /* Pieces of concatenations may be written where they are joined (join.c): who executes writes groups and products by
   * their views. */
  bool join;
  bool wait;    /* groups may wait for the group that reads them (wait.c) */
  bool columns; /* what only a sum of columns reads may be left unstored: see the plan */
  bool tiles; /* who executes walks tiles of rows, once a phase: what a phase leaves for another goes through the cache,
                 which recomputation weighs */
  sx_attention_use attention; /* only with `fuse` */
} sx_plan_options;

/* Plans a READY graph. Everything is in the arena. Never fails but for memory. */
sx_plan *sx_plan_make(const sx_graph *graph, const sx_plan_options *options, sx_arena *arena);
/* Per buffer of the plan: whether an OUTPUT may be bound to the memory of the EXTERNAL buffer of its name, if there is
 * one. None may where something in the graph can stop it. */
bool *sx_plan_in_place(const sx_plan *plan, sx_arena *arena);
/* Whether a view walks its elements one after the other, as a fresh row-major value of the node would. */
bool sx_view_is_contiguous(const sx_view *view, const sx_node *node);
/* Elements that the view has one after the other, of the last axes together. */
int64_t sx_view_run(const sx_view *view, const sx_node *node);
/* Text of a plan, for --plan and tests. */
void sx_plan_print(sx_text *text, const sx_plan *plan);

#endif
