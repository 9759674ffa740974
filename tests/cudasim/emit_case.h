/* For tests of emit: plans lowered, their kernels compiled by the real NVRTC in one unit, executed from its PTX on host
 * memory. Products and convolutions are computed by the CPU's reference loops in their place. */
#ifndef TEST_EMIT_CASE_H
#define TEST_EMIT_CASE_H

#include "../../libsexp/cuda/emit.h"
#include "../common/planned.h"
#include "ptx.h"

typedef struct emit_case {
  planned *planned; /* NULL: the plan is not of a graph's text */
  const sx_plan *plan;
  sx_lowering lowering;
  const char *name; /* for reports */
  uint64_t seed;    /* of the values of inputs */
  bool wide;        /* indices of 64 bits */
  bool moderate; /* floats from outside are finite and of like sizes, those named "zero..." -0: of graphs without draws
                  */
  bool in_place; /* outputs are bound to the inputs of their names where the plan allows it */
  void **data;   /* per buffer: its memory */
  char *block, *scratch;
  sx_fault_cell *cells; /* per node that can stop */
} emit_case;

enum { EMIT_DRAW_SEED = 7 };

/* Takes the graph. What must be given is the name; it is freed by emit_free. */
void emit_lower(emit_case *c, const char *name, planned *graph, bool fuse, bool reuse, bool merge);
/* The same of a plan that is not of such a graph; all is in the arena but memory. */
void emit_lower_plan(emit_case *c, const char *name, const sx_plan *plan, sx_arena *arena, bool merge);
void emit_free(emit_case *c);

/* Texts of the kernels of all cases, each once, after the prelude; owned by the caller. */
char *emit_unit(const emit_case *cases, size_t n);
/* Takes memory for all buffers, and fills what comes from outside and what is known. */
void emit_take(emit_case *c);
/* Executes all works. What the interpreter refuses ends the test. */
void emit_run(emit_case *c, const sim_module *module);
/* Outputs have the bits of the reference loops; else the test ends. */
void emit_check(emit_case *c);

#endif
