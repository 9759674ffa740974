#include "strict_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/backend.h"
#include "../../libsexp/device/device.h"

enum { ALIGNMENT = 256, POISON = 0xa5, N_SEQUENCES = 64, MOST_BUFFERS = 512 };
#define FIRST_ADDRESS ((uintptr_t)1 << 44)

/* Memory that was taken. Of the device: its addresses are numbers that the host must not use. */
typedef struct region {
  uintptr_t address;
  size_t n_bytes;
  char *bytes;
  struct region *next;
} region;

typedef enum work_kind { UPLOAD, DOWNLOAD, COPY, ADD, DIVIDE, WIDEN, NARROW, EXECUTE } work_kind;

typedef struct binding {
  uint32_t buffer;
  void *data;
} binding;

typedef struct work {
  work_kind kind;
  void *to;
  const void *from, *other;
  int64_t n;
  float count;
  sx_dtype dtype;
  struct made *made;
  binding *bindings; /* as they were when it was enqueued; owned */
  size_t n_bindings;
} work;

typedef struct work_list {
  work *items;
  size_t n, room;
} work_list;

typedef struct made {
  sx_executable *executable;
  const sx_plan *plan;
  void **bound;
  sx_observe *observe;
} made;

struct strict_device {
  sexp_device device; /* first */
  sx_backend backend;
  sx_memory memory;
  sx_arena arena;
  sx_cpu cpu;
  sx_backend *engine;
  region *regions, *host_regions;
  uintptr_t next_address;
  int64_t room, taken, block_limit, fails_in;
  strict_failure failure;
  bool failed, lacked, keeps_none;
  sx_stopped why;
  bool stopped;
  work_list queue, sequences[N_SEQUENCES];
  bool has[N_SEQUENCES];
  int recording;            /* -1: nothing */
  int64_t n_made, n_asking; /* decisions that have not returned */
  strict_counts counts;
};

_Noreturn static void complain(const char *what) {
  fprintf(stderr, "strict device: %s\n", what);
  abort();
}

static void expect(bool holds, const char *what) {
  if (!holds) complain(what);
}

static void *allocate(size_t n) {
  void *bytes = malloc(n ? n : 1);
  expect(bytes, "there is no memory");
  return bytes;
}

static strict_device *of(sx_backend *backend) {
  return (strict_device *)(void *)((char *)backend - offsetof(strict_device, backend));
}

static void drain(strict_device *d);

/* ---- memory ---- */

static char *find(const region *regions, const void *address, int64_t n_bytes) {
  uintptr_t at = (uintptr_t)address;
  for (const region *r = regions; r; r = r->next)
    if (at >= r->address && at - r->address <= r->n_bytes && (uint64_t)n_bytes <= r->n_bytes - (at - r->address))
      return r->bytes + (at - r->address);
  return NULL;
}

static char *device_bytes(const strict_device *d, const void *address, int64_t n_bytes) {
  char *bytes = find(d->regions, address, n_bytes);
  expect(bytes, "an address, or what follows it, is not the device's");
  return bytes;
}

static char *host_bytes(const strict_device *d, const void *address, int64_t n_bytes) {
  char *bytes = find(d->host_regions, address, n_bytes);
  expect(bytes, "memory of the host was not taken for the device");
  return bytes;
}

static void *take(sx_backend *backend, int64_t n_bytes) {
  strict_device *d = of(backend);
  expect(n_bytes > 0, "nothing is taken");
  if (n_bytes > d->room - d->taken) return NULL;
  region *r = allocate(sizeof *r);
  *r = (region){d->next_address, (size_t)n_bytes, allocate((size_t)n_bytes), d->regions};
  memset(r->bytes, POISON, r->n_bytes);
  d->next_address += ((size_t)n_bytes / ALIGNMENT + 2) * ALIGNMENT;
  d->regions = r;
  d->taken += n_bytes;
  if (d->taken > d->counts.most_bytes) d->counts.most_bytes = d->taken;
  return (void *)r->address;
}

static size_t release_region(region **regions, const void *address) {
  for (region **at = regions; *at; at = &(*at)->next) {
    region *r = *at;
    if (r->address != (uintptr_t)address) continue;
    size_t n_bytes = r->n_bytes;
    *at = r->next;
    free(r->bytes);
    free(r);
    return n_bytes;
  }
  complain("memory is given that was not taken");
}

static void give(sx_backend *backend, void *taken) {
  strict_device *d = of(backend);
  drain(d);
  d->taken -= (int64_t)release_region(&d->regions, taken);
}

