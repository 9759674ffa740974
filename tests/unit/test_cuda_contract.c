/* Products and convolutions on the simulated device, by cuBLAS and cuDNN: within the bound of a sum of k products of
 * the binary64 result, whatever implementation or engine is decided; that these move bits; how candidates are tried,
 * told and refused. */
#include "../common/device_case.h"

#ifdef SX_CUDA
#include <math.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/cuda/cuda.h"
#include "../../libsexp/cuda/trial.h"
#include "../common/cmocka_all.h"
#include "../common/planned.h"

/* ---- what a contraction should be ---------------------------------------------------------------- */

typedef struct place {
  int64_t at, y, x;
} place;

static place walk(const sx_contract_walk *w, int64_t i, int which) {
  place p = {0, 0, 0};
  for (int axis = w->n - 1; axis >= 0; axis--) {
    const sx_contract_axis *of = &w->axes[axis];
    int64_t at = i % of->dim;
    i /= of->dim;
    p.at += at * (which == 0 ? of->a : which == 1 ? of->b : of->c);
    p.y += at * of->y;
    p.x += at * of->x;
  }
  return p;
}

typedef struct side {
  const void *data;
  sx_dtype dtype;
  const sx_contract_image *image;
} side;

static double element(const side *s, place batch, place outer, place depth) {
  int64_t at = batch.at + outer.at + depth.at;
  const sx_contract_image *image = s->image;
  if (image->is) {
    int64_t y = image->y + outer.y + depth.y, x = image->x + outer.x + depth.x;
    if (y < 0 || x < 0 || y % image->divide || x % image->divide) return 0;
    if (y / image->divide >= image->height || x / image->divide >= image->width) return 0;
    at += y / image->divide * image->row + x / image->divide * image->column;
  }
  return (double)sx_load(s->data, s->dtype, at).f;
}

/* Ends the case where an element is further from the sum than k roundings of terms and one of the result. */
static void check_bound(const sx_contract *c, const side *a, const side *b, const void *got, const char *what) {
  double result = c->to == SX_F32 ? 0x1p-24 : c->to == SX_BF16 ? 0x1p-8 : 0x1p-11;
  for (int64_t batch = 0; batch < c->batch.count; batch++)
    for (int64_t i = 0; i < c->rows.count; i++)
      for (int64_t j = 0; j < c->columns.count; j++) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < c->depth.count; k++) {
          double term = element(a, walk(&c->batch, batch, 0), walk(&c->rows, i, 0), walk(&c->depth, k, 0)) *
                        element(b, walk(&c->batch, batch, 1), walk(&c->columns, j, 1), walk(&c->depth, k, 1));
          sum += term;
          size += fabs(term);
        }
        int64_t at = walk(&c->batch, batch, 2).at + walk(&c->rows, i, 2).at + walk(&c->columns, j, 2).at;
        double value = (double)sx_load(got, c->to, at).f;
        double bound = size * (double)(c->depth.count + 2) * 0x1p-24 + fabs(sum) * result + 0x1p-30;
        if (fabs(value - sum) <= bound) continue;
        fprintf(stderr, "%s: element %lld is %g, should be %g within %g\n", what, (long long)at, value, sum, bound);
        CHECK(fabs(value - sum) <= bound);
      }
}

/* ---- one operation on the device ----------------------------------------------------------------- */

typedef struct run {
  planned *graph;
  sx_plan *plan;
  device_plan d;
  uint64_t digest; /* of the result */
  char works[1024];
} run;

typedef struct decider {
  const char *value; /* NULL: the first candidate */
  void (*look)(const sexp_choice *choice);
  int n_asked;
  char key[256];
} decider;

static const char *decide(void *context, const sexp_choice *choice, sx_diags *diags) {
  (void)diags;
  decider *d = context;
  d->n_asked++;
  snprintf(d->key, sizeof d->key, "%s: %s", choice->kind, choice->key);
  if (d->look) d->look(choice);
  return d->value ? d->value : choice->values[0];
}

