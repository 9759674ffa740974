/* Parameters, states and graphs of a run while it is built. */
#ifndef SX_LANG_MODEL_H
#define SX_LANG_MODEL_H

#include "tensor.h"

typedef struct sx_param_entry {
  sx_param param;
  sx_value init;      /* what :init gave: a function of the shape, or a number; NONE when loaded */
  sx_weights weights; /* of :load; file NULL when initialized */
  sx_graph *graph;    /* the last graph that reads it, and the node there */
  sx_id node;
} sx_param_entry;

/* Evaluations in a context of their own: sets it, and sets back what was. */
sx_context sx_enter_context(sx_evaluator *evaluator, sx_place place, const char *graph_name, const char *path,
                            bool training);
void sx_leave_context(sx_evaluator *evaluator, sx_context before);

/* (param ...), a builtin. */
bool sx_param_builtin(sx_call *call, sx_value *result);
/* (state ...), a builtin. */
bool sx_state_builtin(sx_call *call, sx_value *result);
/* (probe ...), a builtin. */
bool sx_probe_builtin(sx_call *call, sx_value *result);
/* The node that reads the parameter in a graph, added when there is none. */
sx_id sx_param_node(sx_param_entry *entry, sx_graph *graph);
/* The entries in path order. */
void sx_sort_params(sx_evaluator *evaluator);

/* The value as an output "value" of the graph: of the given dtype and shape, a number in all elements. what: for the
 * message, ":init of fc1/w". */
bool sx_give_value(sx_evaluator *evaluator, sx_graph *graph, const sx_value *value, sx_dtype dtype, int rank,
                   const int64_t *dims, const char *what, sx_value *given);

/* A scalar of f32 in the graph, from a tensor or a number; else the error, with the name of what it is. */
bool sx_give_scalar(sx_evaluator *evaluator, sx_graph *graph, const sx_value *value, const sx_datum *at,
                    const char *what, sx_id *id);

/* The update graph of the selected run. optimizer: the function; clip: NULL or the largest norm. */
bool sx_build_update(sx_evaluator *evaluator, const sx_value *optimizer, const sx_datum *at, const double *clip);

#endif
