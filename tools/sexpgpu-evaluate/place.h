/* The checkpoints that are to be evaluated: one, those of a location, or those and each that appears. */
#ifndef EVALUATE_PLACE_H
#define EVALUATE_PLACE_H

#include "evaluate.h"

/* The exit status; errors are printed. */
int place_evaluate(evaluator *e);

#endif
