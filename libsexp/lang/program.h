/* What evaluating an experiment file gives: one selected run with its graphs, parameters, data and
 * evaluations. Built by lang/, transformed by pass/, executed by run/. Owned by the program's arena. */
#ifndef SX_LANG_PROGRAM_H
#define SX_LANG_PROGRAM_H

#include "../ir/ir.h"
#include "../read/datum.h"

typedef struct sx_param {
  const char *path;
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  bool trainable;
  sx_graph *init;          /* output "value"; NULL when loaded */
  const char *load_file;   /* as named, joined to the folder of the naming file; NULL when initialized */
  const char *load_tensor; /* name of the tensor in it */
  sx_dtype load_dtype;     /* of that tensor: the parameter's, or bf16 or f16, which are widened to f32 */
  sx_span span;
} sx_param;

typedef struct sx_state {
  const char *path; /* NAME/PARAM-PATH */
  sx_dtype dtype;
  int rank;
  const int64_t *dims;
  sx_graph *init; /* output "value"; may read PARAM nodes */
  sx_span span;
} sx_state;

typedef enum sx_source_kind {
  SX_SOURCE_ARRAYS,
  SX_SOURCE_WINDOWS,
  SX_SOURCE_CSV,
  SX_SOURCE_IDX,
  SX_SOURCE_MANIFEST
} sx_source_kind;

/* One field of a source that names its fields: idx (field -> path), csv (field -> columns). */
typedef struct sx_source_field {
  const char *name;
  const char *path;                /* idx: the file */
  sx_dtype dtype;                  /* csv: f32 or i32 */
  int64_t first_column, n_columns; /* csv: columns from 0; n_columns 0: a scalar of one column */
} sx_source_field;

typedef struct sx_data {
  const char *name;
  sx_source_kind kind;
  const char *path;        /* arrays, windows, csv, manifest; joined to the naming file's folder */
  sx_source_field *fields; /* idx, csv */
  uint32_t n_fields;
  sx_dtype window_dtype; /* windows: u8, or i32 (stored as u8, u16, i32: window_bytes) */
  int window_bytes;      /* bytes of an element in the file: 1, 2, 4 */
  int64_t window_length, window_stride;
  const char *window_field;
  bool csv_header; /* the first line names columns and is skipped */
  bool shuffled;
  int64_t seed; /* of the order; the run's seed unless given */
  bool has_seed;
  bool records_are_fractions; /* of :records */
  double fraction_lo, fraction_hi;
  int64_t record_lo, record_hi; /* -1 -1: all */
  bool stop_at_end;
  sx_span span;
} sx_data;

/* The types of a data source's fields, asked from outside while compiling (shapes are static). */
typedef struct sx_field_type {
  const char *name;
  sx_dtype dtype;
  int rank; /* of one record */
  int64_t dims[SX_RANK_MAX];
} sx_field_type;

/* Fills *fields (in the arena) and *n_records (those left by :records, at least 1), or reports to diags and
 * returns false. */
typedef bool sx_describe_data(void *context, const sx_data *data, sx_arena *arena, sx_field_type **fields,
                              uint32_t *n_fields, int64_t *n_records, sx_diags *diags);

/* :init, :trip and :emit of a generator. State tensors are inputs "state/K", K from 0; init and trip give
 * outputs "state/K"; emit gives "field/NAME". The emitted fields hold a whole microbatch:
 * [batch dims...]. */
typedef struct sx_generator {
  const char *name;
  sx_field_type *fields;
  uint32_t n_fields, n_state;
  int64_t trips;
  sx_graph *init, *trip, *emit;
  sx_span span;
} sx_generator;

typedef struct sx_stage_run {
  const char *name; /* "" for a run without stages */
  int64_t steps, batch, microbatches;
  int data;       /* index into datas, or -1 */
  int generator;  /* index into generators, or -1 */
  sx_graph *loss; /* of one microbatch: outputs loss, metric/NAME, grad/PATH (trainable, in path
                     order), probe/NAME; inputs field/NAME [batch dims...], counter/NAME */
} sx_stage_run;

typedef enum sx_reduce_kind { SX_REDUCE_MEAN, SX_REDUCE_SUM, SX_REDUCE_MAX, SX_REDUCE_MIN } sx_reduce_kind;

typedef struct sx_eval {
  const char *name;
  int64_t every; /* steps; 0: only at the end */
  int data;
  int64_t batch, batches; /* batches 0: the data once */
  sx_graph *graph;        /* of a full batch: outputs metric/NAME */
  sx_graph *partial;      /* of the last, smaller batch, or NULL when there is none */
  int64_t partial_batch;
  const char **metrics;
  sx_reduce_kind *reduces;
  uint32_t n_metrics;
} sx_eval;

typedef struct sx_knob {
  const char *name, *doc;
  const sx_datum *value; /* integer, real, boolean, string, symbol, or list of these */
  const char *source;    /* "default" "variant" "set" "override" */
  sx_span span;
} sx_knob;

#define SX_RECOMPUTE_MOST 1e9

typedef struct sx_program {
  sx_arena *arena;
  sx_intern names;
  sx_sources sources;
  sx_diags diags;
  const char *run_name, *variant; /* variant NULL: none */
  int64_t seed;
  sx_stage_run *stages;
  uint32_t n_stages;
  sx_graph *update;        /* inputs grad/PATH (averaged), counter/NAME, PARAM, STATE; outputs param/PATH,
                              state/PATH, grad-norm where :clip is given (clipping is in the graph) */
  SX_VEC(sx_param) params; /* in path order once evaluated */
  SX_VEC(sx_state) states; /* likewise */
  SX_VEC(sx_data) datas;
  SX_VEC(sx_generator) generators;
  SX_VEC(sx_eval) evals;
  SX_VEC(sx_knob) knobs;                     /* in order of definition */
  int64_t checkpoint_every, checkpoint_keep; /* 0: none, all */
  const char **diagnostics;                  /* globs */
  uint32_t n_diagnostics;
  int64_t diagnostics_every;
  double recompute;  /* f32 operations that may be done again for each byte of memory less; below 0: not stated */
  char identity[72]; /* "sha256:..." of the canonical IR of all graphs, filled by compile.c */
} sx_program;

/* A selection of what the file offers and overrides from the command line. */
typedef struct sx_selection {
  const char *run;         /* NULL: the only run, or an error listing them */
  const char *variant;     /* NULL: none */
  const char *const *sets; /* "knob=value" */
  size_t n_sets;
  int64_t steps;                  /* 0: the file's */
  int64_t eval_every;             /* 0: the file's */
  const char *const *diagnostics; /* override; NULL: the file's */
  size_t n_diagnostics;
  int64_t eval_limit; /* work budget */
} sx_selection;

/* How the evaluator reaches files: text of a source file for the root and include. */
typedef bool sx_read_source(void *context, const char *path, const char **bytes, size_t *n_bytes, const char **why,
                            sx_arena *arena);

typedef struct sx_language_host {
  void *context;
  sx_read_source *read_source;
  sx_describe_data *describe_data;
  void (*print)(void *context, const char *line); /* of (print ...) */
} sx_language_host;

/* Reads and evaluates the file with the selection; fills the program's runs, graphs and lists. False:
 * errors are in program->diags. Knob, variant and run selection errors included. */
bool sx_language_evaluate(sx_program *program, const char *path, const sx_selection *selection,
                          const sx_language_host *host);

#endif
