#include "cudasim_dnn.h"

#ifdef SX_CUDA
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { JSON_MAX = 4096 };

/* What the real cuDNN opens by name is opened before, as it is in a run: it finds the stand-ins, and does not open and close
 * NVRTC at every question. */
static void load(dnn *d) {
  mathlib_library("libnvrtc.so.13");
  mathlib_library("libcublasLt.so.13");
  d->library = mathlib_library("libcudnn.so.9");
#define ROW(function) *(void **)&d->p_##function = mathlib_function(d->library, #function);
  DNN(ROW)
#undef ROW
#define LOAD(function) *(void **)&d->api.function = mathlib_function(d->library, #function);
  LOAD(cudnnGetVersion)
  LOAD(cudnnGetErrorString)
  LOAD(cudnnGetLastErrorString)
  LOAD(cudnnBackendCreateDescriptor)
  LOAD(cudnnBackendDestroyDescriptor)
  LOAD(cudnnBackendSetAttribute)
  LOAD(cudnnBackendGetAttribute)
  LOAD(cudnnBackendFinalize)
#undef LOAD
}

static void describe(dnn *d, const char *card) {
  char path[64], *json;
  snprintf(path, sizeof path, "tests/cuda/%s.json", card);
  FILE *file = fopen(path, "rb");
  CHECK(file);
  json = sx_arena_take(&d->arena, JSON_MAX, 1);
  size_t n = fread(json, 1, JSON_MAX, file);
  fclose(file);
  CHECK(sx_device_parse(&d->device, json, n, &d->arena, &d->diags));
  CHECK(sx_cudnn_open(&d->cudnn, &d->api, &d->device, &d->arena, &d->diags));
}

static void ask_version(void *context) {
  size_t (*version)(void);
  *(void **)&version = mathlib_function(mathlib_library("libcudnn.so.9"), "cudnnGetVersion");
  *(size_t *)context = version();
}

bool dnn_ready(void) {
  static outcome ended;
  size_t *version = mathlib_share(sizeof *version);
  mathlib_run(&ended, "a100", "", ask_version, version);
  if (!*version) printf("skipped: %s", ended.text);
  return *version;
}

void dnn_begin_on(dnn *d, const char *card) {
  *d = (dnn){.memory = sx_memory_default()};
  d->stream = mathlib_begin();
  load(d);
  sx_arena_init(&d->arena, &d->memory);
  sx_diags_init(&d->diags, &d->arena);
  d->api.found[SX_LIBRARY_CUDNN].version = "of the simulated card";
  d->api.found[SX_LIBRARY_CUDNN].number = (int64_t)d->p_cudnnGetVersion();
  describe(d, card);
  d->workspace = mathlib_take(DNN_WORKSPACE_N_BYTES);
  FINE(d->p_cudnnCreate(&d->handle));
  FINE(d->p_cudnnSetStream(d->handle, d->stream));
}

void dnn_begin(dnn *d) { dnn_begin_on(d, "a100"); }

void dnn_end(dnn *d) {
  FINE(d->p_cudnnDestroy(d->handle));
  mathlib_give(d->workspace);
  sx_cudnn_close(&d->cudnn);
  sx_arena_free(&d->arena);
  mathlib_end(d->stream);
}

/* ---- tensors ------------------------------------------------------------------------------------ */

size_t dnn_size_of(const sx_convolution *c) { return c->dtype == SX_F32 ? 4 : 2; }

static float value_of(const sx_convolution *c, const void *values, int64_t at) {
  if (c->dtype == SX_F32) return ((const float *)values)[at];
  return mathlib_of_bits((uint32_t)((const uint16_t *)values)[at] << 16);
}

static void fill(const sx_convolution *c, dnn_tensors *t, int i) {
  uint64_t state = (uint64_t)i + 1;
  for (int64_t at = 0; at < t->n[i]; at++) {
    float value = mathlib_uniform(&state);
    uint32_t bits = mathlib_bits_of(value);
    if (c->dtype == SX_F32)
      ((float *)t->host)[at] = value;
    else
      ((uint16_t *)t->host)[at] = (uint16_t)(bits >> 16);
    t->wide[i][at] = value_of(c, t->host, at);
  }
}

dnn_tensors dnn_take(const sx_convolution *c) {
  dnn_tensors t = {.n = {c->batch * c->height * c->width * c->channels, c->out * c->kh * c->kw * c->channels,
                         c->batch * sx_convolution_out_height(c) * sx_convolution_out_width(c) * c->out}};
  t.host = malloc((size_t)(t.n[0] + t.n[1] + t.n[2]) * 4);
  for (int i = 0; i < 3; i++) {
    t.wide[i] = malloc((size_t)t.n[i] * sizeof(float));
    fill(c, &t, i);
    t.device[i] = mathlib_take((size_t)t.n[i] * dnn_size_of(c));
    mathlib_write(t.device[i], t.host, (size_t)t.n[i] * dnn_size_of(c));
  }
  return t;
}

void dnn_give(dnn_tensors *t) {
  for (int i = 0; i < 3; i++) {
    mathlib_give(t->device[i]);
    free(t->wide[i]);
  }
  free(t->host);
}

/* ---- execution ---------------------------------------------------------------------------------- */

