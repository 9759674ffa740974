/* The prelude: definitions in the language itself, embedded as texts. prelude.c is made by embed.sh. */
#ifndef SX_LANG_PRELUDE_H
#define SX_LANG_PRELUDE_H

#include <stddef.h>

typedef struct sx_embedded {
  const char *name;  /* "prelude/nn.sexp" */
  const char *bytes; /* NUL-terminated */
  size_t n_bytes;
} sx_embedded;

extern const sx_embedded sx_prelude[];
extern const size_t sx_prelude_count;

#endif
