/* PTX as NVRTC writes it for the project's kernels, read once and executed block by block on the host.
 *
 *   sim_module *module = sim_module_parse(ptx, problem, sizeof problem);
 *   const sim_kernel *kernel = sim_module_kernel(module, "rows_3f");
 *   if (!sim_kernel_run(kernel, &launch, problem, sizeof problem)) …
 *
 * Strict: an instruction that is not known, a load or store outside memory that `check` allows or not aligned to its
 * size, shared memory out of bounds, a barrier that not all threads of a block reach, a shuffle that names a lane that
 * is not there: the launch stops and says what, the kernel, the block, the thread and the instruction. Results repeat
 * bit for bit. */
#ifndef SIM_PTX_H
#define SIM_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim_module sim_module;
typedef struct sim_kernel sim_kernel;

/* NULL: the text is not what is read; problem says where and why. */
sim_module *sim_module_parse(const char *ptx, char *problem, size_t n_problem);
void sim_module_free(sim_module *module);
/* NULL: no .entry of that name. */
const sim_kernel *sim_module_kernel(const sim_module *module, const char *name);

/* Of the .param list of the kernel: offsets and sizes as cuLaunchKernel packs them. */
size_t sim_kernel_params(const sim_kernel *kernel);
void sim_kernel_param(const sim_kernel *kernel, size_t i, size_t *offset, size_t *n_bytes);
uint32_t sim_kernel_shared_bytes(const sim_kernel *kernel); /* static */
uint32_t sim_kernel_max_threads(const sim_kernel *kernel);  /* of .maxntid; 0: none stated */
/* Address and size of a .global or .const variable of the module, in host memory; false: none of that name. */
bool sim_module_variable(const sim_module *module, const char *name, void **address, size_t *n_bytes);

/* Bytes begin to end - 1. */
typedef struct sim_span {
  uint64_t begin, end;
} sim_span;

typedef struct sim_launch {
  uint32_t grid[3], block[3], shared_bytes; /* dynamic */
  const void *params;                       /* packed; n_params bytes */
  size_t n_params;
  /* Whether the bytes may be read (or written): device memory. Global addresses are host addresses. When true, *range
   * is the memory around them (the whole allocation) that may be accessed in the same way until the launch ends: it is
   * not asked about again. The module's own variables are known without asking. */
  bool (*check)(void *context, sim_span *range, uint64_t address, size_t n_bytes, bool writes);
  void *context;
  /* Also stop at a read of a shared byte that nobody wrote in this block, and where two threads touch a shared byte, at
   * least one of them writing, with no barrier between (of their warp, if it is the same one). Atomics race with
   * nothing. */
  bool checks_uninitialized, checks_races;
  uint64_t *n_instructions; /* NULL, or added to: instructions executed, counted once a warp */
} sim_launch;

/* Runs all blocks, in ascending order. False: stopped. */
bool sim_kernel_run(const sim_kernel *kernel, const sim_launch *launch, char *problem, size_t n_problem);

#endif
