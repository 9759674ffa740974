/* A host that opens each file once: what compiling opened is there still when the run is made, and several data
 * sources of one file share it. So a .gz is inflated once, an object fetched once, a manifest's shards hashed once. */
#ifndef TOOL_KEPT_H
#define TOOL_KEPT_H

#include "../../libsexp/sexp.h"

typedef struct tool_kept tool_kept;

/* Around another host, whose context must outlive it. NULL: out of memory. */
tool_kept *tool_kept_new(const sexp_host *inner);
/* The host to give to libsexp. */
sexp_host tool_kept_host(tool_kept *kept);
/* Once the run is made: closes what nobody uses, and from then on each file when its last user closes it. */
void tool_kept_settle(tool_kept *kept);
/* Closes everything; NULL is fine. */
void tool_kept_free(tool_kept *kept);

#endif
