/* Knobs: named settings of an experiment with defaults, and variants, named sets of their values. */
#ifndef SX_LANG_KNOBS_H
#define SX_LANG_KNOBS_H

#include "evaluator.h"

typedef struct sx_knob_entry {
  const char *name, *doc;
  const sx_datum *form;
  sx_global *global;
  sx_value initial, value; /* the default, and in effect; kind NONE before it was defined */
  sx_value min, max;       /* NONE: no bound */
  const char *source;
} sx_knob_entry;

/* Notes a defknob form while the files are read. */
void sx_knobs_add(sx_evaluator *evaluator, const sx_datum *form, sx_global *global);
/* Checks the selected variant and the names in --set, before anything is evaluated. */
bool sx_knobs_select(sx_evaluator *evaluator);
/* Evaluates a defknob: its value is that of --set, over the variant's, over the default. */
bool sx_knobs_define(sx_evaluator *evaluator, const sx_datum *form, sx_value *value);
/* Checks the variants that are not selected, once all knobs are known. */
void sx_knobs_check_variants(sx_evaluator *evaluator);
/* Fills program->knobs: the knobs, then what the command line overrides. */
void sx_knobs_record(sx_evaluator *evaluator);

#endif
