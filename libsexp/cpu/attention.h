/* ATTENTION tasks on the CPU: rows of scores live in scratch alone. */
#ifndef SX_CPU_ATTENTION_H
#define SX_CPU_ATTENTION_H

#include "../pass/attention.h"
#include "kernel.h"

typedef struct sx_attending sx_attending;

/* Prepares an ATTENTION task of a plan. Everything is in the arena. */
sx_attending *sx_attending_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels, sx_arena *arena);
/* Bytes of scratch that each thread needs, a multiple of 64. */
int64_t sx_attending_scratch(const sx_attending *attending);
/* Runs it. data: the memory of each buffer of the plan; scratch: 64-aligned, of all threads. */
void sx_attending_run(const sx_attending *attending, void *const *data, void *scratch, sx_pool *pool);

#endif
