/* Files for libsexp, through libckpt. */
#ifndef TOOL_HOST_H
#define TOOL_HOST_H

#include "../../libsexp/sexp.h"

/* A host over local files; (print ...) goes to standard error. Nothing to free. */
sexp_host tool_host(void);

#endif
