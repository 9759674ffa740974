/* Runs on the device: memory that executables share, work in order on one stream, its end, recorded sequences.
 *
 * A recorded sequence is a captured graph: it holds the addresses that were at hand, so what moves memory forgets all
 * of them. Fault cells of all executables are one array, reset only after one was lowered. */
#include "backend.h"

#include "../base/guard.h"
#include "compile.h"
#include "executable.h"
#include "measure.h"

enum { ARRAY_THREADS = 256 };

/* The first time it is done as any work, so that libraries load their code outside of a capture. */
typedef struct sequence {
  uint32_t number;
  CUgraphExec exec; /* NULL: it was done once */
} sequence;

typedef struct cuda_backend {
  sx_backend base;
  sx_cuda *cuda;
  sx_made *mades; /* the newest first */
  CUdeviceptr shared;
  int64_t block_room, scratch_room;
  CUdeviceptr faults;
  unsigned long long *cells; /* of the host, as `faults` */
  uint32_t n_faults, faults_room;
  SX_VEC(sequence) sequences;
  size_t recording; /* of sequences, while `records` */
  bool records;     /* between record and recorded, what is enqueued is captured */
  bool timed;       /* a span of sx_cuda_time has begun */
  bool times;       /* somebody asks for the time: the next work begins a span */
} cuda_backend;

static cuda_backend *of(sx_backend *backend) { return (cuda_backend *)backend; }
static CUdeviceptr device(const void *address) { return (CUdeviceptr)(uintptr_t)address; }

/* Before anything is enqueued: false after a failure. */
static bool begin(cuda_backend *b) {
  if (!sx_cuda_enter(b->cuda)) return false;
  if (b->times && !b->timed && !b->records) {
    sx_cuda_time_begin(b->cuda);
    b->timed = true;
  }
  return !b->cuda->failure.failed;
}

/* ---- memory -------------------------------------------------------------------------------------- */

/* Memory or an engine that is not there is told by NULL; the device works on. */
static void forgive_lack(sx_cuda *cuda) {
  if (cuda->failure.memory || cuda->failure.code == SX_E_DEVICE_ENGINE) sx_cuda_forgive(cuda);
}

static void *take(sx_backend *backend, int64_t n_bytes) {
  sx_cuda *cuda = of(backend)->cuda;
  void *memory = (void *)(uintptr_t)sx_cuda_take(cuda, n_bytes);
  if (!memory) forgive_lack(cuda);
  return memory;
}

/* What is enqueued may use what is given back. */
static void settle(cuda_backend *b) {
  b->cuda->api.cuCtxSetCurrent(b->cuda->context);
  if (!b->records) b->cuda->api.cuStreamSynchronize(b->cuda->stream);
}

static void give(sx_backend *backend, void *memory) {
  settle(of(backend));
  sx_cuda_give(of(backend)->cuda, device(memory));
}

static void *take_host(sx_backend *backend, int64_t n_bytes) {
  sx_cuda *cuda = of(backend)->cuda;
  void *memory = sx_cuda_take_host(cuda, n_bytes);
  if (!memory) forgive_lack(cuda);
  return memory;
}

static void give_host(sx_backend *backend, void *memory) {
  settle(of(backend));
  sx_cuda_give_host(of(backend)->cuda, memory);
}

static int64_t free_bytes(sx_backend *backend) { return sx_cuda_free_bytes(of(backend)->cuda); }

/* ---- work ---------------------------------------------------------------------------------------- */

static void upload(sx_backend *backend, void *to, const void *from, int64_t n_bytes) {
  cuda_backend *b = of(backend);
  if (!n_bytes || !begin(b)) return;
  sx_cuda_check(b->cuda, b->cuda->api.cuMemcpyHtoDAsync(device(to), from, (size_t)n_bytes, b->cuda->stream),
                "cuMemcpyHtoDAsync");
}

