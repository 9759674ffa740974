/* libsexp: experiments as s-expressions, compiled to a typed graph and trained with exact bits.
 *
 *   sexp_program *program = NULL;
 *   sexp_messages *messages = NULL;
 *   sexp_options options = SEXP_OPTIONS_DEFAULT;
 *   if (sexp_compile(&program, &messages, "digits.sexp", &options, &host) == SEXP_OK) {
 *     sexp_run *run = NULL;
 *     if (sexp_run_new(&run, &messages, program, &run_options, &host) == SEXP_OK) {
 *       sexp_step step;
 *       while (sexp_run_step(run, &step, &messages) == SEXP_OK) printf("%g\n", (double)step.loss);
 *       sexp_run_free(run);
 *     }
 *     sexp_program_free(program);
 *   }
 *   for (size_t i = 0; i < sexp_messages_count(messages); i++) fputs(sexp_messages_get(messages, i)->text, stderr);
 *   sexp_messages_free(messages);
 *
 * Conventions. Outputs come first and are owned by the caller when they are pointers to pointers; a
 * returned pointer is borrowed from its object and lives as long. Nothing here exits, prints, reads the
 * environment or keeps global state: files are reached through sexp_host, settings are options.
 * An object is used by one thread at a time; different objects are independent. Errors: a function
 * that returns sexp_status adds to *messages (created when NULL) why it did not return SEXP_OK.
 * Repeats: every result is a function of the file, the selection, the data and the seed alone, bit for
 * bit, on every machine, with any number of threads (docs/determinism.md, numerics 1). */
#ifndef SEXP_H
#define SEXP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sexp_status {
  SEXP_OK,
  SEXP_END,       /* the run's last step was done before */
  SEXP_INPUT,     /* an error in the experiment, its options or data (exit status 2) */
  SEXP_STORAGE,   /* a file or network failed (exit status 4) */
  SEXP_NO_MEMORY, /* E-RUN-001 (exit status 2) */
  SEXP_DEVICE     /* the device failed, or has no memory (exit status 5) */
} sexp_status;

/* ---- messages ---------------------------------------------------------------------------------- */

typedef struct sexp_message {
  const char *code; /* "E-SHAPE-003" */
  bool warning;
  const char *file; /* NULL: not about a source text */
  uint32_t line, column;
  const char *message; /* one line */
  const char *text;    /* as a person reads it: place, source line, caret, calls, hint; ends with \n */
} sexp_message;

typedef struct sexp_messages sexp_messages;
size_t sexp_messages_count(const sexp_messages *messages); /* 0 for NULL */
const sexp_message *sexp_messages_get(const sexp_messages *messages, size_t i);
void sexp_messages_free(sexp_messages *messages);

/* Every error code with its meaning, for docs and tests. NULL past the last. */
typedef struct sexp_error_code {
  const char *code, *title, *hint, *page;
} sexp_error_code;
const sexp_error_code *sexp_error_codes(size_t i);

/* ---- host: how the library reaches files ------------------------------------------------------- */

typedef enum sexp_dtype {
  SEXP_F32,
  SEXP_BF16,
  SEXP_F16,
  SEXP_I32,
  SEXP_U8,
  SEXP_BOOL,
  /* of files alone: */
  SEXP_F64,
  SEXP_I64,
  SEXP_U64,
  SEXP_U32,
  SEXP_U16,
  SEXP_I16,
  SEXP_I8
} sexp_dtype;
enum { SEXP_RANK_MAX = 8 };

/* A failure of the host: code "E-DATA-103", a message that names path and byte offset. */
typedef struct sexp_failure {
  char code[16];
  char message[2048];
  bool storage; /* SEXP_STORAGE, else SEXP_INPUT */
} sexp_failure;

typedef struct sexp_file sexp_file; /* the host's own */

typedef struct sexp_file_info {
  const unsigned char *bytes; /* whole contents, mapped or in memory; valid until close */
  uint64_t n_bytes;
} sexp_file_info;

/* A tensor of a safetensors, npy or npz file. */
typedef struct sexp_file_tensor {
  const char *name; /* of an npy file: its stem */
  const char *path; /* of the file that holds it: the shard, of an index */
  sexp_dtype dtype;
  int rank;
  int64_t dims[SEXP_RANK_MAX];
  const unsigned char *bytes; /* row-major, in the host's byte order, at any alignment; valid until close */
  uint64_t n_bytes;
} sexp_file_tensor;

