/* An allocator that counts what the library holds. */
#ifndef TESTS_COUNTED_H
#define TESTS_COUNTED_H

#include "../../libsexp/sexp.h"

typedef struct counted {
  size_t now, most;         /* bytes */
  size_t n_calls, fails_at; /* fails_at 0: never */
} counted;

/* The counts outlive it. */
sexp_allocator counted_allocator(counted *c);

#endif