static uint64_t digest_of(const void *bytes, int64_t n) {
  uint64_t h = 0xcbf29ce484222325u;
  for (int64_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return h;
}

static side side_of(const run *r, sx_id id, const sx_contract_image *image) {
  const sx_view *view = &r->plan->views[id];
  sx_dtype dtype = sx_node_at(r->plan->graph, id)->dtype;
  return (side){(char *)r->d.host[view->buffer] + view->offset * sx_element_bytes(dtype), dtype, image};
}

/* The output's node, whose inputs are views of inputs, against its definition. */
static void check_result(run *r, const char *what) {
  sx_id id = r->plan->graph->outputs.items[0].node;
  const sx_node *node = sx_node_at(r->plan->graph, id);
  sx_strided inputs[2] = {sx_strided_of(r->plan, node->inputs[0]), sx_strided_of(r->plan, node->inputs[1])};
  sx_contract contract = sx_contract_of(node, inputs);
  side a = side_of(r, node->inputs[0], &contract.a), b = side_of(r, node->inputs[1], &contract.b);
  uint32_t out = r->plan->views[id].buffer;
  check_bound(&contract, &a, &b, r->d.host[out], what);
  r->digest = digest_of(r->d.host[out], r->plan->buffers.items[out].n_bytes);
}

/* Wide exponents, which f16 has not: its values are the same, smaller. */
static void fill(void *to, sx_dtype dtype, uint64_t stream, int64_t n) {
  if (dtype != SX_F16) {
    sx_trial_fill(to, dtype, stream, n);
    return;
  }
  float *wide = calloc((size_t)n + 1, sizeof *wide);
  CHECK(wide);
  sx_trial_fill(wide, SX_F32, stream, n);
  for (int64_t i = 0; i < n; i++) sx_store(to, SX_F16, i, (sx_value){.f = wide[i] * 0x1p-10f});
  free(wide);
}

static void run_begin(run *r, const char *text) {
  *r = (run){.graph = planned_text(text)};
  r->plan = planned_plan(r->graph, false, false);
}

static void run_on(run *r, sexp_device *device, const char *text, decider *how) {
  run_begin(r, text);
  sx_deciding deciding = {decide, how};
  bool made = device_plan_decide(&r->d, device, r->plan, 1, how ? &deciding : NULL, &r->graph->arena);
  for (size_t i = 0; i < r->d.diags.list.n; i++) fprintf(stderr, "%s\n", r->d.diags.list.items[i].message);
  CHECK(made);
  for (uint32_t b = 0; b < r->plan->buffers.n; b++) {
    const sx_buffer *buffer = &r->plan->buffers.items[b];
    if (r->d.host[b] && buffer->kind == SX_BUFFER_EXTERNAL)
      fill(r->d.host[b], buffer->dtype, b, buffer->n_bytes / sx_element_bytes(buffer->dtype));
  }
  CHECK(device->backend->calls->ready(device->backend, &r->d.diags));
  device_plan_upload(&r->d);
  device_plan_execute(&r->d);
  CHECK(device_finish(device, NULL) == SX_FINISHED);
  check_result(r, text);
  sx_text works;
  sx_text_init(&works, &r->graph->arena);
  device->backend->calls->print(device->backend, r->d.made, &works);
  snprintf(r->works, sizeof r->works, "%s", sx_text_get(&works));
  device_plan_free(&r->d);
  planned_free(r->graph);
}

static sexp_device *open_device(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  return device_open(options);
}

/* ---- products ------------------------------------------------------------------------------------ */

#define EINSUM(A, B, LABELS, OUT)                                                          \
  "graph \"g\"\n%0 = input {name \"field/a\"} : " A "\n%1 = input {name \"field/b\"} : " B \
  "\n%2 = einsum %0 %1 {labels \"" LABELS "\"} : " OUT "\noutput \"y\" %2\n"
#define LONG EINSUM("f32 [4096 48]", "f32 [4096 20]", "ka,kb->ab", "f32 [48 20]")

#define CONV(DTYPE)                                                                                           \
  "graph \"g\"\n%0 = input {name \"field/x\"} : " DTYPE " [2 9 9 16]\n%1 = input {name \"field/w\"} : " DTYPE \
  " [24 3 3 16]\n%2 = conv2d %0 %1 {stride 2,padding 1} : " DTYPE " [2 5 5 24]\noutput \"y\" %2\n"
#define DATA(DTYPE)                                                                                           \
  "graph \"g\"\n%0 = input {name \"field/y\"} : " DTYPE " [2 5 5 24]\n%1 = input {name \"field/w\"} : " DTYPE \
  " [24 3 3 16]\n%2 = conv2d-data %0 %1 {stride 2,padding 1,height 9,width 9} : " DTYPE                       \
  " [2 9 9 16]\noutput \"x\" %2\n"
#define WEIGHT(DTYPE)                                                                                         \
  "graph \"g\"\n%0 = input {name \"field/y\"} : " DTYPE " [2 5 5 24]\n%1 = input {name \"field/x\"} : " DTYPE \
  " [2 9 9 16]\n%2 = conv2d-weight %0 %1 {stride 2,padding 1,height 3,width 3} : " DTYPE                      \
  " [24 3 3 16]\noutput \"w\" %2\n"

static void products(void) {
  static const char *const texts[] = {
      EINSUM("f32 [40 50]", "f32 [50 60]", "ab,bc->ac", "f32 [40 60]"),
      EINSUM("f32 [50 40]", "f32 [60 50]", "ba,cb->ac", "f32 [40 60]"),
      EINSUM("f32 [50 40]", "f32 [60 50]", "ba,cb->ca", "f32 [60 40]"),
      EINSUM("bf16 [50 40]", "bf16 [60 50]", "ba,cb->ac", "f32 [40 60]"),
      EINSUM("bf16 [40 50]", "bf16 [50 60]", "ab,bc->ac", "bf16 [40 60]"),
      EINSUM("f16 [40 50]", "f16 [50 60]", "ab,bc->ac", "f16 [40 60]"),
      EINSUM("f32 [5 30 20]", "f32 [5 20 30]", "xab,xbc->xac", "f32 [5 30 30]"),
      EINSUM("f32 [2 30 3 40]", "f32 [2 31 3 40]", "bthd,bshd->bhts", "f32 [2 3 30 31]"),
      EINSUM("f32 [2 3 30 31]", "f32 [2 31 3 40]", "bhts,bshd->bthd", "f32 [2 30 3 40]"),
      EINSUM("f32 [300]", "f32 [400]", "a,b->ab", "f32 [300 400]"),
      EINSUM("f32 [300 400]", "f32 [400]", "ab,b->a", "f32 [300]"),
      EINSUM("f32 [5000]", "f32 [5000]", "a,a->", "f32 []"),
      EINSUM("f32 [400 64]", "f32 [50]", "ab,c->ac", "f32 [400 50]"),
      EINSUM("f32 [20 40 30]", "f32 [20 40 30]", "xay,xby->bxa", "f32 [40 20 40]"),
      EINSUM("f32 [64 0]", "f32 [0 50]", "ab,bc->ac", "f32 [64 50]"),
      EINSUM("f32 [40 50]", "f32 [50 60]", "ab,bc->ac", "bf16 [40 60]"),
      EINSUM("f32 [3 3]", "f32 [3 3]", "ab,bc->ac", "f32 [3 3]"),
      "graph \"g\"\n%0 = input {name \"field/a\"} : f32 [120 50]\n%1 = input {name \"field/b\"} : f32 [50 700]\n"
      "%2 = slice %0 {start [3 0],end [120 50],step [2 1]} : f32 [59 50]\n%3 = reverse %1 {axis 1} : f32 [50 700]\n"
      "%4 = einsum %2 %3 {labels \"ab,bc->ac\"} : f32 [59 700]\noutput \"y\" %4\n",
  };
  sexp_device *device = open_device();
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    run r;
    run_on(&r, device, texts[i], NULL);
  }
  sexp_device_close(device);
}

