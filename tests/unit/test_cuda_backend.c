/* Plans on the device: under portable the bits of the reference loops, whatever is fused, reused, recorded; bad ids;
 * observation; want of memory. */
#include "../common/device_case.h"

#ifdef SX_CUDA
#include <string.h>

#include "../../kernels/math.h"
#include "../../libsexp/cuda/values.h"
#include "../common/cmocka_all.h"
#include "../common/interpret.h"
#include "../common/planned.h"

static int quick(int n, int least) { return getenv("QUICK") && *getenv("QUICK") ? least : n; }

static sexp_device *open_portable(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = true;
  return device_open(options);
}

static void ready(sexp_device *device, device_plan *d) {
  CHECK(device->backend->calls->ready(device->backend, &d->diags));
}

/* ---- bits ---------------------------------------------------------------------------------------- */

static void check_outputs(const planned *p, device_plan *d, void **expected, const char *what) {
  for (size_t i = 0; i < p->graph->outputs.n; i++) {
    const sx_output *output = &p->graph->outputs.items[i];
    uint32_t b = device_buffer(d, SX_BUFFER_OUTPUT, output->name);
    const sx_buffer *buffer = &d->plan->buffers.items[b];
    sx_values_canonical(d->host[b], buffer->dtype, buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype));
    if (!memcmp(expected[output->node], d->host[b], (size_t)buffer->n_bytes)) continue;
    sx_text text;
    sx_text_init(&text, p->graph->arena);
    sx_graph_print(&text, p->graph, false);
    sx_plan_print(&text, d->plan);
    fprintf(stderr, "%s%s: %s differs\n", sx_text_get(&text), what, output->name);
    CHECK(false);
  }
}

static void check_plan(sexp_device *device, planned *p, const sx_plan *plan, uint64_t seed, const char *what) {
  void **expected = interpret(p->graph, 7, seed);
  device_plan d;
  device_plan_make(&d, device, plan, seed, &p->arena);
  ready(device, &d);
  device_plan_upload(&d);
  device_plan_execute(&d);
  CHECK(device_finish(device, NULL) == SX_FINISHED);
  check_outputs(p, &d, expected, what);
  device_plan_free(&d);
  interpret_free(p->graph, expected);
}

static void random_graphs(void) {
  sexp_device *device = open_portable();
  for (uint64_t seed = 0; seed < (uint64_t)quick(8, 3); seed++) {
    planned *p = planned_random(seed, 20 + (int)(seed % 4) * 20);
    char what[64];
    snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
    check_plan(device, p, planned_plan(p, seed % 2 == 0, seed % 3 != 0), seed, what);
    planned_free(p);
  }
  sexp_device_close(device);
}

static void bits_are_the_reference_loops(void **state) {
  (void)state;
  cudasim_good("", random_graphs);
}

/* ---- sequences ----------------------------------------------------------------------------------- */

static const char SUMS[] =
    "graph \"sums\"\n"
    "%0 = input {name \"field/x\"} : f32 [33 70]\n"
    "%1 = param {path \"w\"} : f32 [33 70]\n"
    "%2 = mul %0 %1 : f32 [33 70]\n"
    "%3 = sum %2 {axes [0]} : f32 [70]\n"
    "%4 = normal {draw 0, stream \"\"} : f32 [70]\n"
    "%5 = add %3 %4 : f32 [70]\n"
    "output \"y\" %5\n";

/* What a recorded sequence uploads is read anew at each replay; rebound buffers want it recorded anew. The first time
 * it is not captured. */
