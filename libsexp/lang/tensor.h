/* Nodes from the language: builtins add to the graph of the context through these. All report what does not fit. */
#ifndef SX_LANG_TENSOR_H
#define SX_LANG_TENSOR_H

#include "../ir/build.h"
#include "call.h"

/* The graph of the context, made ready for nodes of this call; NULL: there is none here, reported. */
sx_graph *sx_call_graph(const sx_call *call);
/* Counts the nodes added since `before` on the budget. */
bool sx_count_nodes(const sx_call *call, size_t before);

static inline const sx_node *sx_value_node(const sx_value *value) { return sx_node_at(value->graph, value->n); }

/* A tensor of the context's graph. One that reads a parameter is read anew; any other of another graph is an error. */
bool sx_get_tensor(const sx_call *call, const sx_value *value, sx_id *id);
/* A tensor, or a number or boolean as a scalar constant of the dtype. */
bool sx_get_operand(const sx_call *call, const sx_value *value, sx_dtype dtype, sx_id *id);
/* The same broadcast-free: whether a number can be a constant of the dtype, and its value. */
bool sx_get_element(const sx_call *call, const sx_value *value, sx_dtype dtype, double *element);

/* Adds a node. */
bool sx_add_node(const sx_call *call, const sx_spec *spec, sx_value *result);
/* Reports why there is no such node, showing where its first operand comes from. Always false. */
bool sx_report_problem(const sx_call *call, const sx_problem *why, const sx_id *inputs, uint32_t n_inputs);
/* An elementwise operation on tensors, at least one, and numbers. */
bool sx_add_element(const sx_call *call, sx_op op, const sx_value *operands, uint32_t n, sx_value *result);

#endif