static void test_products(void **state) {
  (void)state;
  cudasim_good("", products);
  cudasim_good("order=lazy\ncard=tests/cuda/h100.json", products);
}

static void implementations(void) {
  static const char *const values[] = {"ordinary", "transposed", "split 2", "split 4", "split 8"};
  uint64_t digests[5];
  sexp_device *device = open_device();
  for (size_t i = 0; i < 5; i++) {
    decider how = {.value = values[i]};
    run r;
    run_on(&r, device, LONG, &how);
    CHECK(how.n_asked == 1);
    CHECK(!strcmp(how.key, "product: Product { batch: 1, m: 48, n: 20, k: 4096, a: t, b: n } f32"));
    CHECK(strstr(r.works, values[i]));
    digests[i] = r.digest;
    decider again = how;
    run_on(&r, device, LONG, &again);
    CHECK(r.digest == digests[i]);
  }
  CHECK(digests[2] != digests[3] && digests[3] != digests[4]); /* the order of sums moves bits */
  sexp_device_close(device);
}

/* Room is made for whatever is decided. */
static void bytes(void) {
  sexp_device *device = open_device();
  run r;
  run_begin(&r, LONG);
  int64_t undecided = device->backend->calls->plan_bytes(device->backend, r.plan);
  CHECK(undecided >= r.plan->block_bytes + 8 * 48 * 20 * 4);
  planned_free(r.graph);
  run_begin(&r, WEIGHT("f32"));
  CHECK(device->backend->calls->plan_bytes(device->backend, r.plan) >= SX_CUDNN_WORKSPACE_N_BYTES);
  planned_free(r.graph);
  sexp_device_close(device);
}

