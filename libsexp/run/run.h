/* A run: a compiled program's executables, its tensors, its data, and where it stands. */
#ifndef SX_RUN_RUN_H
#define SX_RUN_RUN_H

#include "../cpu/backend.h"
#include "../pass/degrees.h"
#include "compiled.h"
#include "loader.h"
#include "sum_tree.h"

/* What a run takes memory of its device for. */
typedef enum sx_use {
  SX_USE_PARAMETERS,
  SX_USE_STATES,
  SX_USE_GRADIENTS,
  SX_USE_FIELDS,
  SX_USE_GENERATORS,
  SX_USE_CELLS,
  SX_N_USES
} sx_use;

/* Memory taken of the device or for it, given back with the run. */
typedef struct sx_taken {
  void *memory;
  bool host;
  struct sx_taken *next;
} sx_taken;

/* Memory of the device and its image in the host's; one and the same where the device shares memory. */
typedef struct sx_mirror {
  char *device, *host;
  int64_t n_bytes;
} sx_mirror;

/* A parameter or a state. What the update writes but not in place has a second block: after a whole step its value is
 * copied back, or the blocks are swapped where nothing holds on to their addresses. */
typedef struct sx_slot {
  const char *path;
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  int64_t n_elements, n_bytes;
  sx_written written;
  void *now, *next; /* of the device; next: what the update writes; NULL: never; now: in place */
} sx_slot;

typedef enum sx_counter {
  SX_COUNTER_STEP,
  SX_COUNTER_MICROBATCH,
  SX_COUNTER_RECORDS,
  SX_COUNTER_STAGE_RECORDS,
  SX_COUNTER_STAGE,
  SX_COUNTER_TRIP, /* has cells of its own */
  SX_N_COUNTERS
} sx_counter;

enum { SX_CELL_BYTES = 64, SX_CELL_FLOATS = 16 }; /* a scalar alone in an aligned block */

/* Where a buffer of a plan is bound before each execution; index says which. */
typedef enum sx_binding_kind {
  SX_BIND_NOW,     /* current value of a slot */
  SX_BIND_NEXT,    /* the slot's next value */
  SX_BIND_COUNTER, /* in the row at hand */
  SX_BIND_CELL,
  SX_BIND_FIELD,  /* of the microbatch at hand */
  SX_BIND_LEAF,   /* floats into the leaf of the gradients' sum */
  SX_BIND_NARROW, /* a gradient in its own dtype */
  SX_BIND_MEMORY,
  SX_BIND_MEMORY_NEXT, /* state of the generator at hand */
  SX_BIND_EMITTED      /* field of the generator at hand */
} sx_binding_kind;

typedef struct sx_binding {
  uint32_t buffer;
  sx_binding_kind kind;
  int64_t index;
} sx_binding;

struct sexp_run;
/* Says where a buffer is. False: nowhere. */
typedef bool sx_resolve(const struct sexp_run *run, const void *context, const sx_buffer *buffer, sx_binding *binding);

/* A unit that the run executes. */
typedef struct sx_bound {
  const sx_unit *unit; /* NULL: there is none */
  bool observed;       /* planned without fusion and reuse */
  sx_resolve *resolve;
  const void *context;
  const sx_plan *plan;
  sx_made *made; /* NULL: not yet, or released */
  sx_binding *bindings;
  uint32_t n_bindings;
  uint32_t counters;           /* bit per sx_counter that it reads */
  struct sx_bound *next_bound; /* all of the run, the last first */
} sx_bound;

/* A statistic: an output of a diagnosed graph. */
typedef struct sx_reported {
  const char *name; /* "diagnostics/grad/w/mean" */
  const char *output;
  int64_t cell;
} sx_reported;

typedef struct sx_reports {
  sx_reported *items;
  uint32_t n;
} sx_reports;

/* A generator's memory. */
typedef struct sx_generating {
  const sx_generator *generator;
  sx_bound init, trip, emit;
  char *blocks[2];            /* all states, and all states of the next trip */
  int64_t *memory_offsets;    /* one a state, in both */
  char *memory, *memory_next; /* which of the blocks */
  void **fields;              /* what emit writes */
  int64_t *field_bytes;       /* of a microbatch */
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
  sx_bound stacked;                   /* the loss of run->degree microbatches; not among run->bounds */
  int64_t *field_offsets;             /* where they are in the run's fields on a device */
  const char **value_names;           /* train/loss, train/METRIC ... */
  const char **value_outputs;
  uint32_t n_values;
  sx_reports statistics; /* of probes */
  float *summed;         /* where a step that repeats leaves the sum */
} sx_stage_state;

