#include "bench_parts.h"

#ifdef SX_CUDA
#include <stdio.h>
#include <string.h>
#include <time.h>

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool bench_is_over(const bench *b) { return bench_now() > b->ends || b->gpu->cuda->failure.failed; }

void bench_failed(bench *b, const char *name, const char *why) {
  b->n_failed++;
  printf("| %s | FAILED: %s |\n", name, why);
  fflush(stdout);
}

/* ---- works --------------------------------------------------------------------------------------- */

static const char *replace(const char *text, const bench_size *sizes, bool shortened, sx_arena *arena) {
  sx_text out;
  sx_text_init(&out, arena);
  while (*text) {
    const bench_size *size = sizes;
    while (*text == '@' && size->token && strncmp(text + 1, size->token, strlen(size->token)) != 0) size++;
    if (*text != '@' || !size->token) {
      sx_text_add_bytes(&out, text++, 1);
      continue;
    }
    sx_text_addf(&out, "%lld", (long long)(shortened ? size->shortened : size->full));
    text += 1 + strlen(size->token);
  }
  return sx_text_get(&out);
}

enum { PATTERN_BYTES = 4 << 20 };

static void fill_pattern(void *to, sx_dtype dtype) {
  for (int k = 0; k < PATTERN_BYTES / 4; k++) {
    if (dtype == SX_F32) ((float *)to)[k] = (float)(k * 7919 % 1000) * 0.002f - 0.7f;
    if (dtype == SX_I32) ((int32_t *)to)[k] = (int32_t)((uint32_t)k * 2654435761u >> 7) % 1000;
    /* bf16 and f16 of a size about 1. */
    if (dtype == SX_BF16 || dtype == SX_F16)
      ((uint32_t *)to)[k] = ((uint32_t)k * 2654435761u & 0x800f800fu) | (dtype == SX_BF16 ? 0x3f803f80u : 0x3c003c00u);
    if (dtype == SX_BOOL || dtype == SX_U8) ((uint32_t *)to)[k] = (uint32_t)k * 2654435761u & 0x01010101u;
  }
}

static bool fill_inputs(bench_work *w) {
  sx_backend *backend = w->bench->gpu->backend;
  char *pattern = backend->calls->take_host(backend, PATTERN_BYTES);
  if (!pattern) return false;
  for (uint32_t i = 0; i < w->plan.plan->buffers.n; i++) {
    const sx_buffer *buffer = &w->plan.plan->buffers.items[i];
    if (!w->plan.device[i]) continue;
    w->n_bytes += buffer->n_bytes;
    if (buffer->kind != SX_BUFFER_EXTERNAL) continue;
    fill_pattern(pattern, buffer->dtype);
    for (int64_t at = 0; at < buffer->n_bytes; at += PATTERN_BYTES) {
      int64_t n = buffer->n_bytes - at < PATTERN_BYTES ? buffer->n_bytes - at : PATTERN_BYTES;
      backend->calls->upload(backend, (char *)w->plan.device[i] + at, pattern, n);
    }
    if (!gpu_finish(w->bench->gpu, NULL)) break;
  }
  backend->calls->give_host(backend, pattern);
  return !w->bench->gpu->cuda->failure.failed;
}

bool bench_work_make(bench_work *w, bench *b, const char *text, const bench_size *sizes, const sx_deciding *deciding) {
  *w = (bench_work){.bench = b, .memory = sx_memory_default()};
  sx_arena_init(&w->arena, &w->memory);
  const sx_plan *plan = gpu_plan_of(replace(text, sizes, b->shortened, &w->arena), true, &w->arena);
  snprintf(b->gpu->why, sizeof b->gpu->why, "its text is no graph");
  w->made = plan != NULL;
  return plan && gpu_plan_make_there(&w->plan, b->gpu, plan, deciding, &w->arena) && fill_inputs(w);
}

void bench_work_free(bench_work *w) {
  if (w->made) gpu_plan_free(&w->plan);
  sx_arena_free(&w->arena);
}

/* ---- time ---------------------------------------------------------------------------------------- */

/* Milliseconds of n calls; below 0: they failed. */
static double time_calls(bench *b, bench_enqueue *enqueue, void *context, int n) {
  sx_cuda *cuda = b->gpu->cuda;
  float elapsed_ms = -1;
  sx_cuda_check(cuda, cuda->api.cuEventRecord(cuda->begin, cuda->stream), "cuEventRecord");
  for (int i = 0; i < n; i++)
    if (!enqueue(context)) return -1;
  if (!sx_cuda_check(cuda, cuda->api.cuEventRecord(cuda->end, cuda->stream), "cuEventRecord") ||
      !gpu_finish(b->gpu, NULL) ||
      !sx_cuda_check(cuda, cuda->api.cuEventElapsedTime(&elapsed_ms, cuda->begin, cuda->end), "cuEventElapsedTime"))
    return -1;
  return (double)elapsed_ms;
}

double bench_time(bench *b, bench_enqueue *enqueue, void *context) {
  enum { ROUNDS = 5, CALLS_MOST = 200 };
  const double round_ms = 10;
  double once = time_calls(b, enqueue, context, 1), least = 0;
  if (once >= 0 && !b->shortened) once = time_calls(b, enqueue, context, 1);
  if (once < 0) return 0;
  if (b->shortened) return once * 1e6;
  int n = once * CALLS_MOST < round_ms ? CALLS_MOST : once > round_ms ? 1 : (int)(round_ms / once) + 1;
  for (int round = 0; round < ROUNDS; round++) {
    double ms = time_calls(b, enqueue, context, n) / n;
    if (ms < 0) return 0;
    if (round == 0 || ms < least) least = ms;
  }
  return least * 1e6;
}

static bool execute(void *context) {
  gpu_plan *plan = context;
  plan->gpu->backend->calls->execute(plan->gpu->backend, plan->made);
  return !plan->gpu->cuda->failure.failed;
}

double bench_work_time(bench_work *w) { return bench_time(w->bench, execute, &w->plan); }
#else
typedef int test_gpu_bench_timing_is_empty;
#endif