/* A data manifest. Shard s has the files paths[s * n_shard_files] and those after it. */
typedef struct sexp_manifest {
  const char *kind;          /* "arrays" "windows" "idx" "csv" */
  const char *dtype, *field; /* windows; NULL else */
  int64_t length, stride;    /* windows */
  size_t n_fields;           /* idx, csv */
  const char *const *fields;
  size_t n_shards, n_shard_files;
  const char *const *paths;
} sexp_manifest;

/* All return 0, or nonzero with *why filled. Called from one thread at a time; check also from the
 * loader's thread meanwhile. A path is relative to the working directory, absolute, or s3://bucket/key. */
typedef struct sexp_host {
  void *context;
  /* A regular file, inflated where the name ends in .gz. */
  int (*open)(void *context, const char *path, sexp_file **file, sexp_file_info *info, sexp_failure *why);
  /* A safetensors file or index, npy or npz: its tensors, in name order. */
  int (*open_tensors)(void *context, const char *path, sexp_file **file, const sexp_file_tensor **tensors,
                      size_t *n_tensors, sexp_failure *why);
  /* A data manifest, its shards checked against their sizes and hashes. */
  int (*open_manifest)(void *context, const char *path, sexp_file **file, const sexp_manifest **manifest,
                       sexp_failure *why);
  /* Whether the file is as it was when opened; nonzero with why when it changed or shrank. */
  int (*check)(void *context, sexp_file *file, sexp_failure *why);
  /* "sha256:..." of a local file's bytes, or the ETag. 80 bytes are enough. */
  int (*version)(void *context, sexp_file *file, char version[80], uint64_t *n_bytes, sexp_failure *why);
  void (*close)(void *context, sexp_file *file);
  /* One line of (print ...) in an experiment. NULL: dropped. */
  void (*print)(void *context, const char *line);
} sexp_host;

/* Memory of the library; all zero: malloc and free. */
typedef struct sexp_allocator {
  void *(*allocate)(void *context, size_t n_bytes); /* NULL when there is none */
  void (*release)(void *context, void *pointer);
  void *context;
  size_t chunk_bytes; /* 0: as the library likes; small, allocate is called that often (for tests) */
} sexp_allocator;

/* ---- compile ----------------------------------------------------------------------------------- */

typedef struct sexp_options {
  const char *run;         /* NULL: the only one */
  const char *variant;     /* NULL: none */
  const char *const *sets; /* "knob=value" */
  size_t n_sets;
  int64_t steps, eval_every;      /* 0: the file's */
  const char *const *diagnostics; /* globs; NULL: the file's */
  size_t n_diagnostics;
  int64_t eval_limit;     /* work budget of the evaluator */
  bool optimize;          /* false: no simplification, fusion or reuse; the same bits */
  const char *dump_after; /* name of a pass: its graphs are kept as sexp_program_text's "dump"; or NULL */
  int64_t memory_bytes;   /* that the run and its copies may take on the CPU: values are computed again rather than held
                             until it fits, unless the experiment has a :recompute; 0: any */
  int memory_copies;      /* of parameters and states, that the caller will take of it */
  sexp_allocator allocator;
} sexp_options;
#define SEXP_OPTIONS_DEFAULT \
  { .eval_limit = 10000000, .optimize = true }

typedef struct sexp_program sexp_program;

/* Compiles the experiment file. Errors: E-READ, E-EVAL, E-TYPE, E-SHAPE, E-PARAM, E-GRAD, E-KNOB, E-RUN,
 * E-DATA; up to 20 of the first stage that has any. Warnings may be added with SEXP_OK. */
sexp_status sexp_compile(sexp_program **program, sexp_messages **messages, const char *path,
                         const sexp_options *options, const sexp_host *host);
void sexp_program_free(sexp_program *program);

typedef struct sexp_knob {
  const char *name, *doc;
  const char *value; /* canonical text; JSON too where json is set (numbers, booleans, strings) */
  const char *json;
  const char *source; /* "default" "variant" "set" "override" */
} sexp_knob;

typedef struct sexp_source_file {
  const char *path;
  const char *bytes;
  size_t n_bytes;
} sexp_source_file;

typedef struct sexp_parameter {
  const char *path;
  sexp_dtype dtype;
  int rank;
  const int64_t *dims;
  bool trainable;
  const char *load_file, *load_tensor; /* NULL: initialized */
  uint64_t load_bytes;                 /* size and version of load_file, known once a run exists */
  const char *load_version;
} sexp_parameter;

/* Its metrics, each reduced to one value named eval/NAME/METRIC. */
typedef struct sexp_evaluation {
  const char *name;
  int64_t every; /* steps; 0: after the last alone */
  size_t n_metrics;
  const char *const *metrics;
} sexp_evaluation;

