/* What preparing and running ATTENTION tasks share: attention_prepare.c, attention_operands.c, attention.c. */
#ifndef SX_CPU_ATTENDING_H
#define SX_CPU_ATTENDING_H

#include "../pass/plan_parts.h"
#include "attention.h"
#include "elementwise.h"
#include "gemm.h"
#include "softmax.h"

enum { SX_ATTENDING_PANEL = SX_GEMM_WIDEST, SX_ATTENDING_TURNS = 3 };

/* What is read or written of a batch element: `n` rows of `depth`. */
typedef struct sx_attending_matrix {
  const sx_attention_matrix *of;
  uint32_t buffer;
  int64_t offset, n, depth; /* elements */
  bool written;
  int64_t copy, n_copied; /* a copy of all of it, in the scratch, floats; n_copied 0: there is none */
} sx_attending_matrix;

/* A right side as the kernels of products read it: of scores, panels [depth SX_ATTENDING_PANEL] of its columns; of
 * others rows of what is contracted. */
typedef struct sx_attending_operand {
  bool copied;   /* of others than scores: or read where it lies */
  sx_walk walk;  /* of one batch element, for the copy */
  int64_t place; /* of the copy in the scratch, floats */
  int64_t row;   /* stride of what is read, whose columns lie side by side */
} sx_attending_operand;

typedef struct sx_attending_product {
  const sx_attention_product *of;
  sx_attending_operand operand;
  uint32_t left, right; /* among the matrices */
  uint32_t tile;        /* its place among those given to the group */
} sx_attending_product;

struct sx_attending {
  const sx_plan *plan;
  const sx_attention *of;
  const sx_kernel_set *kernels;
  sx_group *group;
  bool is_softmax; /* the group is, and is evaluated as that where columns are left out */
  sx_softmax softmax;
  uint32_t softmax_tiles[4]; /* of scores, weights, slopes, gradients, among the tiles */
  sx_attending_product *products;
  sx_attending_matrix *matrices;
  uint32_t n_matrices, n_tiles;
  int64_t *tile_places; /* floats, of each tile in the scratch */
  bool *whole_blocks;   /* per tile: kept for a block of rows */
  bool over_rows;       /* a product is */
  uint32_t *zeroes;     /* among the tiles: skip->zeroes */
  int64_t sum_place;    /* of skip->sums, one a row each */
  int64_t pitch, tile_rows, block_rows;
  int64_t group_place, panel_place, block_place, n_floats; /* in the scratch */
};

/* What a thread works with. */
typedef struct sx_attending_work {
  const sx_attending *a;
  void *const *data;
  float *scratch;
  int64_t batch_number;
  float *at[2 * SX_ATTENTION_PRODUCTS]; /* where the batch element begins in each matrix */
  int64_t next[SX_RANK_MAX];            /* the next batch element */
  bool has_next;                        /* the thread takes that too */
  float *given[SX_ATTENTION_PRODUCTS + 2 * SX_GROUP_NODES];
  bool finite; /* the batch element's operands are, as far as leaving out columns needs it */
  bool whole;  /* nothing was left out of one of its blocks before */
} sx_attending_work;

/* The length of what an end of the task sums over. */
static inline int64_t sx_attending_contracted(const sx_attending *a, const sx_attention_product *of) {
  return of->kind == SX_ATTENTION_OVER_ROWS ? a->of->rows : a->of->columns;
}

/* The right side of an end as its product reads it. */
static inline const float *sx_attending_right(const sx_attending_work *w, const sx_attending_product *p) {
  return p->operand.copied ? w->scratch + p->operand.place : w->at[p->right];
}

/* Copies what a batch element's products read from copies, and looks whether its operands are finite. The thread goes
 * on to those before `end`. */
void sx_attending_begin(sx_attending_work *w, int64_t batch, int64_t end);
/* While rows first to first + n - 1 are worked on: has the same part of the next batch element's operands fetched, a
 * share of them at each of SX_ATTENDING_TURNS turns, as more at once than a processor keeps under way would wait. */
void sx_attending_fetch(const sx_attending_work *w, int64_t first, int64_t n, uint32_t turn);

#endif
