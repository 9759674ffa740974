/* Executables of the device: the works of a plan with their kernels, arguments and addresses.
 *
 * Temporaries and scratch lie in memory that all executables share (backend.h), known buffers (CONST, IOTA) in memory
 * of their own. Arguments are places; they become addresses just before each execution, because buffers from outside
 * may be bound anew. */
#ifndef SX_CUDA_EXECUTABLE_H
#define SX_CUDA_EXECUTABLE_H

#include "cuda.h"

/* A launch made ready: its arguments as the driver takes them. */
typedef struct sx_ready_launch {
  CUfunction function;
  uint64_t *values; /* one an argument, in its low bytes */
  void **pointers;
} sx_ready_launch;

struct sx_made {
  sx_cuda *cuda;
  sx_arena arena; /* of everything below */
  sx_plan const *plan;
  sx_lowering lowering;
  sx_ready_launch *launches; /* one a work */
  const char **doings;       /* one a work: what a failure names */
  sx_addresses addresses;
  CUdeviceptr known; /* constants; 0: there are none */
  CUdeviceptr own;   /* of a trial: block, scratch and buffers from outside; 0: the shared memory is used */
  uint32_t first_fault;

  sx_observe *observe;
  void *observe_context;
  void *observed; /* page-locked: a buffer as it lies, then a value in row-major order */
  int64_t observed_room;
  sx_made *next; /* all of a backend */
};

/* An empty one. NULL: no memory. */
sx_made *sx_made_new(sx_cuda *cuda);
void sx_made_free(sx_made *made);

/* Lowers the plan, compiles its kernels, makes its constants. Choices are those that are decided. False: errors are in
 * diags, or a failure is kept. Needs a guard of cuda->memory. */
bool sx_made_fill(sx_made *made, const sx_plan *plan, int64_t draw_seed, sx_diags *diags);
/* The lowering alone, as sx_made_fill does it. */
bool sx_made_lower(sx_made *made, const sx_plan *plan, int64_t draw_seed, sx_diags *diags);
/* Bytes of CONST and IOTA buffers. */
int64_t sx_known_bytes(const sx_plan *plan);

/* Sets where temporaries and scratch are. */
void sx_made_place(sx_made *made, CUdeviceptr block, CUdeviceptr scratch);
/* Enqueues all works; `faults` are the cells of the backend. Failures are kept. Allocates nothing. */
void sx_made_execute(sx_made *made, CUdeviceptr faults);

/* observe.c. Makes room; false: a failure is kept. */
bool sx_made_observe(sx_made *made, sx_observe *observe, void *context);
/* After an execution that is done: tells the values of the first n_tasks. */
void sx_made_tell(sx_made *made, size_t n_tasks);

/* Why it stopped, from its cells as the host has them; false: it did not. */
bool sx_made_stopped(const sx_made *made, const unsigned long long *cells, sx_stopped *why);

/* A line for each work: what it is, grid, floating-point operations, bytes, model path. */
void sx_made_print(const sx_made *made, sx_text *text);

/* candidate.c: executables with memory of their own, for candidates of a choice. Need a guard of cuda->memory. */
sx_trial_calls sx_cuda_trials(sx_cuda *cuda);

#endif
