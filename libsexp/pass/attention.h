/* What an ATTENTION task computes: products whose result is [batch.. rows columns], element operations and reductions
 * of rows on that, and products that read it. A few rows at a time are alive.
 *
 *   s = q k^T   p = softmax s   o = p v        one task, of which only o is stored
 *   s, p again  g = do v^T   ds = ...   dv = p^T do   dq = ds k   dk = ds^T q        another */
#ifndef SX_PASS_ATTENTION_H
#define SX_PASS_ATTENTION_H

#include "plan.h"

/* A matrix for each batch index in a buffer: where its elements lie. */
typedef struct sx_attention_matrix {
  sx_id node;
  int64_t row, column;        /* strides, elements */
  int64_t batch[SX_RANK_MAX]; /* likewise, one a batch axis */
} sx_attention_matrix;

typedef enum sx_attention_kind {
  SX_ATTENTION_SCORES,       /* tile [rows columns] = left [rows depth] times right [columns depth], transposed */
  SX_ATTENTION_OVER_COLUMNS, /* left [rows depth] = tile times right [columns depth] */
  SX_ATTENTION_OVER_ROWS     /* left [columns depth] = tile, transposed, times right [rows depth] */
} sx_attention_kind;

/* After a product, an operation of each element of its result with a constant: x + value, or x times value. */
typedef struct sx_attention_after {
  sx_id node;
  bool adds;
  float value;
} sx_attention_after;

enum { SX_ATTENTION_AFTER = 4 }; /* such operations of a product, at most */

typedef struct sx_attention_product {
  sx_attention_kind kind;
  sx_id node, tile; /* the product; its result or operand that is [batch.. rows columns] */
  int64_t depth;
  sx_attention_matrix left, right;
  /* Not of SCORES, whose left is the result: axes of the node that are left's, and what is done after it, which the
   * last node of it stores. left.node: that one, or the product. */
  int row_axis, column_axis, batch_axes[SX_RANK_MAX];
  sx_attention_after after[SX_ATTENTION_AFTER];
  uint32_t n_after;
} sx_attention_product;

/* Columns that need not be computed (attention_skip.c): in row r those with c > r + diagonal, if of a row's hidden
 * columns one is computed in which every node of `zeroes` is 0, no node of `sums` is 0 and no result of a product -0,
 * the right sides of products over tiles are finite, and so is bound times 1 + what scores can be. */
typedef struct sx_attention_skip {
  bool allowed;
  int64_t diagonal;
  sx_id mask;       /* a condition that is true in the columns c <= r + diagonal and in no other; SX_NO_NODE: none is */
  double bound;     /* 0: scores may be anything */
  uint32_t bounded; /* the scores that may not, by number */
  sx_id *zeroes, *sums;
  uint32_t n_zeroes, n_sums;
} sx_attention_skip;

typedef struct sx_attention {
  int n_batch_axes;
  int64_t batch[SX_RANK_MAX];
  int64_t n_batches, rows, columns;
  sx_attention_product *products; /* SCORES first */
  uint32_t n_products, n_scores;
  sx_task group; /* ELEMENT, rows of `columns`: what is between the products; `stored` are the tiles that products read,
                    and what skip names */
  sx_attention_skip skip;
} sx_attention;

/* The view of a product's node, whose result is stored by this view of the last node after it; false: there is none. */
bool sx_attention_product_view(const sx_graph *graph, const sx_attention_product *product, const sx_view *stored,
                               sx_view *view);

/* A head's gradients are the work of one thread, and a task of few rows saves nothing. At most so many products. Scores
 * of fewer bytes stay in the cache: where no columns can be left out, computing them again takes longer. */
enum { SX_ATTENTION_BATCHES = 8, SX_ATTENTION_ROWS = 16, SX_ATTENTION_PRODUCTS = 16, SX_ATTENTION_BYTES = 64 << 20 };

#endif
