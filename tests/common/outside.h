/* For tests: what a plan reads and writes outside its block, and its execution with that. */
#ifndef TESTS_COMMON_OUTSIDE_H
#define TESTS_COMMON_OUTSIDE_H

#include "../../libsexp/cpu/executable.h"
#include "planned.h"

/* By index of the plan's buffers; NULL: it is not from outside. */
typedef struct outside {
  void **data;
  bool *lent; /* another buffer's */
  size_t n;
} outside;

/* Inputs as interpret.h has them, outputs filled with a pattern; freed by outside_free. */
outside outside_of(const sx_plan *plan, uint64_t seed);
/* Where the plan allows it, outputs lie over the inputs of their names. */
void outside_in_place(outside *o, const sx_plan *plan, sx_arena *arena);
void outside_free(outside *o);
/* Executes the plan once. False: stopped, *why says where. */
bool outside_run(planned *p, const sx_plan *plan, sx_simd simd, int threads, outside *o, sx_stopped *why);
/* The first output of the graph that is not as expected, which has canonical values, one a node; NULL: there is none.
 * Makes those before it canonical too. Fails the test where the plan does not have one. */
const char *outside_differs(const sx_graph *graph, void *const *expected, const sx_plan *plan, outside *o);

#endif
