/* For tests: calls of single operations as one plan, a task each. */
#ifndef TEST_CASE_PLAN_H
#define TEST_CASE_PLAN_H

#include "../../libsexp/pass/plan.h"
#include "kernel_case.h"

/* Operands lie as in the cases, in buffers from outside that end where the operands end; each result is an output.
 * Node and buffer of a case's input k are its first plus k, those of its result come behind its inputs; the first of
 * a case follows the result of the case before it. All is in the arena but what the cases own. */
sx_plan *case_plan(kernel_case *const *cases, size_t n, sx_arena *arena);
/* Copies the memory that input k lies in, as the buffer of the plan has it. */
void case_input(const kernel_case *c, uint32_t k, void *to);

#endif
