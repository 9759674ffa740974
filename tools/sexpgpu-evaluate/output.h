/* What is told of an evaluated checkpoint: records, and a row of a table or a line for people. */
#ifndef EVALUATE_OUTPUT_H
#define EVALUATE_OUTPUT_H

#include "evaluate.h"

/* Before the first checkpoint of an experiment: the report and the table's head. */
void output_begin(const evaluator *e);
/* The records that the stream lacks: manifest, values, annotation. The exit status of a failure, printed. */
int output_records(evaluator *e, const tool_resume *resume, const sexp_evaluated *evaluated);
/* On a terminal, while one is evaluated; and off the screen again. */
void output_progress(const evaluator *e, const char *name);
void output_progress_end(const evaluator *e);
void output_row(const evaluator *e, const sexp_evaluated *evaluated, double seconds);

#endif
