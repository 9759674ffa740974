/* The simulated cuDNN: what it offers is the real library's, what it computes is within the bound of a sum, engines
 * differ in bits, and what is refused. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/mathlib.h"

#ifdef SX_CUDA
#include <cudnn_backend.h>

#include "../../libsexp/cuda/cudnn.h"

#define DNN(ROW)               \
  ROW(cudnnCreate)             \
  ROW(cudnnDestroy)            \
  ROW(cudnnSetStream)          \
  ROW(cudnnGetStream)          \
  ROW(cudnnGetErrorString)     \
  ROW(cudnnGetLastErrorString) \
  ROW(cudnnGetVersion)         \
  ROW(cudnnBackendExecute)
#define GOOD(call) mathlib_check((call) == CUDNN_STATUS_SUCCESS)

/* ---- one session -------------------------------------------------------------------------------- */

/* The product's own selection works on it: offers and plans are made as in a run. */
typedef struct dnn {
#define ROW(function) __typeof__(function) *p_##function;
  DNN(ROW)
#undef ROW
  mathlib_driver driver;
  cudnnHandle_t handle;
  void *library, *workspace;
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_api api;
  sx_device device;
  sx_cudnn cudnn;
} dnn;

enum { WORKSPACE_N_BYTES = 64 << 20, JSON_MAX = 4096 };

static void load(dnn *d) {
  d->library = mathlib_library("libcudnn.so.9");
#define ROW(function) *(void **)&d->p_##function = mathlib_function(d->library, #function);
  DNN(ROW)
#undef ROW
#define SX_ENTRY(library, function) SX_LOAD_##library(function)
#define SX_LOAD(function) *(void **)&d->api.function = mathlib_function(d->library, #function);
  SX_LOAD(cudnnGetVersion)
  SX_LOAD(cudnnGetErrorString)
  SX_LOAD(cudnnGetLastErrorString)
  SX_LOAD(cudnnBackendCreateDescriptor)
  SX_LOAD(cudnnBackendDestroyDescriptor)
  SX_LOAD(cudnnBackendSetAttribute)
  SX_LOAD(cudnnBackendGetAttribute)
  SX_LOAD(cudnnBackendFinalize)
#undef SX_LOAD
#undef SX_ENTRY
}

static void describe(dnn *d, const char *card) {
  char path[64], *json;
  snprintf(path, sizeof path, "tests/cuda/%s.json", card);
  FILE *file = fopen(path, "rb");
  mathlib_check(file);
  json = sx_arena_take(&d->arena, JSON_MAX, 1);
  size_t n = fread(json, 1, JSON_MAX, file);
  fclose(file);
  mathlib_check(sx_device_parse(&d->device, json, n, &d->arena, &d->diags));
  mathlib_check(sx_cudnn_open(&d->cudnn, &d->api, &d->device, &d->arena, &d->diags));
}

static void begin_on(dnn *d, const char *card) {
  *d = (dnn){.memory = sx_memory_default()};
  mathlib_begin(&d->driver);
  load(d);
  sx_arena_init(&d->arena, &d->memory);
  sx_diags_init(&d->diags, &d->arena);
  d->api.found[SX_LIBRARY_CUDNN].version = "of the simulated card";
  d->api.found[SX_LIBRARY_CUDNN].number = (int64_t)d->p_cudnnGetVersion();
  describe(d, card);
  d->workspace = mathlib_take(&d->driver, WORKSPACE_N_BYTES);
  GOOD(d->p_cudnnCreate(&d->handle));
  GOOD(d->p_cudnnSetStream(d->handle, d->driver.stream));
}

static void begin(dnn *d) { begin_on(d, "a100"); }

static void end(dnn *d) {
  GOOD(d->p_cudnnDestroy(d->handle));
  mathlib_give(&d->driver, d->workspace);
  sx_cudnn_close(&d->cudnn);
  sx_arena_free(&d->arena);
  mathlib_end(&d->driver);
}

/* ---- tensors ------------------------------------------------------------------------------------ */

typedef struct tensors {
  int64_t n[3]; /* elements of x, w, y */
  float *wide[3];
  void *device[3], *host; /* host: as large as any */
} tensors;

static size_t size_of(const sx_convolution *c) { return c->dtype == SX_F32 ? 4 : 2; }

static float uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

