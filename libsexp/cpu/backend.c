#include "backend.h"

#include <string.h>

#include "../../kernels/math.h"
#include "operand.h"

enum { ALIGNMENT = 64, GRAIN = 1 << 14 };

typedef struct cpu_backend {
  sx_backend backend;
  sx_cpu cpu;
  sx_workspace workspace;
  bool stopped; /* since the last finish: nothing further is done */
  sx_stopped why;
} cpu_backend;

static cpu_backend *of(sx_backend *backend) { return (cpu_backend *)backend; }

/* ---- memory ---- */

/* Zeroed by the threads, each its share: pages come to be where they are used, and side by side. Before the address
 * lies the one to be released. */
static void *take(sx_backend *backend, int64_t n_bytes) {
  const sx_memory *memory = of(backend)->cpu.memory;
  if (n_bytes > PTRDIFF_MAX - 2 * ALIGNMENT) return NULL;
  char *block = memory->allocate(memory->context, (size_t)n_bytes + 2 * ALIGNMENT);
  if (!block) return NULL;
  char *taken = block + ALIGNMENT + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
  memcpy(taken - sizeof block, &block, sizeof block);
  sx_pool_zero(of(backend)->cpu.pool, taken, n_bytes);
  return taken;
}

static void give(sx_backend *backend, void *taken) {
  const sx_memory *memory = of(backend)->cpu.memory;
  char *block;
  memcpy(&block, (char *)taken - sizeof block, sizeof block);
  memory->release(memory->context, block);
}

/* ---- work ---- */

static void copy(sx_backend *backend, void *to, const void *from, int64_t n_bytes) {
  if (n_bytes && !of(backend)->stopped) memcpy(to, from, (size_t)n_bytes);
}

typedef struct addition {
  float *out;
  const float *left, *right;
} addition;

static void add_range(void *context, int64_t begin, int64_t end, int thread) {
  const addition *add = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) add->out[i] = add->left[i] + add->right[i];
}

static void add(sx_backend *backend, float *out, const float *left, const float *right, int64_t n) {
  addition sum = {out, left, right};
  if (!of(backend)->stopped) sx_pool_run(of(backend)->cpu.pool, n, GRAIN, add_range, &sum);
}

typedef struct division {
  float *values;
  float count;
} division;

static void divide_range(void *context, int64_t begin, int64_t end, int thread) {
  const division *divide = context;
  (void)thread;
  for (int64_t i = begin; i < end; i++) divide->values[i] = divide->values[i] / divide->count;
}

static void divide(sx_backend *backend, float *values, float count, int64_t n) {
  division mean = {values, count};
  if (!of(backend)->stopped) sx_pool_run(of(backend)->cpu.pool, n, GRAIN, divide_range, &mean);
}

static void widen(sx_backend *backend, float *to, const void *from, sx_dtype from_dtype, int64_t n) {
  if (of(backend)->stopped) return;
  for (int64_t i = 0; i < n; i++) to[i] = sx_load(from, from_dtype, i).f;
}

static void narrow(sx_backend *backend, void *to, sx_dtype to_dtype, const float *from, int64_t n) {
  if (of(backend)->stopped) return;
  for (int64_t i = 0; i < n; i++) sx_store(to, to_dtype, i, (sx_value){.f = from[i]});
}

static void execute(sx_backend *backend, sx_made *made) {
  cpu_backend *b = of(backend);
  if (!b->stopped) b->stopped = !sx_executable_execute((sx_executable *)made, &b->why);
}

static sx_finished finish(sx_backend *backend, sx_stopped *why, sx_diags *diags) {
  cpu_backend *b = of(backend);
  (void)diags;
  if (!b->stopped) return SX_FINISHED;
  b->stopped = false;
  *why = b->why;
  return SX_FINISHED_STOPPED;
}

/* ---- executables ---- */

static sx_made *make(sx_backend *backend, const sx_plan *plan, int64_t draw_seed, const sx_deciding *deciding,
                     sx_arena *arena, sx_diags *diags) {
  (void)deciding;
  (void)diags;
  return (sx_made *)sx_executable_new(&of(backend)->cpu, plan, draw_seed, arena);
}

static void unmake(sx_backend *backend, sx_made *made) {
  (void)backend;
  sx_executable_free((sx_executable *)made);
}

static void bind(sx_backend *backend, sx_made *made, uint32_t buffer, void *data) {
  (void)backend;
  sx_executable_bind((sx_executable *)made, buffer, data);
}

static bool ready(sx_backend *backend, sx_diags *diags) {
  cpu_backend *b = of(backend);
  (void)diags;
  if (!sx_workspace_take(&b->workspace, b->cpu.memory)) sx_memory_fail(b->cpu.memory);
  return true;
}

static bool observe(sx_backend *backend, sx_made *made, sx_observe *function, void *context) {
  (void)backend;
  return sx_executable_observe((sx_executable *)made, function, context);
}

static const sx_backend_calls calls = {.take = take,
                                       .give = give,
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
                                       .ready = ready};

sx_backend *sx_cpu_backend_new(const sx_cpu *cpu, sx_arena *arena) {
  cpu_backend *b = SX_NEW(arena, cpu_backend);
  b->backend = (sx_backend){.calls = &calls, .facts = "cpu, numerics 1", .shares_memory = true};
  b->cpu = *cpu;
  b->cpu.workspace = &b->workspace;
  return &b->backend;
}

void sx_cpu_backend_end(sx_backend *backend) { sx_workspace_give(&of(backend)->workspace, of(backend)->cpu.memory); }
