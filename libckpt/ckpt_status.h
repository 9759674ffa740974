/* Status and error of libckpt's functions. Included by ckpt.h. */
#ifndef CKPT_STATUS_H
#define CKPT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ckpt_status {
  CKPT_OK = 0,
  CKPT_INVALID, /* an input or argument has an error in it: a tool ends with 2 */
  CKPT_IO       /* files, network or memory failed: a tool ends with 4 */
} ckpt_status;

/* A plain value: nothing in it is owned. */
typedef struct ckpt_error {
  ckpt_status status;
  char code[16];      /* "E-DATA-103"; empty: no error */
  int errno_value;    /* of the system call that failed, or 0 */
  int64_t offset;     /* byte in the file that `path` names, or -1 */
  const char *hint;   /* static text; empty: none */
  char path[1024];    /* empty: none; the end of a longer one */
  char message[2048]; /* one line: path, offset, what was expected and what was found */
} ckpt_error;

typedef struct ckpt_code {
  const char *code, *name; /* "E-DATA-103", "DATA_CHANGED" */
  const char *title;       /* its one meaning */
  const char *hint;
  const char *page; /* for docs/errors.md */
} ckpt_code;

/* Every code the library has, in the order of errors.def. */
const ckpt_code *ckpt_codes(size_t *n_out);

#ifdef __cplusplus
}
#endif
#endif
