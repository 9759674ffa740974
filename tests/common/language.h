/* For tests: evaluates experiment texts through sx_language_evaluate, with files and data in memory. */
#ifndef TEST_LANGUAGE_H
#define TEST_LANGUAGE_H

#include "../../libsexp/lang/program.h"

typedef struct language_file {
  const char *path, *text;
} language_file;

typedef struct language {
  sx_memory memory;
  sx_arena arena;
  sx_program program;
  sx_text printed; /* lines of (print ...), each ended by a newline */
  const language_file *files;
  size_t n_files;
  bool good; /* what sx_language_evaluate gave */
} language;

/* Evaluates files[0]. selection: NULL for the default. Data have 10 records of x f32 [4], y i32 []; windows, idx and
 * csv the fields that they name. */
language *language_of_files(const language_file *files, size_t n_files, const sx_selection *selection);
/* One file, test.sexp. */
language *language_of(const char *text, const sx_selection *selection);
void language_free(language *made);

/* "E-EVAL-001 1:8 unknown name foo" of the first error, its hint after " | ", its second place after " @ "; "" without
 * one. */
const char *language_error(language *made);
/* The codes of all errors and warnings, "E-EVAL-001 E-TYPE-010". */
const char *language_codes(language *made);
/* The text of a graph, without its header. */
const char *language_graph(language *made, const sx_graph *graph);

/* A table of expressions and what (print expression) prints, or the start of the error. */
typedef struct language_case {
  const char *expression, *wanted;
} language_case;
void language_check(const language_case *cases, size_t n);
/* The same in a loss graph, where p is a parameter f32 [2 3] and i an i32 field []. */
void language_check_tensors(const language_case *cases, size_t n);

#define LANGUAGE_CHECK(cases) language_check((cases), sizeof(cases) / sizeof *(cases))
#define LANGUAGE_CHECK_TENSORS(cases) language_check_tensors((cases), sizeof(cases) / sizeof *(cases))

#endif
