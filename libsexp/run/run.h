/* A run: a compiled program's executables, its tensors, its data, and where it stands. */
#ifndef SX_RUN_RUN_H
#define SX_RUN_RUN_H

#include "../cpu/executable.h"
#include "compiled.h"
#include "loader.h"
#include "sum_tree.h"

/* A parameter or a state. What the update writes but not in place has a second block, swapped in after a whole step. */
typedef struct sx_slot {
  const char *path;
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  int64_t n_elements, n_bytes;
  void *now, *next; /* next: what the update writes; NULL: never; now: in place */
} sx_slot;

typedef enum sx_counter {
  SX_COUNTER_STEP,
  SX_COUNTER_MICROBATCH,
  SX_COUNTER_RECORDS,
  SX_COUNTER_STAGE_RECORDS,
  SX_COUNTER_STAGE,
  SX_COUNTER_TRIP,
  SX_N_COUNTERS
} sx_counter;

enum { SX_CELL_BYTES = 64, SX_CELL_FLOATS = 16 }; /* a scalar alone in an aligned block */

/* Where a buffer of a plan is bound before each execution. */
typedef enum sx_binding_kind {
  SX_BIND_FIXED, /* address */
  SX_BIND_NOW,   /* current value of a slot */
  SX_BIND_NEXT,  /* the slot's next value */
  SX_BIND_FIELD, /* of the microbatch at hand */
  SX_BIND_LEAF,  /* index floats into the leaf of the gradients' sum */
  SX_BIND_MEMORY,
  SX_BIND_MEMORY_NEXT /* state of a generator */
} sx_binding_kind;

typedef struct sx_binding {
  uint32_t buffer;
  sx_binding_kind kind;
  int64_t index;
  void *address;
} sx_binding;

/* A unit made ready. */
typedef struct sx_bound {
  const sx_unit *unit; /* NULL: there is none */
  sx_executable *executable;
  const sx_plan *plan;
  sx_binding *bindings;
  uint32_t n_bindings;
  uint32_t counters;           /* bit per sx_counter that it reads */
  struct sx_bound *next_bound; /* all of the run, for their release */
} sx_bound;

/* A statistic: an output of a diagnosed graph. */
typedef struct sx_reported {
  const char *name; /* "diagnostics/grad/w/mean" */
  const char *output;
  float *cell;
} sx_reported;

typedef struct sx_reports {
  sx_reported *items;
  uint32_t n;
} sx_reports;

/* A generator's memory. */
typedef struct sx_generating {
  const sx_generator *generator;
  sx_bound init, trip, emit;
  void **memory, **memory_next; /* states */
  void **fields;                /* what emit writes */
  int64_t *field_bytes;         /* of a microbatch */
} sx_generating;

/* One stage. */
typedef struct sx_stage_state {
  const sx_stage_run *stage;
  int64_t steps;
  const sx_dataset *dataset; /* or NULL */
  sx_generating *generator;  /* or NULL */
  const sx_field_type *fields;
  uint32_t n_fields;
  sx_bound loss, diagnosed, observed; /* observed: unfused, for digests of nodes */
  const char **value_names;           /* train/loss, train/METRIC ... */
  const char **value_outputs;
  uint32_t n_values;
  sx_reports statistics; /* of probes */
} sx_stage_state;

/* One evaluation. */
typedef struct sx_eval_state {
  const sx_eval *eval;
  const sx_dataset *dataset;
  sx_bound full, partial;
  int64_t n_full, n_partial; /* batches; records of the partial one */
  sx_microbatch batch;
  sx_sum_tree tree;   /* of means and sums */
  float **cells;      /* one a metric: its value of the batch at hand */
  float *extremes;    /* of maxima and minima */
  const char **names; /* "eval/heldout/loss" */
} sx_eval_state;

struct sexp_run {
  sx_memory *memory;       /* the program's */
  sx_arena arena, scratch; /* scratch: of one initialization at a time */
  sx_diags diags;
  sexp_host host;
  sx_compiled *compiled;
  const sx_program *program;
  sexp_parameter *described; /* loaded files are filled in */
  sexp_run_options options;
  sx_cpu cpu;

  sx_dataset **datasets; /* one a data source; NULL: not used */
  sexp_data_info *data_infos;
  size_t n_data_infos;
  sx_files weights;
  sx_loader *loader;

  sx_slot *slots; /* parameters, then states */
  size_t n_params, n_slots;
  sexp_tensor *tensors;

