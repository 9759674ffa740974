/* The declaring forms: defdata, defgenerator, defrun, defeval. */
#ifndef SX_LANG_DECLARE_H
#define SX_LANG_DECLARE_H

#include "model.h"
#include "options.h"

/* ---- data (forms_data.c) ---- */

/* A defdata once its options are evaluated. */
typedef struct sx_data_entry {
  sx_data data;
  int index; /* in program->datas, or -1 */
} sx_data_entry;

/* Evaluates all defdata forms into their declarations. */
void sx_build_datas(sx_evaluator *evaluator);

/* Data that a run or an evaluation reads, with its fields. */
typedef struct sx_reading {
  int data;                    /* index into program->datas, or -1 */
  sx_declaration *generator;   /* or NULL */
  const sx_field_type *fields; /* of one record */
  uint32_t n_fields;
  int64_t n_records; /* of data */
} sx_reading;

/* Finds data or a generator by name and asks for its fields. */
bool sx_use_data(const sx_options *options, int option, const char *what, sx_reading *reading);

/* ---- fields ---- */

/* Evaluates an expression in which the fields of a microbatch are bound by name, as inputs of the context's graph. */
bool sx_evaluate_with_fields(sx_evaluator *evaluator, const sx_datum *expression, const char *name,
                             const sx_field_type *fields, uint32_t n_fields, int64_t batch, sx_value *result);

/* ---- generators (forms_generator.c) ---- */

/* Options that can be read before a batch is known: the fields. */
bool sx_generator_fields(sx_evaluator *evaluator, sx_declaration *declaration);
/* The generator for a batch, an index into program->generators; builds its graphs. */
bool sx_build_generator(sx_evaluator *evaluator, sx_declaration *declaration, int64_t batch, int *index);

/* ---- runs and evaluations ---- */

/* Check the keywords of every form of a kind, also of those that are not built. */
void sx_check_runs(sx_evaluator *evaluator);
void sx_check_evals(sx_evaluator *evaluator);
void sx_check_generators(sx_evaluator *evaluator);
/* Builds the selected run: stages, update graph, generators. */
bool sx_build_run(sx_evaluator *evaluator);
/* Builds the evaluations of the selected run. */
void sx_build_evals(sx_evaluator *evaluator);

/* A metric: ("name" expression :reduce mean). */
typedef struct sx_metric {
  const char *name;
  const sx_datum *expression;
  sx_reduce_kind reduce;
} sx_metric;
/* Reads a list of metrics; reduces: whether :reduce is possible. */
bool sx_read_metrics(const sx_options *options, int option, bool reduces, sx_metric **metrics, uint32_t *n);
/* Evaluates the metrics into outputs metric/NAME of the context's graph. */
bool sx_add_metrics(sx_evaluator *evaluator, const sx_metric *metrics, uint32_t n, const sx_reading *reading,
                    int64_t batch);

#endif
