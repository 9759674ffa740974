#include "on_device.h"

#ifdef SX_CUDA
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cuda/open.h"

static bool fail(gpu_device *gpu, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(gpu_device *gpu, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(gpu->why, sizeof gpu->why, format, arguments);
  va_end(arguments);
  return false;
}

/* With what the library said, and forgets it. */
static bool fail_said(gpu_device *gpu, const char *what) {
  const sx_diags *diags = &gpu->diags;
  if (diags->list.n) {
    const sx_diag *diag = &diags->list.items[0];
    fail(gpu, "%s: %s: %s", what, sx_diag_code(diag), diag->message);
  } else {
    fail(gpu, "%s: no memory", what);
  }
  sx_diags_init(&gpu->diags, &gpu->arena);
  return false;
}

bool gpu_is_simulated(void) { return getenv("CUDASIM_SETTINGS") != NULL; }

bool gpu_open(gpu_device *gpu, const char *cubins, bool portable) {
  sexp_device_options options = SEXP_DEVICE_OPTIONS_DEFAULT;
  options.portable = portable;
  options.cubins = cubins;
  *gpu = (gpu_device){.memory = sx_memory_default()};
  sx_arena_init(&gpu->arena, &gpu->memory);
  sx_diags_init(&gpu->diags, &gpu->arena);
  if (!sx_cuda_open(&gpu->cuda, &options, &gpu->memory, &gpu->diags)) return fail_said(gpu, "the device is not opened");
  gpu->backend = sx_cuda_backend(gpu->cuda);
  return true;
}

bool gpu_open_any(gpu_device *gpu) {
  char why[sizeof gpu->why];
  if (gpu_open(gpu, NULL, false)) return true;
  memcpy(why, gpu->why, sizeof why);
  gpu_close(gpu);
  if (gpu_open(gpu, NULL, true)) {
    printf("Opened as portable: %s\n\n", why);
    return true;
  }
  memcpy(gpu->why, why, sizeof why);
  return false;
}

void gpu_close(gpu_device *gpu) {
  sx_cuda_close(gpu->cuda);
  sx_arena_free(&gpu->arena);
  *gpu = (gpu_device){0};
}

static bool is_outside(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
}

static bool take_buffers(gpu_plan *p, bool host) {
  const sx_backend_calls *calls = p->gpu->backend->calls;
  for (uint32_t b = 0; b < p->plan->buffers.n; b++) {
    const sx_buffer *buffer = &p->plan->buffers.items[b];
    int64_t n_bytes = buffer->n_bytes ? buffer->n_bytes : 1;
    if (!is_outside(buffer)) continue;
    p->device[b] = calls->take(p->gpu->backend, n_bytes);
    if (p->device[b] && host) p->host[b] = calls->take_host(p->gpu->backend, n_bytes);
    if (!p->device[b] || (host && !p->host[b]))
      return fail(p->gpu, "no memory for %lld bytes of a buffer", (long long)n_bytes);
    if (host) memset(p->host[b], 0xa5, (size_t)n_bytes);
    calls->bind(p->gpu->backend, p->made, b, p->device[b]);
  }
  return true;
}

static bool make(gpu_plan *p, gpu_device *gpu, const sx_plan *plan, const sx_deciding *deciding, sx_arena *arena,
                 bool host) {
  const sx_backend_calls *calls = gpu->backend->calls;
  *p = (gpu_plan){.gpu = gpu, .plan = plan};
  p->device = SX_NEW_N(arena, void *, plan->buffers.n + 1);
  p->host = SX_NEW_N(arena, void *, plan->buffers.n + 1);
  p->made = calls->make(gpu->backend, plan, GPU_DRAW_SEED, deciding, arena, &gpu->diags);
  if (!p->made) return fail_said(gpu, "the executable is not made");
  if (!take_buffers(p, host)) return false;
  return calls->ready(gpu->backend, &gpu->diags) || fail_said(gpu, "the executable is not ready");
}

bool gpu_plan_make(gpu_plan *p, gpu_device *gpu, const sx_plan *plan, const sx_deciding *deciding, sx_arena *arena) {
  return make(p, gpu, plan, deciding, arena, true);
}

bool gpu_plan_make_there(gpu_plan *p, gpu_device *gpu, const sx_plan *plan, const sx_deciding *deciding,
                         sx_arena *arena) {
  return make(p, gpu, plan, deciding, arena, false);
}

void gpu_plan_free(gpu_plan *p) {
  const sx_backend_calls *calls = p->gpu->backend->calls;
  if (p->made) calls->unmake(p->gpu->backend, p->made);
  for (uint32_t b = 0; b < p->plan->buffers.n; b++) {
    if (p->device[b]) calls->give(p->gpu->backend, p->device[b]);
    if (p->host[b]) calls->give_host(p->gpu->backend, p->host[b]);
  }
}

void gpu_plan_upload(gpu_plan *p) {
  for (uint32_t b = 0; b < p->plan->buffers.n; b++)
    if (p->host[b] && p->plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL)
      p->gpu->backend->calls->upload(p->gpu->backend, p->device[b], p->host[b], p->plan->buffers.items[b].n_bytes);
}

void gpu_plan_download(gpu_plan *p) {
  for (uint32_t b = 0; b < p->plan->buffers.n; b++)
    if (p->host[b] && p->plan->buffers.items[b].kind == SX_BUFFER_OUTPUT)
      p->gpu->backend->calls->download(p->gpu->backend, p->host[b], p->device[b], p->plan->buffers.items[b].n_bytes);
}

bool gpu_finish(gpu_device *gpu, sx_stopped *why) {
  sx_stopped stopped;
  sx_finished finished = gpu->backend->calls->finish(gpu->backend, why ? why : &stopped, &gpu->diags);
  if (finished == SX_FINISHED || (finished == SX_FINISHED_STOPPED && why)) return true;
  if (finished == SX_FINISHED_STOPPED)
    return fail(gpu, "it stopped at node %u, id %lld", stopped.node, (long long)stopped.value);
  return fail_said(gpu, finished == SX_FINISHED_MEMORY ? "memory" : "the device failed");
}

bool gpu_plan_run(gpu_plan *p, sx_stopped *why) {
  gpu_plan_upload(p);
  p->gpu->backend->calls->execute(p->gpu->backend, p->made);
  gpu_plan_download(p);
  return gpu_finish(p->gpu, why);
}

const sx_plan *gpu_plan_of(const char *text, bool fuse, sx_arena *arena) {
  sx_intern *names = SX_NEW(arena, sx_intern);
  sx_diags diags;
  sx_intern_init(names, arena);
  sx_diags_init(&diags, arena);
  sx_graph *graph = sx_graph_parse(arena, names, text, strlen(text), &diags);
  if (graph) sx_graph_verify(graph, SX_STAGE_READY, &diags);
  for (size_t i = 0; i < diags.list.n; i++) fprintf(stderr, "%s\n", diags.list.items[i].message);
  return diags.n_errors ? NULL : sx_plan_make(graph, &(sx_plan_options){.fuse = fuse, .reuse = fuse}, arena);
}
#else
typedef int test_gpu_on_device_is_empty;
#endif
