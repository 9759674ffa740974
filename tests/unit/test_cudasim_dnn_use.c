/* The simulated cuDNN: settings, and what is refused. */
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cudasim_dnn.h"

#ifdef SX_CUDA
/* ---- settings ----------------------------------------------------------------------------------- */

static void fail_engine(void *context) {
  char words[256];
  (void)context;
  dnn d;
  dnn_begin(&d);
  dnn_tensors t = dnn_take(&DNN_LAYER);
  sx_cudnn_plan plan = dnn_first_plan(&d);
  cudnnStatus_t status = dnn_execute(&d, &plan, t.device, d.workspace);
  d.p_cudnnGetLastErrorString(words, sizeof words);
  fprintf(stderr, "%s: %s\n", d.p_cudnnGetErrorString(status), words);
  dnn_give(&t);
  dnn_end(&d);
}

static void run_four(void *context) {
  uint64_t *digests = context;
  dnn d;
  dnn_begin(&d);
  dnn_tensors t = dnn_take(&DNN_LAYER);
  sx_cudnn_plan plan = dnn_first_plan(&d);
  size_t n_bytes = (size_t)t.n[2] * sizeof(float);
  for (int i = 0; i < 4; i++) {
    FINE(dnn_execute(&d, &plan, t.device, d.workspace));
    mathlib_read(d.stream, t.host, t.device[2], n_bytes);
    dnn_compare(&DNN_LAYER, &t, t.host);
    digests[i] = dnn_digest(t.host, n_bytes);
  }
  dnn_give(&t);
  dnn_end(&d);
}

static void measure(void *context) {
  CUevent from, to;
  dnn d;
  dnn_begin(&d);
  dnn_tensors t = dnn_take(&DNN_LAYER);
  sx_cudnn_plan plan = dnn_first_plan(&d);
  CHECK(!cu.cuEventCreate(&from, CU_EVENT_DEFAULT) && !cu.cuEventCreate(&to, CU_EVENT_DEFAULT));
  CHECK(!cu.cuEventRecord(from, d.stream));
  for (int i = 0; i < 4; i++) FINE(dnn_execute(&d, &plan, t.device, d.workspace));
  CHECK(!cu.cuEventRecord(to, d.stream) && !cu.cuStreamSynchronize(d.stream));
  CHECK(!cu.cuEventElapsedTime(context, from, to));
  CHECK(!cu.cuEventDestroy(from) && !cu.cuEventDestroy(to));
  dnn_give(&t);
  dnn_end(&d);
}

static void settings_are_obeyed(void **state) {
  (void)state;
  static outcome ended;
  dnn_listed *all = dnn_engines_with("");
  assert_int_equal(dnn_engines_with("cudnn.version=91300")->version, 91300);
  mathlib_run(&ended, "a100", dnn_with("cudnn.fail=", all->engines[0], ""), fail_engine, NULL);
  mathlib_expect_ok(&ended);
  assert_non_null(strstr(ended.text, "CUDNN_STATUS_EXECUTION_FAILED: engine"));
  uint64_t *digests = mathlib_share(8 * sizeof *digests);
  mathlib_run(&ended, "a100", "", run_four, digests);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", dnn_with("cudnn.nondeterministic=", all->engines[0], ""), run_four, digests + 4);
  mathlib_expect_ok(&ended);
  for (int i = 1; i < 4; i++) assert_true(digests[i] == digests[0] && digests[4 + i] != digests[4]);
  float *ms = mathlib_share(2 * sizeof *ms);
  mathlib_run(&ended, "a100", "", measure, ms);
  mathlib_expect_ok(&ended);
  mathlib_run(&ended, "a100", dnn_with("speed.cudnn.", all->engines[0], "=0.001"), measure, ms + 1);
  mathlib_expect_ok(&ended);
  printf("%g ms, and %g ms at a thousandth of the speed\n", (double)ms[0], (double)ms[1]);
  assert_true(ms[0] > 0 && ms[1] > 4 * ms[0]);
  mathlib_run(&ended, "a100", "cudnn.best=1", dnn_list_engines, all);
  mathlib_expect_violation(&ended, "setting cudnn.best=1: there is none of this name");
  mathlib_run(&ended, "a100", "speed.cudnn.fast=1", dnn_list_engines, all);
  mathlib_expect_violation(&ended, "setting speed.cudnn.fast=1: there is no such engine");
}

/* ---- violations --------------------------------------------------------------------------------- */

typedef struct wrong {
  const char *words;
  void (*call)(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan);
} wrong;