/* One evaluation. */
typedef struct sx_eval_state {
  const sx_eval *eval;
  const sx_dataset *dataset;
  sx_bound full, partial;
  int64_t n_full, n_partial; /* batches; records of the partial one */
  sx_microbatch batches[2];  /* one is read while the other is computed; the first alone where memory is shared */
  int64_t *field_bytes, *field_offsets; /* as those of a stage */
  sx_sum_tree tree;                     /* of means and sums, on the CPU */
  int64_t first_cell;                   /* one a metric: its value of the batch at hand */
  float *extremes;                      /* of maxima and minima */
  const char **names;                   /* "eval/heldout/loss" */
} sx_eval_state;

/* A degree of stacking that a run could have. */
typedef struct sx_offered {
  int64_t degree, n_bytes; /* bytes: of the device, for the whole run */
  bool fits;
  const char *value;    /* "4" */
  const sx_unit *units; /* the losses, one a stage; NULL: unstacked */
  double estimated_ns;  /* of a step's gradients; 0: not estimated */
} sx_offered;

typedef struct sx_stacking {
  int n; /* 0: nothing is stacked here */
  sx_offered *items;
  int64_t free_bytes;
  const char *refusal; /* why there is one degree alone, where a graph is the reason */
  bool pinned;         /* by a record: it does not give way */
} sx_stacking;

/* A place in diagnostics, to forget what was added after it. */
typedef struct sx_diag_mark {
  size_t n;
  uint32_t n_errors;
} sx_diag_mark;

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
  sx_backend *engine;         /* the CPU's */
  sx_backend *backend;        /* what computes steps: the engine, or the device's */
  sx_executable *initializer; /* at work */
  sx_deciding deciding;
  SX_VEC(sexp_decision) decisions;
  SX_VEC(sexp_decision) products; /* that the device decides by itself */
  sx_stacking stacking;
  int64_t degree;            /* microbatches of a pass */
  const char *memory_failed; /* in the step at hand */
  sx_finished finished;      /* how what was enqueued last went; sticky within a step */
  bool writes_beside;        /* the update, some slot */
  bool left;                 /* sx_leave left the entry point */
  bool lost; /* the device failed, or stopped within an update: tensors are not those after a whole step */
  sx_taken *taken;
  sx_host_memory host_memory; /* that data are read into */
  int64_t use_bytes[SX_N_USES];

  sx_dataset **datasets; /* one a data source; NULL: not used */
  sexp_data_info *data_infos;
  size_t n_data_infos;
  sx_files weights;
  sx_loader *loader;

  sx_slot *slots; /* parameters, then states */
  size_t n_params, n_slots;
  sexp_tensor *tensors;
  char *image; /* of the tensors, where memory is not shared and they were asked for; owned */
  bool shown;  /* it is as of now */

  sx_bound *bounds;
  sx_mirror
      counters; /* rows of SX_N_COUNTERS cells: one a microbatch of a step, then that of updates and evaluations */
  int64_t update_row, row;       /* row: at hand */
  sx_mirror trips;               /* cells 0, 1, 2 ...; one alone where memory is shared */
  sx_mirror cells;               /* norm, statistics, metrics of evaluations */
  int64_t n_cells, n_step_cells; /* step: those before the evaluations' */
  sx_sum_tree sum;
  char *scalars;      /* of the host: the leaf's, of the last step; where memory is not shared */
  char *field_memory; /* of a device that does not share memory */
  int64_t field_room;
  void *staging;         /* SX_STAGING_BYTES of the host, where memory is not shared */
  int64_t *grad_offsets; /* one a parameter: of its gradient in the leaf, floats; -1: it is not trained */
  void **narrow_grads;   /* one a parameter: its gradient in its own dtype; NULL: f32, in the leaf itself */
  int64_t scalar_offset; /* of the first of the loss and metrics in the leaf; SX_CELL_FLOATS apart */
  sx_stage_state *stages;
  sx_generating *generating;
  sx_bound update, diagnosed_update, observed_update;
  int64_t grad_norm;     /* cell; -1: no clip */
  sx_reports statistics; /* of the update */
  bool *chosen_evals;    /* one an evaluation: the run is for it */
  sx_eval_state *evals;

  sexp_position position;
  int64_t stage_step;            /* steps done of the stage */
  int64_t microbatch, trip;      /* at hand */
  void **fields;                 /* of the microbatch at hand, of the device */
  void **placed;                 /* room for them */
  const sx_microbatch **fetched; /* microbatches of the step at hand */
  bool has_fetched;              /* all of them, where memory is not shared */
  sx_generating *generator;      /* of the stage at hand, or NULL */

  sexp_value *values;
  size_t n_values;
  struct sx_digests *digests;
  bool failed;
};

