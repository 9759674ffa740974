/* libsexp: how a program is computed, in facts. Included by sexp.h, after what it uses. */
#ifndef SEXP_EXPLAIN_H
#define SEXP_EXPLAIN_H

/* Where in the experiment something was written. */
typedef struct sexp_place {
  const char *path; /* model path, "" at the top */
  const char *file; /* NULL: of no text */
  uint32_t line, column;
} sexp_place;

typedef struct sexp_shape {
  sexp_dtype dtype;
  int rank;
  const int64_t *dims;
} sexp_shape;

/* A product or a convolution. */
typedef struct sexp_contraction {
  const char *op;       /* "einsum" "conv2d" "conv2d-data" "conv2d-weight" */
  const char *equation; /* of an einsum, "ik,kj->ij"; else NULL */
  size_t n_inputs;
  const sexp_shape *inputs;
  sexp_shape output;
  const char *implementation; /* in words */
  sexp_place place;
} sexp_contraction;

typedef struct sexp_graph {
  const char *name; /* "loss" "update" "eval/heldout" "init/fc1/w" */
  bool training;    /* a step computes it: what sexp_description counts */
  int64_t n_nodes_built, n_nodes, n_groups, n_tasks;
  int64_t block_bytes, bound_bytes; /* temporaries, and their lower bound */
  size_t n_products, n_convolutions;
  const sexp_contraction *products, *convolutions; /* in the order of the graph */
} sexp_graph;

/* The graphs of a program after the passes, in the order of sexp_program_text; *graphs is borrowed from the program.
 * 0: no memory. */
size_t sexp_program_graphs(const sexp_graph **graphs, sexp_program *program);

/* What a run on the CPU holds, in bytes. */
typedef struct sexp_memory_use {
  int64_t parameters, states, beside;     /* beside: of those, what is held twice */
  int64_t gradients;                      /* their sums over microbatches */
  int64_t data;                           /* what the loader and evaluations read into, what generators make */
  int64_t constants;                      /* and iotas, of every graph */
  int64_t activations, activations_least; /* temporaries of the most demanding graph; no plan of its order takes less */
  int64_t scratch;                        /* of kernels, which depends on threads and SIMD level */
  int64_t total, least;
  double recompute; /* f32 operations that are done again for a byte less, at most; 0: none */
} sexp_memory_use;

/* threads and simd as those of sexp_run_options; a level that is not available counts as the best. False: no memory. */
bool sexp_program_memory(sexp_memory_use *use, sexp_program *program, int threads, const char *simd);

#endif
