/* A plan made ready on the CPU, and its execution. */
#ifndef SX_CPU_EXECUTABLE_H
#define SX_CPU_EXECUTABLE_H

#include "../device/backend.h"
#include "kernel.h"

typedef struct sx_executable sx_executable;

/* Memory for the temporaries and scratch of executables of which one at a time is executed. It grows as they are made
 * until it is taken, which is before the first of them is executed. */
typedef struct sx_workspace {
  void *memory;    /* NULL: not taken yet */
  int64_t n_bytes; /* what the largest of them needs */
} sx_workspace;

typedef struct sx_cpu {
  const sx_kernel_set *kernels;
  sx_pool *pool;
  sx_memory *memory;       /* blocks and scratch come from here, once, when an executable is made */
  sx_workspace *workspace; /* or from here, where it is to be taken yet or is large enough; NULL: none is shared */
} sx_cpu;

/* False: there is no memory. */
bool sx_workspace_take(sx_workspace *workspace, sx_memory *memory);
void sx_workspace_give(sx_workspace *workspace, sx_memory *memory);

/* Bytes of each executable's own: its constants and iotas. */
int64_t sx_plan_constants(const sx_plan *plan);
/* Scratch that executing the plan takes with so many threads, bytes. */
int64_t sx_plan_scratch(const sx_cpu *cpu, const sx_plan *plan, int n_threads, sx_arena *arena);
/* Resolves every task to a kernel and takes its memory (one block, freed by sx_executable_free; NULL
 * when there is none): constants, and what it does not have in the workspace. draw_seed and the graph's name
 * give the draws' keys; a draw of an initializer graph ("init/PATH") takes the path in place of its ordinal. */
sx_executable *sx_executable_new(const sx_cpu *cpu, const sx_plan *plan, int64_t draw_seed, sx_arena *arena);
void sx_executable_free(sx_executable *executable);
/* Binds the memory of an EXTERNAL or OUTPUT buffer of the plan, by its index in plan->buffers (an input and an
 * output may have one name: "param/w" in the update graph). Contiguous, 64-aligned; may be bound anew
 * before each execution, in constant time. An output's memory does not overlap any other's, unless it is that of the
 * input of its name and sx_plan_in_place allows it. */
void sx_executable_bind(sx_executable *executable, uint32_t buffer, void *data);
/* Executes all tasks; a workspace that is shared has been taken. False: stopped, *why says where. Allocates nothing. */
bool sx_executable_execute(sx_executable *executable, sx_stopped *why);
/* NULL ends observing. False: no memory. */
bool sx_executable_observe(sx_executable *executable, sx_observe *observe, void *context);

#endif