static void *take_host(sx_backend *backend, int64_t n_bytes) {
  strict_device *d = of(backend);
  region *r = allocate(sizeof *r);
  *r = (region){.n_bytes = (size_t)n_bytes, .bytes = allocate((size_t)n_bytes), .next = d->host_regions};
  r->address = (uintptr_t)r->bytes;
  memset(r->bytes, POISON, r->n_bytes);
  d->host_regions = r;
  return r->bytes;
}

static void give_host(sx_backend *backend, void *taken) {
  drain(of(backend));
  release_region(&of(backend)->host_regions, taken);
}

static int64_t free_bytes(sx_backend *backend) { return of(backend)->room - of(backend)->taken; }

static int64_t plan_bytes(sx_backend *backend, const sx_plan *plan) {
  (void)backend;
  return plan->block_bytes;
}

/* ---- doing ---- */

static void overlap_free(const strict_device *d, const work *w) {
  const sx_buffer *buffers = w->made->plan->buffers.items;
  bool *in_place = sx_plan_in_place(w->made->plan, (sx_arena *)&d->arena);
  for (size_t i = 0; i < w->n_bindings; i++) {
    const sx_buffer *a = &buffers[w->bindings[i].buffer];
    uintptr_t begin = (uintptr_t)w->bindings[i].data, end = begin + (size_t)a->n_bytes;
    if (a->kind != SX_BUFFER_OUTPUT) continue;
    for (size_t k = 0; k < w->n_bindings; k++) {
      const sx_buffer *b = &buffers[w->bindings[k].buffer];
      uintptr_t other = (uintptr_t)w->bindings[k].data;
      if (k == i || other >= end || begin >= other + (size_t)b->n_bytes) continue;
      bool legal = b->kind == SX_BUFFER_EXTERNAL && begin == other && !strcmp(a->name, b->name) &&
                   in_place[w->bindings[i].buffer];
      expect(legal, "an output overlaps what it may not");
    }
  }
}

/* Buffers are copied in; those of one address are one, as on a device; outputs are copied out. */
static bool execute_now(strict_device *d, const work *w) {
  const sx_buffer *buffers = w->made->plan->buffers.items;
  void **copies = allocate((w->n_bindings + 1) * sizeof *copies);
  overlap_free(d, w);
  for (size_t i = 0; i < w->n_bindings; i++) {
    const binding *b = &w->bindings[i];
    size_t n = (size_t)buffers[b->buffer].n_bytes, same = 0;
    while (same < i && w->bindings[same].data != b->data) same++;
    copies[i] = same < i ? copies[same] : aligned_alloc(64, n / 64 * 64 + 64);
    expect(copies[i], "there is no memory");
    const char *bytes = device_bytes(d, b->data, (int64_t)n);
    if (same == i) memcpy(copies[i], bytes, n);
    sx_executable_bind(w->made->executable, b->buffer, copies[i]);
  }
  sx_stopped why = {0};
  bool done = sx_executable_execute(w->made->executable, &why);
  if (!done && !d->stopped) d->why = why;
  d->stopped |= !done;
  for (size_t i = 0; i < w->n_bindings; i++) {
    const binding *b = &w->bindings[i];
    size_t n = (size_t)buffers[b->buffer].n_bytes, same = 0;
    while (same < i && w->bindings[same].data != b->data) same++;
    if (buffers[b->buffer].kind == SX_BUFFER_OUTPUT) memcpy(device_bytes(d, b->data, (int64_t)n), copies[i], n);
  }
  for (size_t i = 0; i < w->n_bindings; i++) {
    size_t same = 0;
    while (same < i && w->bindings[same].data != w->bindings[i].data) same++;
    if (same == i) free(copies[i]);
  }
  free(copies);
  d->counts.n_executed++;
  return done;
}

/* Whether this piece of work is the one that is to fail. */
static bool fails(strict_device *d, const work *w) {
  d->counts.n_done++;
  bool may = d->failure == STRICT_FAILS_FOR_GOOD || w->kind == EXECUTE;
  bool now = may && d->fails_in && !--d->fails_in;
  if (w->kind == EXECUTE && d->block_limit && w->made->plan->block_bytes > d->block_limit) {
    d->lacked = true;
    return true;
  }
  if (!now) return false;
  if (d->failure == STRICT_FAILS_MEMORY)
    d->lacked = true;
  else
    d->failed = true;
  return true;
}