static void sequences(void) {
  sexp_device *device = open_portable();
  sx_backend *b = device->backend;
  planned *p = planned_text(SUMS);
  device_plan d;
  device_plan_make(&d, device, planned_plan(p, true, true), 1, &p->arena);
  ready(device, &d);
  uint32_t x = device_buffer(&d, SX_BUFFER_EXTERNAL, "field/x");
  for (uint64_t seed = 1; seed < 8; seed++) {
    void **expected = interpret(p->graph, 7, seed);
    for (uint32_t i = 0; i < d.plan->buffers.n; i++)
      if (d.host[i] && d.plan->buffers.items[i].kind == SX_BUFFER_EXTERNAL)
        leaf_fill(d.plan->buffers.items[i].name, seed, SX_F32, d.plan->buffers.items[i].n_bytes / 4, d.host[i]);
    if (seed == 4) {
      b->calls->give(b, d.device[x]);
      d.device[x] = b->calls->take(b, d.plan->buffers.items[x].n_bytes);
      b->calls->bind(b, d.made, x, d.device[x]);
      b->calls->forget(b);
    }
    bool replayed = b->calls->replay(b, 3);
    CHECK(replayed == (seed == 3 || seed > 5));
    if (!replayed) {
      b->calls->record(b, 3);
      device_plan_upload(&d);
      device_plan_execute(&d);
      b->calls->recorded(b);
    }
    CHECK(device_finish(device, NULL) == SX_FINISHED);
    check_outputs(p, &d, expected, "a sequence");
    interpret_free(p->graph, expected);
  }
  CHECK(!b->calls->replay(b, 4));
  device_plan_free(&d);
  planned_free(p);
  sexp_device_close(device);
}

static void a_sequence_is_replayed(void **state) {
  (void)state;
  cudasim_good("", sequences);
  cudasim_good("order=lazy", sequences);
}

/* ---- executables side by side -------------------------------------------------------------------- */

/* Three executables in one block, one after the other, made at different times. */
static void sharing(void) {
  sexp_device *device = open_portable();
  planned *p[3] = {planned_random(3, 60), planned_text(SUMS), planned_random(5, 90)};
  device_plan d[3];
  void **expected[3];
  int64_t free_bytes = device->backend->calls->free_bytes(device->backend);
  for (int i = 0; i < 3; i++) {
    device_plan_make(&d[i], device, planned_plan(p[i], true, true), 9, &p[i]->arena);
    ready(device, &d[i]);
    expected[i] = interpret(p[i]->graph, 7, 9);
  }
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 3; i++) {
      device_plan_upload(&d[i]);
      device_plan_execute(&d[i]);
    }
  CHECK(device_finish(device, NULL) == SX_FINISHED);
  for (int i = 0; i < 3; i++) check_outputs(p[i], &d[i], expected[i], "side by side");
  for (int i = 0; i < 3; i++) {
    interpret_free(p[i]->graph, expected[i]);
    device_plan_free(&d[(i + 1) % 3]);
  }
  CHECK(device->backend->calls->free_bytes(device->backend) == free_bytes);
  for (int i = 0; i < 3; i++) planned_free(p[i]);
  sexp_device_close(device);
}

static void executables_share_memory(void **state) {
  (void)state;
  cudasim_good("", sharing);
}

/* ---- arrays -------------------------------------------------------------------------------------- */

static void *filled(sx_backend *b, const void *from, int64_t n_bytes) {
  void *memory = b->calls->take(b, n_bytes), *host = b->calls->take_host(b, n_bytes);
  CHECK(memory && host && (uintptr_t)memory % 256 == 0);
  memcpy(host, from, (size_t)n_bytes);
  b->calls->upload(b, memory, host, n_bytes);
  sx_stopped why;
  CHECK(b->calls->finish(b, &why, NULL) == SX_FINISHED);
  b->calls->give_host(b, host);
  return memory;
}

static void check_array(sx_backend *b, const void *expected, const void *memory, int64_t n_bytes) {
  void *host = b->calls->take_host(b, n_bytes);
  sx_stopped why;
  b->calls->download(b, host, memory, n_bytes);
  CHECK(b->calls->finish(b, &why, NULL) == SX_FINISHED);
  CHECK(!memcmp(expected, host, (size_t)n_bytes));
  b->calls->give_host(b, host);
}

