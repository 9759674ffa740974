/* A knob's recorded value, as --set takes it. */
#ifndef EVALUATE_KNOB_H
#define EVALUATE_KNOB_H

#include "../../libckpt/ckpt.h"

/* "name=value" from the JSON value, owned. The exit status of a failure, printed: E-CKPT-051. */
int knob_set(char **set, const ckpt_knob *knob);

#endif
