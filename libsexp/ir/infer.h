/* Type and shape inference of one node, shared by the files of ir/: what sx_graph_try does before it adds. */
#ifndef SX_IR_INFER_H
#define SX_IR_INFER_H

#include "ir.h"

/* What is inferred of a node from its spec. */
typedef struct sx_inference {
  const sx_graph *graph;
  const sx_spec *spec;
  sx_dtype dtype; /* of the result */
  int rank;       /* likewise */
  int64_t dims[SX_RANK_MAX];
  sx_problem *why;
} sx_inference;

/* Fills dtype, rank and dims; false: *why says why there is no such node. */
bool sx_infer(sx_inference *inference, const sx_graph *graph, const sx_spec *spec, sx_problem *why);

/* Sets *why; always false, to be returned. */
bool sx_problem_set(sx_problem *why, sx_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Whether the axis is one of the node's; else *why says so. */
bool sx_infer_axis(sx_inference *inference, const sx_node *node, int64_t axis);
/* Says that an operand has a wrong number of axes; always false. */
bool sx_infer_no_rank(sx_inference *inference, const char *expected, const sx_node *got);

/* A shape as text by value, for messages: sx_shape_text_of(node).text. */
typedef struct sx_shape_text {
  char text[176];
} sx_shape_text;
sx_shape_text sx_shape_text_of(const sx_node *node);
sx_shape_text sx_shape_text_of_dims(const int64_t *dims, int rank);

/* Number of elements; false where a tensor of that size is not allowed (2^62 bytes and more). */
bool sx_shape_elements(const int64_t *dims, int rank, int64_t *n);

static inline const sx_node *sx_inference_input(const sx_inference *inference, uint32_t i) {
  return sx_node_at(inference->graph, inference->spec->inputs[i]);
}

/* A shape rule of ops.def fills rank and dims. */
typedef bool sx_shape_rule(sx_inference *inference);
sx_shape_rule sx_shape_given, sx_shape_iota, sx_shape_draw, sx_shape_same, sx_shape_along, sx_shape_reshape,
    sx_shape_broadcast, sx_shape_transpose, sx_shape_slice, sx_shape_pad, sx_shape_concat, sx_shape_unfold,
    sx_shape_fold, sx_shape_reduce, sx_shape_extreme, sx_shape_arg, sx_shape_of_second;
sx_shape_rule sx_shape_einsum, sx_shape_conv, sx_shape_conv_data, sx_shape_conv_weight, sx_shape_gather,
    sx_shape_scatter, sx_shape_take, sx_shape_put, sx_shape_one_hot, sx_shape_scan;

/* The label lists of an EINSUM node: its two operands, its result. */
typedef struct sx_labels {
  const char *parts[3]; /* into the node's text, not ended */
  int n[3];
} sx_labels;
/* False: not of the form "ab,bc->ac", a label twice in one part, or one of the result alone. */
bool sx_labels_parse(const char *text, sx_labels *labels);
/* Position of a label in a part, or -1. */
int sx_labels_find(const sx_labels *labels, int part, char label);

#endif
