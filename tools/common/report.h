/* The lowering report: what a run is and how it will be computed, before its first step. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

#include <stdio.h>

#include "../../libsexp/sexp.h"
#include "experiment.h"

typedef struct tool_report {
  char *text;    /* the lines that hold on every machine: for the `lowering` annotation; owned */
  char *machine; /* the rest: graph after optimization, memory, device */
} tool_report;

/* What the report is about, without a run. */
typedef struct tool_report_facts {
  const char *path;
  sexp_program *program;
  const sexp_data_info *datas;
  size_t n_datas;
  sexp_engine engine;
  const char *choices_digest;
  const tool_mode *mode;
  int64_t copy_bytes; /* of a background checkpoint; 0: none is made */
} tool_report_facts;

/* False: out of memory. */
bool tool_report_program(tool_report *report, const tool_report_facts *facts);
/* Of a run. copy_bytes: what the copy of a background checkpoint takes, 0: none is made. False: out of memory. */
bool tool_report_make(tool_report *report, const char *path, sexp_program *program, const sexp_run *run,
                      const tool_experiment *experiment, const tool_mode *mode, int64_t copy_bytes);
/* What a run of the program on the CPU may take (tool_engine_memory; 0: any) against what it will: E-DEVICE-002,
 * printed with the largest buffers. twice: nothing is updated in place. */
typedef struct tool_allowance {
  int64_t n_bytes;
  const char *whose;
} tool_allowance;
int tool_report_fits(sexp_program *program, const sexp_engine *engine, const tool_allowance *allowed, bool twice,
                     int64_t copy_bytes);
/* What an evaluation of `evals` (NULL: all) is and how it is computed. */
void tool_report_evaluation(FILE *to, const char *path, const sexp_program *program, const sexp_run *run,
                            const tool_experiment *experiment, const char *const *evals, size_t n_evals,
                            const tool_mode *mode);
/* What a longer report adds: every product and convolution of the CPU, or of a run on a device (on_device) its memory
 * and degrees of stacking; with `launches` every piece of work. Owned; NULL: out of memory. */
char *tool_report_details(sexp_program *program, sexp_run *on_device, bool launches);
/* All of it, as a person sees it; details: texts to add before the last two lines, or NULL. */
void tool_report_print(const tool_report *report, const char *details, FILE *to);
void tool_report_free(tool_report *report);

#endif
