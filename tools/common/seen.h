/* Which records a metrics stream has: so that none is written a second time. */
#ifndef TOOL_SEEN_H
#define TOOL_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "sink.h"

typedef struct tool_seen tool_seen;

/* Of an open sink: what its file holds already, where it is a file. NULL: it cannot be read or memory is out, printed
 * (E-METRIC-002). */
tool_seen *tool_seen_new(const tool_sink *sink);
void tool_seen_free(tool_seen *seen);
/* Whether it has a record: kind "manifest" (without name and step) or "value". */
bool tool_seen_has(const tool_seen *seen, const char *kind, const char *run, const char *name, int64_t step);
/* Notes one that is written. False: out of memory. */
bool tool_seen_add(tool_seen *seen, const char *kind, const char *run, const char *name, int64_t step);

#endif
