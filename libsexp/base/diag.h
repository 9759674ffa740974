/* Diagnostics: what went wrong, where, and what to do. The explicit output of every fallible call.
 *
 * A diagnostic has a code (one row of errors.def), a span in a source text or a path, a message, and
 * where it helps a second span, a hint, and the chain of calls that led there. At most
 * SX_DIAG_LIMIT errors of a stage are kept; the rest is counted. */
#ifndef SX_BASE_DIAG_H
#define SX_BASE_DIAG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory.h"

enum { SX_DIAG_LIMIT = 20 };

typedef enum sx_code {
#define SX_ERROR(area, number, name, title, hint, page) SX_E_##name,
#include "errors.def"
#undef SX_ERROR
  SX_N_CODES
} sx_code;

typedef struct sx_code_info {
  const char *code; /* "E-READ-001" */
  const char *name, *title, *hint, *page;
} sx_code_info;

const sx_code_info *sx_code_describe(sx_code code);

/* Bytes begin to end of source file number `file` (index into sx_sources); file 0 is none. */
typedef struct sx_span {
  uint32_t file, begin, end;
} sx_span;

/* Why a span was reached: one frame of the language's call chain, innermost first. */
typedef struct sx_frame {
  const char *name; /* of the defun, "lambda" else */
  sx_span call;
  const struct sx_frame *outer;
} sx_frame;

typedef struct sx_diag {
  sx_code code;
  bool warning;
  sx_span span;        /* file 0: no place in a source */
  const char *path;    /* a file or a model path the error is about, or NULL */
  const char *message; /* one line */
  sx_span second_span; /* file 0: none */
  const char *second_label;
  const char *hint; /* NULL: the row's, if any */
  const sx_frame *frames;
  const char *host_code; /* of a failure of the host ("E-DATA-103"), shown in place of the row's; NULL else */
  bool storage;          /* a file or the network failed, not the experiment */
} sx_diag;

typedef struct sx_diags {
  sx_arena *arena;
  SX_VEC(sx_diag) list;
  uint32_t n_errors, n_warnings; /* counted beyond the limit too */
} sx_diags;

/* The host's code, or the row's: "E-READ-001". */
const char *sx_diag_code(const sx_diag *diag);

void sx_diags_init(sx_diags *diags, sx_arena *arena);

/* Reports an error; the result may be completed (second span, hint, frames) until the next report.
 * Never NULL: beyond the limit it is a scratch record. */
sx_diag *sx_error(sx_diags *diags, sx_code code, sx_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
sx_diag *sx_warn(sx_diags *diags, sx_code code, sx_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
sx_diag *sx_verror(sx_diags *diags, sx_code code, sx_span span, const char *format, va_list arguments)
    __attribute__((format(printf, 4, 0)));

#endif
