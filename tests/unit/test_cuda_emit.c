/* Kernels of the CUDA device have the bits of the reference loops: of random graphs over every operation, fused and
 * not, in place and not, their kernels executed from NVRTC's PTX. */
#include "../cudasim/emit_case.h"
#include "../cudasim/ptx_case.h"
#include "../common/cmocka_all.h"
#include "../common/random_graph.h"

static void run_all(emit_case *cases, size_t n, int architecture) {
  char *unit = emit_unit(cases, n);
  sim_module *module = ptx_module(unit, architecture);
  free(unit);
  for (size_t i = 0; i < n && getenv("COUNT"); i++)
    for (size_t k = 0; k < cases[i].lowering.kernels.n; k++) printf("KERN %s\n", cases[i].lowering.kernels.items[k].name);
  for (size_t i = 0; i < n; i++) {
    emit_run(&cases[i], module);
    emit_check(&cases[i]);
    emit_free(&cases[i]);
  }
  sim_module_free(module);
}

enum { BATCH = 8 };

static void test_random_graphs(void **state) {
  (void)state;
  const char *from = getenv("SEED");
  uint64_t first = from ? strtoull(from, NULL, 10) : 1, last = from ? first + (getenv("N") ? strtoull(getenv("N"), NULL, 10) : 1) : 33;
  for (uint64_t seed = first; seed < last; seed += BATCH) {
    emit_case cases[BATCH] = {0};
    static char names[BATCH][64];
    size_t n = 0;
    for (; n < BATCH && seed + n < last; n++) {
      snprintf(names[n], sizeof names[n], "random graph %llu", (unsigned long long)(seed + n));
      cases[n].seed = seed + n;
      cases[n].in_place = true;
      emit_lower(&cases[n], names[n], planned_random(seed + n, 120), n % 4 != 3, n % 2 == 0, n % 4 == 0);
    }
    run_all(cases, n, 80);
  }
}

int main(void) {
  if (!ptx_ready()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