static void test_bytes(void **state) {
  (void)state;
  cudasim_good("", bytes);
}

static void test_implementations(void **state) {
  (void)state;
  cudasim_good("", implementations);
}

/* ---- trying candidates --------------------------------------------------------------------------- */

static size_t n_values, n_different;

static void look(const sexp_choice *choice) {
  n_values = choice->n_values;
  uint64_t probes[16], again;
  n_different = 1;
  for (size_t i = 0; i < choice->n_values; i++) {
    int64_t begin = choice->now_ns(choice->work);
    CHECK(choice->run(choice->work, i) == SEXP_RAN);
    CHECK(choice->now_ns(choice->work) > begin);
    CHECK(choice->probe(choice->work, i, &probes[i]) == SEXP_RAN);
  }
  for (size_t i = choice->n_values; i-- > 0;) {
    CHECK(choice->probe(choice->work, i, &again) == SEXP_RAN);
    CHECK(again == probes[i]);
    bool is_new = i > 0;
    for (size_t j = 0; j < i; j++) is_new = is_new && probes[j] != probes[i];
    n_different += is_new;
  }
}

static void trials(void) {
  static const char *const texts[] = {LONG, CONV("f32"), DATA("f32"), WEIGHT("f32")};
  sexp_device *device = open_device();
  for (size_t i = 0; i < 4; i++) {
    decider how = {.look = look};
    run r;
    run_on(&r, device, texts[i], &how);
    CHECK(how.n_asked == 1);
    fprintf(stdout, "%s: %zu candidates, %zu different results\n", how.key, n_values, n_different);
    if (n_different < 2) fprintf(stderr, "%s: %zu candidates, %zu different\n", how.key, n_values, n_different);
    CHECK(n_values > 1 && n_different > 1);
  }
  fflush(stdout);
  sexp_device_close(device);
}

static void test_trials(void **state) {
  (void)state;
  cudasim_good("", trials);
}

/* ---- probes outside of a choice ------------------------------------------------------------------ */

static struct {
  char kind[16], key[256], value[64];
  uint64_t digest;
} measured;

static void keep_last(const sexp_choice *choice) {
  size_t last = choice->n_values - 1;
  n_values = choice->n_values;
  CHECK(choice->probe(choice->work, last, &measured.digest) == SEXP_RAN);
  snprintf(measured.kind, sizeof measured.kind, "%s", choice->kind);
  snprintf(measured.key, sizeof measured.key, "%s", choice->key);
  snprintf(measured.value, sizeof measured.value, "%s", choice->values[last]);
}

static uint64_t probe_of(sexp_device *device, const char *kind, const char *key, const char *value) {
  uint64_t digest = 0;
  sexp_failure why = {.code = ""};
  sexp_ran ran = sexp_device_probe(&digest, device, kind, key, value, &why);
  if (ran != SEXP_RAN) fprintf(stderr, "%s: %s\n", why.code, why.message);
  CHECK(ran == SEXP_RAN);
  return digest;
}

static void refuses_probe(sexp_device *device, const char *kind, const char *key, const char *value, const char *word) {
  uint64_t digest = 0;
  sexp_failure why = {.code = ""};
  CHECK(sexp_device_probe(&digest, device, kind, key, value, &why) == SEXP_RAN_REFUSED);
  CHECK(strcmp(why.code, "E-DEVICE-051") == 0 && strstr(why.message, word));
}

#define SHAPE(BATCH, K) "Product { batch: " BATCH ", m: 40, n: 48, k: " K ", a: n, b: t } "
#define LONG_SHAPE "Product { batch: 1, m: 64, n: 64, k: 8192, a: t, b: n } f32"

