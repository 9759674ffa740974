/* The CPU engine as a device that a run computes on: it shares the host's memory, and all work is done when a call
 * returns. It records nothing, makes no choices, and stacks nothing. */
#ifndef SX_CPU_BACKEND_H
#define SX_CPU_BACKEND_H

#include "executable.h"

/* In the arena. The pool and memory of cpu outlive it. Its executables share a workspace, of a size that is settled
 * when `ready` is called for the first time. */
sx_backend *sx_cpu_backend_new(const sx_cpu *cpu, sx_arena *arena);
/* Gives back what its executables share, once they are released. */
void sx_cpu_backend_end(sx_backend *backend);

#endif
