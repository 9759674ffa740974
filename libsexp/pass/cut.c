/* The largest flow, along shortest ways that have room left, found from the sink on. What can still reach the sink once
 * the source cannot is the smallest of the best sets.
 *
 * Source: Ford and Fulkerson, "Maximal flow through a network", 1956; Edmonds and Karp, "Theoretical improvements in
 * algorithmic efficiency for network flow problems", 1972. */
#include "cut.h"

void sx_cut_begin(sx_cut *cut, uint32_t n_places) {
  cut->places.n = cut->edges.n = 0;
  for (uint32_t i = 0; i < n_places; i++)
    SX_PUSH(cut->arena, cut->places, ((sx_cut_place){UINT32_MAX, UINT32_MAX, false}));
}

static void add_edge(sx_cut *cut, uint32_t from, uint32_t to, double room) {
  sx_cut_edge edge = {to, cut->places.items[from].edges, room};
  cut->places.items[from].edges = (uint32_t)cut->edges.n;
  SX_PUSH(cut->arena, cut->edges, edge);
}

void sx_cut_join(sx_cut *cut, uint32_t from, uint32_t to, double cost) {
  add_edge(cut, from, to, cost);
  add_edge(cut, to, from, 0);
}

/* Marks what reaches the sink; whether the source does. */
static bool reach(sx_cut *cut) {
  sx_cut_place *places = cut->places.items;
  for (size_t i = 0; i < cut->places.n; i++) places[i].after = false;
  places[SX_CUT_SINK].after = true;
  cut->queue.n = 0;
  SX_PUSH(cut->arena, cut->queue, SX_CUT_SINK);
  for (size_t i = 0; i < cut->queue.n; i++) {
    for (uint32_t e = places[cut->queue.items[i]].edges; e != UINT32_MAX; e = cut->edges.items[e].next) {
      sx_cut_place *from = &places[cut->edges.items[e].to];
      if (from->after || !(cut->edges.items[e ^ 1].room > 0)) continue;
      from->after = true;
      from->through = e ^ 1;
      if (cut->edges.items[e].to == SX_CUT_SOURCE) return true;
      SX_PUSH(cut->arena, cut->queue, cut->edges.items[e].to);
    }
  }
  return false;
}

static void fill(sx_cut *cut) {
  sx_cut_edge *edges = cut->edges.items;
  const sx_cut_place *places = cut->places.items;
  double most = edges[places[SX_CUT_SOURCE].through].room;
  for (uint32_t at = SX_CUT_SOURCE; at != SX_CUT_SINK; at = edges[places[at].through].to)
    if (edges[places[at].through].room < most) most = edges[places[at].through].room;
  for (uint32_t at = SX_CUT_SOURCE; at != SX_CUT_SINK; at = edges[places[at].through].to) {
    edges[places[at].through].room -= most;
    edges[places[at].through ^ 1].room += most;
  }
}

void sx_cut_solve(sx_cut *cut) {
  while (reach(cut)) fill(cut);
}
