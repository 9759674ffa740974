/* Chains: element operations of f32 and bool evaluated together on blocks of a few registers.
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

/* The order of a sum, and the chunks of the longest row there is (SX_ROW_MOST). */
enum { SX_FOLD_LANES = 32, SX_FOLD_CHUNK = 4096, SX_FOLD_CHUNKS = 8 };

/* A reduction of one row under way: see numerics 1 for the order of a sum. */
typedef struct sx_fold {
  float lanes[SX_FOLD_LANES];
  int32_t nans[SX_FOLD_LANES]; /* of a maximum or minimum */
  float chunks[SX_FOLD_CHUNKS];
  int64_t left, taken; /* elements of the row to come; of the chunk so far */
  int32_t n_chunks;
} sx_fold;

typedef struct sx_chain_kernels {
  int64_t block; /* elements of the accumulator */
  sx_handler *binary[SX_N_OPS][SX_N_FORMS];
  sx_handler *unary[SX_N_OPS];
  sx_handler *load, *spread, *load_bools, *store, *store_bools, *end;
  sx_handler *where[2][2]; /* the accumulator is the condition; whether x, y are spread */
  sx_handler *bool_from_float, *float_from_bool;
  sx_handler *folds[SX_N_OPS]; /* SUM, REDUCEMAX, REDUCEMIN: leave the accumulator as it is */
  /* Runs the links on `n` elements, a multiple of the block. */
  void (*run)(const sx_link *links, void *const *table, int64_t n);
  void (*fold_begin)(sx_op op, sx_fold *fold, int64_t n);
  float (*fold_end)(sx_op op, sx_fold *fold);
} sx_chain_kernels;

#endif
