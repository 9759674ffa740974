/* Sums of columns that are made with the group that computes what they sum: see columns.c. */
#ifndef SX_CPU_COLUMNS_H
#define SX_CPU_COLUMNS_H

#include "../pass/plan.h"

enum { SX_COLUMNS_MOST = 8 };

/* Of an ELEMENT task: the sums that are the tasks after it. */
typedef struct sx_columns {
  uint32_t n;                        /* 0: none */
  int64_t width;                     /* elements of a sum */
  int64_t n_rows, row;               /* of the group: a row is one of what is summed, or several side by side */
  sx_id summed[SX_COLUMNS_MOST];     /* the group's node */
  uint32_t targets[SX_COLUMNS_MOST]; /* buffers of the sums */
  bool read[SX_COLUMNS_MOST];        /* whether something but the sum reads the node's buffer */
} sx_columns;

/* How many of the rows that are summed make a row of the group: a power of two, SX_SUM_LANES at most. */
static inline int64_t sx_columns_joined(const sx_columns *columns) { return columns->row / columns->width; }

/* n_readings: per buffer, how many nodes read it (sx_count_readings). */
sx_columns sx_columns_of(const sx_plan *plan, uint32_t task, const uint32_t *n_readings);
uint32_t *sx_count_readings(const sx_plan *plan, sx_arena *arena);

#endif
