/* How the tools end: exit statuses, and errors in words on standard error. Needs libckpt alone. */
#ifndef TOOL_FAILURE_H
#define TOOL_FAILURE_H

#include "../../libckpt/ckpt.h"

enum {
  TOOL_DONE = 0,
  TOOL_NO = 1,      /* the answer is no */
  TOOL_INPUT = 2,   /* usage, or an input with an error in it */
  TOOL_CHOICE = 3,  /* a choice was refused */
  TOOL_STORAGE = 4, /* files or network */
  TOOL_DEVICE = 5
};

typedef enum tool_code {
#define SX_ERROR(area, number, name, title, hint, page) TOOL_E_##name,
#include "errors.def"
#undef SX_ERROR
  TOOL_N_CODES
} tool_code;

/* Prints "E-CODE: message" and the row's hint; gives status back. */
int tool_fail(int status, tool_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Fills *error as libckpt's functions do, with a code of the tools; CKPT_INVALID. */
ckpt_status tool_error(ckpt_error *error, tool_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints an error of libckpt; TOOL_STORAGE or TOOL_INPUT. */
int tool_fail_ckpt(const ckpt_error *error);
/* Nothing is printed: TOOL_NO for a checkpoint that is not what it says, TOOL_STORAGE for one that cannot be read. */
int tool_status_unverified(const ckpt_error *error);
/* Prints E-CKPT-001; TOOL_STORAGE. */
int tool_no_memory(void);
/* The last act of a tool: what standard output was given is written, else E-ENV-012 and TOOL_STORAGE. An error that
 * came first keeps its status: it has been told. */
int tool_end_output(int status);

#endif