static void execute_with(dnn *d, const sx_cudnn_plan *plan, void *x, void *w, void *y, void *workspace) {
  dnn_execute(d, plan, (void *[]){x, w, y}, workspace);
}
static void host_tensor(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_with(d, plan, t->host, t->device[1], t->device[2], d->workspace);
}
static void past_the_end(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_with(d, plan, (char *)t->device[0] + 16, t->device[1], t->device[2], d->workspace);
}
static void crooked_tensor(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_with(d, plan, t->device[0], t->device[1], (char *)d->workspace + 4, d->workspace);
}
static void in_place(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_with(d, plan, d->workspace, t->device[1], (char *)d->workspace + 64, NULL);
}
static void execute_pack(dnn *d, const sx_cudnn_plan *plan, const int64_t ids[3], void *const pointers[3]) {
  cudnnBackendDescriptor_t made = dnn_pack(d, ids, pointers, d->workspace);
  d->p_cudnnBackendExecute(d->handle, plan->descriptor, made);
  FINE(d->api.cudnnBackendDestroyDescriptor(made));
}
static void repeated_id(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_pack(d, plan, (const int64_t[]){1, 2, 2}, t->device);
}
static void unknown_id(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  execute_pack(d, plan, (const int64_t[]){1, 4, 3}, t->device);
}
static void unfinished_pack(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)t;
  cudnnBackendDescriptor_t made;
  FINE(d->api.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made));
  d->p_cudnnBackendExecute(d->handle, plan->descriptor, made);
  FINE(d->api.cudnnBackendDestroyDescriptor(made));
}
static void pack_as_plan(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)plan;
  cudnnBackendDescriptor_t made = dnn_pack(d, DNN_IDS, t->device, d->workspace);
  d->p_cudnnBackendExecute(d->handle, made, made);
  FINE(d->api.cudnnBackendDestroyDescriptor(made));
}
static void destroyed_descriptor(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)plan;
  cudnnBackendDescriptor_t made = dnn_pack(d, DNN_IDS, t->device, d->workspace);
  FINE(d->api.cudnnBackendDestroyDescriptor(made));
  d->api.cudnnBackendFinalize(made);
}
static void lost_pack(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)plan;
  dnn_pack(d, DNN_IDS, t->device, d->workspace);
}
static void lost_handle(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)t, (void)plan;
  cudnnHandle_t handle;
  FINE(d->p_cudnnCreate(&handle));
}
static void no_handle(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)plan;
  d->p_cudnnSetStream((cudnnHandle_t)t->host, d->stream);
}
static void dead_stream(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)t, (void)plan;
  CUstream stream;
  CHECK(!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) && !cu.cuStreamDestroy(stream));
  d->p_cudnnSetStream(d->handle, stream);
}
/* The first plan of a convolution in bf16 or f32 that needs a workspace gets none, or less. */
static void short_of_workspace(dnn *d, size_t n_given) {
  for (int i = 0; i < DNN_CASES; i++) {
    sx_convolution c = dnn_case_of(i);
    sx_offers offers;
    CHECK(sx_cudnn_offers(&offers, &d->cudnn, &c));
    for (size_t e = 0; e < offers.n_candidates; e++) {
      if (!offers.candidates[e]->workspace_n_bytes) continue;
      sx_cudnn_plan plan = dnn_plan_of(d, &c, dnn_engine_text(d, &offers.candidates[e]->engine));
      if (plan.workspace_n_bytes <= (int64_t)n_given) continue;
      dnn_tensors t = dnn_take(&c);
      dnn_execute(d, &plan, t.device, n_given ? (char *)d->workspace + DNN_WORKSPACE_N_BYTES - n_given : NULL);
      dnn_give(&t);
      return;
    }
  }
}
static void no_workspace(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)t, (void)plan;
  short_of_workspace(d, 0);
}
static void small_workspace(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)t, (void)plan;
  short_of_workspace(d, 64);
}
/* The first one on tensor cores, which the product's rule does not take. */
static void tf32(dnn *d, const dnn_tensors *t, const sx_cudnn_plan *plan) {
  (void)plan;
  sx_offers offers;
  sx_descriptor graph, engine, configuration;
  sx_cudnn_plan made = {0};
  bool failed;
  CHECK(sx_cudnn_offers(&offers, &d->cudnn, &DNN_LAYER) && sx_cudnn_graph(&graph, &d->cudnn, &DNN_LAYER));
  for (size_t i = 0; i < offers.n; i++) {
    if (offers.items[i].rejection != SX_REJECTED_TENSOR_CORE) continue;
    CHECK(sx_descriptor_make(&engine, &d->cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR) &&
          sx_descriptor_set(&d->cudnn, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &graph) &&
          sx_descriptor_set(&d->cudnn, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &d->cudnn.device) &&
          sx_descriptor_set(&d->cudnn, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                            &offers.items[i].engine.index) &&
          sx_descriptor_finalize(&d->cudnn, engine) &&
          sx_descriptor_make(&configuration, &d->cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) &&
          sx_descriptor_set(&d->cudnn, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &engine) &&
          sx_descriptor_finalize(&d->cudnn, configuration));
    if (sx_cudnn_make_plan(&made.descriptor, &failed, &d->cudnn, configuration) != CUDNN_STATUS_SUCCESS) continue;
    dnn_execute(d, &made, t->device, d->workspace);
    return;
  }
}

