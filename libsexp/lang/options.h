/* Keyword options of the top-level forms: (defrun name :steps 10 ...). */
#ifndef SX_LANG_OPTIONS_H
#define SX_LANG_OPTIONS_H

#include "evaluator.h"

enum { SX_OPTIONS_MAX = 24 };

typedef struct sx_options {
  sx_evaluator *evaluator;
  const sx_datum *form;
  sx_code code;                           /* of mistakes: E-RUN, E-DATA, E-KNOB */
  const sx_datum *values[SX_OPTIONS_MAX]; /* NULL: not given */
} sx_options;

/* Takes items[first]... as pairs of keyword and value; names ends with NULL. False: a mistake, reported. */
bool sx_read_options(sx_options *options, sx_evaluator *evaluator, const sx_datum *form, uint32_t first, sx_code code,
                     const char *const *names);

/* Reads and forgets the options of every declaration of a kind. */
void sx_check_options(sx_evaluator *evaluator, sx_declaration_kind kind, sx_code code, const char *const *names);

/* Reports at a datum of the form; always false. */
bool sx_option_fail(const sx_options *options, const sx_datum *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* An option's value evaluated and checked; what is not given stays as it was. `what` is its keyword. */
bool sx_option_integer(const sx_options *options, int option, const char *what, int64_t lo, int64_t *integer);
bool sx_option_number(const sx_options *options, int option, const char *what, double *number);
bool sx_option_boolean(const sx_options *options, int option, const char *what, bool *boolean);
bool sx_option_text(const sx_options *options, int option, const char *what, const char **text);
/* A bare word of the choices (ended by NULL), or an expression that gives one: its number. */
bool sx_option_choice(const sx_options *options, int option, const char *what, const char *const *choices, int *choice);
/* A list of texts, ("a" "b") or an expression that gives one. */
bool sx_option_texts(const sx_options *options, int option, const char *what, const char ***texts, uint32_t *n);
/* A name: a bare word, or an expression that gives a text. A word that is a top-level name is that name's value,
 * unless `find` (NULL: always) gives a declaration of that name. */
typedef sx_declaration *sx_find_named(sx_evaluator *evaluator, const char *name);
bool sx_option_name(const sx_options *options, int option, const char *what, sx_find_named *find, const char **name);

/* Evaluates one datum of the form. */
bool sx_option_value(const sx_options *options, const sx_datum *datum, sx_value *value);

#endif