static void do_work(strict_device *d, const work *w) {
  const sx_backend_calls *engine = d->engine->calls;
  int64_t n = w->n, n_floats = n * (int64_t)sizeof(float);
  if (d->failed || d->lacked || fails(d, w)) return;
  switch (w->kind) {
    case UPLOAD:
      memcpy(device_bytes(d, w->to, n), host_bytes(d, w->from, n), (size_t)n);
      d->counts.n_uploads++;
      return;
    case DOWNLOAD:
      memcpy(host_bytes(d, w->to, n), device_bytes(d, w->from, n), (size_t)n);
      d->counts.n_downloads++;
      return;
    case COPY:
      memcpy(device_bytes(d, w->to, n), device_bytes(d, w->from, n), (size_t)n);
      return;
    case ADD:
      engine->add(d->engine, (float *)(void *)device_bytes(d, w->to, n_floats),
                  (float *)(void *)device_bytes(d, w->from, n_floats),
                  (float *)(void *)device_bytes(d, w->other, n_floats), n);
      return;
    case DIVIDE:
      engine->divide(d->engine, (float *)(void *)device_bytes(d, w->to, n_floats), w->count, n);
      return;
    case WIDEN:
      engine->widen(d->engine, (float *)(void *)device_bytes(d, w->to, n_floats), device_bytes(d, w->from, n * 2),
                    w->dtype, n);
      return;
    case NARROW:
      engine->narrow(d->engine, device_bytes(d, w->to, n * 2), w->dtype,
                     (float *)(void *)device_bytes(d, w->from, n_floats), n);
      return;
    case EXECUTE:
      execute_now(d, w);
      return;
  }
}

static void drain(strict_device *d) {
  for (size_t i = 0; i < d->queue.n; i++) do_work(d, &d->queue.items[i]);
  for (size_t i = 0; i < d->queue.n; i++) free(d->queue.items[i].bindings);
  d->queue.n = 0;
}

/* ---- enqueueing ---- */

static void push(work_list *list, const work *w) {
  if (list->n == list->room) {
    list->room = 2 * list->room + 16;
    list->items = realloc(list->items, list->room * sizeof *list->items);
    expect(list->items, "there is no memory");
  }
  work *kept = &list->items[list->n++];
  *kept = *w;
  kept->bindings = NULL;
  if (!w->n_bindings) return;
  kept->bindings = allocate(w->n_bindings * sizeof *kept->bindings);
  memcpy(kept->bindings, w->bindings, w->n_bindings * sizeof *kept->bindings);
}

static void enqueue(sx_backend *backend, work w) {
  strict_device *d = of(backend);
  push(&d->queue, &w);
  if (d->recording >= 0) push(&d->sequences[d->recording], &w);
}

static void upload(sx_backend *backend, void *to, const void *from_host, int64_t n_bytes) {
  enqueue(backend, (work){.kind = UPLOAD, .to = to, .from = from_host, .n = n_bytes});
}

static void download(sx_backend *backend, void *to_host, const void *from, int64_t n_bytes) {
  enqueue(backend, (work){.kind = DOWNLOAD, .to = to_host, .from = from, .n = n_bytes});
}

static void copy(sx_backend *backend, void *to, const void *from, int64_t n_bytes) {
  enqueue(backend, (work){.kind = COPY, .to = to, .from = from, .n = n_bytes});
}

static void add(sx_backend *backend, float *out, const float *left, const float *right, int64_t n) {
  enqueue(backend, (work){.kind = ADD, .to = out, .from = left, .other = right, .n = n});
}

static void divide(sx_backend *backend, float *values, float count, int64_t n) {
  enqueue(backend, (work){.kind = DIVIDE, .to = values, .count = count, .n = n});
}

static void widen(sx_backend *backend, float *to, const void *from, sx_dtype from_dtype, int64_t n) {
  enqueue(backend, (work){.kind = WIDEN, .to = to, .from = from, .dtype = from_dtype, .n = n});
}

static void narrow(sx_backend *backend, void *to, sx_dtype to_dtype, const float *from, int64_t n) {
  enqueue(backend, (work){.kind = NARROW, .to = to, .from = from, .dtype = to_dtype, .n = n});
}

static bool is_outside(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
}