static float value_of(const sx_convolution *c, const void *values, int64_t at) {
  if (c->dtype == SX_F32) return ((const float *)values)[at];
  uint32_t bits = (uint32_t)((const uint16_t *)values)[at] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void fill(const sx_convolution *c, tensors *t, int i) {
  uint64_t state = (uint64_t)i + 1;
  for (int64_t at = 0; at < t->n[i]; at++) {
    float value = uniform(&state);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (c->dtype == SX_F32)
      ((float *)t->host)[at] = value;
    else
      ((uint16_t *)t->host)[at] = (uint16_t)(bits >> 16);
    t->wide[i][at] = value_of(c, t->host, at);
  }
}

static tensors take(const dnn *d, const sx_convolution *c) {
  tensors t = {.n = {c->batch * c->height * c->width * c->channels, c->out * c->kh * c->kw * c->channels,
                     c->batch * sx_convolution_out_height(c) * sx_convolution_out_width(c) * c->out}};
  t.host = malloc((size_t)(t.n[0] + t.n[1] + t.n[2]) * 4);
  for (int i = 0; i < 3; i++) {
    t.wide[i] = malloc((size_t)t.n[i] * sizeof(float));
    fill(c, &t, i);
    t.device[i] = mathlib_take(&d->driver, (size_t)t.n[i] * size_of(c));
    mathlib_write(&d->driver, t.device[i], t.host, (size_t)t.n[i] * size_of(c));
  }
  return t;
}

static void give(const dnn *d, tensors *t) {
  for (int i = 0; i < 3; i++) {
    mathlib_give(&d->driver, t->device[i]);
    free(t->wide[i]);
  }
  free(t->host);
}

/* ---- execution ---------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t pack(const dnn *d, const int64_t ids[3], void *const pointers[3], void *workspace) {
  cudnnBackendDescriptor_t made;
  GOOD(d->api.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made));
  GOOD(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids));
  GOOD(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers));
  GOOD(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  GOOD(d->api.cudnnBackendFinalize(made));
  return made;
}

static const int64_t IDS[] = {1, 2, 3};

static cudnnStatus_t execute(const dnn *d, const sx_cudnn_plan *plan, void *const pointers[3], void *workspace) {
  cudnnBackendDescriptor_t made = pack(d, IDS, pointers, workspace);
  cudnnStatus_t status = d->p_cudnnBackendExecute(d->handle, plan->descriptor, made);
  GOOD(d->api.cudnnBackendDestroyDescriptor(made));
  return status;
}

static sx_cudnn_plan plan_of(dnn *d, const sx_convolution *c, const char *engine) {
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  sx_pin pin = sx_cudnn_pin(&plan, &refusal, &d->cudnn, c, engine);
  if (pin == SX_PIN_REFUSED) printf("refused: %s\n", refusal.offered);
  mathlib_check(pin == SX_PINNED);
  return plan;
}

static const char *engine_text(dnn *d, const sx_engine *engine) {
  sx_text text;
  sx_text_init(&text, &d->arena);
  sx_engine_print(&text, engine);
  return sx_text_get(&text);
}

/* ---- results ------------------------------------------------------------------------------------ */

/* The result in binary64 and the sum of the sizes of its products, straight from the definition. */
static void define(const sx_convolution *c, const tensors *t, double *sums, double *sizes) {
  int64_t oh = sx_convolution_out_height(c), ow = sx_convolution_out_width(c);
  int result = c->role == SX_ROLE_FORWARD ? 2 : c->role == SX_ROLE_DATA ? 0 : 1;
  for (int64_t b = 0; b < c->batch; b++)
    for (int64_t p = 0; p < oh; p++)
      for (int64_t q = 0; q < ow; q++)
        for (int64_t o = 0; o < c->out; o++)
          for (int64_t r = 0; r < c->kh; r++)
            for (int64_t s = 0; s < c->kw; s++)
              for (int64_t i = 0; i < c->channels; i++) {
                int64_t h = p * c->stride - c->padding + r, w = q * c->stride - c->padding + s;
                if (h < 0 || w < 0 || h >= c->height || w >= c->width) continue;
                int64_t at[] = {((b * c->height + h) * c->width + w) * c->channels + i,
                                ((o * c->kh + r) * c->kw + s) * c->channels + i, ((b * oh + p) * ow + q) * c->out + o};
                double term = 1;
                for (int k = 0; k < 3; k++) term *= k == result ? 1 : (double)t->wide[k][at[k]];
                sums[at[result]] += term;
                sizes[at[result]] += fabs(term);
              }
}

/* Against binary64: a rounding a term, of at most n_terms, and one to the type. */
static void compare(const sx_convolution *c, const tensors *t, const void *result, int which, int64_t n_terms) {
  double *sums = calloc((size_t)t->n[which], sizeof *sums), *sizes = calloc((size_t)t->n[which], sizeof *sizes);
  define(c, t, sums, sizes);
  double unit = c->dtype == SX_F32 ? 0x1p-24 : 0x1p-8;
  for (int64_t i = 0; i < t->n[which]; i++) {
    double value = (double)value_of(c, result, i),
           bound = (double)(n_terms + 1) * 0x1p-24 * sizes[i] + unit * fabs(sums[i]);
    if (fabs(value - sums[i]) <= bound) continue;
    fprintf(stderr, "role %d element %" PRId64 ": %.9g, not %.9g\n", c->role, i, value, sums[i]);
    mathlib_check(!"within its bound");
  }
  free(sums);
  free(sizes);
}

static int result_of(const sx_convolution *c) {
  return c->role == SX_ROLE_FORWARD ? 2 : c->role == SX_ROLE_DATA ? 0 : 1;
}

static int64_t n_terms_of(const sx_convolution *c) {
  int64_t window = c->kh * c->kw;
  if (c->role == SX_ROLE_FORWARD) return window * c->channels;
  return c->role == SX_ROLE_DATA ? window * c->out
                                 : c->batch * sx_convolution_out_height(c) * sx_convolution_out_width(c);
}

static uint64_t digest(const void *values, size_t n_bytes) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ ((const unsigned char *)values)[i]) * 1099511628211u;
  return hash;
}