static void download(sx_backend *backend, void *to, const void *from, int64_t n_bytes) {
  cuda_backend *b = of(backend);
  if (!n_bytes || !begin(b)) return;
  sx_cuda_check(b->cuda, b->cuda->api.cuMemcpyDtoHAsync(to, device(from), (size_t)n_bytes, b->cuda->stream),
                "cuMemcpyDtoHAsync");
}

static void copy(sx_backend *backend, void *to, const void *from, int64_t n_bytes) {
  cuda_backend *b = of(backend);
  if (!n_bytes || to == from || !begin(b)) return;
  sx_cuda_check(b->cuda, b->cuda->api.cuMemcpyDtoDAsync(device(to), device(from), (size_t)n_bytes, b->cuda->stream),
                "cuMemcpyDtoDAsync");
}

/* One of emit.h's kernels of arrays, over n elements. */
static void run_array(cuda_backend *b, const char *kernel, void **arguments, int64_t n) {
  sx_cuda *cuda = b->cuda;
  if (!n || !begin(b)) return;
  unsigned blocks = (unsigned)((n + ARRAY_THREADS - 1) / ARRAY_THREADS);
  cuda->doing = kernel;
  sx_cuda_check(cuda,
                cuda->api.cuLaunchKernel(sx_kernels_find(cuda, kernel), blocks, 1, 1, ARRAY_THREADS, 1, 1, 0,
                                         cuda->stream, arguments, NULL),
                "cuLaunchKernel");
  cuda->doing = NULL;
}

static void add(sx_backend *backend, float *out, const float *left, const float *right, int64_t n) {
  CUdeviceptr places[] = {device(out), device(left), device(right)};
  long long count = n;
  run_array(of(backend), "arrays_add", (void *[]){&places[0], &places[1], &places[2], &count}, n);
}

static void divide(sx_backend *backend, float *values, float count, int64_t n) {
  CUdeviceptr place = device(values);
  long long n_values = n;
  run_array(of(backend), "arrays_divide", (void *[]){&place, &count, &n_values}, n);
}

static void widen(sx_backend *backend, float *to, const void *from, sx_dtype from_dtype, int64_t n) {
  CUdeviceptr places[] = {device(to), device(from)};
  long long count = n;
  run_array(of(backend), from_dtype == SX_BF16 ? "arrays_widen_bf16" : "arrays_widen_f16",
            (void *[]){&places[0], &places[1], &count}, n);
}

static void narrow(sx_backend *backend, void *to, sx_dtype to_dtype, const float *from, int64_t n) {
  CUdeviceptr places[] = {device(to), device(from)};
  long long count = n;
  run_array(of(backend), to_dtype == SX_BF16 ? "arrays_narrow_bf16" : "arrays_narrow_f16",
            (void *[]){&places[0], &places[1], &count}, n);
}

/* ---- the end of work ------------------------------------------------------------------------------ */

/* Waits for everything, and brings the fault cells. */
static bool wait(cuda_backend *b) {
  sx_cuda *cuda = b->cuda;
  if (!sx_cuda_enter(cuda)) return false;
  size_t n_bytes = b->faults_room * sizeof *b->cells;
  if (n_bytes && !sx_cuda_check(cuda, cuda->api.cuMemcpyDtoHAsync(b->cells, b->faults, n_bytes, cuda->stream),
                                "cuMemcpyDtoHAsync"))
    return false;
  return sx_cuda_check(cuda, cuda->api.cuStreamSynchronize(cuda->stream), "cuStreamSynchronize");
}

/* Of the cells as they were brought. An executable that is not ready has none. */
static bool has_stopped(const cuda_backend *b, const sx_made *made, sx_stopped *why) {
  return made->first_fault + made->lowering.faults.n <= b->faults_room && sx_made_stopped(made, b->cells, why);
}

