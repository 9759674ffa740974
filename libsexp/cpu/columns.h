/* Sums of columns that are made by groups that have what they sum at hand: see columns.c. */
#ifndef SX_CPU_COLUMNS_H
#define SX_CPU_COLUMNS_H

#include "../pass/plan.h"

enum { SX_COLUMNS_MOST = 8 };

/* Of an ELEMENT task: the sums that it makes. */
typedef struct sx_columns {
  uint32_t n;                        /* 0: none */
  int64_t width;                     /* elements of a sum */
  int64_t n_rows, row;               /* of the group: a row is one of what is summed, or several side by side */
  sx_id summed[SX_COLUMNS_MOST];     /* a node of the group, or an input of it */
  uint32_t targets[SX_COLUMNS_MOST]; /* buffers of the sums */
  bool read[SX_COLUMNS_MOST];        /* whether something but the sum reads the node's buffer */
} sx_columns;

/* How many of the rows that are summed make a row of the group: a power of two, SX_SUM_LANES at most. */
static inline int64_t sx_columns_joined(const sx_columns *columns) { return columns->row / columns->width; }

typedef struct sx_column_sums {
  sx_columns **of_tasks; /* per task; NULL: it makes none */
  bool *made;            /* per task: a sum that groups make, and which is not to be run */
} sx_column_sums;

sx_column_sums sx_columns_find(const sx_plan *plan, sx_arena *arena);

#endif
