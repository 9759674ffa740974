/* The least cut of a small network: which of its places to part from the source where parting them costs least. */
#ifndef SX_PASS_CUT_H
#define SX_PASS_CUT_H

#include <stdbool.h>
#include <stdint.h>

#include "../base/memory.h"

enum { SX_CUT_SOURCE, SX_CUT_SINK, SX_CUT_FIRST /* of the places that are free */ };

typedef struct sx_cut_edge {
  uint32_t to, next; /* next: of the edges that leave the same place, UINT32_MAX: none */
  double room;       /* cost less flow */
} sx_cut_edge;

typedef struct sx_cut_place {
  uint32_t edges;   /* the first that leaves it, UINT32_MAX: none */
  uint32_t through; /* edge through which the sink was reached */
  bool after;       /* once cut: it is on the sink's side */
} sx_cut_place;

/* Zeroed before its first use; memory is kept for the next network. */
typedef struct sx_cut {
  sx_arena *arena;
  SX_VEC(sx_cut_place) places;
  SX_VEC(sx_cut_edge) edges; /* 2 i, and against it 2 i + 1 */
  SX_VEC(uint32_t) queue;
} sx_cut;

/* An empty network of so many places, the source and the sink among them. */
void sx_cut_begin(sx_cut *cut, uint32_t n_places);
/* Costs 0 or more, HUGE_VAL where the edge may not be cut. */
void sx_cut_join(sx_cut *cut, uint32_t from, uint32_t to, double cost);
/* Fills `after`: of the sets with the sink and without the source into which edges of the least cost lead, the
 * smallest. One way from source to sink must have a finite cost on each path. Repeats: a function of the joins in their
 * order. */
void sx_cut_solve(sx_cut *cut);

#endif
