/* Everything that an experiment gives, as text: for tests that compare whole runs bit for bit. */
#ifndef TESTS_TRANSCRIPT_H
#define TESTS_TRANSCRIPT_H

#include "memory_host.h"

/* What is compared between two runs: every value's bits, every digest, a hash of every tensor at the end. After an
 * error its messages. Freed with free(). */
char *transcript_of(memory_host *files, const char *path, const sexp_options *options,
                    const sexp_run_options *run_options);

/* Whether the two are the same; else the first line that differs in both, for a message. */
enum { TRANSCRIPT_DIFFERENCE = 400 };
bool transcript_same(char difference[TRANSCRIPT_DIFFERENCE], const char *expected, const char *got);

/* The value of that name of a step's values, or NaN. */
float value_of(const sexp_step *step, const char *name);
/* The tensor of a run with that path; NULL: none. */
const sexp_tensor *tensor_of(const sexp_run *run, const char *path);

#endif