static void computes_arrays(void) {
  enum { N = 777 };
  float left[N], right[N], sum[N], part[N], wide[2][N];
  uint16_t narrow[2][N];
  sexp_device *device = open_portable();
  sx_backend *b = device->backend;
  for (int i = 0; i < N; i++) {
    left[i] = (float)(i * 37 % 101) * 0.37f - 7;
    right[i] = 1.0f / (float)(i + 1);
    sum[i] = left[i] + right[i];
    part[i] = sum[i] / 3.0f;
    narrow[0][i] = sx_bf16_from_f32(part[i]);
    narrow[1][i] = sx_f16_from_f32(part[i]);
    wide[0][i] = sx_f32_from_bf16(narrow[0][i]);
    wide[1][i] = sx_f32_from_f16(narrow[1][i]);
  }
  float *l = filled(b, left, sizeof left), *r = filled(b, right, sizeof right), *out = b->calls->take(b, sizeof left);
  b->calls->add(b, l, l, r, N);
  check_array(b, sum, l, sizeof sum);
  b->calls->copy(b, out, l, sizeof sum);
  b->calls->divide(b, out, 3.0f, N);
  check_array(b, part, out, sizeof part);
  check_array(b, sum, l, sizeof sum);
  for (int i = 0; i < 2; i++) {
    sx_dtype dtype = i ? SX_F16 : SX_BF16;
    b->calls->narrow(b, r, dtype, out, N);
    check_array(b, narrow[i], r, sizeof narrow[i]);
    b->calls->widen(b, l, r, dtype, N);
    check_array(b, wide[i], l, sizeof wide[i]);
  }
  b->calls->add(b, l, l, r, 0);
  b->calls->give(b, l);
  b->calls->give(b, r);
  b->calls->give(b, out);
  sexp_device_close(device);
}

static void arrays_are_computed(void **state) {
  (void)state;
  cudasim_good("", computes_arrays);
}

/* ---- bad ids ------------------------------------------------------------------------------------- */

static const char FAULTY[] =
    "graph \"g\"\n"
    "%0 = input {name \"field/table\"} : f32 [5 3]\n"
    "%1 = input {name \"field/ids\"} : i32 [40 50]\n"
    "%2 = transpose %1 {perm [1 0]} : i32 [50 40]\n"
    "%3 = gather %0 %2 : f32 [50 40 3]\n"
    "%4 = one-hot %1 {n 7} : f32 [40 50 7]\n"
    "%5 = sum %3 {axes [0 1 2]} : f32 []\n"
    "output \"y\" %5\noutput \"hot\" %4\n";

static void check_stop(sexp_device *device, device_plan *d, sx_finished how, sx_stopped expected) {
  sx_stopped why;
  device_plan_upload(d);
  device_plan_execute(d);
  CHECK(device_finish(device, &why) == how);
  if (how == SX_FINISHED) return;
  CHECK(why.plan == d->plan && why.node == expected.node && why.at == expected.at);
  CHECK(why.value == expected.value && why.limit == expected.limit);
}

static void bad_ids(void) {
  sexp_device *device = open_portable();
  planned *p = planned_text(FAULTY);
  device_plan d, unready;
  device_plan_make(&d, device, planned_plan(p, true, true), 3, &p->arena);
  ready(device, &d);
  device_plan_make(&unready, device, planned_plan(p, true, false), 3, &p->arena);
  int32_t *ids = d.host[device_buffer(&d, SX_BUFFER_EXTERNAL, "field/ids")];
  memset(ids, 0, 2000 * sizeof *ids);
  check_stop(device, &d, SX_FINISHED, (sx_stopped){0});
  ids[30 * 50 + 7] = -2; /* [7 30] seen by the gather: 7 * 40 + 30 */
  ids[2 * 50 + 9] = 5;
  check_stop(device, &d, SX_FINISHED_STOPPED, (sx_stopped){NULL, 3, 7 * 40 + 30, -2, 5});
  ids[30 * 50 + 7] = 4;
  ids[2 * 50 + 9] = 4;
  check_stop(device, &d, SX_FINISHED, (sx_stopped){0});
  ids[0] = INT32_MIN;
  check_stop(device, &d, SX_FINISHED_STOPPED, (sx_stopped){NULL, 3, 0, INT32_MIN, 5});
  ready(device, &d);
  check_stop(device, &d, SX_FINISHED_STOPPED, (sx_stopped){NULL, 3, 0, INT32_MIN, 5});
  device_plan_free(&d);
  device_plan_free(&unready);
  planned_free(p);
  sexp_device_close(device);
}

