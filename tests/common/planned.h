/* For tests: a graph of a text or at random, with the arena that holds it. */
#ifndef TESTS_COMMON_PLANNED_H
#define TESTS_COMMON_PLANNED_H

#include "../../libsexp/pass/plan.h"

typedef struct planned {
  sx_memory memory;
  sx_arena arena;
  sx_intern names;
  sx_graph *graph;
} planned;

/* Ends the process where the text is no READY graph. Both are freed by planned_free. */
planned *planned_text(const char *text);
planned *planned_random(uint64_t seed, int n_nodes);
planned *planned_empty(void); /* no graph yet */
void planned_free(planned *planned);

sx_plan *planned_plan(planned *planned, bool fuse, bool reuse);
/* With what the CPU engine alone asks for, where groups are made. */
sx_plan *planned_engine_plan(planned *planned, bool fuse, bool reuse);
/* Text of the plan. */
const char *planned_print(planned *planned, bool fuse, bool reuse);

#endif