cudnnBackendDescriptor_t dnn_pack(const dnn *d, const int64_t ids[3], void *const pointers[3], void *workspace) {
  cudnnBackendDescriptor_t made;
  FINE(d->api.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &made));
  FINE(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids));
  FINE(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers));
  FINE(d->api.cudnnBackendSetAttribute(made, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
  FINE(d->api.cudnnBackendFinalize(made));
  return made;
}

const int64_t DNN_IDS[3] = {1, 2, 3};

cudnnStatus_t dnn_execute(const dnn *d, const sx_cudnn_plan *plan, void *const pointers[3], void *workspace) {
  cudnnBackendDescriptor_t made = dnn_pack(d, DNN_IDS, pointers, workspace);
  cudnnStatus_t status = d->p_cudnnBackendExecute(d->handle, plan->descriptor, made);
  FINE(d->api.cudnnBackendDestroyDescriptor(made));
  return status;
}

sx_cudnn_plan dnn_plan_of(dnn *d, const sx_convolution *c, const char *engine) {
  sx_cudnn_plan plan;
  sx_choice_refusal refusal;
  sx_pin pin = sx_cudnn_pin(&plan, &refusal, &d->cudnn, c, engine);
  if (pin == SX_PIN_REFUSED) fprintf(stderr, "refused: %s\n", refusal.offered);
  CHECK(pin == SX_PINNED);
  return plan;
}

const char *dnn_engine_text(dnn *d, const sx_engine *engine) {
  sx_text text;
  sx_text_init(&text, &d->arena);
  sx_engine_print(&text, engine);
  return sx_text_get(&text);
}

/* ---- results ------------------------------------------------------------------------------------ */

/* The result in binary64 and the sum of the sizes of its products, straight from the definition. */
static void define(const sx_convolution *c, const dnn_tensors *t, double *sums, double *sizes) {
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

int dnn_result_of(const sx_convolution *c) { return c->role == SX_ROLE_FORWARD ? 2 : c->role == SX_ROLE_DATA ? 0 : 1; }

uint64_t dnn_digest(const void *values, size_t n_bytes) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < n_bytes; i++) hash = (hash ^ ((const unsigned char *)values)[i]) * 1099511628211u;
  return hash;
}

static int64_t n_terms_of(const sx_convolution *c) {
  int64_t window = c->kh * c->kw;
  if (c->role == SX_ROLE_FORWARD) return window * c->channels;
  return c->role == SX_ROLE_DATA ? window * c->out
                                 : c->batch * sx_convolution_out_height(c) * sx_convolution_out_width(c);
}

/* A rounding a term, of at most n_terms, and one to the type. */
void dnn_compare(const sx_convolution *c, const dnn_tensors *t, const void *result) {
  int which = dnn_result_of(c);
  int64_t n_terms = n_terms_of(c);
  double *sums = calloc((size_t)t->n[which], sizeof *sums), *sizes = calloc((size_t)t->n[which], sizeof *sizes);
  define(c, t, sums, sizes);
  double unit = c->dtype == SX_F32 ? 0x1p-24 : 0x1p-8;
  for (int64_t i = 0; i < t->n[which]; i++) {
    double value = (double)value_of(c, result, i),
           bound = (double)(n_terms + 1) * 0x1p-24 * sizes[i] + unit * fabs(sums[i]);
    bool is_within_its_bound = fabs(value - sums[i]) <= bound;
    if (!is_within_its_bound)
      fprintf(stderr, "role %d element %" PRId64 ": %.9g, not %.9g\n", (int)c->role, i, value, sums[i]);
    CHECK(is_within_its_bound);
  }
  free(sums);
  free(sizes);
}

/* batch height width channels kh kw out stride padding */
static const int64_t SIZES[DNN_SHAPES][9] = {{4, 8, 8, 16, 3, 3, 32, 1, 1},
                                             {2, 9, 7, 8, 3, 3, 16, 2, 1},
                                             {3, 6, 6, 32, 1, 1, 24, 1, 0},
                                             {2, 12, 12, 8, 5, 5, 8, 2, 2},
                                             {2, 14, 14, 1, 3, 3, 16, 1, 1}};

sx_convolution dnn_case_of(int i) {
  const int64_t *s = SIZES[i / 2 % DNN_SHAPES];
  return (sx_convolution){(sx_role)(i / 2 / DNN_SHAPES), s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8],
                          i % 2 ? SX_BF16 : SX_F32};
}

const sx_convolution DNN_LAYER = {SX_ROLE_FORWARD, 4, 8, 8, 16, 3, 3, 32, 1, 1, SX_F32};

void dnn_list_engines(void *context) {
  dnn_listed *out = context;
  dnn d;
  sx_offers offers;
  dnn_begin(&d);
  CHECK(sx_cudnn_offers(&offers, &d.cudnn, &DNN_LAYER));
  for (size_t i = 0; i < offers.n_candidates; i++) out->engines[i] = offers.candidates[i]->engine.index;
  out->n = offers.n_candidates;
  out->version = (int64_t)d.p_cudnnGetVersion();
  dnn_end(&d);
}

dnn_listed *dnn_engines_with(const char *settings) {
  static outcome ended;
  dnn_listed *out = mathlib_share(sizeof *out);
  mathlib_run(&ended, "a100", settings, dnn_list_engines, out);
  mathlib_expect_ok(&ended);
  return out;
}

const char *dnn_with(const char *setting, int64_t engine, const char *rest) {
  static char text[128];
  snprintf(text, sizeof text, "%s%" PRId64 "%s", setting, engine, rest);
  return text;
}

sx_cudnn_plan dnn_first_plan(dnn *d) {
  sx_offers offers;
  CHECK(sx_cudnn_offers(&offers, &d->cudnn, &DNN_LAYER));
  return dnn_plan_of(d, &DNN_LAYER, dnn_engine_text(d, &offers.candidates[0]->engine));
}
#else
/* ISO C wants something in every file. */
extern const int cudasim_dnn_is_not_built;
const int cudasim_dnn_is_not_built = 1;
#endif
