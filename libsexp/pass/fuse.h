/* What the walks of fusion share: fuse.c, wait.c. */
#ifndef SX_PASS_FUSE_H
#define SX_PASS_FUSE_H

#include "plan_parts.h"

/* What a group walks. */
typedef struct sx_extent {
  int64_t width; /* elements of its widest nodes, and of what it reduces */
  int64_t row;   /* 0: no rows */
} sx_extent;

typedef struct sx_fusion {
  sx_planning *planning;
  const sx_graph *graph;
  uint32_t *parents;  /* per node: union-find of groups */
  uint32_t *sizes;    /* per group at its representative: nodes */
  sx_extent *extents; /* the same */
  uint32_t *levels;   /* per node: of its task; of its root's for a view */
  sx_id *sources;     /* per node: the member of a group whose value it is, itself, reshaped or stretched; or none */
  int64_t *stretches; /* per node with a source: how often each element of it is repeated */
  sx_id *readers;     /* per node: an ELEMENT node that reads it, the last one met */
  uint32_t *users;    /* second walk, per node: the one group of its readers, NO_USER or MANY_USERS */
} sx_fusion;

/* The representative of the node's group. */
uint32_t sx_fusion_group(sx_fusion *f, sx_id id);
/* Makes the groups of both nodes one, which walks `both`. */
void sx_fusion_join(sx_fusion *f, sx_id a, sx_id b, sx_extent both);
/* The extent of both together; false: there is none. */
bool sx_fusion_unite(sx_extent *both, sx_extent other);
/* Between the walks: has groups wait for who reads them (wait.c). */
void sx_fusion_wait(sx_fusion *f);

static inline bool sx_is_element(const sx_fusion *f, sx_id id) { return f->planning->roles[id] == SX_ROLE_ELEMENT; }
static inline bool sx_is_member(const sx_fusion *f, sx_id id) {
  return sx_is_element(f, id) || f->planning->roles[id] == SX_ROLE_ROWS;
}
/* Goes into the group that reads it, in the second walk. */
static inline bool sx_is_again(const sx_fusion *f, sx_id id) {
  return f->planning->options->again && f->planning->options->again[id];
}

#endif