static void a_bad_id_is_named(void **state) {
  (void)state;
  cudasim_good("", bad_ids);
}

/* ---- observation --------------------------------------------------------------------------------- */

typedef struct watching {
  const sx_graph *graph;
  void **expected;
  sx_id last;
  int n;
} watching;

static void watch(void *context, sx_id id, const void *data, int64_t n_bytes) {
  watching *w = context;
  CHECK(w->n == 0 || id > w->last);
  w->last = id;
  w->n++;
  if (w->expected) CHECK(!memcmp(data, w->expected[id], (size_t)n_bytes));
}

static void observes(void) {
  sexp_device *device = open_portable();
  for (uint64_t seed = 11; seed < (uint64_t)quick(13, 12); seed++) {
    planned *p = planned_random(seed, 50);
    device_plan d;
    watching w = {p->graph, interpret(p->graph, 7, seed), 0, 0};
    device_plan_make(&d, device, planned_plan(p, false, false), seed, &p->arena);
    CHECK(device->backend->calls->observe(device->backend, d.made, watch, &w));
    ready(device, &d);
    device_plan_upload(&d);
    device_plan_execute(&d);
    CHECK(device_finish(device, NULL) == SX_FINISHED && w.n > 10);
    device_plan_free(&d);
    interpret_free(p->graph, w.expected);
    planned_free(p);
  }
  sexp_device_close(device);
}

/* Up to the node that stopped it. */
static void observes_until_a_stop(void) {
  sexp_device *device = open_portable();
  planned *p = planned_text(FAULTY);
  device_plan d;
  watching w = {.graph = p->graph};
  sx_stopped why;
  device_plan_make(&d, device, planned_plan(p, false, false), 3, &p->arena);
  CHECK(device->backend->calls->observe(device->backend, d.made, watch, &w));
  ready(device, &d);
  memset(d.host[device_buffer(&d, SX_BUFFER_EXTERNAL, "field/ids")], 0xff, 8000);
  device_plan_upload(&d);
  device_plan_execute(&d);
  CHECK(w.last < 3 && w.n == 3);
  CHECK(device_finish(device, &why) == SX_FINISHED_STOPPED && why.node == 3 && why.value == -1);
  device_plan_free(&d);
  planned_free(p);
  sexp_device_close(device);
}

static void values_of_nodes_are_observed(void **state) {
  (void)state;
  cudasim_good("", observes);
  cudasim_good("", observes_until_a_stop);
}

/* ---- want of memory ------------------------------------------------------------------------------ */

static void memory_is_not_there(void) {
  sexp_device *device = open_portable();
  sx_backend *b = device->backend;
  CHECK(!b->calls->take(b, INT64_C(1) << 50));
  void *memory = b->calls->take(b, 1000);
  CHECK(memory && device_finish(device, NULL) == SX_FINISHED);
  b->calls->give(b, memory);
  b->calls->give(b, NULL);
  sexp_device_close(device);
}

static void assumed_memory_is_the_limit(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = true;
  options.memory_bytes = 1 << 20;
  sexp_device *device = device_open(options);
  sx_backend *b = device->backend;
  CHECK(b->calls->free_bytes(b) == 1 << 20);
  void *memory = b->calls->take(b, 700000);
  CHECK(memory && b->calls->free_bytes(b) == (1 << 20) - 700000);
  CHECK(!b->calls->take(b, 700000));
  b->calls->give(b, memory);
  CHECK(b->calls->free_bytes(b) == 1 << 20);
  sexp_device_close(device);
}

