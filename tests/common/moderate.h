/* A moderate experiment that uses every part of a run, with its data: for tests of whole runs. */
#ifndef TESTS_MODERATE_H
#define TESTS_MODERATE_H

#include "memory_host.h"

#define MODERATE_PATH "moderate.sexp"
/* Adds the experiment, what it includes, and its data to the host. Runs "images", "text", "made". */
void moderate_add(memory_host *host);

#endif