/* The oldest executable first. */
static const sx_made *find_stopped(const cuda_backend *b, sx_stopped *why) {
  const sx_made *stopped = NULL;
  for (const sx_made *made = b->mades; made; made = made->next)
    if (has_stopped(b, made, why)) stopped = made;
  return stopped;
}

static void reset_faults(cuda_backend *b) {
  sx_cuda *cuda = b->cuda;
  sx_cuda_check(cuda, cuda->api.cuMemsetD8Async(b->faults, 0xff, b->faults_room * sizeof *b->cells, cuda->stream),
                "cuMemsetD8Async");
}

static sx_finished finish(sx_backend *backend, sx_stopped *why, sx_diags *diags) {
  cuda_backend *b = of(backend);
  *why = (sx_stopped){.node = SX_NO_NODE};
  if (wait(b)) {
    if (!find_stopped(b, why)) return SX_FINISHED;
    reset_faults(b);
    return SX_FINISHED_STOPPED;
  }
  sx_cuda_report(b->cuda, diags);
  if (!b->cuda->failure.memory) return SX_FINISHED_FAILED;
  sx_cuda_forgive(b->cuda);
  wait(b);
  return b->cuda->failure.failed ? SX_FINISHED_FAILED : SX_FINISHED_MEMORY;
}

/* ---- executables --------------------------------------------------------------------------------- */

/* The cases of what needs the guard of the device's memory. */
typedef struct making {
  cuda_backend *b;
  sx_made *made;
  const sx_plan *plan;
  int64_t draw_seed;
  const sx_deciding *deciding;
  sx_diags *diags;
  sx_tell_need *tell;
  void *tell_context;
  bool made_it;
} making;

/* Decisions are a run's: where no executable is left, another one may begin, which decides anew. */
static bool find_options(making *m) {
  sx_options *options = &m->b->cuda->options;
  if (!m->b->mades || (m->b->mades == m->made && !m->made->next))
    for (size_t i = 0; i < options->list.n; i++) options->list.items[i].decided = NULL;
  m->b->cuda->session.diags = m->diags;
  return sx_options_find(options, m->plan);
}

static void make_body(void *context) {
  making *m = context;
  sx_cuda *cuda = m->b->cuda;
  sx_trial_calls trials = sx_cuda_trials(cuda);
  m->made_it = find_options(m) && sx_options_decide(&cuda->options, m->plan, m->deciding, &trials, m->diags) &&
               !cuda->failure.failed && sx_made_fill(m->made, m->plan, m->draw_seed, m->diags);
}

/* With the last one goes what they share, so that the next run finds the device as this one did. */
static void unlink_made(cuda_backend *b, sx_made *made) {
  sx_made **at = &b->mades;
  while (*at != made) at = &(*at)->next;
  *at = made->next;
  if (b->mades) return;
  sx_cuda_give(b->cuda, b->shared);
  sx_cuda_give(b->cuda, b->cuda->convolution_workspace);
  sx_cuda_give(b->cuda, b->faults);
  sx_cuda_give_host(b->cuda, b->cells);
  b->shared = b->cuda->convolution_workspace = b->faults = 0;
  b->cells = NULL;
  b->block_room = b->scratch_room = 0;
  b->n_faults = b->faults_room = 0;
}

static sx_made *make(sx_backend *backend, const sx_plan *plan, int64_t draw_seed, const sx_deciding *deciding,
                     sx_arena *arena, sx_diags *diags) {
  cuda_backend *b = of(backend);
  (void)arena; /* what is made outlives a failed allocation of the caller's: it has an arena of its own */
  if (!sx_cuda_enter(b->cuda)) {
    sx_cuda_report(b->cuda, diags);
    return NULL;
  }
  making m = {.b = b, .made = sx_made_new(b->cuda), .plan = plan, .draw_seed = draw_seed, .deciding = deciding};
  if (!m.made) return NULL;
  m.diags = diags;
  m.made->next = b->mades;
  b->mades = m.made;
  if (sx_guard(&b->cuda->memory, make_body, &m) && m.made_it) {
    m.made->first_fault = b->n_faults;
    b->n_faults += (uint32_t)m.made->lowering.faults.n;
    return m.made;
  }
  unlink_made(b, m.made);
  sx_made_free(m.made);
  sx_cuda_report(b->cuda, diags);
  forgive_lack(b->cuda);
  return NULL;
}

