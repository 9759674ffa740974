/* Selection and pinning when a call of cuDNN fails or memory runs out, at every place: nothing is lost, nothing is
 * taken for an answer. And several sessions at once. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/cuda.h"

#ifdef SX_CUDA
#include "../../libsexp/base/guard.h"

/* ---- cuDNN, counted and failing when told ---- */

static sx_api real;
static int64_t n_live, n_calls, fails_at;
static cudnnStatus_t fails_with;

static bool is_due(void) { return ++n_calls == fails_at; }

static cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
  if (is_due()) return fails_with;
  cudnnStatus_t status = real.cudnnBackendCreateDescriptor(type, descriptor);
  n_live += status == CUDNN_STATUS_SUCCESS;
  return status;
}

static cudnnStatus_t destroy(cudnnBackendDescriptor_t descriptor) {
  n_live--;
  return real.cudnnBackendDestroyDescriptor(descriptor);
}

static cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, const void *values) {
  return is_due() ? fails_with : real.cudnnBackendSetAttribute(descriptor, name, type, n, values);
}

static cudnnStatus_t get(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t n, int64_t *n_read, void *values) {
  return is_due() ? fails_with : real.cudnnBackendGetAttribute(descriptor, name, type, n, n_read, values);
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
  return is_due() ? fails_with : real.cudnnBackendFinalize(descriptor);
}

static void count_calls(sx_api *api, int64_t at, cudnnStatus_t with) {
  real = *api;
  api->cudnnBackendCreateDescriptor = create;
  api->cudnnBackendDestroyDescriptor = destroy;
  api->cudnnBackendSetAttribute = set;
  api->cudnnBackendGetAttribute = get;
  api->cudnnBackendFinalize = finalize;
  n_live = n_calls = 0;
  fails_at = at;
  fails_with = with;
}

/* ---- memory, counted and failing when told ---- */

static int64_t n_blocks, n_allocations, memory_fails_at;

static void *allocate(void *context, size_t n_bytes) {
  (void)context;
  if (++n_allocations == memory_fails_at) return NULL;
  n_blocks++;
  return malloc(n_bytes);
}

static void release(void *context, void *pointer) {
  (void)context;
  n_blocks -= pointer != NULL;
  free(pointer);
}

/* ---- one session from beginning to end ---- */

typedef enum outcome { FAILED, REFUSED, DONE } outcome;

typedef struct session {
  cuda_case c;
  const char *recorded; /* NULL: ask for the offers */
  outcome outcome;
  const char *code; /* of the first error */
} session;

static void work(void *context) {
  session *s = context;
  cuda_case *c = &s->c;
  char json[CUDA_JSON_MAX];
  size_t n = cuda_read_json(json, "a100");
  sx_diags_init(&c->diags, &c->arena);
  sx_convolution convolution = cuda_seed_convolution();
  if (!sx_device_parse(&c->device, json, n, &c->arena, &c->diags)) return;
  if (!sx_cudnn_open(&c->cudnn, &c->api, &c->device, &c->arena, &c->diags)) return;
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  sx_offers offers;
  if (s->recorded) {
    sx_pin pin = sx_cudnn_pin(&plan, &refusal, &c->cudnn, &convolution, s->recorded);
    s->outcome = pin == SX_PINNED ? DONE : pin == SX_PIN_REFUSED ? REFUSED : FAILED;
  } else if (sx_cudnn_offers(&offers, &c->cudnn, &convolution)) {
    s->outcome = DONE;
  }
}

/* Runs it with a failing call or a failing allocation (0: none); false: an allocation failed. */
static bool run(session *s, const char *recorded, int64_t call, cudnnStatus_t status, int64_t allocation) {
  *s = (session){.recorded = recorded, .outcome = FAILED};
  cuda_case *c = &s->c;
  sx_memory loading = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &loading);
  assert_true(sx_api_load(&c->api, SX_LIBRARY_CUDNN, NULL, &arena, NULL));
  count_calls(&c->api, call, status);
  n_blocks = n_allocations = 0;
  memory_fails_at = allocation;
  c->memory = (sx_memory){.allocate = allocate, .release = release, .chunk_bytes = 2048};
  sx_arena_init(&c->arena, &c->memory);
  bool had_memory = sx_guard(&c->memory, work, s);
  if (had_memory && c->diags.n_errors) s->code = sx_diag_code(&c->diags.list.items[0]);
  sx_cudnn_close(&c->cudnn);
  sx_arena_free(&c->arena);
  sx_arena_free(&arena);
  if (n_live || n_blocks)
    fail_msg("call %lld, allocation %lld: %lld descriptors and %lld blocks are lost", (long long)call,
             (long long)allocation, (long long)n_live, (long long)n_blocks);
  return had_memory;
}