/* A plan whose block does not fit is no end: the next one is made. */
static void a_block_does_not_fit(void) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = true;
  options.memory_bytes = 100000;
  sexp_device *device = device_open(options);
  planned *large = planned_text(
      "graph \"large\"\n%0 = iota {axis 0} : i32 [40000]\n%1 = cast %0 : f32 [40000]\n%2 = sum %1 {axes [0]} : f32 []\n"
      "output \"y\" %2\n");
  sx_diags diags;
  sx_diags_init(&diags, &large->arena);
  sx_made *made =
      device->backend->calls->make(device->backend, planned_plan(large, false, false), 7, NULL, &large->arena, &diags);
  CHECK(!made && diags.n_errors == 1 && strcmp(sx_diag_code(&diags.list.items[0]), "E-DEVICE-026") == 0);
  planned *small = planned_text(SUMS);
  check_plan(device, small, planned_plan(small, true, true), 4, "after a want of memory");
  planned_free(small);
  planned_free(large);
  sexp_device_close(device);
}

/* A graph that the driver has no memory for is told by finish, and the device works on. */
static void no_memory_for_a_sequence(void) {
  sexp_device *device = open_portable();
  sx_backend *b = device->backend;
  planned *p = planned_text(SUMS);
  device_plan d;
  device_plan_make(&d, device, planned_plan(p, true, true), 1, &p->arena);
  ready(device, &d);
  for (int i = 0; i < 4; i++) {
    if (!b->calls->replay(b, 1)) {
      b->calls->record(b, 1);
      device_plan_upload(&d);
      device_plan_execute(&d);
      b->calls->recorded(b);
    }
    CHECK(device_finish(device, NULL) == (i == 1 ? SX_FINISHED_MEMORY : SX_FINISHED));
  }
  device_plan_free(&d);
  planned_free(p);
  sexp_device_close(device);
}

static const char CONVOLUTION[] =
    "graph \"conv\"\n"
    "%0 = input {name \"field/x\"} : f32 [4 8 8 16]\n"
    "%1 = param {path \"w\"} : f32 [16 3 3 16]\n"
    "%2 = iota {axis 0} : i32 [4 8 8 16]\n"
    "%3 = cast %2 : f32 [4 8 8 16]\n"
    "%4 = conv2d %3 %1 {stride 1, padding 1} : f32 [4 8 8 16]\n"
    "%5 = conv2d %0 %1 {stride 1, padding 1} : f32 [4 8 8 16]\n"
    "output \"y\" %4\noutput \"z\" %5\n";

static bool is_memory(const sx_diags *diags) {
  return diags->n_errors == 1 && strcmp(sx_diag_code(&diags->list.items[0]), "E-DEVICE-026") == 0;
}

static sexp_device *try_open(void) {
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.libraries = device_libraries();
  if (sexp_device_open(&device, &messages, &options) == SEXP_OK) return device;
  CHECK(strcmp(sexp_messages_get(messages, 0)->code, "E-DEVICE-026") == 0);
  sexp_messages_free(messages);
  return NULL;
}

