/* Element groups on the CPU: a program of one instruction a node, run on tiles that stay in the cache. */
#ifndef SX_CPU_ELEMENTWISE_H
#define SX_CPU_ELEMENTWISE_H

#include "kernel.h"
#include "walk.h"

typedef struct sx_group sx_group;

/* Prepares an ELEMENT task of a plan. Everything is in the arena. */
sx_group *sx_group_new(const sx_plan *plan, const sx_task *task, const sx_kernel_set *kernels, sx_arena *arena);
/* Bytes of scratch that each thread needs, a multiple of 64. */
int64_t sx_group_scratch(const sx_group *group);
/* Runs the group. data: the memory of each buffer of the plan; scratch: 64-aligned, of all threads. */
void sx_group_run(const sx_group *group, void *const *data, void *scratch, sx_pool *pool);

#endif