/* What was measured of a candidate is probed again without choosing, also on a device without a plan. */
static void probes(void) {
  static const char *const texts[] = {LONG, CONV("f32"), WEIGHT("bf16")};
  for (size_t i = 0; i < 3; i++) {
    sexp_device *device = open_device();
    decider how = {.look = keep_last};
    run r;
    run_on(&r, device, texts[i], &how);
    CHECK(probe_of(device, measured.kind, measured.key, measured.value) == measured.digest);
    sexp_device_close(device);
    device = open_device();
    CHECK(probe_of(device, measured.kind, measured.key, measured.value) == measured.digest);
    run_on(&r, device, texts[i], &how); /* and chooses as before */
    CHECK(n_values > 1);
    sexp_device_close(device);
  }
}

static void probes_of_keys(void) {
  sexp_device *device = open_device();
  uint64_t f32 = probe_of(device, "product", SHAPE("3", "50") "f32", "ordinary");
  CHECK(f32 == probe_of(device, "product", SHAPE("3", "50") "f32", "ordinary"));
  CHECK(f32 != probe_of(device, "product", SHAPE("4", "50") "f32", "ordinary"));
  CHECK(f32 != probe_of(device, "product", SHAPE("3", "51") "f32", "ordinary"));
  uint64_t bf16 = probe_of(device, "product", SHAPE("1", "150") "bf16", "ordinary");
  CHECK(bf16 != probe_of(device, "product", SHAPE("1", "150") "bf16 to f32", "ordinary"));
  CHECK(probe_of(device, "product", LONG_SHAPE, "ordinary") != probe_of(device, "product", LONG_SHAPE, "split 8"));
  refuses_probe(device, "product", LONG_SHAPE, "split 0", "no such implementation");
  refuses_probe(device, "product", SHAPE("3", "50") "f32", "split 2", "no such implementation");
  refuses_probe(device, "product", "Product", "ordinary", "no product's");
  refuses_probe(device, "convolution", "Weight", "engine 0", "no convolution's");
  refuses_probe(
      device, "convolution",
      "Forward Spec { batch: 2, height: 8, width: 8, channels: 4, kh: 3, kw: 3, out: 8, stride: 1, padding: 1 } "
      "f32",
      "engine 9999", "refuses");
  refuses_probe(device, "stacking", "graph", "2", "of this kind");
  CHECK(f32 == probe_of(device, "product", SHAPE("3", "50") "f32", "ordinary")); /* the device works on */
  sexp_device_close(device);
}

static void test_probes(void **state) {
  (void)state;
  cudasim_good("", probes);
  cudasim_good("", probes_of_keys);
}

/* What a candidate that lacks memory comes to: alone it is tried again without the others; for good it is told. */
static size_t n_ran, n_lacking;

static void count(const sexp_choice *choice) {
  for (size_t i = 0; i < choice->n_values; i++) {
    uint64_t digest;
    sexp_ran ran = choice->probe(choice->work, i, &digest);
    CHECK(ran != SEXP_RAN_REFUSED);
    n_ran += ran == SEXP_RAN;
    n_lacking += ran == SEXP_RAN_OUT_OF_MEMORY;
  }
  fprintf(stderr, "%zu ran, %zu lacked memory\n", n_ran, n_lacking);
  _Exit(0);
}

static void lacking(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.libraries = device_libraries();
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  if (sexp_device_open(&device, &messages, &options) != SEXP_OK) _Exit(3);
  decider how = {.look = count};
  run r;
  run_on(&r, device, LONG, &how);
}

static void test_memory(void **state) {
  (void)state;
  outcome result;
  int n_opened = 0, n_again = 0, n_told = 0;
  for (int at = 1; at < 10; at++) {
    char settings[64];
    snprintf(settings, sizeof settings, "violations=report\nmemory.fail_at=%d", at);
    cudasim_run(&result, settings, lacking);
    if (result.status == 3) continue;
    n_opened++;
    n_again += strstr(result.text, "5 ran, 0 lacked memory") != NULL;
    snprintf(settings, sizeof settings, "violations=report\nmemory.fail_at=%d-", at);
    cudasim_run(&result, settings, lacking);
    n_told += strstr(result.text, "lacked memory") && !strstr(result.text, " 0 lacked memory");
  }
  printf("of %d places where one allocation fails, %d are tried again; of all from there on %d tell of it\n", n_opened,
         n_again, n_told);
  assert_true(n_opened > 5 && n_again == n_opened && n_told > 4);
}