/* Wherever one allocation fails it is told once, and what is done next works; a run of its own sets which one. */
static void one_allocation_fails(void) {
  sexp_device *device = try_open();
  if (!device) return;
  sx_backend *b = device->backend;
  planned *p = planned_text(CONVOLUTION);
  const sx_plan *plan = planned_plan(p, true, true);
  for (int n_good = 0; n_good < 2;) {
    sx_diags diags;
    sx_stopped why;
    sx_diags_init(&diags, &p->arena);
    sx_made *made = b->calls->make(b, plan, 7, NULL, &p->arena, &diags);
    bool good = made && b->calls->ready(b, &diags);
    void *outside[8] = {NULL};
    for (uint32_t i = 0; good && i < plan->buffers.n; i++) {
      const sx_buffer *buffer = &plan->buffers.items[i];
      if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
      outside[i] = b->calls->take(b, buffer->n_bytes);
      if (!outside[i]) good = false;
      b->calls->bind(b, made, i, outside[i]);
      if (good && buffer->kind == SX_BUFFER_EXTERNAL) {
        void *host = b->calls->take_host(b, buffer->n_bytes);
        if (host) memset(host, 0, (size_t)buffer->n_bytes);
        if (host) b->calls->upload(b, outside[i], host, buffer->n_bytes);
        good = host != NULL;
        b->calls->give_host(b, host);
      }
    }
    if (good) {
      b->calls->execute(b, made);
      sx_finished finished = b->calls->finish(b, &why, &diags);
      CHECK(finished == SX_FINISHED || (finished == SX_FINISHED_MEMORY && is_memory(&diags)));
      good = finished == SX_FINISHED;
    }
    CHECK(good || !diags.n_errors || is_memory(&diags));
    for (int i = 0; i < 8; i++) b->calls->give(b, outside[i]);
    b->calls->unmake(b, made);
    n_good += good;
  }
  planned_free(p);
  sexp_device_close(device);
}

static void one_after_the_other_fails(const char *setting, int n) {
  for (int i = 1; i <= n; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s=%d", setting, i);
    cudasim_good(text, one_allocation_fails);
  }
}

static void want_of_memory_is_no_end(void **state) {
  (void)state;
  one_after_the_other_fails("memory.fail_at", quick(9, 4));
  one_after_the_other_fails("memory.fail_host", quick(4, 2));
  one_after_the_other_fails("memory.fail_launch", quick(4, 2));
  cudasim_good("", memory_is_not_there);
  cudasim_good("", assumed_memory_is_the_limit);
  cudasim_good("", a_block_does_not_fit);
  cudasim_good("memory.fail_graph=1", no_memory_for_a_sequence);
}

/* ---- reports ------------------------------------------------------------------------------------- */

static void shows_works(void) {
  sexp_device *device = open_portable();
  planned *p = planned_text(SUMS);
  device_plan d;
  sx_text text;
  sx_text_init(&text, &p->arena);
  device_plan_make(&d, device, planned_plan(p, true, true), 1, &p->arena);
  device->backend->calls->print(device->backend, d.made, &text);
  CHECK(strstr(sx_text_get(&text), "   1  launch  ") && strstr(sx_text_get(&text), " block"));
  CHECK(strstr(sx_text_get(&text), "sum f32 [70]") && strstr(sx_text_get(&text), " of 256\n"));
  char ratio[32];
  CHECK(device->backend->calls->measure(device->backend, "recompute", ratio, sizeof ratio, &d.diags));
  CHECK(atof(ratio) > 0.1 && atof(ratio) < 1000);
  int64_t before = device->backend->calls->now_ns(device->backend);
  ready(device, &d);
  device_plan_upload(&d);
  device_plan_execute(&d);
  int64_t after = device->backend->calls->now_ns(device->backend);
  CHECK(after > before && device->backend->calls->now_ns(device->backend) == after);
  CHECK(device->backend->calls->plan_bytes(device->backend, d.plan) >= d.plan->block_bytes);
  device_plan_free(&d);
  planned_free(p);
  sexp_device_close(device);
}

static void works_are_shown_and_timed(void **state) {
  (void)state;
  cudasim_good("", shows_works);
}

/* ---- choices ------------------------------------------------------------------------------------- */

static const char KEY[] =
    "Forward Spec { batch: 4, height: 8, width: 8, channels: 16, kh: 3, kw: 3, out: 16, stride: 1, padding: 1 } f32";

typedef struct deciding {
  int n_told, n_asked;
  size_t taken;
} deciding;

