/* The order of a sum (numerics 1), and the table in which sums are made by columns (kernels_sum.c): two levels of
 * lanes, rows of a strip of columns. */
#ifndef SX_CPU_SUM_TABLE_H
#define SX_CPU_SUM_TABLE_H

#include <stdint.h>

enum {
  SX_SUM_LANES = 32,
  SX_SUM_CHUNK = 4096,   /* elements that lanes take; chunks are summed likewise */
  SX_SUM_COLUMNS = 1024, /* of the widest strip */
  SX_SUM_MULTIPLE = 64,  /* strips but the last are multiples of it */
  SX_SUM_GAP = 16        /* so that lanes do not share low address bits */
};

/* Elements from one lane of a strip to the next. */
static inline int64_t sx_sum_lane_room(int64_t n_columns) {
  return (n_columns + SX_SUM_MULTIPLE - 1) / SX_SUM_MULTIPLE * SX_SUM_MULTIPLE + SX_SUM_GAP;
}

/* A multiple of 64. */
static inline int64_t sx_sum_table_bytes(int64_t n_columns) {
  return 2 * SX_SUM_LANES * 4 * sx_sum_lane_room(n_columns);
}

#endif
