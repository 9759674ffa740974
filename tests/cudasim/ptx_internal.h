/* The decoded form of PTX, shared by what reads it and what executes it. */
#ifndef SIM_PTX_INTERNAL_H
#define SIM_PTX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ptx.h"

#define SIM_N_LANES 32
#define SIM_ALL 0xffffffffu

/* ---- lanes ---- */

/* d, a, b, c, e: 32 values each. */
typedef void sim_lane_function(void *d, const void *a, const void *b, const void *c, const void *e);

typedef struct sim_lane_row {
  const char *text, *same; /* same: the text of the row that this one is */
  sim_lane_function *function;
  uint8_t widths[5]; /* bytes of d and of each operand; 0: none */
} sim_lane_row;

/* Addresses of a warp. is_row: each lane n_bytes behind the one before; is_one: all the same. */
typedef struct sim_places {
  _Alignas(64) uint64_t address[SIM_N_LANES];
  uint64_t least, most, any; /* any: or of all */
  bool is_row, is_one;
  uint32_t mask; /* of the lanes that ask: the others' addresses are the first one's */
} sim_places;

/* Of one SIMD level. */
typedef struct sim_level {
  const sim_lane_row *rows;
  size_t n_rows;
  uint32_t (*ballot)(const uint32_t *flags);
  void (*spread)(uint32_t *flags, uint32_t bits);
  void (*blend)(void *d, const void *from, const uint32_t *flags, size_t width);
  void (*place)(sim_places *places, const uint64_t *base, uint64_t offset, uint64_t n_bytes);
} sim_level;

const sim_level *sim_level_at(size_t i); /* from the plainest on; NULL: this processor has no more */
const sim_level *sim_level_best(void);
const sim_lane_row *sim_lane_find(const char *text, size_t n); /* NULL: none */

/* Rounding toward one side. operation: + - * / s f (square root, fma). */
typedef enum sim_rounding { SIM_NEAREST, SIM_TO_ZERO, SIM_DOWN, SIM_UP } sim_rounding;
float sim_directed_f32(char operation, sim_rounding rounding, float x, float y, float z);
double sim_directed_f64(char operation, sim_rounding rounding, double x, double y, double z);

/* ---- cvt ---- */

typedef enum sim_kind { SIM_UNSIGNED, SIM_SIGNED, SIM_FLOAT, SIM_BFLOAT } sim_kind;

/* Type of a value in memory or as an instruction sees it. */
typedef struct sim_type {
  uint8_t kind; /* sim_kind */
  uint8_t size; /* bytes */
} sim_type;

typedef struct sim_conversion {
  sim_type to, from;
  uint8_t rounding; /* sim_rounding */
  bool to_integer;  /* rounds a float to an integral value */
  bool saturates;
} sim_conversion;

/* One lane: bits of from's size in, bits of to's size out (integers extended to 64 bits by their sign). */
uint64_t sim_convert(const sim_conversion *conversion, uint64_t bits);

/* ---- instructions ---- */

typedef enum sim_code {
  SIM_LANES,
  SIM_CONVERT,
  SIM_PACK,
  SIM_UNPACK,
  SIM_BRANCH,
  SIM_BRANCH_TABLE,
  SIM_EXIT,
  SIM_LOAD,
  SIM_STORE,
  SIM_ATOMIC,
  SIM_SHUFFLE,
  SIM_VOTE,
  SIM_MATCH,
  SIM_REDUCE,
  SIM_ACTIVE,
  SIM_WARP_BARRIER,
  SIM_BARRIER,
  SIM_TRAP,
  SIM_NOTHING,
} sim_code;

typedef enum sim_space {
  SIM_GENERIC,
  SIM_GLOBAL,
  SIM_SHARED,
  SIM_LOCAL,
  SIM_PARAM,
  SIM_CONST,
} sim_space;

/* Generic addresses of what is not host memory; none is an address of a host. */
#define SIM_WINDOW_MASK 0xff00000000000000u
#define SIM_SHARED_WINDOW 0xa000000000000000u
#define SIM_LOCAL_WINDOW 0xb000000000000000u
#define SIM_PARAM_WINDOW 0xc000000000000000u

