/* Which element groups of a plan are run together: see launch.c. */
#ifndef SX_CPU_LAUNCH_H
#define SX_CPU_LAUNCH_H

#include "../pass/plan.h"

/* Per task of the plan: how many tasks, itself and those that follow it, its launch runs; 0: it runs with one before.
 * More than 1 of ELEMENT tasks alone. */
uint32_t *sx_launches(const sx_plan *plan, sx_arena *arena);
/* Whether two buffers may share memory while the plan is executed. */
bool sx_buffers_overlap(const sx_plan *plan, uint32_t a, uint32_t b);

#endif
