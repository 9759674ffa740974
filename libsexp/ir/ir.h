/* The one intermediate representation: a graph of typed, statically shaped nodes in topological order.
 *
 * A node's inputs have smaller ids than the node. Graphs only grow; a pass builds a new graph or appends.
 * Every node keeps the span of the expression it came from and its model path (scopes). Everything is
 * owned by the graph's arena. Shapes are row-major, [rows columns]; a scalar has rank 0. */
#ifndef SX_IR_IR_H
#define SX_IR_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/diag.h"
#include "../base/intern.h"
#include "../base/text.h"

enum { SX_RANK_MAX = 8 };

typedef enum sx_dtype { SX_F32, SX_BF16, SX_F16, SX_I32, SX_U8, SX_BOOL, SX_N_DTYPES } sx_dtype;

const char *sx_dtype_name(sx_dtype dtype);              /* "f32" */
bool sx_dtype_parse(const char *name, sx_dtype *dtype); /* false: no such dtype */
size_t sx_dtype_bytes(sx_dtype dtype);
bool sx_dtype_is_float(sx_dtype dtype);
/* The value as an element of the dtype holds it: floats to nearest even, i32 and u8 truncated and
 * saturated (0 for NaN), bool whether it is not 0. NaN is the one NaN. */
double sx_dtype_round(sx_dtype dtype, double value);

typedef enum sx_op {
#define SX_OP(id, name, n_inputs, class, dtype, shape, gradient, attributes, text) SX_OP_##id,
#include "ops.def"
#undef SX_OP
  SX_N_OPS
} sx_op;

typedef enum sx_op_class {
  SX_CLASS_LEAF,
  SX_CLASS_ELEMENT,
  SX_CLASS_MOVE,
  SX_CLASS_REDUCE,
  SX_CLASS_CONTRACT,
  SX_CLASS_INDEX,
  SX_CLASS_SCAN,
  SX_CLASS_RANDOM,
  SX_CLASS_META
} sx_op_class;

typedef struct sx_op_info {
  const char *name;
  int n_inputs; /* -1: any */
  sx_op_class class;
  const char *attributes, *text;
} sx_op_info;

const sx_op_info *sx_op_describe(sx_op op);
bool sx_op_parse(const char *name, sx_op *op);

/* The attributes of an operation, as its row lists them. */
enum { SX_ATTRIBUTES_MAX = 4 };
typedef struct sx_attribute {
  char kind; /* 'i' one of ints, 'I' every n_lists-th of the rest, 'r' real, 't' text */
  const char *name;
  size_t length; /* of name, which is not ended by NUL */
} sx_attribute;
typedef struct sx_attributes {
  sx_attribute items[SX_ATTRIBUTES_MAX];
  uint32_t n, n_fixed, n_lists; /* in all; 'i'; 'I' */
  bool has_real, has_text;
} sx_attributes;
sx_attributes sx_op_attributes(sx_op op);

typedef uint32_t sx_id; /* index of a node in its graph */
#define SX_NO_NODE UINT32_MAX

typedef struct sx_node {
  sx_op op;
  sx_dtype dtype;
  int rank;
  uint32_t n_inputs, n_ints;
  int64_t *dims;
  sx_id *inputs;
  int64_t *ints; /* attributes, as ops.def lists them */
  double real;
  const char *text; /* interned in the graph's table, or NULL */
  sx_span span;
  const char *path; /* model path, "" at the top */
} sx_node;

typedef struct sx_output {
  const char *name; /* "loss", "metric/accuracy", "grad/fc1/w", "param/fc1/w", "state/m/fc1/w", "probe/..." */
  sx_id node;
} sx_output;

typedef struct sx_graph {
  sx_arena *arena;
  sx_intern *names;
  const char *name; /* part of the keys of its draws: "loss", "init/fc1/w", "eval/heldout" ... */
  SX_VEC(sx_node) nodes;
  SX_VEC(sx_output) outputs;
  int64_t n_draws;  /* ordinal of the next draw */
  sx_span span;     /* taken by nodes that are added */
  const char *path; /* likewise */
} sx_graph;

sx_graph *sx_graph_new(sx_arena *arena, sx_intern *names, const char *name);

static inline const sx_node *sx_node_at(const sx_graph *graph, sx_id id) { return &graph->nodes.items[id]; }
int64_t sx_node_elements(const sx_node *node); /* product of dims; shapes are checked to fit int64 bytes */
bool sx_shape_equal(const sx_node *a, const sx_node *b);
/* Strides of a row-major value of the shape, in elements. */
void sx_row_major(int64_t *strides, const int64_t *dims, int rank);

/* What a node is to be. dtype is read where the dtype rule is ATTR (else inferred); rank and dims where
 * the shape rule is `given` (else inferred). Arrays are copied. */
typedef struct sx_spec {
  sx_op op;
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  const sx_id *inputs;
  uint32_t n_inputs;
  const int64_t *ints;
  uint32_t n_ints;
  double real;
  const char *text;
} sx_spec;

/* Why a node cannot be: a code (E-SHAPE or E-TYPE) and a message without the operation's name. */
typedef struct sx_problem {
  sx_code code;
  char message[400];
} sx_problem;

/* Adds a node, or says why not: number and dtypes of inputs, shapes, attributes, overflow of sizes. */
bool sx_graph_try(sx_graph *graph, const sx_spec *spec, sx_id *id, sx_problem *why);
/* As sx_graph_try where failing is a bug. */
sx_id sx_graph_add(sx_graph *graph, const sx_spec *spec);
/* Appends a copy of a node of a graph of the same arena, with its span and path, on other inputs of the
 * same types; nothing is inferred anew. The second takes input i from map[node->inputs[i]]. */
sx_id sx_graph_copy(sx_graph *graph, const sx_node *node, const sx_id *inputs);
sx_id sx_graph_copy_mapped(sx_graph *graph, const sx_node *node, const sx_id *map);
/* An empty graph in the same arena that goes on counting draws. */
sx_graph *sx_graph_like(const sx_graph *graph, const char *name);
void sx_graph_output(sx_graph *graph, const char *name, sx_id node);
/* The output's node, or SX_NO_NODE. */
sx_id sx_graph_find_output(const sx_graph *graph, const char *name);

/* Stages, each a set of legal operations and properties (see verify.c). */
typedef enum sx_stage {
  SX_STAGE_BUILT,    /* as the language builds it: META nodes allowed */
  SX_STAGE_EXPANDED, /* no META nodes */
  SX_STAGE_READY     /* every node is reachable from an output or is an input; ready to be planned */
} sx_stage;

/* Reports the first violations as bugs of a pass (E-RUN-002), naming node and rule. True: none. */
bool sx_graph_verify(const sx_graph *graph, sx_stage stage, sx_diags *diags);

/* Text of a graph, which parses back: see print.c. Spans and model paths are left out unless asked for. */
void sx_graph_print(sx_text *text, const sx_graph *graph, bool spans);
/* The line of one node, without its newline. */
void sx_node_print(sx_text *text, const sx_graph *graph, sx_id id, bool span);
/* NULL and an error (E-READ-010 to 013) with line and column; texts are interned in names. */
sx_graph *sx_graph_parse(sx_arena *arena, sx_intern *names, const char *bytes, size_t n_bytes, sx_diags *diags);

/* A new graph with the given nodes as outputs and only what they need; named as `name`. */
sx_graph *sx_graph_extract(const sx_graph *graph, const char *name, const sx_output *outputs, size_t n_outputs);

#endif