static void execute(sx_backend *backend, sx_made *executable) {
  made *m = (made *)executable;
  binding bindings[MOST_BUFFERS];
  work w = {.kind = EXECUTE, .made = m, .bindings = bindings};
  for (uint32_t b = 0; b < m->plan->buffers.n; b++) {
    if (!is_outside(&m->plan->buffers.items[b])) continue;
    expect(w.n_bindings < MOST_BUFFERS && m->bound[b], "a buffer is bound to nothing");
    bindings[w.n_bindings++] = (binding){b, m->bound[b]};
  }
  enqueue(backend, w);
  if (m->observe) drain(of(backend));
}

static sx_finished finish(sx_backend *backend, sx_stopped *why, sx_diags *diags) {
  strict_device *d = of(backend);
  drain(d);
  bool stopped = d->stopped, lacked = d->lacked;
  d->stopped = d->lacked = false;
  *why = d->why;
  if (d->failed || lacked)
    sx_error(diags, SX_E_DEVICE_ROOM, (sx_span){0}, "the strict device %s",
             d->failed ? "failed" : "has no memory for that");
  return d->failed ? SX_FINISHED_FAILED : lacked ? SX_FINISHED_MEMORY : stopped ? SX_FINISHED_STOPPED : SX_FINISHED;
}

/* ---- executables ---- */

/* One choice a plan, under what it computes. */
static const char *const implementations[] = {"ordinary", "transposed"};

static const char *key_of(const sx_plan *plan, sx_arena *arena) {
  return sx_format(arena, "plan %s of %zu nodes", plan->graph->name, plan->graph->nodes.n);
}

static void needs(sx_backend *backend, const sx_plan *plan, sx_tell_need *tell, void *context, sx_arena *arena) {
  (void)backend;
  tell(context, &(sexp_need){.kind = "product", .key = key_of(plan, arena), .values = implementations, .n_values = 2});
}

static sx_made *make(sx_backend *backend, const sx_plan *plan, int64_t draw_seed, const sx_deciding *deciding,
                     sx_arena *arena, sx_diags *diags) {
  strict_device *d = of(backend);
  made *m = SX_NEW(arena, made);
  const sexp_choice choice = {.kind = "product", .key = key_of(plan, arena), .values = implementations, .n_values = 2};
  d->n_asking++;
  const char *value = deciding->decide(deciding->context, &choice, diags);
  d->n_asking--;
  if (!value) return NULL;
  *m = (made){.plan = plan, .bound = SX_NEW_N(arena, void *, plan->buffers.n)};
  m->executable = sx_executable_new(&d->cpu, plan, draw_seed, arena);
  if (!m->executable) return NULL;
  d->n_made++;
  return (sx_made *)m;
}

static void unmake(sx_backend *backend, sx_made *executable) {
  drain(of(backend));
  sx_executable_free(((made *)executable)->executable);
  of(backend)->n_made--;
}

static void bind(sx_backend *backend, sx_made *executable, uint32_t buffer, void *data) {
  made *m = (made *)executable;
  device_bytes(of(backend), data, m->plan->buffers.items[buffer].n_bytes);
  expect((uintptr_t)data % 64 == 0, "an address is not aligned");
  m->bound[buffer] = data;
}

static bool observe(sx_backend *backend, sx_made *executable, sx_observe *function, void *context) {
  (void)backend;
  ((made *)executable)->observe = function;
  return sx_executable_observe(((made *)executable)->executable, function, context);
}

static bool ready(sx_backend *backend, sx_diags *diags) {
  (void)backend;
  (void)diags;
  return true;
}

/* ---- sequences ---- */

static void clear(work_list *list) {
  for (size_t i = 0; i < list->n; i++) free(list->items[i].bindings);
  list->n = 0;
}

static bool replay(sx_backend *backend, uint32_t sequence) {
  strict_device *d = of(backend);
  expect(d->recording < 0 && sequence < N_SEQUENCES, "a sequence is replayed while another is recorded");
  if (!d->has[sequence]) return false;
  for (size_t i = 0; i < d->sequences[sequence].n; i++) push(&d->queue, &d->sequences[sequence].items[i]);
  d->counts.n_replayed++;
  return true;
}

static void record(sx_backend *backend, uint32_t sequence) {
  strict_device *d = of(backend);
  expect(d->recording < 0 && sequence < N_SEQUENCES && !d->has[sequence], "a sequence is recorded twice");
  d->recording = (int)sequence;
  clear(&d->sequences[sequence]);
}

static void recorded(sx_backend *backend) {
  strict_device *d = of(backend);
  expect(d->recording >= 0, "nothing is recorded");
  d->has[d->recording] = !d->keeps_none;
  d->counts.n_recorded++;
  d->recording = -1;
}