/* What is lost is told at the end. */
static const wrong WRONG[] = {
    {"cudnnBackendExecute: the pointer for id 1 is not device memory of 16384 bytes", host_tensor},
    {"cudnnBackendExecute: the pointer for id 1 is not device memory of 16384 bytes", past_the_end},
    {"cudnnBackendExecute: the pointer for id 3 is not aligned to 16 bytes", crooked_tensor},
    {"cudnnBackendExecute: what is written overlaps what is read", in_place},
    {"cudnnBackendExecute: the variant pack has 2 pointers for id 2", repeated_id},
    {"cudnnBackendExecute: the variant pack has 0 pointers for id 2", unknown_id},
    {"cudnnBackendExecute: the variant pack is not one that was finalized", unfinished_pack},
    {"cudnnBackendExecute: the plan is not one that was finalized", pack_as_plan},
    {"cudnnBackendFinalize: the descriptor is not one, or was destroyed", destroyed_descriptor},
    {"cudnnSetStream: the handle is not one, or was destroyed", no_handle},
    {"cudnnSetStream: the stream is not one, or was destroyed", dead_stream},
    {"cudnnBackendExecute: the workspace is not device memory of the", no_workspace},
    {"cudnnBackendExecute: the workspace is not device memory of the", small_workspace},
    {"rounds f32 to TF32", tf32},
    {"cuDNN: 1 of kind handle not destroyed at the end", lost_handle},
    {"cuDNN: 1 descriptors of type 16 not destroyed at the end", lost_pack},
};

enum { N_WRONG = sizeof WRONG / sizeof *WRONG };

/* All of them in one process, since the real library is large. */
static void do_wrong(void *context) {
  (void)context;
  dnn d;
  dnn_begin(&d);
  dnn_tensors t = dnn_take(&DNN_LAYER);
  sx_cudnn_plan plan = dnn_first_plan(&d);
  for (size_t i = 0; i < N_WRONG; i++) {
    WRONG[i].call(&d, &t, &plan);
    FINE(dnn_execute(&d, &plan, t.device, d.workspace)); /* other calls go on */
  }
  dnn_give(&t);
  dnn_end(&d);
}

static void use_foreign_plan(void *context) {
  (void)context;
  dnn d;
  dnn_begin_on(&d, "h100");
  dnn_tensors t = dnn_take(&DNN_LAYER);
  sx_cudnn_plan plan = dnn_first_plan(&d);
  dnn_execute(&d, &plan, t.device, d.workspace);
  dnn_give(&t);
  dnn_end(&d);
}

static void what_is_wrong_is_a_violation(void **state) {
  (void)state;
  static outcome ended;
  mathlib_run(&ended, "a100", "violations=report", do_wrong, NULL);
  assert_int_equal(ended.status, 0);
  const char *line = ended.text;
  for (size_t i = 0; i < N_WRONG; i++) {
    const char *next = strchr(line, '\n'), *words = strstr(line, WRONG[i].words);
    if (strncmp(line, "cudasim: ", 9) || !words || !next || words > next)
      fail_msg("not \"%s\" but: %s", WRONG[i].words, line);
    line = next + 1;
  }
  assert_string_equal(line, "");
  mathlib_run(&ended, "a100", "", use_foreign_plan, NULL);
  mathlib_expect_violation(&ended,
                           "the plan is for compute capability 900 with 132 multiprocessors, and this card is another");
}
#endif

MATHLIB_MAIN(dnn_ready(), cmocka_unit_test(settings_are_obeyed), cmocka_unit_test(what_is_wrong_is_a_violation))
