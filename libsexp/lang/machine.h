/* The machine that runs code (body.h): one loop over a stack on the heap, so that the language's recursion is not
 * the C stack's. */
#ifndef SX_LANG_MACHINE_H
#define SX_LANG_MACHINE_H

#include "call.h"

void sx_machine_begin(sx_evaluator *evaluator);
/* Runs a body with its parameters' values. */
bool sx_run_body(sx_evaluator *evaluator, const sx_body *body, const sx_value *args, uint32_t n, sx_value *result);

/* The model path in context with a name, a text or an integer, at its end; interned. NULL: it is too long. */
const char *sx_extend_path(sx_evaluator *evaluator, const sx_value *name);

/* ---- between machine.c and activate.c ---- */

/* Room for n more values above `top`. False: too deep, reported. */
bool sx_stack_reserve(sx_evaluator *evaluator, size_t top, size_t n);
/* Calls what lies below the n arguments at the top of the stack: a builtin's result replaces them, a function gets
 * a frame. */
bool sx_activate(sx_evaluator *evaluator, uint32_t n, bool keywords, bool tail, const sx_datum *at);
/* The value of a global; translates a definition of the prelude at its first use. */
bool sx_global_value(sx_evaluator *evaluator, sx_global *global, const sx_datum *at, sx_value *value);
bool sx_make_closure(sx_evaluator *evaluator, const sx_activation *frame, const sx_body *body, sx_value *closure);
/* `and`, `or` of tensors and booleans (builtins_tensor.c). */
bool sx_logic_join(sx_evaluator *evaluator, sx_op op, const sx_value *a, const sx_value *b, const sx_datum *at,
                   sx_value *result);

#endif