typedef enum sim_mode { /* of atomics, shuffles, votes, reductions over a warp or a block */
                        SIM_ADD,
                        SIM_MIN,
                        SIM_MAX,
                        SIM_AND,
                        SIM_OR,
                        SIM_XOR,
                        SIM_EXCHANGE,
                        SIM_COMPARE,
                        SIM_INCREMENT,
                        SIM_DECREMENT,
                        SIM_NO_MODE,
                        SIM_UP_LANES,
                        SIM_DOWN_LANES,
                        SIM_BUTTERFLY,
                        SIM_INDEX,
                        SIM_ANY_OF,
                        SIM_ALL_OF,
                        SIM_SAME_IN_ALL,
                        SIM_BALLOT,
                        SIM_COUNT,
} sim_mode;

/* Where 32 values lie: 64-byte units into the warp's registers, or, with SIM_CONSTANT, into the kernel's constants. */
typedef uint32_t sim_operand;
#define SIM_CONSTANT 0x80000000u
#define SIM_NONE 0x7fffffffu

typedef struct sim_op {
  sim_lane_function *function;
  uint8_t code;         /* sim_code */
  uint8_t width;        /* bytes of d */
  uint8_t n;            /* of a vector */
  uint8_t space, mode;  /* sim_space, sim_mode */
  uint8_t address_size; /* of the register that holds an address */
  bool is_negated;      /* the guard */
  sim_type type;        /* of memory, of an atomic's or a reduction's values */
  sim_operand guard, d, a, b, c, e;
  sim_operand list[4]; /* d or the value, of a vector */
  uint64_t offset;     /* of an address */
  union {
    uint32_t target; /* of a branch: an instruction; of a table: its first entry */
    uint32_t memo;   /* of a load or a store: which of the launch's ranges */
    sim_conversion conversion;
  } of;
  uint32_t n_targets;
  uint32_t line; /* of the text */
} sim_op;

/* Registers that a warp begins with. */
typedef enum sim_special_kind {
  SIM_TID_X,
  SIM_TID_Y,
  SIM_TID_Z,
  SIM_NTID_X,
  SIM_NTID_Y,
  SIM_NTID_Z,
  SIM_CTAID_X,
  SIM_CTAID_Y,
  SIM_CTAID_Z,
  SIM_NCTAID_X,
  SIM_NCTAID_Y,
  SIM_NCTAID_Z,
  SIM_LANE,
  SIM_WARP,
  SIM_N_WARPS,
  SIM_MASK_EQ,
  SIM_MASK_LT,
  SIM_MASK_LE,
  SIM_MASK_GT,
  SIM_MASK_GE,
  SIM_SHARED_SIZE,
  SIM_TOTAL_SHARED_SIZE,
  SIM_N_SPECIALS,
} sim_special_kind;

typedef struct sim_param {
  size_t offset, n_bytes;
} sim_param;

struct sim_kernel {
  const sim_module *module;
  char *name;
  sim_op *ops; /* the last is an exit */
  uint32_t n_ops, n_memos;
  uint32_t *targets; /* of branch tables */
  uint32_t n_targets;
  uint32_t n_units;                     /* of a warp's registers, 64 bytes each */
  uint8_t *constants;                   /* 64-byte units, aligned to 64 */
  uint32_t n_constants;                 /* units */
  sim_operand specials[SIM_N_SPECIALS]; /* SIM_NONE: not used */
  sim_param *params;
  size_t n_params, params_n_bytes;
  uint32_t shared_n_bytes, dynamic_offset, local_n_bytes, max_threads;
  bool has_barrier; /* of the block */
  uint32_t granule; /* bytes of the least access that may be to shared memory, 8 at most */
};

typedef struct sim_variable {
  const char *name; /* in the module's text */
  size_t n_name, n_bytes;
  uint64_t address; /* in its space; of .global and .const in the host's memory */
  uint8_t *owned;
  uint8_t space;
  bool is_dynamic, is_placed; /* placed: shared memory of the kernel being read */
  size_t alignment;
} sim_variable;

struct sim_module {
  char *text;
  sim_variable *variables; /* of the module */
  size_t n_variables;
  sim_kernel *kernels;
  size_t n_kernels;
};

/* The range of the module's .global or .const variable that holds the bytes; false: none does. */
bool sim_module_range(const sim_module *module, sim_span *range, uint64_t address, size_t n_bytes, bool writes);

#endif
