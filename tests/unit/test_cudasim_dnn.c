/* The simulated cuDNN: what it offers is the real library's, what it computes is within the bound of a sum, and engines
 * differ in bits. */
#include <inttypes.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cudasim_dnn.h"

#ifdef SX_CUDA
/* ---- results ------------------------------------------------------------------------------------ */

typedef struct found {
  uint64_t digests[DNN_CASES][SX_CUDNN_CANDIDATES];
  int n_engines[DNN_CASES], n_different[DNN_CASES];
  int64_t engines[DNN_CASES][SX_CUDNN_CANDIDATES];
} found;

static void run_case(dnn *d, found *out, int i) {
  sx_convolution c = dnn_case_of(i);
  sx_offers offers;
  CHECK(sx_cudnn_offers(&offers, &d->cudnn, &c));
  dnn_tensors t = dnn_take(&c);
  int which = dnn_result_of(&c);
  size_t n_bytes = (size_t)t.n[which] * dnn_size_of(&c);
  for (size_t e = 0; e < offers.n_candidates; e++) {
    size_t n_owned = d->cudnn.owned.n;
    sx_cudnn_plan plan = dnn_plan_of(d, &c, dnn_engine_text(d, &offers.candidates[e]->engine));
    for (int twice = 0; twice < 2; twice++) {
      FINE(dnn_execute(d, &plan, t.device, d->workspace));
      mathlib_read(d->stream, t.host, t.device[which], n_bytes);
      uint64_t now = dnn_digest(t.host, n_bytes);
      CHECK(!twice || out->digests[i][e] == now);
      out->digests[i][e] = now;
    }
    dnn_compare(&c, &t, t.host);
    bool is_new = true;
    for (size_t b = 0; b < e; b++) is_new = is_new && out->digests[i][b] != out->digests[i][e];
    out->n_different[i] += is_new;
    out->engines[i][e] = plan.engine.index;
    while (d->cudnn.owned.n > n_owned)
      FINE(d->api.cudnnBackendDestroyDescriptor(d->cudnn.owned.items[--d->cudnn.owned.n]));
  }
  out->n_engines[i] = (int)offers.n_candidates;
  dnn_give(&t);
}

/* All cases, or a few of every kind where tests are to be quick. */
static int step(void) { return getenv("QUICK") && *getenv("QUICK") ? 3 : 1; }

static void run_cases(void *context) {
  dnn d;
  dnn_begin(&d);
  for (int i = 0; i < DNN_CASES; i += step()) run_case(&d, context, i);
  dnn_end(&d);
}

static void every_candidate_computes_the_convolution(void **state) {
  (void)state;
  static outcome ended;
  found *first = mathlib_share(sizeof *first), *second = mathlib_share(sizeof *second);
  mathlib_run(&ended, "a100", "", run_cases, first);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", "", run_cases, second);
  mathlib_expect_ok(&ended);
  assert_memory_equal(first, second, sizeof *first);
  int n_cases = 0, n = 0, n_different = 0, n_f32 = 0, n_f32_different = 0;
  for (int i = 0; i < DNN_CASES; i += step()) {
    assert_true(first->n_engines[i] > 0);
    n_cases++;
    n += first->n_engines[i];
    n_different += first->n_different[i];
    if (i % 2 == 0) n_f32 += first->n_engines[i], n_f32_different += first->n_different[i];
  }
  printf("%d convolutions with %d engines and knobs; %d results differ in bits, in f32 %d of %d\n", n_cases, n,
         n_different, n_f32_different, n_f32);
  assert_true(n_f32_different * 3 >= n_f32 * 2);
}

/* ---- engines that are missing ---------------------------------------------------------------------- */

static void pin_the_missing(void *context) {
  const dnn_listed *all = context;
  dnn d;
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  char engine[64];
  dnn_begin(&d);
  snprintf(engine, sizeof engine, "engine %" PRId64, all->engines[0]);
  CHECK(sx_cudnn_pin(&plan, &refusal, &d.cudnn, &DNN_LAYER, engine) == SX_PIN_REFUSED);
  fprintf(stderr, "%s\n", refusal.offered);
  dnn_end(&d);
}

static void engines_can_be_missing(void **state) {
  (void)state;
  static outcome ended;
  dnn_listed *all = dnn_engines_with(""),
             *without = dnn_engines_with(dnn_with("cudnn.missing=999,", all->engines[0], ""));
  assert_true(all->n > 1 && without->n >= 1);
  for (size_t i = 0; i < without->n; i++) assert_int_not_equal(without->engines[i], all->engines[0]);
  assert_int_equal(without->engines[0], all->engines[1]);
  mathlib_run(&ended, "a100", dnn_with("cudnn.missing=", all->engines[0], ""), pin_the_missing, all);
  mathlib_expect_ok(&ended);
  assert_non_null(strstr(ended.text, "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"));
}

/* ---- a handle in place of facts ------------------------------------------------------------------ */

/* Heuristics that are asked for a handle's device offer what they offer for the card's facts. */
static void ask_by_handle(void *context) {
  int64_t *n = context, most = 0;
  dnn d;
  sx_descriptor graph, operations, heuristics, plan;
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  dnn_begin(&d);
  CHECK(sx_cudnn_graph(&graph, &d.cudnn, &DNN_LAYER));
  operations = d.cudnn.owned.items[d.cudnn.owned.n - 2]; /* the operation, made before the graph */
  sx_descriptor made[2], configuration;
  for (int by_handle = 0; by_handle < 2; by_handle++) {
    CHECK(sx_descriptor_make(&made[by_handle], &d.cudnn, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) &&
          sx_descriptor_set(&d.cudnn, made[by_handle], CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &operations));
    if (by_handle)
      FINE(d.api.cudnnBackendSetAttribute(made[1], CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &d.handle));
    CHECK(sx_descriptor_finalize(&d.cudnn, made[by_handle]) &&
          sx_descriptor_make(&heuristics, &d.cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) &&
          sx_descriptor_set(&d.cudnn, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            1, &made[by_handle]) &&
          sx_descriptor_set(&d.cudnn, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (!by_handle)
      CHECK(sx_descriptor_set(&d.cudnn, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                              &d.cudnn.device));
    CHECK(sx_descriptor_finalize(&d.cudnn, heuristics) &&
          sx_descriptor_make(&configuration, &d.cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
          sx_descriptor_get(&n[by_handle], &configuration, &d.cudnn, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1) &&
          sx_descriptor_get(&most, NULL, &d.cudnn, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 0));
    n[by_handle] = most;
  }
  CHECK(sx_descriptor_make(&plan, &d.cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) &&
        sx_descriptor_set(&d.cudnn, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                          &configuration));
  FINE(d.api.cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &d.handle));
  CHECK(sx_descriptor_finalize(&d.cudnn, plan));
  dnn_end(&d);
}

static void a_handle_stands_for_the_card(void **state) {
  (void)state;
  static outcome ended;
  int64_t *n = mathlib_share(2 * sizeof *n);
  mathlib_run(&ended, "a100", "", ask_by_handle, n);
  mathlib_expect_ok(&ended);
  assert_true(n[0] > 0 && n[0] == n[1]);
}
#endif

MATHLIB_MAIN(dnn_ready(), cmocka_unit_test(every_candidate_computes_the_convolution),
             cmocka_unit_test(engines_can_be_missing), cmocka_unit_test(a_handle_stands_for_the_card))
