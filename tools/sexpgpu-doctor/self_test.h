/* A small experiment, computed at two SIMD levels and compared by digests. */
#ifndef DOCTOR_SELF_TEST_H
#define DOCTOR_SELF_TEST_H

#include <stdbool.h>
#include <stddef.h>

#include "../../libsexp/sexp.h"

/* Fields are filled as far as it came. */
typedef struct self_test {
  size_t n, n_equal;     /* digests: of the nodes of the first step, and of gradients, parameters and states of each */
  char different[256];   /* the first that differs; "" none */
  char parameters[80];   /* digest after the last step, at the level that was asked for */
  bool known;            /* it is that of every machine */
  sexp_messages *errors; /* why it could not be computed; NULL: it could; owned */
} self_test;

/* At `simd` with that many threads, against the reference loops on one thread. It repeats: the digests are the same
 * everywhere. */
void self_test_run(self_test *out, const char *simd, int threads);

#endif