/* ---- convolutions -------------------------------------------------------------------------------- */

static void convolutions(void) {
  static const struct {
    const char *text, *by;
  } cases[] = {
      {CONV("f32"), "cuDNN engine"},
      {CONV("bf16"), "cuDNN engine"},
      {CONV("f16"), "product_"},
      {DATA("f32"), "cuDNN engine"},
      {DATA("bf16"), "cuDNN engine"},
      {DATA("f16"), "product_"},
      {WEIGHT("f32"), "cuDNN engine"},
      {WEIGHT("bf16"), "cuDNN engine"},
      {WEIGHT("f16"), "product_"},
      {"graph \"g\"\n%0 = input {name \"field/x\"} : f32 [2 16 9 9]\n"
       "%1 = input {name \"field/w\"} : f32 [24 3 3 16]\n"
       "%2 = transpose %0 {perm [0 2 3 1]} : f32 [2 9 9 16]\n"
       "%3 = conv2d %2 %1 {stride 1,padding 1} : f32 [2 9 9 24]\noutput \"y\" %3\n",
       "cuDNN engine"},
      {"graph \"g\"\n%0 = input {name \"field/x\"} : f16 [2 9 9 64]\n"
       "%1 = input {name \"field/w\"} : f16 [32 1 1 64]\n"
       "%2 = conv2d %0 %1 {stride 1,padding 0} : f16 [2 9 9 32]\noutput \"y\" %2\n",
       "162 x 32 x 64 n t f16, cuBLAS"},
  };
  sexp_device *device = open_device();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    run r;
    run_on(&r, device, cases[i].text, NULL);
    CHECK(strstr(r.works, cases[i].by));
  }
  sexp_device_close(device);
}

static void test_convolutions(void **state) {
  (void)state;
  cudasim_good("", convolutions);
  cudasim_good("card=tests/cuda/h200.json", convolutions);
}

/* ---- needs and refusals -------------------------------------------------------------------------- */

typedef struct needs {
  int n;
  char keys[4][256];
  bool takes_good, takes_bad;
  char words[512];
} needs;

static void tell(void *context, const sexp_need *need) {
  needs *n = context;
  snprintf(n->keys[n->n++], sizeof n->keys[0], "%s: %s", need->kind, need->key);
  if (!need->takes) return;
  char words[512] = "";
  n->takes_bad = need->takes(need->work, need, "engine 9999", n->words, sizeof n->words);
  n->takes_good = need->takes(need->work, need, "engine 0", words, sizeof words);
}

static void refusals(void) {
  sexp_device *device = open_device();
  sx_backend *backend = device->backend;
  run r;
  run_begin(&r, WEIGHT("f32"));
  needs told = {0};
  backend->calls->needs(backend, r.plan, tell, &told, &r.graph->arena);
  CHECK(told.n == 1 && told.takes_good && !told.takes_bad);
  CHECK(strstr(told.keys[0], "convolution: Weight Spec { batch: 2, height: 9, width: 9, channels: 16, kh: 3"));
  CHECK(strstr(told.words, "9999 is none of them"));
  decider how = {.value = "engine 9999"};
  sx_deciding deciding = {decide, &how};
  CHECK(!device_plan_decide(&r.d, device, r.plan, 1, &deciding, &r.graph->arena));
  CHECK(r.d.diags.list.n == 1 && r.d.diags.list.items[0].code == SX_E_DEVICE_ENGINE);
  CHECK(strstr(r.d.diags.list.items[0].message, "engine 9999 cannot be taken"));
  planned_free(r.graph);
  run_on(&r, device, WEIGHT("f32"), NULL); /* the device works on */
  sexp_device_close(device);
}

static void test_refusals(void **state) {
  (void)state;
  cudasim_good("", refusals);
}

int main(void) {
  if (!cudasim_has_nvrtc()) return 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_implementations),
                                     cmocka_unit_test(test_bytes),    cmocka_unit_test(test_trials),
                                     cmocka_unit_test(test_memory),   cmocka_unit_test(test_convolutions),
                                     cmocka_unit_test(test_refusals), cmocka_unit_test(test_probes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
