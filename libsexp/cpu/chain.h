/* Chains: element operations evaluated together on blocks of a few registers.
 *
 * A chain is a list of links. Each link is a handler that takes a block in eight vector registers, the accumulator,
 * combines it with one operand from memory, and jumps to the next link with the accumulator still in registers; so a
 * value that only the next link uses is never stored. Bools are masks of 32 bits a lane, all ones or zero, in the
 * accumulator and in a block's places, bytes elsewhere.
 *
 * Operands are found through a table of addresses: at[i] is an entry, and mask[i] says whether it advances with the
 * block (all ones) or every block finds it in the same place (0). */
#ifndef SX_CPU_CHAIN_H
#define SX_CPU_CHAIN_H

#include "../ir/ir.h"
#include "sum_table.h"

typedef void sx_handler(void); /* of a level's own signature */

typedef struct sx_link {
  sx_handler *run;
  int64_t mask[2];
  uint32_t at[2];
} sx_link;

/* How an operation finds its second operand, and on which side it is. */
typedef enum sx_form {
  SX_FORM_VECTOR,          /* accumulator, memory */
  SX_FORM_VECTOR_REVERSED, /* memory, accumulator */
  SX_FORM_SPREAD,          /* accumulator, one float for all elements */
  SX_FORM_SPREAD_REVERSED, /* one float, accumulator */
  SX_FORM_SELF,            /* accumulator, accumulator */
  SX_N_FORMS
} sx_form;

/* What add, sub, mul and div take beside the accumulator in place of a float from memory: an operation on two. */
typedef enum sx_term {
  SX_TERM_SCALED,   /* memory times one float for all elements */
  SX_TERM_PRODUCT,  /* memory times memory */
  SX_TERM_QUOTIENT, /* memory over one float for all elements */
  SX_N_TERMS
} sx_term;

enum { SX_FOLD_CHUNKS = 8 }; /* of the longest row there is (SX_ROW_MOST) */

/* A reduction of one row under way: see numerics 1 for the order of a sum. */
typedef struct sx_fold {
  float lanes[SX_SUM_LANES];
  int32_t nans[SX_SUM_LANES]; /* of a maximum or minimum */
  float chunks[SX_FOLD_CHUNKS];
  int64_t left, taken; /* elements of the row to come; of the chunk so far */
  int32_t n_chunks;
} sx_fold;

/* What the lanes of a dtype hold: f32 of any float, integers of i32 and u8, masks of bools. */
typedef enum sx_lane { SX_LANE_FLOAT, SX_LANE_INTEGER, SX_LANE_MASK, SX_N_LANES } sx_lane;

static inline sx_lane sx_lane_of(sx_dtype dtype) {
  return dtype == SX_BOOL ? SX_LANE_MASK : dtype == SX_I32 || dtype == SX_U8 ? SX_LANE_INTEGER : SX_LANE_FLOAT;
}

/* For dtypes that lanes do not hold as memory does, and for integers. NULL: nothing is to be done, or there is none. */
typedef struct sx_chain_types {
  sx_handler *load[SX_N_DTYPES], *store[SX_N_DTYPES];
  sx_handler *round[SX_N_DTYPES]; /* the accumulator's f32 to what the dtype holds */
  sx_handler *cast[SX_N_LANES][SX_N_LANES];
  sx_handler *binary[SX_N_OPS][SX_N_FORMS];
  sx_handler *unary[SX_N_OPS];
} sx_chain_types;

typedef struct sx_chain_kernels {
  int64_t block; /* elements of the accumulator */
  sx_handler *binary[SX_N_OPS][SX_N_FORMS];
  sx_handler *terms[SX_N_TERMS][SX_N_OPS][2]; /* of accumulator and term; of term and accumulator */
  sx_handler *unary[SX_N_OPS];
  sx_handler *load, *spread, *store, *end; /* of 32 bits an element */
  sx_handler *add;                         /* the accumulator to what is in memory */
  sx_handler *where[2][2];                 /* the accumulator is the condition; whether x, y are spread */
  const sx_chain_types *types;
  sx_handler *folds[SX_N_OPS]; /* SUM, REDUCEMAX, REDUCEMIN: leave the accumulator as it is */
  /* Runs the links on `n` elements, a multiple of the block. */
  void (*run)(const sx_link *links, void *const *table, int64_t n);
  void (*fold_begin)(sx_op op, sx_fold *fold, int64_t n);
  float (*fold_end)(sx_op op, sx_fold *fold);
  /* Columns `begin` to `end` - 1 of a table of 32 lanes, `room` elements apart, become their sums, in `out`. */
  void (*fold_columns)(float *lanes, int64_t room, int64_t begin, int64_t end, float *out);
} sx_chain_kernels;

#endif