/* A data source. Version and size are those of its file, the first where it has several, known of a run's alone. */
typedef struct sexp_data_info {
  const char *name, *path, *order; /* "sequential" "shuffled" */
  int64_t n_records;               /* used, after :records */
  const char *version;
  uint64_t n_bytes;
} sexp_data_info;

/* Everything known of a program before its first step. */
typedef struct sexp_description {
  const char *run, *variant, *identity;     /* variant NULL: none */
  int64_t seed, steps, batch, microbatches; /* of all stages, of the first */
  size_t n_knobs, n_sources, n_parameters, n_states, n_stages, n_evals, n_datas;
  const sexp_knob *knobs;
  const sexp_source_file *sources;           /* the file, then its includes; without the prelude */
  const sexp_parameter *parameters, *states; /* in path order */
  const sexp_evaluation *evals;              /* in the order of the file */
  const sexp_data_info *datas;               /* those that are used */
  int64_t checkpoint_every, checkpoint_keep;
  int64_t n_nodes_built, n_nodes, n_groups, n_products, n_convolutions; /* of the training graphs */
  int64_t parameter_elements, parameter_bytes, state_bytes;
  int64_t beside_bytes; /* of those, what a training run holds twice: the update does not write it in place */
  int64_t step_bytes, step_bytes_bound; /* most temporaries of a step at once, and their lower bound */
} sexp_description;
const sexp_description *sexp_program_describe(const sexp_program *program);

/* Text: "ir" the graphs as optimized, "plan" the plans, "report" the products and convolutions and their
 * implementations a line each, "largest" the largest buffers of a step, "dot" the graphs for Graphviz, a cluster
 * each, "dump" what dump_after kept. NULL: no such text. */
const char *sexp_program_text(sexp_program *program, const char *what);
/* Names of the passes in order, for --after; NULL past the last. */
const char *sexp_pass_name(size_t i);

/* ---- run --------------------------------------------------------------------------------------- */

typedef struct sexp_value {
  const char *name; /* "train/loss", "eval/heldout/accuracy", "diagnostics/grad/fc1/w/std" */
  float value;
} sexp_value;

typedef struct sexp_digest {
  const char *name;   /* "digest/batch" "digest/loss" "digest/gradients" "digest/parameters" "digest/states",
                         or "digest/node/GRAPH/%12" */
  const char *digest; /* "sha256:..." */
  const char *text;   /* of a node: its IR line and place; else NULL */
} sexp_digest;

/* What one step gave; borrowed until the next call. */
typedef struct sexp_step {
  int64_t step; /* steps done, 1 after the first */
  float loss;
  const sexp_value *values; /* train/..., then diagnostics/..., then eval/... where evaluated */
  size_t n_values;
  const sexp_digest *digests;
  size_t n_digests;
  bool checkpoint;   /* the file asks for a checkpoint now (or the run ended) */
  bool stage_began;  /* this step was the first of a stage */
  const char *stage; /* its name, "" without stages */
  /* In this step an allocation of the device failed, as told: it was computed unstacked, and so are those after it.
   * NULL: none did. */
  const char *memory_failed;
} sexp_step;

/* A parameter or a state: its bytes are row-major, in the host's byte order. */
typedef struct sexp_tensor {
  const char *path;
  sexp_dtype dtype;
  int rank;
  const int64_t *dims;
  const void *bytes;
  size_t n_bytes;
  bool state;
} sexp_tensor;

/* Where a run goes on or is evaluated: the step that a checkpoint was written after, and its tensors. */
typedef struct sexp_start {
  int64_t step;
  const sexp_tensor *tensors; /* borrowed for the call; in any order */
  size_t n_tensors;
} sexp_start;

typedef struct sexp_run_options {
  int threads;                           /* 0: all processors the process may use */
  bool pin_threads;                      /* each thread but the caller's to one of these, where they suffice */
  const char *simd;                      /* NULL: the best; "reference" "scalar" "avx2" "avx512" */
  int64_t digest_every, digest_nodes_at; /* 0: none; nodes of the step with this number (1: the first) */
  bool reads_ahead;                      /* a loader thread prepares the next microbatches */
  const sexp_start *start;        /* NULL: from the beginning. The bits are those of the run that was not interrupted */
  bool evaluations_only;          /* for sexp_run_evaluate alone; digests, start and reads_ahead are of no use to it */
  const char *const *evaluations; /* of such a run: the names it is for; NULL: all */
  size_t n_evaluations;
  struct sexp_device *device;         /* NULL: the CPU. Outlives the run */
  const struct sexp_chooser *chooser; /* of a device: decides its choices; NULL: the first candidates. Outlives it */
} sexp_run_options;
#define SEXP_RUN_OPTIONS_DEFAULT \
  { .reads_ahead = true }