static void tell_body(void *context) {
  making *m = context;
  if (find_options(m)) sx_options_tell(&m->b->cuda->options, m->plan, m->tell, m->tell_context);
}

/* What is told lives as long as the device, and asks cuDNN when it is called. */
static void needs(sx_backend *backend, const sx_plan *plan, sx_tell_need *tell, void *context, sx_arena *arena) {
  sx_diags diags;
  sx_diags_init(&diags, arena);
  making m = {.b = of(backend), .plan = plan, .diags = &diags, .tell = tell, .tell_context = context};
  bool had_memory = sx_guard(&m.b->cuda->memory, tell_body, &m);
  m.b->cuda->session.diags = &m.b->cuda->late_diags;
  if (!had_memory) sx_memory_fail(arena->memory);
}

static void lower_body(void *context) {
  making *m = context;
  sx_diags *diags = SX_NEW(&m->made->arena, sx_diags);
  sx_diags_init(diags, &m->made->arena);
  m->diags = diags;
  m->made_it = find_options(m) && sx_made_lower(m->made, m->plan, m->draw_seed, diags);
  m->b->cuda->session.diags = &m->b->cuda->late_diags;
}

static int64_t plan_bytes(sx_backend *backend, const sx_plan *plan) {
  cuda_backend *b = of(backend);
  making m = {.b = b, .made = sx_made_new(b->cuda), .plan = plan};
  int64_t n_bytes = sx_cuda_rounded(plan->block_bytes) + sx_cuda_rounded(sx_known_bytes(plan));
  if (m.made && sx_guard(&b->cuda->memory, lower_body, &m) && m.made_it) {
    bool convolves = false;
    for (size_t i = 0; i < m.made->lowering.works.n; i++)
      convolves |= m.made->lowering.works.items[i].kind == SX_WORK_CONVOLVE;
    n_bytes += sx_cuda_rounded(m.made->lowering.scratch_bytes);
    if (convolves && !b->cuda->convolution_workspace) n_bytes += SX_CUDNN_WORKSPACE_N_BYTES;
  }
  if (m.made) sx_made_free(m.made);
  return n_bytes;
}

static void forget(sx_backend *backend);

static void unmake(sx_backend *backend, sx_made *made) {
  cuda_backend *b = of(backend);
  if (!made) return;
  settle(b);
  forget(backend);
  unlink_made(b, made);
  sx_made_free(made);
}

static void bind(sx_backend *backend, sx_made *made, uint32_t buffer, void *data) {
  (void)backend;
  made->addresses.buffers[buffer] = device(data);
}

static bool observe(sx_backend *backend, sx_made *made, sx_observe *observed, void *context) {
  sx_cuda *cuda = of(backend)->cuda;
  bool good = sx_made_observe(made, observed, context);
  if (!good) forgive_lack(cuda);
  return good;
}

/* Those before the task of the node that stopped it, or all. */
static size_t tasks_done(const sx_made *made, const sx_stopped *why) {
  const sx_plan *plan = made->plan;
  for (size_t i = 0; why->plan && i < plan->tasks.n; i++)
    if (plan->tasks.items[i].nodes[0] == why->node) return i;
  return plan->tasks.n;
}

static void execute(sx_backend *backend, sx_made *made) {
  cuda_backend *b = of(backend);
  if (!begin(b)) return;
  sx_made_execute(made, b->faults);
  if (!made->observe || !wait(b)) return;
  sx_stopped why = {0};
  if (!has_stopped(b, made, &why)) why.plan = NULL;
  sx_made_tell(made, tasks_done(made, &why));
}

