/* The softmax of causal attention, and its gradient, on tiles of rows: what attention.c has in place of the element
 * group where that is one of these and columns can be left out. A row ends at its last column that is seen.
 *
 *   x = where (c <= r + diagonal) s hidden   e = exp (x - max x)   z = sum e   p = e / z
 *   g = where (c <= r + diagonal) ((t / z + sum (-t * (p / z))) * e) 0 */
#ifndef SX_CPU_SOFTMAX_H
#define SX_CPU_SOFTMAX_H

#include "../pass/attention.h"

enum { SX_SOFTMAX_ROWS = 32, SX_SOFTMAX_COLUMNS = 4096 }; /* at most */

/* Rows `pitch` apart; of the first one the first n_seen columns are seen, of each other one more, up to n_columns.
 * Rows have room for n_columns rounded up to 32. */
typedef struct sx_softmax_tile {
  float *scores;    /* s; becomes e */
  float *weights;   /* p, where wanted, to column `limit` - 1; else anything */
  float *slopes;    /* t; changes. NULL: no gradient is wanted */
  float *gradients; /* g, likewise */
  int64_t pitch, n_rows, n_seen, limit, n_columns;
  float hidden; /* what columns that are not seen have in place of a score */
} sx_softmax_tile;

/* Which nodes of an ATTENTION task they are. */
typedef struct sx_softmax {
  bool has_gradient;
  sx_id scores, weights, slopes, gradients;
  float hidden;
} sx_softmax;

/* Whether the task's group is that and nothing else. */
bool sx_softmax_find(const sx_plan *plan, const sx_attention *attention, sx_softmax *softmax);

#endif