typedef struct sexp_run sexp_run;

/* Opens data, draws or loads parameters, takes all memory of the run. Errors: E-DATA, E-LOAD, E-RUN
 * (E-RUN-006 where a start does not fit the program).
 * With evaluations_only it opens the data of its evaluations alone, draws and loads nothing, and holds the parameters
 * once, no states, no gradients. E-RUN-007: no such evaluation. */
sexp_status sexp_run_new(sexp_run **run, sexp_messages **messages, sexp_program *program,
                         const sexp_run_options *options, const sexp_host *host);
/* Stops the loader; waits for nothing else. */
void sexp_run_free(sexp_run *run);
/* One training step with the evaluations due after it. SEXP_END after the last, and always with evaluations_only.
 * Allocates nothing. An error
 * (an id out of range, a file that changed) names node, index and value, or file and offset; the state
 * is that after the last whole step. */
sexp_status sexp_run_step(sexp_run *run, sexp_step *step, sexp_messages **messages);

/* What evaluations gave; borrowed until the next call. */
typedef struct sexp_evaluated {
  int64_t step;
  const sexp_value *values; /* eval/..., in the order of the file */
  size_t n_values;
} sexp_evaluated;

/* Evaluates the parameters of `start`, of a run made with evaluations_only, as after its step: `names` of them, in the
 * order of the file, or all that the run is for (NULL). Errors: E-RUN-006 (a parameter is missing, unknown or of
 * another type; a step that the program does not have), E-RUN-007, and those of the evaluations; the run can be used
 * again. States in `start` are not looked at. Repeats: the bits that sexp_run_step gives at that step. */
sexp_status sexp_run_evaluate(sexp_run *run, sexp_evaluated *evaluated, const sexp_start *start,
                              const char *const *names, size_t n_names, sexp_messages **messages);

/* Where the run stands. */
typedef struct sexp_position {
  int64_t step, records, stage, stage_records;
  int64_t stages_steps; /* steps of all stages */
} sexp_position;
void sexp_run_position(const sexp_run *run, sexp_position *position);

/* Current bytes of parameters, then states, both in path order; borrowed until the next step. With evaluations_only
 * the parameters alone. On a device: copied into memory of the host, once a step; 0 where it failed. */
size_t sexp_run_tensors(const sexp_run *run, const sexp_tensor **tensors);

/* Its data sources as they were opened. */
size_t sexp_run_datas(const sexp_run *run, const sexp_data_info **datas);

/* The facts of a CPU that a run's bits rest on: the version of the numerics alone. */
#define SEXP_DEVICE_CPU "cpu, numerics 1"

/* Facts of the engine, for the report. */
typedef struct sexp_engine {
  const char *device; /* SEXP_DEVICE_CPU, or the facts of the device */
  const char *simd;
  int threads;
} sexp_engine;
void sexp_run_engine(const sexp_run *run, sexp_engine *engine);
/* Of a run on a device: "kernels" the pieces of work of every executable, a line each; "memory" what it is taken for;
 * "stacking" the degrees, what they need and are estimated to take, and why others are not. NULL: no such text. */
const char *sexp_run_text(sexp_run *run, const char *what);

/* What a run can be computed with here. */
enum { SEXP_SIMD_LEVELS = 8 };
typedef struct sexp_processor {
  int threads;                          /* that this process may use: a run's by default */
  const char *simd;                     /* the best level: a run's by default */
  const char *levels[SEXP_SIMD_LEVELS]; /* all that sexp_run_options.simd can be, the slowest first */
  size_t n_levels;
} sexp_processor;
void sexp_processor_look(sexp_processor *processor);

/* A library of the CUDA device, as this machine has it. */
typedef struct sexp_library {
  const char *name;    /* "cuDNN" */
  const char *path;    /* of the file that was loaded; NULL: none */
  const char *version; /* "9.19.0"; NULL: none */
  const char *missing; /* why it cannot be used, with what was searched and found; NULL: it can */
} sexp_library;

typedef struct sexp_libraries {
  const sexp_library *items;
  size_t n;
  const char *unbuilt; /* why nothing was looked for: this build has no part of CUDA; NULL else */
} sexp_libraries;

/* Loads each of them and says what there is: at `path`, a file or a directory and nothing else, or, for NULL, where
 * the system's loader looks. They stay loaded until the process ends. Needs neither a GPU nor a driver. The result is
 * owned; NULL: no memory. */
sexp_libraries *sexp_libraries_find(const char *path);
void sexp_libraries_free(sexp_libraries *libraries);

#include "sexp_device.h"
#include "sexp_explain.h"

#endif
