/* Status and error of libchoices' functions. Included by choices.h. */
#ifndef CHOICES_STATUS_H
#define CHOICES_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum choices_status {
  CHOICES_OK = 0,
  CHOICES_INVALID, /* an input or argument has an error in it: a tool ends with 2 */
  CHOICES_REFUSED, /* a choice was refused: a tool ends with 3 */
  CHOICES_IO       /* files or memory failed: a tool ends with 4 */
} choices_status;

/* A plain value: nothing in it is owned. */
typedef struct choices_error {
  choices_status status;
  char code[16];      /* "E-CHOICE-004"; empty: no error */
  int errno_value;    /* of the system call that failed, or 0 */
  const char *hint;   /* static text; empty: none */
  char message[2048]; /* one line: what was found and what was expected */
} choices_error;

typedef struct choices_code {
  const char *code, *name; /* "E-CHOICE-004", "RECORD_FORMAT" */
  const char *title;       /* its one meaning */
  const char *hint;
  const char *page; /* for docs/errors.md */
} choices_code;

/* Every code the library has, in the order of errors.def. */
const choices_code *choices_codes(unsigned *n_out);

#ifdef __cplusplus
}
#endif
#endif
