/* A walk: the elements of a view in row-major order, with as few loops as its strides allow. What reads
 * views (element groups, copies) reads ranges of a walk. */
#ifndef SX_CPU_WALK_H
#define SX_CPU_WALK_H

#include "../pass/plan.h"
#include "threads.h"

typedef struct sx_walk {
  int rank;       /* at least 1; loops, no two of which could be one */
  int bytes;      /* of an element: 1, 2 or 4 */
  int64_t n;      /* elements */
  int64_t offset; /* elements from the buffer's start */
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
} sx_walk;

sx_walk sx_walk_make(const sx_view *view, const sx_node *node);
static inline bool sx_walk_is_contiguous(const sx_walk *walk) { return walk->rank == 1 && walk->strides[0] == 1; }
static inline bool sx_walk_is_splat(const sx_walk *walk) { return walk->rank == 1 && walk->strides[0] == 0; }
/* Where element i lies, in elements from the buffer's start. */
int64_t sx_walk_at(const sx_walk *walk, int64_t i);
/* Elements begin to end - 1 to `to`, one after the other. */
void sx_walk_read(const sx_walk *walk, const void *buffer, int64_t begin, int64_t end, void *to);
/* All elements, by all threads. */
void sx_walk_copy(const sx_walk *walk, const void *buffer, void *to, sx_pool *pool);

#endif
