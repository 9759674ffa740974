/* The escape point of an entry point: runs a body whose failed allocations come back here. */
#ifndef SX_BASE_GUARD_H
#define SX_BASE_GUARD_H

#include <stdbool.h>

#include "memory.h"

typedef void sx_guarded(void *context);

/* False: an allocation from `memory` failed; the body did not end, and what it owned beside arena memory
 * is the caller's to release. Guards nest: the innermost is jumped to. */
bool sx_guard(sx_memory *memory, sx_guarded *body, void *context);

#endif
