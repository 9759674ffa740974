/* Builtins: functions written in C, as tables, and what they use to read their arguments and to complain. */
#ifndef SX_LANG_CALL_H
#define SX_LANG_CALL_H

#include "evaluator.h"

enum { SX_KEYS_MAX = 6 };

typedef struct sx_call sx_call;

typedef struct sx_builtin {
  const char *name;
  int min, max; /* positional arguments; max -1: any number */
  bool (*function)(sx_call *call, sx_value *result);
  const char *usage;      /* "(slice x axis start end :step 1)": its keywords are read off */
  int op;                 /* sx_op, or what `function` makes of it */
  double (*real)(double); /* on a compile-time number, where there is such a version */
} sx_builtin;

/* A call of a builtin. */
struct sx_call {
  sx_evaluator *evaluator;
  const sx_builtin *builtin;
  const sx_datum *at; /* the call in the source; its items are the arguments where the numbers agree */
  const sx_value *args;
  uint32_t n;
  sx_value keys[SX_KEYS_MAX]; /* in the order of `usage`; NONE: not given */
};

/* The tables, each ended by a row without a name. */
extern const sx_builtin sx_builtins_number[], sx_builtins_list[], sx_builtins_text[], sx_builtins_tensor[],
    sx_builtins_reduce[], sx_builtins_move[], sx_builtins_index[], sx_builtins_random[], sx_builtins_model[];

/* ---- calling (call.c) ---- */

/* Puts the arguments of a call on the stack into a frame of the function: checks their number, keywords and rest,
 * and leaves slots without a value NONE. They start at stack[base]. */
bool sx_bind(sx_evaluator *evaluator, const sx_function *function, size_t base, uint32_t n, bool keywords,
             const sx_datum *at);
bool sx_call_builtin(sx_evaluator *evaluator, const sx_builtin *builtin, size_t base, uint32_t n, bool keywords,
                     const sx_datum *at, sx_value *result);
/* The keyword of a builtin with this number; false: it has fewer. */
bool sx_builtin_key(const sx_builtin *builtin, uint32_t i, const char **name, size_t *n_bytes);

/* ---- complaints: always false ---- */

/* At the name of the builtin, "matmul: MESSAGE". */
bool sx_call_fail(const sx_call *call, sx_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* At the argument that holds the value. */
bool sx_value_fail(const sx_call *call, const sx_value *value, sx_code code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* "sqrt: expected a number, found a string" at the value. */
bool sx_expected(const sx_call *call, const sx_value *value, const char *what);

/* ---- reading arguments ---- */

bool sx_get_integer(const sx_call *call, const sx_value *value, const char *what, int64_t *integer);
/* An integer of lo to hi. */
bool sx_get_range(const sx_call *call, const sx_value *value, const char *what, int64_t lo, int64_t hi,
                  int64_t *integer);
bool sx_get_number(const sx_call *call, const sx_value *value, const char *what, double *number);
bool sx_get_boolean(const sx_call *call, const sx_value *value, const char *what, bool *boolean);
bool sx_get_text(const sx_call *call, const sx_value *value, const char *what, const char **text);
bool sx_get_dtype(const sx_call *call, const sx_value *value, sx_dtype *dtype);
bool sx_get_list(const sx_call *call, const sx_value *value, const char *what);
bool sx_get_function(const sx_call *call, const sx_value *value, const char *what);
/* A list of sizes, or one size. */
bool sx_get_shape(const sx_call *call, const sx_value *value, int64_t dims[SX_RANK_MAX], int *rank);
/* An axis of a tensor of that rank, counted from the end when negative. */
bool sx_get_axis(const sx_call *call, const sx_value *value, int rank, int *axis);

/* ---- the machine ---- */

/* Calls a function of the language from C. */
bool sx_apply(sx_evaluator *evaluator, const sx_value *function, const sx_value *args, uint32_t n, sx_value *result);
/* Evaluates an expression that stands in a top-level form. */
bool sx_evaluate_datum(sx_evaluator *evaluator, const sx_datum *expression, sx_value *result);

#endif
