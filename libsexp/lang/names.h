/* Top-level names, and the nearest of them to a misspelt one. */
#ifndef SX_LANG_NAMES_H
#define SX_LANG_NAMES_H

#include "evaluator.h"

/* Enters builtins, dtypes and the few definitions that the builtins need. */
void sx_names_begin(sx_evaluator *evaluator);
/* The global that a name means in the user's files, or in the library's own; NULL: none. */
sx_global *sx_names_find(const sx_evaluator *evaluator, const char *name, bool prelude);
/* A new name of the user's files or of the prelude. */
sx_global *sx_names_add(sx_evaluator *evaluator, const char *name, const sx_datum *definition, bool prelude);

/* Collects the candidate nearest to a word, if one is near enough. */
typedef struct sx_nearest {
  const char *word, *best;
  uint32_t distance;
} sx_nearest;
sx_nearest sx_nearest_begin(const char *word);
void sx_nearest_add(sx_nearest *nearest, const char *candidate);
void sx_nearest_add_names(sx_nearest *nearest, const sx_evaluator *evaluator);
/* "did you mean BEST?", or NULL. */
const char *sx_nearest_hint(const sx_nearest *nearest, sx_arena *arena);

#endif