static const char MISSING[] = "engine 47 knobs 0=0 2=3 5=3 14=2"; /* refused after every question there is */
static const cudnnStatus_t BROKEN = CUDNN_STATUS_INTERNAL_ERROR, DECLINED = CUDNN_STATUS_NOT_SUPPORTED;

/* A broken call is an error with its code, wherever it is; two of a plan's name are no question of the answer. */
static void fail_calls(const char *recorded, outcome expected, int64_t step, int64_t spared) {
  session s;
  assert_true(run(&s, recorded, 0, BROKEN, 0));
  assert_int_equal(s.outcome, expected);
  int64_t n = n_calls, n_done = 0, n_tried = 0;
  for (int64_t at = 1; at <= n; at += step) {
    assert_true(run(&s, recorded, at, BROKEN, 0));
    n_tried++;
    if (s.outcome == FAILED) {
      assert_non_null(s.code);
      assert_true(!strcmp(s.code, "E-DEVICE-015") || !strcmp(s.code, "E-DEVICE-014"));
    } else {
      assert_int_equal(s.outcome, expected);
      n_done++;
    }
    assert_true(run(&s, recorded, at, DECLINED, 0));
  }
  printf("%s: %lld calls, %lld of them failed in turn\n", recorded ? recorded : "offers", (long long)n,
         (long long)n_tried);
  assert_true(n_done <= spared);
}

static void a_failing_call_while_pinning(void **state) {
  (void)state;
  fail_calls(CUDA_SEED_ENGINE, DONE, 1, 2);
}

static void a_failing_call_while_refusing(void **state) {
  (void)state;
  fail_calls(MISSING, REFUSED, 7, 0);
}

static void a_failing_call_while_selecting(void **state) {
  (void)state;
  fail_calls(NULL, DONE, 101, 2);
}

static void fail_allocations(const char *recorded) {
  session s;
  assert_true(run(&s, recorded, 0, BROKEN, 0));
  int64_t n = n_allocations;
  for (int64_t at = 1; at <= n; at++) assert_false(run(&s, recorded, 0, BROKEN, at));
  printf("%s: %lld allocations failed in turn\n", recorded ? recorded : "offers", (long long)n);
}

static void a_failing_allocation(void **state) {
  (void)state;
  fail_allocations(CUDA_SEED_ENGINE);
  fail_allocations(MISSING);
  fail_allocations(NULL);
}

/* ---- sessions at once ---- */

enum { N_THREADS = 4, ROUNDS = 3 };

typedef struct worker {
  cuda_case c;
  const char *card;
  sx_convolution convolution;
  const char *expected;
  bool equal;
  pthread_t thread;
} worker;

static void *ask(void *context) {
  worker *w = context;
  w->equal = true;
  for (int i = 0; i < ROUNDS; i++) {
    sx_offers offers;
    if (!sx_cudnn_offers(&offers, &w->c.cudnn, &w->convolution)) return NULL;
    w->equal &= !strcmp(cuda_offers_text(&w->c, &w->convolution), w->expected);
  }
  return NULL;
}

static void sessions_work_at_once(void **state) {
  (void)state;
  worker workers[N_THREADS] = {0};
  for (int i = 0; i < N_THREADS; i++) {
    worker *w = &workers[i];
    cuda_begin(&w->c, i % 2 ? "h100" : "a100");
    w->convolution = cuda_seed_convolution();
    w->convolution.role = (sx_role)(i % SX_N_ROLES);
    w->expected = cuda_offers_text(&w->c, &w->convolution);
  }
  for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_create(&workers[i].thread, NULL, ask, &workers[i]), 0);
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_true(workers[i].equal);
    cuda_end(&workers[i].c);
  }
}

CUDNN_MAIN(cmocka_unit_test(a_failing_call_while_pinning), cmocka_unit_test(a_failing_call_while_refusing),
           cmocka_unit_test(a_failing_call_while_selecting), cmocka_unit_test(a_failing_allocation),
           cmocka_unit_test(sessions_work_at_once))
#else
CUDNN_MAIN()
#endif
