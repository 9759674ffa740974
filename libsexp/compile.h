/* The compiler: an experiment file to planned graphs, by the list of passes in compile.c. */
#ifndef SX_COMPILE_H
#define SX_COMPILE_H

#include "cpu/kernel.h"
#include "run/compiled.h"
#include "sexp.h"

typedef struct sx_compile_options {
  bool optimize;          /* false: no simplification, common subexpressions, fusion or reuse of memory */
  const char *dump_after; /* name of a pass, or NULL */
  sx_text *dump;          /* where its graphs go */
  int64_t memory_bytes;   /* that the run may take on the CPU; 0: any */
  int copies;             /* that the caller takes of parameters and states beside it */
} sx_compile_options;

/* Takes every graph of an evaluated program through the passes and plans it. False: errors are in
 * program->diags. facts: of the program's data sources, in their order. */
bool sx_compile(sx_compiled *compiled, sx_program *program, sx_data_facts **facts, const sx_compile_options *options);

const char *sx_pass_name(size_t i); /* NULL past the last */

/* Everything a program says before its first step; in the program's arena. */
void sx_describe(sexp_description *description, const sx_compiled *compiled);
/* One a unit. */
const sexp_graph *sx_describe_graphs(const sx_compiled *compiled);
/* Of a run on the CPU. */
void sx_memory_use(sexp_memory_use *use, const sx_compiled *compiled, int n_threads, sx_simd simd);
/* Whether a step computes the unit. */
bool sx_is_training(const sx_compiled *compiled, const sx_unit *unit);
bool sx_is_convolution(sx_op op);
sexp_dtype sx_public_dtype(sx_dtype dtype);
extern const char sx_contraction_implementation[];
void sx_describe_dot(sx_text *text, const sx_compiled *compiled);
/* The texts of sexp_program_text but for "dump"; NULL: no such text. */
const char *sx_describe_text(const sx_compiled *compiled, const char *what);

#endif
