/* A launch as it is executed: warps, shared memory and its shadow. */
#ifndef SIM_PTX_RUN_H
#define SIM_PTX_RUN_H

#include "ptx_internal.h"

/* What happened last to a granule of shared memory: as many bytes as the kernel's least access. An epoch is the time
 * between two barriers of the block (from 1 on) or of a warp. */
typedef struct sim_shadow {
  uint32_t write_epoch, write_warp_epoch, read_epoch, read_warp_epoch;
  uint16_t writer, reader;                 /* threads of the block */
  bool is_written, many_lanes, many_warps; /* many: read this epoch, beyond reader */
} sim_shadow;

typedef struct sim_warp {
  uint8_t *registers, *local;
  uint32_t index;
  uint32_t pc, mask;               /* of the lanes that run now */
  uint32_t other;                  /* the least pc of other lanes that could run; UINT32_MAX: there are none */
  uint32_t present, ended, parked; /* parked: where they stand they wait for others of the warp */
  uint32_t lane_pc[SIM_N_LANES];   /* of lanes that do not run now */
  uint32_t epoch;
  bool waits;                               /* at the block's barrier, at pc */
  _Alignas(64) uint32_t flags[SIM_N_LANES]; /* mask spread out */
} sim_warp;

typedef struct sim_run {
  const sim_kernel *kernel;
  const sim_launch *launch;
  const sim_level *level;
  const uint8_t *bases[2]; /* of operands: the warp's registers, constants */
  sim_warp *warps;
  uint32_t n_warps, n_threads, block[3], epoch;
  uint8_t *shared, *params;
  uint32_t shared_n_bytes;
  sim_shadow *shadows;
  size_t n_shadows;
  sim_span *memos;
  uint64_t n_instructions;
  _Alignas(64) uint8_t scratch[4][8 * SIM_N_LANES];
  char *problem;
  size_t n_problem;
} sim_run;

/* Says what stopped the launch, and where; false. */
bool sim_stop(sim_run *run, const sim_warp *warp, uint32_t lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A load, a store or an atomic, of the lanes of mask (at least one). False: stopped. */
bool sim_access(sim_run *run, sim_warp *warp, const sim_op *op, uint32_t mask);

static inline const void *sim_source(const sim_run *run, sim_operand operand) {
  return run->bases[operand >> 31] + ((size_t)(operand & ~SIM_CONSTANT) << 6);
}

static inline void *sim_destination(const sim_warp *warp, sim_operand operand) {
  return warp->registers + ((size_t)operand << 6);
}

#endif