  sx_bound *bounds;
  int32_t *counters[SX_N_COUNTERS];
  sx_sum_tree sum;
  int64_t *grad_offsets; /* one a parameter: of its gradient in the leaf, floats; -1: it is not trained */
  void **narrow_grads;   /* one a parameter: its gradient in its own dtype; NULL: f32, in the leaf itself */
  int64_t scalar_offset; /* of the first of the loss and metrics in the leaf; SX_CELL_FLOATS apart */
  sx_stage_state *stages;
  sx_generating *generating;
  sx_bound update, diagnosed_update, observed_update;
  float *grad_norm;      /* NULL: no clip */
  sx_reports statistics; /* of the update */
  bool *chosen_evals;    /* one an evaluation: the run is for it */
  sx_eval_state *evals;

  sexp_position position;
  int64_t stage_step;                               /* steps done of the stage */
  int64_t microbatch, records, stage_records, trip; /* counters at hand */
  void **fields;                                    /* of the microbatch at hand */
  sx_generating *generator;                         /* of the stage at hand, or NULL */

  sexp_value *values;
  size_t n_values;
  struct sx_digests *digests;
  bool failed;
};

typedef struct sexp_run sx_run;

/* Everything of a run whose first fields, up to cpu, are set. False: errors are in run->diags. Frees
 * nothing. */
bool sx_run_make(sx_run *run);
/* Ends the loader's thread, executables, files; not the arenas. */
void sx_run_release(sx_run *run);

/* ---- the parts ---- */

/* bind.c. Makes a unit's executable; describes where each of its buffers is. */
typedef bool sx_resolve(sx_run *run, void *context, const sx_buffer *buffer, sx_binding *binding);
void sx_bind_unit(sx_run *run, sx_bound *bound, const sx_unit *unit, const sx_plan *plan, sx_resolve *resolve,
                  void *context, sx_arena *arena);
/* Sets the counters it reads, binds and executes. False: an error is in run->diags. */
bool sx_execute(sx_run *run, sx_bound *bound);
/* Resolves what any graph may read: parameters, counters. */
bool sx_resolve_common(sx_run *run, const sx_buffer *buffer, sx_binding *binding);
void sx_release_bound(sx_bound *bound);
/* The text after a prefix, or NULL. */
const char *sx_after(const char *text, const char *prefix);
float *sx_new_cell(sx_run *run);

/* parameters.c */
bool sx_make_parameters(sx_run *run);
/* Index of the slot, parameters or states, with that path. */
size_t sx_find_slot(const sx_run *run, const char *path, bool state);

/* start.c. Takes tensors and position, once stages are known. False: an error is in run->diags. */
bool sx_start(sx_run *run, const sexp_start *start);

/* training.c, generating.c, evaluation.c: what the run needs of each. */
void sx_make_stages(sx_run *run); /* how many steps each has */
void sx_make_training(sx_run *run);
void sx_make_generators(sx_run *run);
void sx_make_evals(sx_run *run); /* the chosen ones */
/* Where loss (0) and metrics are in the leaf. */
float *sx_scalar(const sx_run *run, uint32_t i);

/* Emits the microbatch at hand into run->fields. */
bool sx_generate(sx_run *run, sx_generating *generating);
/* Adds an evaluation's values to run->values. */
bool sx_run_eval(sx_run *run, sx_eval_state *eval);
/* Sets chosen of the evaluations of these names among `among` (NULL: all); without names, of all among them. E-RUN-007.
 */
bool sx_choose_evals(sx_run *run, bool *chosen, const bool *among, const char *const *names, size_t n_names);
/* Evaluates start as of its step; the values are in run->values. False: errors are in run->diags. */
bool sx_run_evaluate(sx_run *run, const sexp_start *start, const char *const *names, size_t n_names);

/* step.c. SEXP_OK or SEXP_END; else errors are in run->diags, and the run has failed for good. */
sexp_status sx_run_step(sx_run *run, sexp_step *step);
void sx_add_value(sx_run *run, const char *name, float value);

/* digests.c: all do nothing on steps that are not sampled. */
void sx_make_digests(sx_run *run);
void sx_digests_begin(sx_run *run);
void sx_digest_microbatch(sx_run *run, const sx_stage_state *stage, const sx_microbatch *microbatch);
void sx_digest_sums(sx_run *run);  /* loss, averaged gradients */
void sx_digest_state(sx_run *run); /* parameters, states */
void sx_digests_end(sx_run *run, sexp_step *step);
/* Whether the step at hand digests every node; then this executes an unfused unit, and adds its digests
 * under the graph's name. */
bool sx_observes(const sx_run *run);
bool sx_execute_observed(sx_run *run, sx_bound *bound, const char *graph);

#endif
