/* Values of the experiment language. Immutable; owned by the program's arena; small enough to be copied. */
#ifndef SX_LANG_VALUE_H
#define SX_LANG_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "../ir/ir.h"
#include "../read/datum.h"

typedef enum sx_kind {
  SX_KIND_NONE, /* no value: a keyword argument that was not given */
  SX_KIND_INTEGER,
  SX_KIND_REAL,
  SX_KIND_BOOLEAN,
  SX_KIND_STRING,
  SX_KIND_SYMBOL,
  SX_KIND_KEYWORD,
  SX_KIND_LIST,
  SX_KIND_FUNCTION, /* made by defun or lambda */
  SX_KIND_BUILTIN,
  SX_KIND_DTYPE,
  SX_KIND_TENSOR,
  SX_KIND_WEIGHTS /* of (weights FILE [TENSOR]) */
} sx_kind;

struct sx_function;
struct sx_builtin;

/* A tensor of a file that a parameter starts from. */
typedef struct sx_weights {
  const char *file;   /* joined to the folder of the file that names it */
  const char *tensor; /* NULL: named as the parameter's path */
  bool has_dtype;     /* its dtype in the file is said, and may be widened to the parameter's */
  sx_dtype dtype;
} sx_weights;

typedef struct sx_value {
  uint32_t kind; /* sx_kind */
  uint32_t n;    /* LIST: items. TENSOR: its node. KEYWORD: 1 where it stands in a call and may name an argument */
  union {
    int64_t integer;
    double real;
    bool boolean;
    const char *text; /* STRING: ended by NUL; SYMBOL, KEYWORD: interned as well */
    const struct sx_value *items;
    const struct sx_function *function;
    const struct sx_builtin *builtin;
    sx_dtype dtype;
    sx_graph *graph;
    const sx_weights *weights;
  };
} sx_value;

static inline sx_value sx_integer(int64_t integer) { return (sx_value){SX_KIND_INTEGER, 0, {.integer = integer}}; }
static inline sx_value sx_real(double real) { return (sx_value){SX_KIND_REAL, 0, {.real = real}}; }
static inline sx_value sx_boolean(bool boolean) { return (sx_value){SX_KIND_BOOLEAN, 0, {.boolean = boolean}}; }
static inline sx_value sx_string(const char *text) { return (sx_value){SX_KIND_STRING, 0, {.text = text}}; }
static inline sx_value sx_list(const sx_value *items, uint32_t n) {
  return (sx_value){SX_KIND_LIST, n, {.items = items}};
}
static inline sx_value sx_tensor(sx_graph *graph, sx_id node) {
  return (sx_value){SX_KIND_TENSOR, node, {.graph = graph}};
}

static inline bool sx_is_number(const sx_value *value) {
  return value->kind == SX_KIND_INTEGER || value->kind == SX_KIND_REAL;
}
static inline double sx_number(const sx_value *value) {
  return value->kind == SX_KIND_INTEGER ? (double)value->integer : value->real;
}
/* A string, a symbol or a keyword. */
static inline bool sx_is_text(const sx_value *value) {
  return value->kind == SX_KIND_STRING || value->kind == SX_KIND_SYMBOL;
}

/* "an integer", "a list": for messages. */
const char *sx_kind_phrase(sx_kind kind);
/* Adds the value as it is written in the language; lists nested deeper than 100 as "...",
 * and so what follows the first MiB. */
void sx_value_print(sx_text *text, const sx_value *value);
/* As sx_value_print, but a text without quotes (in a list they stay): what (str ...) joins. */
void sx_value_display(sx_text *text, const sx_value *value);
/* A short form for a message: at most about 60 characters. A tensor is shown as f32 [2 3]. */
const char *sx_value_show(sx_arena *arena, const sx_value *value);

/* The order of two numbers, exact between integer and real: -1, 0, 1, or 2 when one is NaN. */
int sx_number_compare(const sx_value *a, const sx_value *b);
/* What a comparison may still cost. Negative afterwards: it was given up and its result means nothing. */
typedef struct sx_effort {
  int depth;    /* nesting */
  int64_t work; /* items */
} sx_effort;
#define SX_EFFORT_DEFAULT \
  { 200, 1000000 }
/* Numbers by value, texts by their characters within a kind, lists by their items, functions by their form and the
 * values they captured. */
bool sx_value_equal(const sx_value *a, const sx_value *b, sx_effort *effort);
/* The same structure and the same atoms, wherever they stand. */
bool sx_datum_equal(const sx_datum *a, const sx_datum *b);

#endif
