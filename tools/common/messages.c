#include "messages.h"

#include <stdio.h>

void tool_print_messages(const sexp_messages *messages) {
  for (size_t i = 0; i < sexp_messages_count(messages); i++) fputs(sexp_messages_get(messages, i)->text, stderr);
}

int tool_fail_sexp(sexp_status status, const sexp_messages *messages) {
  tool_print_messages(messages);
  return status == SEXP_STORAGE ? TOOL_STORAGE : status == SEXP_DEVICE ? TOOL_DEVICE : TOOL_INPUT;
}