static void forget(sx_backend *backend) {
  strict_device *d = of(backend);
  memset(d->has, 0, sizeof d->has);
}

static int64_t now_ns(sx_backend *backend) {
  drain(of(backend));
  return of(backend)->counts.n_done * 1000;
}

static bool measure(sx_backend *backend, const char *what, char *text, size_t n_text, sx_diags *diags) {
  (void)backend;
  (void)diags;
  expect(!strcmp(what, "recompute"), "nothing of that name is measured");
  snprintf(text, n_text, "10.5");
  return true;
}

static sexp_ran time_piece(void *backend, int64_t *time_ns) {
  *time_ns = 1000;
  of(backend)->counts.n_timed++;
  return SEXP_RAN;
}

/* Times of a launch, and of an operation or byte. */
static bool rates(sx_backend *backend, sx_cost_rates *found, unsigned dtypes, const struct sexp_chooser *chooser,
                  sx_diags *diags) {
  double launch = (double)chooser->cost(chooser->context, "launch", time_piece, backend);
  double byte = launch < 0 ? -1 : (double)chooser->cost(chooser->context, "byte", time_piece, backend);
  (void)dtypes;
  (void)diags;
  if (byte < 0) return false;
  *found = (sx_cost_rates){1 / byte, 1 / byte, {1 / byte, 1 / byte, 1 / byte}, 1 / byte, launch, launch};
  return true;
}

static void print(sx_backend *backend, const sx_made *executable, sx_text *text) {
  (void)backend;
  sx_text_addf(text, "  %zu tasks\n", ((const made *)executable)->plan->tasks.n);
}

static const sx_backend_calls calls = {
    .take = take,
    .give = give,
    .take_host = take_host,
    .give_host = give_host,
    .free_bytes = free_bytes,
    .plan_bytes = plan_bytes,
    .upload = upload,
    .download = download,
    .copy = copy,
    .add = add,
    .divide = divide,
    .widen = widen,
    .narrow = narrow,
    .execute = execute,
    .finish = finish,
    .make = make,
    .unmake = unmake,
    .bind = bind,
    .observe = observe,
    .ready = ready,
    .needs = needs,
    .print = print,
    .replay = replay,
    .record = record,
    .recorded = recorded,
    .forget = forget,
    .now_ns = now_ns,
    .measure = measure,
    .rates = rates,
};

/* ---- opening ---- */

strict_device *strict_device_open(void) {
  strict_device *d = allocate(sizeof *d);
  memset(d, 0, sizeof *d);
  d->backend = (sx_backend){.calls = &calls, .facts = "strict device", .stacks = true};
  d->device.backend = &d->backend;
  d->device.facts = (sexp_device_facts){.text = "strict device", .gpu = "strict device", .libraries = "{}"};
  d->memory = sx_memory_default();
  sx_arena_init(&d->arena, &d->memory);
  d->cpu = (sx_cpu){.kernels = sx_kernels(sx_simd_best()), .pool = sx_pool_new(1), .memory = &d->memory};
  d->engine = sx_cpu_backend_new(&d->cpu, &d->arena);
  d->next_address = FIRST_ADDRESS;
  d->room = INT64_MAX;
  d->recording = -1;
  return d;
}

void strict_device_close(strict_device *d) {
  expect(!d->regions && !d->host_regions && !d->n_made, "something was not given back");
  expect(!d->n_asking, "a decision did not return");
  for (int s = 0; s < N_SEQUENCES; s++) {
    clear(&d->sequences[s]);
    free(d->sequences[s].items);
  }
  clear(&d->queue);
  free(d->queue.items);
  sx_pool_free(d->cpu.pool);
  sx_arena_free(&d->arena);
  free(d);
}

sexp_device *strict_device_of(strict_device *d) { return &d->device; }
void strict_device_set_room(strict_device *d, int64_t n_bytes) { d->room = n_bytes; }

void strict_device_fail(strict_device *d, strict_failure failure, int64_t n) {
  d->failure = failure;
  d->fails_in = n;
}

void strict_device_fail_above(strict_device *d, int64_t block_bytes) { d->block_limit = block_bytes; }
void strict_device_keep_no_sequences(strict_device *d) { d->keeps_none = true; }
const strict_counts *strict_device_counts(strict_device *d) {
  d->counts.taken_bytes = d->taken;
  return &d->counts;
}
