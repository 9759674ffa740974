/* What preparing, compiling and running an element group share: group_prepare.c, chain.c, elementwise.c.
 *
 * A group walks the elements of its shape in row-major order, tile by tile. Where it has reductions, or inputs that
 * change by rows, a tile is whole rows of `row` elements; results of reductions, and what is computed from them, are
 * scalars, one a row. A step is a chain of instructions, which runs in registers, or a call of one kernel.
 *
 * A prepared group can be run on any of its rows, with other memory for some values (sx_group_run_tile): nothing in it
 * depends on who runs it or on what. */
#ifndef SX_CPU_GROUP_H
#define SX_CPU_GROUP_H

#include "../pass/plan_parts.h"
#include "chain.h"
#include "columns.h"
#include "elementwise.h"

typedef enum sx_place {
  SX_PLACE_DIRECT,   /* in its buffer, element i of the tile at i; of scalars, row i */
  SX_PLACE_FIXED,    /* an input in a slot, the same for all tiles */
  SX_PLACE_READ,     /* an input, read into its slot unless the tile lies in one piece */
  SX_PLACE_SLOT,     /* a node that lives from one step to another */
  SX_PLACE_LOCAL,    /* a node inside one chain: in registers, or in a block's place */
  SX_PLACE_SPLAT,    /* an input of one element */
  SX_PLACE_ROW,      /* an input or stored node whose rows each lie in one piece */
  SX_PLACE_ROW_SPLAT /* an input that is one element for each row */
} sx_place;

typedef struct sx_group_value {
  sx_place place;
  sx_id node;
  sx_dtype dtype;
  uint32_t buffer;
  sx_walk walk;         /* inputs and stored nodes */
  uint32_t slot;        /* of scalars: of those */
  int bytes;            /* of an element */
  bool scalar;          /* one a row */
  bool called;          /* a call uses it */
  bool stored;          /* written to its buffer */
  uint32_t sum;         /* 1 + the sum of columns that takes it; 0: none */
  uint32_t given;       /* 1 + its place in sx_group_tile.given; 0: none */
  uint32_t first, last; /* steps that use it */
} sx_group_value;

typedef struct sx_instruction {
  sx_op op;
  sx_dtype from, to;
  uint32_t n_inputs, inputs[3], out; /* values */
  bool scalar, chained, folds;
} sx_instruction;

/* A value that a chain finds in memory, advancing along the row. */
typedef struct sx_chain_use {
  uint32_t value;
  bool written;
} sx_chain_use;

typedef struct sx_group_step {
  bool chained, scalar;
  const sx_instruction *instructions;
  uint32_t n_instructions;
  uint32_t *reads; /* SX_PLACE_READ values that are used here first */
  uint32_t n_reads;
  sx_link *links; /* of a chain */
  sx_chain_use *uses;
  const sx_instruction **folds; /* its reductions */
  uint32_t n_uses, n_locals, n_folds;
  uint32_t sums; /* a bit for each sum of columns that takes a value of the step */
} sx_group_step;

struct sx_group {
  const sx_kernel_set *kernels;
  const sx_chain_kernels *chains;
  sx_group_value *values;
  uint32_t n_values, n_inputs; /* inputs come first */
  sx_instruction *instructions;
  uint32_t n_instructions;
  sx_group_step *steps;
  uint32_t n_steps, n_slots, n_scalar_slots, n_locals, n_pads, n_folds;
  int64_t row;                            /* elements of a row; 0: no rows */
  int64_t n, piece, tile, tiles_in_piece; /* elements */
  const sx_columns *columns;              /* sums that are made with it; NULL: none */
  int64_t work;                           /* of a tile, in simple operations; at least 1 */
  bool tiled;                             /* run by sx_group_run_tile */
};

/* Work that is worth a thread: below, waking one costs more. */
enum { SX_GROUP_GRAIN = 1 << 17 };

_Static_assert(SX_ROW_MOST <= SX_SUM_CHUNK * SX_FOLD_CHUNKS, "a reduction has room for the chunks of any row");

/* The table of addresses that links use: values, then a chain's places and its reductions. */
enum {
  SX_GROUP_VALUES = SX_GROUP_NODES * 4,
  SX_GROUP_LOCALS = SX_GROUP_VALUES,
  SX_GROUP_FOLDS = SX_GROUP_LOCALS + SX_GROUP_NODES + 2, /* two for operands that are unpacked on the way */
  SX_GROUP_SUMS = SX_GROUP_FOLDS + SX_GROUP_NODES,
  SX_GROUP_TABLE = SX_GROUP_SUMS + SX_COLUMNS_MOST
};

/* Whether the operation can be part of a chain. */
bool sx_chain_takes(const sx_chain_kernels *chains, const sx_instruction *one);
/* Fills links, uses and the counts of a chained step. Places of all values are known. */
void sx_chain_compile(const sx_group *group, uint32_t step, sx_arena *arena);

#endif
