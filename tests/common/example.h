/* For tests: the training losses of examples/, READY as a run would plan them, and the execution of plans on the CPU
 * engine with leaves filled by the test. No data are read: fields have the types that the examples' data have. */
#ifndef TESTS_COMMON_EXAMPLE_H
#define TESTS_COMMON_EXAMPLE_H

#include "../../libsexp/lang/program.h"
#include "../../libsexp/pass/plan.h"

enum { N_EXAMPLES = 4 };
extern const char *const example_names[N_EXAMPLES];

typedef struct example {
  sx_memory memory;
  sx_arena arena;
  sx_program program;
  sx_graph *loss, *update; /* of the one stage, in the arena, after all passes */
} example;

/* Fails the test where the example does not compile. */
example *example_open(const char *name);
/* Of an experiment's text in the place of a file. */
example *example_of_text(const char *text);
void example_free(example *made);

/* The n elements of an EXTERNAL buffer of a plan: "field/x", "param/w", "counter/step". */
typedef void fill_external(void *context, const char *name, sx_dtype dtype, int64_t n, void *data);
/* Executes the plan with the best SIMD level; values of the outputs in the graph's order, in the arena. */
void **execute_plan(const sx_plan *plan, sx_arena *arena, fill_external *fill, void *context);

#endif
