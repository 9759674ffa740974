/* The project's own kernels of contractions, as CUDA C: in the order of numerics 1 (docs/numerics.md), so with the CPU
 * engine's bits. In each block of 256 of the contracted index one accumulator from +0 takes __fmaf_rn in index order;
 * the blocks' partial results are added in order to the first.
 *
 * A block of threads computes a tile of the result through shared memory, every thread some of its elements, each with
 * its own chain. Where tiles are few and the contracted index is long, the blocks of 256 are tiles of their own,
 * written to scratch, and another kernel adds them in order: the same sums. */
#ifndef SX_CUDA_KERNEL_PRODUCT_H
#define SX_CUDA_KERNEL_PRODUCT_H

#include "contract.h"

enum { SX_CONTRACT_THREADS = 256, SX_CONTRACT_BLOCK = 256 };

/* Elements of a tile, and of it those of one thread: rows times columns. One by one: a thread reads its operands where
 * they lie. */
typedef struct sx_tile {
  int rows, columns, thread_rows, thread_columns;
} sx_tile;

typedef struct sx_contract_kernel {
  sx_contract contract; /* merged; sides exchanged where that is how the result lies */
  bool exchanged;       /* operand 0 of the kernel is operand 1 of the contraction */
  sx_tile tile;
  int64_t parts;         /* partial results of an element, in scratch; 1: none */
  int64_t n_groups;      /* blocks of threads */
  int64_t scratch_bytes; /* of the partial results */
} sx_contract_kernel;

/* Decided by the shape alone. */
sx_contract_kernel sx_contract_kernel_of(const sx_contract *contract);
/* With the tile, and in parts where there are several; for tests. Tile i of those there are, NULL from their number on.
 */
sx_contract_kernel sx_contract_kernel_with(const sx_contract *contract, const sx_tile *tile, bool in_parts);
const sx_tile *sx_contract_tile(size_t i);
/* KERNEL(a, b, c): c is the result or, with parts, the scratch. */
const char *sx_contract_kernel_text(const sx_contract_kernel *kernel, sx_arena *arena);
/* KERNEL(from, to): adds `parts` f32 results that lie one after the other, each in the order (batch, row, column), in
 * order; one thread an element. */
const char *sx_contract_sum_text(const sx_contract *contract, int64_t parts, sx_arena *arena);
/* KERNEL(from, to): the elements of a tensor as its strides see it, in row-major order, one a thread. */
const char *sx_contract_copy_text(const sx_strided *tensor, sx_arena *arena);

#endif
