/* JSON: read by jansson, printed canonically. */
#ifndef CH_JSON_H
#define CH_JSON_H

#include <jansson.h>

#include "choices_status.h"
#include "memory.h"

enum { CH_JSON_DEPTH = 32 };

/* The value that begins at bytes[*at], which then is behind it and the space after it. Duplicate keys, NUL in strings,
 * bad UTF-8, and more than CH_JSON_DEPTH levels are refused with E-CHOICE-004, which names the line. */
choices_status ch_json_next(json_t **out, const char *name, const char *bytes, size_t n_bytes, size_t *at,
                            choices_error *error);

/* Canonical text: members sorted by their bytes, ", " and ": ", shortest numbers. At most CH_JSON_DEPTH deep. */
void ch_json_put(ch_text *to, const json_t *value);
void ch_json_put_string(ch_text *to, const char *text);
void ch_json_put_real(ch_text *to, double value);

/* ', "name": ' or '"name": ' after an opening brace. */
void ch_json_put_name(ch_text *to, const char *name);

/* Canonical text in an arena; NULL where memory fails. */
char *ch_json_text(ch_arena *arena, const json_t *value);

#endif
