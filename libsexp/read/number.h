/* Numbers of the language: 12 -3 0x1f 0.5 -1e-3 .5 2. inf -inf nan. */
#ifndef SX_READ_NUMBER_H
#define SX_READ_NUMBER_H

#include "datum.h"

/* Whether a word is meant as a number: it starts with a digit (after a sign or a point) or is one of inf,
 * -inf, nan. */
bool sx_number_starts(const char *word, size_t n);
/* Fills kind and value of *datum, or *why. */
bool sx_number_parse(sx_arena *arena, const char *word, size_t n, sx_datum *datum, const char **why);

#endif
