/* The least cut of random small networks, against all sets of places. */
#include <math.h>

#include "../../libsexp/pass/cut.h"
#include "../common/cmocka_all.h"
#include "../common/random_graph.h"

enum { MOST = 8, EDGES_MOST = 24 };

typedef struct edge {
  uint32_t from, to;
  double cost;
} edge;

/* What leads into the set, whose bits are places. */
static double cost_of(const edge *edges, uint32_t n, uint32_t set) {
  double cost = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!(set >> edges[i].from & 1) && (set >> edges[i].to & 1)) cost += edges[i].cost;
  return cost;
}

/* Those of the least cost have in common what is itself one. */
static uint32_t smallest_best(const edge *edges, uint32_t n, uint32_t n_places, double *least) {
  uint32_t common = 0;
  *least = HUGE_VAL;
  for (uint32_t set = 0; set < 1u << n_places; set++) {
    if (!(set >> SX_CUT_SINK & 1) || (set >> SX_CUT_SOURCE & 1)) continue;
    double cost = cost_of(edges, n, set);
    if (cost < *least) common = set;
    if (cost == *least) common &= set;
    if (cost < *least) *least = cost;
  }
  return common;
}

static void the_smallest_of_the_best_sets(void **state) {
  (void)state;
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  sx_cut cut = {.arena = &arena};
  uint32_t n_solved = 0, n_large = 0;
  for (uint64_t seed = 0; seed < 3000; seed++) {
    random_source random = {seed};
    uint32_t n_places = 3 + (uint32_t)random_below(&random, MOST - 2), n = (uint32_t)random_below(&random, EDGES_MOST);
    edge edges[EDGES_MOST];
    for (uint32_t i = 0; i < n; i++) {
      edges[i].from = (uint32_t)random_below(&random, n_places);
      edges[i].to = (uint32_t)random_below(&random, n_places);
      edges[i].cost = (double)random_below(&random, 6) / 4;
      if (!random_below(&random, 4)) edges[i].cost = HUGE_VAL;
    }
    double least;
    uint32_t best = smallest_best(edges, n, n_places, &least), given = 0;
    if (!isfinite(least)) continue;
    sx_cut_begin(&cut, n_places);
    for (uint32_t i = 0; i < n; i++) sx_cut_join(&cut, edges[i].from, edges[i].to, edges[i].cost);
    sx_cut_solve(&cut);
    for (uint32_t i = 0; i < n_places; i++) given |= (uint32_t)cut.places.items[i].after << i;
    if (given != best)
      fail_msg("seed %llu: %x of cost %g for %x of %g", (unsigned long long)seed, given, cost_of(edges, n, given), best,
               least);
    n_solved++;
    n_large += least > 0 && (best & (best - 1));
  }
  sx_arena_free(&arena);
  assert_true(n_solved > 1500);
  assert_true(n_large > 300);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_smallest_of_the_best_sets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