typedef struct sexp_run sx_run;

enum { SX_STAGING_BYTES = 1 << 22 };

/* Everything of a run whose first fields, up to cpu, are set. False: errors are in run->diags. Frees
 * nothing. */
bool sx_run_make(sx_run *run);
/* Ends the loader's thread, executables, files; not the arenas. */
void sx_run_release(sx_run *run);

/* ---- the parts ---- */

/* device_memory.c. Takes memory of the device; where there is none, leaves the entry point with an error: E-RUN-001 of
 * the CPU, else E-DEVICE-050. */
void *sx_take(sx_run *run, sx_use use, int64_t n_bytes);
void *sx_take_host(sx_run *run, int64_t n_bytes); /* memory that upload and download work on */
sx_mirror sx_take_mirror(sx_run *run, sx_use use, int64_t n_bytes);
void sx_give_all(sx_run *run);
/* Enqueue; nothing where memory is shared. */
void sx_upload(sx_run *run, void *to, const void *from_host, int64_t n_bytes);
void sx_upload_part(sx_run *run, const sx_mirror *mirror, int64_t offset, int64_t n_bytes);
void sx_download_part(sx_run *run, const sx_mirror *mirror, int64_t offset, int64_t n_bytes);
/* Waits for what was enqueued. False: run->finished says how it went, an error is in run->diags; so too when it went
 * wrong before in this step. */
bool sx_finish(sx_run *run);
/* Between any memory of the host and the device's, at once. */
bool sx_write(sx_run *run, void *to, const void *from, int64_t n_bytes);
bool sx_read_back(sx_run *run, void *to, const void *from, int64_t n_bytes);
void sx_report_stop(sx_run *run, const sx_stopped *why);
sx_diag_mark sx_diags_mark(const sx_diags *diags);
void sx_diags_forget(sx_diags *diags, sx_diag_mark mark);
/* "parameters" etc. with their bytes, a line each. */
void sx_describe_memory(const sx_run *run, sx_text *text);
/* Brings run->tensors up to date. False: there is no memory for it, or the device failed. */
bool sx_show_tensors(sx_run *run);
/* Leaves the entry point; an error is in run->diags. */
_Noreturn void sx_leave(sx_run *run);

/* bind.c. Notes a unit that the run executes. */
void sx_bind_unit(sx_run *run, sx_bound *bound, const sx_unit *unit, bool observed, sx_resolve *resolve,
                  const void *context);
/* Makes the executables of all noted units, in their order, and finds for every buffer where it is. */
void sx_make_bounds(sx_run *run);
/* Of one of them. False: errors are in run->diags. */
bool sx_make_bound(sx_run *run, sx_bound *bound);
void sx_release_bound(sx_run *run, sx_bound *bound);
void sx_release_bounds(sx_run *run);
/* Binds and executes. */
void sx_execute(sx_run *run, sx_bound *bound);
/* Fills in the row's counters, as far as they are in `used`. False: one does not fit, E-RUN-011. */
bool sx_set_counters(sx_run *run, int64_t row, uint32_t used, int64_t microbatch, int64_t n_records);
bool sx_refuse_counter(sx_run *run, sx_counter counter, int64_t count); /* false */
/* Resolves what any graph may read: parameters, counters. */
bool sx_resolve_common(const sx_run *run, const sx_buffer *buffer, sx_binding *binding);
enum { SX_ROW_BYTES = SX_N_COUNTERS * SX_CELL_BYTES };
int64_t sx_row_offset(int64_t row); /* in run->counters */
/* The text after a prefix, or NULL. */
const char *sx_after(const char *text, const char *prefix);
/* A value of run->cells, as it was downloaded last. */
float sx_cell(const sx_run *run, int64_t cell);

