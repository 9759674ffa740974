/* What a plan is lowered to on the CUDA device: a list of pieces of work, executed in order on one stream.
 *
 * emit (emit.h) gives launches of generated and hand-written kernels, product.h products by cuBLAS, convolve.h
 * convolutions by cuDNN; lower.c puts them together, one task of the plan after the other. Addresses are kept as
 * places, because buffers from outside may be bound anew before each execution. */
#ifndef SX_CUDA_WORK_H
#define SX_CUDA_WORK_H

#include "../pass/plan.h"

/* Where something is: a buffer of the plan, or the scratch that pieces of work use one after the other. */
#define SX_PLACE_SCRATCH UINT32_MAX
#define SX_PLACE_NONE (UINT32_MAX - 1)
typedef struct sx_place {
  uint32_t buffer;
  int64_t offset; /* bytes */
} sx_place;

typedef enum sx_argument_kind {
  SX_ARGUMENT_PLACE, /* its address, 8 bytes */
  SX_ARGUMENT_FAULT, /* address of the cell (sx_fault_cell) of the fault number in its bits (sx_lowering_fault) */
  SX_ARGUMENT_I64,
  SX_ARGUMENT_I32,
  SX_ARGUMENT_F32
} sx_argument_kind;

typedef struct sx_argument {
  sx_argument_kind kind;
  bool written; /* of a place: the kernel writes there */
  sx_place place;
  uint64_t bits; /* of the number, in its low bytes */
} sx_argument;

/* In the device's memory, one for each node that can stop. A kernel that meets a bad id does
 *
 *   atomicMin(&cell->at, (unsigned long long)index << 32 | (unsigned)id);
 *
 * with the index of the id in row-major order (above 2^32 - 1: that), and goes on with an id that is in range, so that
 * nothing is read or written outside. So the lowest index and its id are known whatever the order of threads, and the
 * first node in the order of execution is found by looking at the cells in turn. */
typedef struct sx_fault_cell {
  unsigned long long at; /* ~0: none */
} sx_fault_cell;

typedef struct sx_launch {
  const char *kernel; /* name of its __global__ function in the unit's sources */
  uint32_t grid[3], block[3], shared_bytes;
  sx_argument *arguments;
  uint32_t n_arguments;
  /* The kernel has one parameter, a struct of the arguments, each in 8 bytes (numbers of 4 bytes: low bytes first, then
   * zeros). */
  bool packed;
  bool merges; /* arguments are places and at last n: launches of one such kernel can be one (sx_emit_merge) */
} sx_launch;

struct sx_product;  /* product.h */
struct sx_convolve; /* convolve.h */

typedef enum sx_work_kind { SX_WORK_LAUNCH, SX_WORK_PRODUCT, SX_WORK_CONVOLVE, SX_WORK_ZERO } sx_work_kind;

typedef struct sx_work {
  sx_work_kind kind;
  uint32_t task; /* of the plan */
  sx_id node;    /* that it computes or begins with: names it in reports and failures */
  sx_launch launch;
  struct sx_product *product;
  struct sx_convolve *convolve;
  sx_place zero; /* ZERO: bytes set to 0 */
  int64_t zero_bytes;
  double flops, bytes; /* of memory read and written: for reports and the cost model */
} sx_work;

/* Kernels of one executable, by name; equal texts are one kernel. */
typedef struct sx_kernel_source {
  const char *name; /* "group_5a1f03c2": what it is and a digest of its text */
  const char *text; /* a __global__ function with all it needs but the prelude (emit.h) */
} sx_kernel_source;

/* A plan being lowered. */
typedef struct sx_lowering {
  const sx_plan *plan;
  int64_t draw_seed;
  int64_t capability, multiprocessors; /* of the device */
  bool portable, patterns;
  bool wide; /* indices have 64 bits whatever the sizes: for tests */
  sx_arena *arena;
  SX_VEC(sx_work) works;
  SX_VEC(sx_kernel_source) kernels;
  SX_VEC(sx_id) faults;  /* nodes that can stop, by fault number */
  int64_t scratch_bytes; /* most that a piece of work needs */
  sx_diags *diags;
  /* What is decided for a choice of the plan (sx_options_value of choose.h); NULL: there is nothing to choose, as for a
   * convolution that runs without cuDNN. */
  const char *(*decided)(void *options, const char *kind, const char *key);
  void *options;
} sx_lowering;

/* The place of a node's value as its view begins. */
sx_place sx_place_of(const sx_lowering *lowering, sx_id node);
/* Adds a kernel's text under a name made of the prefix and its digest, once; gives the name. The text has KERNEL where
 * its name stands. */
const char *sx_lowering_kernel(sx_lowering *lowering, const char *prefix, const char *text);
/* The work's fields other than these are zero. The address lives until the next call. */
sx_work *sx_lowering_add(sx_lowering *lowering, sx_work_kind kind, uint32_t task, sx_id node);
/* The number of a node that can stop, counted in the order of execution: bits of its SX_ARGUMENT_FAULT. */
uint64_t sx_lowering_fault(sx_lowering *lowering, sx_id node);
/* Raises scratch_bytes; the place of that many bytes of scratch, `before` bytes of it in use by the same work. */
sx_place sx_lowering_scratch(sx_lowering *lowering, int64_t before, int64_t n_bytes);

#endif
