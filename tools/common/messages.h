/* What libsexp has to say, on standard error. */
#ifndef TOOL_MESSAGES_H
#define TOOL_MESSAGES_H

#include "../../libsexp/sexp.h"
#include "failure.h"

/* Prints the messages; the exit status of the library's status. */
int tool_fail_sexp(sexp_status status, const sexp_messages *messages);
void tool_print_messages(const sexp_messages *messages);

#endif