/* choosing.c, on a device. */
void sx_choosing_begin(sx_run *run);
/* Plans of the noted units, once everything is checked against a record; degrees of stacking. False: an error is in
 * run->diags. */
bool sx_choose_plans(sx_run *run);
/* Decides the stacking and makes its executables: sets run->degree. After everything else of the run is made. */
bool sx_choose_stacking(sx_run *run);
/* Lists the products that the device decides by itself. */
void sx_list_products(sx_run *run);
const char *sx_describe_run(sx_run *run, const char *what); /* as sexp_run_text */

/* estimating.c. Time of a step's gradients, with what is uploaded for them, at each degree, summed over the stages.
 * False: the device has no rates, or none that can be remembered; nothing is added to run->diags. */
bool sx_estimate_stacking(sx_run *run, sx_offered *const *candidates, size_t n, double *estimated_ns);

/* parameters.c */
void sx_make_slots(sx_run *run);          /* describes them */
void sx_take_tensors(sx_run *run);        /* their memory */
bool sx_make_parameters(sx_run *run);     /* draws and loads */
void sx_release_initializer(sx_run *run); /* one that a failed allocation interrupted */
/* Index of the slot, parameters or states, with that path. */
size_t sx_find_slot(const sx_run *run, const char *path, bool state);

/* start.c. Takes tensors and position, once stages are known. False: an error is in run->diags. */
bool sx_start(sx_run *run, const sexp_start *start);

/* training.c, generating.c, evaluation.c: what the run needs of each. */
void sx_make_stages(sx_run *run); /* how many steps each has */
void sx_make_training(sx_run *run);
void sx_bind_stacked(sx_run *run, sx_stage_state *state, const sx_unit *unit);
void sx_make_generators(sx_run *run);
void sx_make_evals(sx_run *run); /* the chosen ones */
/* Of the sum and of narrow gradients, for all degrees of stacking that fit; INT64_MAX where that overflows. */
int64_t sx_gradient_bytes(const sx_run *run);
/* Memory of these, once it is known how much of each there is. */
void sx_take_training(sx_run *run);
void sx_take_generators(sx_run *run);
void sx_take_evals(sx_run *run);
/* Room for fields of these sizes in run->field_memory; where each is. */
int64_t *sx_place_fields(sx_run *run, const int64_t *n_bytes, uint32_t n_fields);
/* Makes a microbatch the one at hand: uploads its fields to where they are on the device. */
void sx_place_microbatch(sx_run *run, const sx_microbatch *microbatch, const sx_dataset *dataset,
                         const int64_t *offsets, int64_t n_records);
/* Loss (0) and metrics, the means of the step. */
float sx_scalar(const sx_run *run, uint32_t i);

/* Emits the microbatch at hand into run->fields. */
void sx_generate(sx_run *run, sx_generating *generating);
/* Counters that a generator's graphs read. */
uint32_t sx_generator_counters(const sx_generating *generating);
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
/* Computes the gradients of the next step and forgets them. */
bool sx_try_gradients(sx_run *run);

/* digests.c: all do nothing on steps that are not sampled. */
void sx_make_digests(sx_run *run);
void sx_digests_begin(sx_run *run);
bool sx_digests_active(const sx_run *run); /* of the step at hand anything is digested */
void sx_digest_microbatch(sx_run *run, const sx_stage_state *stage, const sx_microbatch *microbatch);
void sx_digest_sums(sx_run *run);  /* loss, averaged gradients */
void sx_digest_state(sx_run *run); /* parameters, states */
void sx_digests_end(sx_run *run, sexp_step *step);
/* Whether the step at hand digests every node; then this executes an unfused unit, and adds its digests
 * under the graph's name. */
bool sx_observes(const sx_run *run);
void sx_execute_observed(sx_run *run, sx_bound *bound, const char *graph);

#endif