/* ---- memory that executables share ---------------------------------------------------------------- */

static bool take_faults(cuda_backend *b) {
  if (b->n_faults <= b->faults_room) return true;
  sx_cuda *cuda = b->cuda;
  sx_cuda_give(cuda, b->faults);
  sx_cuda_give_host(cuda, b->cells);
  b->faults = 0;
  b->cells = NULL;
  b->faults_room = 0;
  int64_t n_bytes = b->n_faults * (int64_t)sizeof *b->cells;
  b->faults = sx_cuda_take(cuda, n_bytes);
  b->cells = b->faults ? sx_cuda_take_host(cuda, n_bytes) : NULL;
  if (!b->cells) return false;
  b->faults_room = b->n_faults;
  reset_faults(b);
  return !cuda->failure.failed;
}

static bool take_shared(cuda_backend *b) {
  int64_t block = 0, scratch = 0;
  for (const sx_made *made = b->mades; made; made = made->next) {
    int64_t its_block = sx_cuda_rounded(made->plan->block_bytes),
            its_scratch = sx_cuda_rounded(made->lowering.scratch_bytes);
    block = its_block > block ? its_block : block;
    scratch = its_scratch > scratch ? its_scratch : scratch;
  }
  if (block + scratch > b->block_room + b->scratch_room || !b->shared) {
    sx_cuda_give(b->cuda, b->shared);
    b->block_room = b->scratch_room = 0;
    b->shared = sx_cuda_take(b->cuda, block + scratch);
    if (!b->shared) return false;
    b->block_room = block;
    b->scratch_room = scratch;
  } else if (block > b->block_room || scratch > b->scratch_room) {
    b->scratch_room += b->block_room - block;
    b->block_room = block;
  }
  for (sx_made *made = b->mades; made; made = made->next)
    sx_made_place(made, b->shared, b->shared + (CUdeviceptr)b->block_room);
  return true;
}

static bool ready(sx_backend *backend, sx_diags *diags) {
  cuda_backend *b = of(backend);
  forget(backend);
  if (sx_cuda_enter(b->cuda) && take_faults(b) && take_shared(b)) return true;
  sx_cuda_report(b->cuda, diags);
  forgive_lack(b->cuda);
  return false;
}

/* ---- sequences ----------------------------------------------------------------------------------- */

static sequence *find_sequence(const cuda_backend *b, uint32_t number) {
  for (size_t i = 0; i < b->sequences.n; i++)
    if (b->sequences.items[i].number == number) return &b->sequences.items[i];
  return NULL;
}

static bool replay(sx_backend *backend, uint32_t number) {
  cuda_backend *b = of(backend);
  const sequence *found = find_sequence(b, number);
  if (!found || !found->exec) return false;
  if (begin(b)) sx_cuda_check(b->cuda, b->cuda->api.cuGraphLaunch(found->exec, b->cuda->stream), "cuGraphLaunch");
  return true;
}

typedef struct adding {
  cuda_backend *b;
  uint32_t number;
} adding;

static void add_sequence(void *context) {
  const adding *a = context;
  SX_PUSH(&a->b->cuda->arena, a->b->sequences, ((sequence){.number = a->number}));
}