enum { SHAPES = 5, CASES = 2 * SHAPES * SX_N_ROLES };
/* batch height width channels kh kw out stride padding */
static const int64_t SIZES[SHAPES][9] = {{4, 8, 8, 16, 3, 3, 32, 1, 1},
                                         {2, 9, 7, 8, 3, 3, 16, 2, 1},
                                         {3, 6, 6, 32, 1, 1, 24, 1, 0},
                                         {2, 12, 12, 8, 5, 5, 8, 2, 2},
                                         {2, 14, 14, 1, 3, 3, 16, 1, 1}};

static sx_convolution case_of(int i) {
  const int64_t *s = SIZES[i / 2 % SHAPES];
  return (sx_convolution){(sx_role)(i / 2 / SHAPES), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8],
                          i % 2 ? SX_BF16 : SX_F32};
}

typedef struct found {
  uint64_t digests[CASES][SX_CUDNN_CANDIDATES];
  int n_engines[CASES], n_different[CASES];
  int64_t engines[CASES][SX_CUDNN_CANDIDATES];
} found;

static void run_case(dnn *d, found *out, int i) {
  sx_convolution c = case_of(i);
  sx_offers offers;
  mathlib_check(sx_cudnn_offers(&offers, &d->cudnn, &c));
  tensors t = take(d, &c);
  int which = result_of(&c);
  size_t n_bytes = (size_t)t.n[which] * size_of(&c);
  for (size_t e = 0; e < offers.n_candidates; e++) {
    size_t n_owned = d->cudnn.owned.n;
    sx_cudnn_plan plan = plan_of(d, &c, engine_text(d, &offers.candidates[e]->engine));
    for (int twice = 0; twice < 2; twice++) {
      GOOD(execute(d, &plan, t.device, d->workspace));
      mathlib_read(&d->driver, t.host, t.device[which], n_bytes);
      uint64_t now = digest(t.host, n_bytes);
      mathlib_check(!twice || out->digests[i][e] == now);
      out->digests[i][e] = now;
    }
    compare(&c, &t, t.host, which, n_terms_of(&c));
    bool is_new = true;
    for (size_t b = 0; b < e; b++) is_new = is_new && out->digests[i][b] != out->digests[i][e];
    out->n_different[i] += is_new;
    out->engines[i][e] = plan.engine.index;
    while (d->cudnn.owned.n > n_owned)
      GOOD(d->api.cudnnBackendDestroyDescriptor(d->cudnn.owned.items[--d->cudnn.owned.n]));
  }
  out->n_engines[i] = (int)offers.n_candidates;
  give(d, &t);
}

static void run_cases(void *context) {
  dnn d;
  begin(&d);
  for (int i = 0; i < CASES; i++) run_case(&d, context, i);
  end(&d);
}

static void every_candidate_computes_the_convolution(void **state) {
  (void)state;
  static mathlib_outcome outcome;
  found *first = mathlib_share(sizeof *first), *second = mathlib_share(sizeof *second);
  mathlib_run(&outcome, "a100", "", run_cases, first);
  mathlib_expect_ok(&outcome);
  mathlib_run(&outcome, "a100", "", run_cases, second);
  mathlib_expect_ok(&outcome);
  assert_memory_equal(first, second, sizeof *first);
  int n = 0, n_different = 0, n_f32 = 0, n_f32_different = 0;
  for (int i = 0; i < CASES; i++) {
    assert_true(first->n_engines[i] > 0);
    n += first->n_engines[i];
    n_different += first->n_different[i];
    if (i % 2 == 0) n_f32 += first->n_engines[i], n_f32_different += first->n_different[i];
  }
  printf("%d convolutions with %d engines and knobs; %d results differ in bits, in f32 %d of %d\n", CASES, n,
         n_different, n_f32_different, n_f32);
  assert_true(n_f32_different * 3 >= n_f32 * 2);
}
#endif

MATHLIB_MAIN(cmocka_unit_test(every_candidate_computes_the_convolution))