static void told(void *context, const sexp_need *need) {
  deciding *d = context;
  char words[256] = "";
  CHECK(strcmp(need->kind, "convolution") == 0 && strcmp(need->key, KEY) == 0);
  CHECK(!need->takes(need->work, need, "engine 999", words, sizeof words) && strstr(words, "engines for it"));
  d->n_told++;
}

/* Runs every candidate, and takes the one that was asked for. */
static const char *decide(void *context, const sexp_choice *choice, sx_diags *diags) {
  deciding *d = context;
  (void)diags;
  CHECK(strcmp(choice->key, KEY) == 0 && choice->n_values > 1);
  for (size_t i = 0; i < choice->n_values; i++) {
    uint64_t digest = 0;
    int64_t before = choice->now_ns(choice->work);
    CHECK(choice->run(choice->work, i) == SEXP_RAN && choice->now_ns(choice->work) > before);
    CHECK(choice->probe(choice->work, i, &digest) == SEXP_RAN && digest);
  }
  d->n_asked++;
  return choice->values[d->taken];
}

/* Two convolutions of one key are one choice; another engine is another run's. */
static void chooses(void) {
  sexp_device *device = device_open((sexp_device_options)SEXP_DEVICE_OPTIONS_DEFAULT);
  sx_backend *b = device->backend;
  for (size_t taken = 0; taken < 2; taken++) {
    planned *p = planned_text(CONVOLUTION);
    const sx_plan *plan = planned_plan(p, true, true);
    deciding d = {.taken = taken};
    const sx_deciding calls = {decide, &d};
    sx_diags diags;
    sx_text text;
    sx_diags_init(&diags, &p->arena);
    sx_text_init(&text, &p->arena);
    b->calls->needs(b, plan, told, &d, &p->arena);
    sx_made *made = b->calls->make(b, plan, 7, &calls, &p->arena, &diags);
    CHECK(made && d.n_told == 1 && d.n_asked == 1);
    sx_made *again = b->calls->make(b, plan, 7, &calls, &p->arena, &diags);
    CHECK(again && d.n_asked == 1);
    b->calls->print(b, made, &text);
    CHECK(strstr(sx_text_get(&text), "  convolve  ") && strstr(sx_text_get(&text), "engine "));
    b->calls->unmake(b, made);
    b->calls->unmake(b, again);
    planned_free(p);
  }
  sexp_device_close(device);
}

static void choices_are_decided_once(void **state) {
  (void)state;
  cudasim_good("", chooses);
}

/* ---- what is left over --------------------------------------------------------------------------- */

/* Closing gives back what its users forgot. */
static void left_over(void) {
  sexp_device *device = open_portable();
  planned *p = planned_random(3, 60);
  device_plan d;
  device_plan_make(&d, device, planned_plan(p, true, true), 1, &p->arena);
  ready(device, &d);
  for (int i = 0; i < 2; i++) {
    device->backend->calls->record(device->backend, 1);
    device->backend->calls->execute(device->backend, d.made);
    if (!i) device->backend->calls->recorded(device->backend);
  }
  sexp_device_close(device);
  planned_free(p);
}

static void closing_gives_everything_back(void **state) {
  (void)state;
  cudasim_good("", left_over);
}

int main(void) {
  if (!cudasim_has_nvrtc()) return 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_the_reference_loops),
      cmocka_unit_test(a_sequence_is_replayed),
      cmocka_unit_test(executables_share_memory),
      cmocka_unit_test(arrays_are_computed),
      cmocka_unit_test(a_bad_id_is_named),
      cmocka_unit_test(values_of_nodes_are_observed),
      cmocka_unit_test(want_of_memory_is_no_end),
      cmocka_unit_test(works_are_shown_and_timed),
      cmocka_unit_test(choices_are_decided_once),
      cmocka_unit_test(closing_gives_everything_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  puts("skipped: this build was made without the headers of CUDA and cuDNN (make says why)");
  return 0;
}
#endif