static void record(sx_backend *backend, uint32_t number) {
  cuda_backend *b = of(backend);
  sequence *found = find_sequence(b, number);
  if (!begin(b)) return;
  if (!found) {
    adding a = {b, number};
    if (!sx_guard(&b->cuda->memory, add_sequence, &a)) sx_cuda_fail(b->cuda, SX_E_RUN_MEMORY, "out of memory");
    return;
  }
  b->recording = (size_t)(found - b->sequences.items);
  b->records =
      sx_cuda_check(b->cuda, b->cuda->api.cuStreamBeginCapture(b->cuda->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    "cuStreamBeginCapture");
}

/* The capture ends after a failure too, which has made it worthless. */
static void recorded(sx_backend *backend) {
  cuda_backend *b = of(backend);
  sx_cuda *cuda = b->cuda;
  if (!b->records) return;
  b->records = false;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUresult result = cuda->api.cuStreamEndCapture(cuda->stream, &graph);
  if (!cuda->failure.failed) sx_cuda_check(cuda, result, "cuStreamEndCapture");
  if (!cuda->failure.failed) sx_cuda_check(cuda, cuda->api.cuGraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
  if (graph) cuda->api.cuGraphDestroy(graph);
  if (!exec) return;
  b->sequences.items[b->recording].exec = exec;
  sx_cuda_check(cuda, cuda->api.cuGraphLaunch(exec, cuda->stream), "cuGraphLaunch");
}

static void forget(sx_backend *backend) {
  cuda_backend *b = of(backend);
  if (!b->sequences.n) return;
  settle(b);
  for (size_t i = 0; i < b->sequences.n; i++)
    if (b->sequences.items[i].exec) b->cuda->api.cuGraphExecDestroy(b->sequences.items[i].exec);
  b->sequences.n = 0;
}

/* ---- measuring, and reports ----------------------------------------------------------------------- */

static int64_t now_ns(sx_backend *backend) {
  cuda_backend *b = of(backend);
  if (b->timed) sx_cuda_time_end(b->cuda);
  b->timed = false;
  b->times = true;
  return b->cuda->timed_ns;
}

static bool measure(sx_backend *backend, const char *what, char *text, size_t n_text, sx_diags *diags) {
  return sx_cuda_measure(of(backend)->cuda, what, text, n_text, diags);
}

static bool rates(sx_backend *backend, sx_cost_rates *found, unsigned dtypes, const struct sexp_chooser *chooser,
                  sx_diags *diags) {
  return sx_cuda_rates(of(backend)->cuda, found, dtypes, chooser, diags);
}

static void products(sx_backend *backend, const sx_made *made, sx_tell_product *tell, void *context) {
  (void)backend;
  for (size_t i = 0; i < made->lowering.works.n; i++) {
    const sx_work *work = &made->lowering.works.items[i];
    if (work->kind == SX_WORK_PRODUCT && work->product->key) tell(context, work->product->key, (int64_t)work->bytes);
  }
}

static void print(sx_backend *backend, const sx_made *made, sx_text *text) {
  (void)backend;
  sx_made_print(made, text);
}

static const sx_backend_calls CALLS = {
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
    .needs = needs,
    .make = make,
    .unmake = unmake,
    .bind = bind,
    .observe = observe,
    .ready = ready,
    .products = products,
    .print = print,
    .replay = replay,
    .record = record,
    .recorded = recorded,
    .forget = forget,
    .now_ns = now_ns,
    .measure = measure,
    .rates = rates,
};

void sx_cuda_backend_open(sx_cuda *cuda) {
  cuda_backend *b = SX_NEW(&cuda->arena, cuda_backend);
  *b = (cuda_backend){.base = {.calls = &CALLS, .facts = cuda->facts.text, .stacks = true}, .cuda = cuda};
  cuda->backend = &b->base;
}

static void free_all(sx_made **list) {
  while (*list) {
    sx_made *made = *list;
    *list = made->next;
    sx_made_free(made);
  }
}

void sx_cuda_backend_close(sx_cuda *cuda) {
  if (!cuda->backend) return;
  cuda_backend *b = of(cuda->backend);
  if (b->records) {
    CUgraph graph = NULL;
    cuda->api.cuStreamEndCapture(cuda->stream, &graph);
    if (graph) cuda->api.cuGraphDestroy(graph);
  }
  cuda->api.cuStreamSynchronize(cuda->stream);
  forget(&b->base);
  free_all(&b->mades);
  free_all(&cuda->trials);
  sx_cuda_give_host(cuda, b->cells);
}
