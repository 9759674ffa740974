#define _POSIX_C_SOURCE 200809L
#include "device_case.h"

#ifdef SX_CUDA
#include <string.h>
#include <unistd.h>

#include "interpret.h"

const char *device_libraries(void) {
  static char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, 4000);
  CHECK(n > 0);
  path[n] = 0;
  *strrchr(path, '/') = 0;
  strcpy(strrchr(path, '/'), "/cudasim");
  return path;
}

static void say(const sexp_messages *messages) {
  for (size_t i = 0; i < sexp_messages_count(messages); i++) fputs(sexp_messages_get(messages, i)->text, stderr);
}

sexp_device *device_open(sexp_device_options options) {
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  if (!options.libraries) options.libraries = device_libraries();
  sexp_status status = sexp_device_open(&device, &messages, &options);
  say(messages);
  CHECK(status == SEXP_OK && device && !messages);
  return device;
}

void device_refuse(sexp_device_options options, const char *code, const char *const words[3]) {
  sexp_device *device = NULL;
  sexp_messages *messages = NULL;
  if (!options.libraries) options.libraries = device_libraries();
  CHECK(sexp_device_open(&device, &messages, &options) == SEXP_DEVICE && !device);
  const sexp_message *message = sexp_messages_get(messages, 0);
  bool good = sexp_messages_count(messages) == 1 && strcmp(message->code, code) == 0;
  for (int i = 0; i < 3; i++) good = good && strstr(message->message, words[i]);
  if (!good) say(messages);
  CHECK(good);
  sexp_messages_free(messages);
}

static bool is_outside(const sx_buffer *buffer) {
  return buffer->kind == SX_BUFFER_EXTERNAL || buffer->kind == SX_BUFFER_OUTPUT;
}

void device_plan_make(device_plan *d, sexp_device *device, const sx_plan *plan, uint64_t seed, sx_arena *arena) {
  bool made = device_plan_decide(d, device, plan, seed, NULL, arena);
  for (size_t i = 0; i < d->diags.list.n; i++) fprintf(stderr, "%s\n", d->diags.list.items[i].message);
  CHECK(made);
}

bool device_plan_decide(device_plan *d, sexp_device *device, const sx_plan *plan, uint64_t seed,
                        const sx_deciding *deciding, sx_arena *arena) {
  sx_backend *backend = device->backend;
  *d = (device_plan){.backend = backend, .plan = plan};
  sx_diags_init(&d->diags, arena);
  d->made = backend->calls->make(backend, plan, 7, deciding, arena, &d->diags);
  if (!d->made) return false;
  d->device = SX_NEW_N(arena, void *, plan->buffers.n);
  d->host = SX_NEW_N(arena, void *, plan->buffers.n);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (!is_outside(buffer)) continue;
    d->device[b] = backend->calls->take(backend, buffer->n_bytes);
    d->host[b] = backend->calls->take_host(backend, buffer->n_bytes);
    CHECK(d->device[b] && d->host[b]);
    memset(d->host[b], 0xa5, (size_t)buffer->n_bytes);
    if (buffer->kind == SX_BUFFER_EXTERNAL)
      leaf_fill(buffer->name, seed, buffer->dtype, buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype),
                d->host[b]);
    backend->calls->bind(backend, d->made, b, d->device[b]);
  }
  return true;
}

void device_plan_upload(device_plan *d) {
  for (uint32_t b = 0; b < d->plan->buffers.n; b++)
    if (d->host[b] && d->plan->buffers.items[b].kind == SX_BUFFER_EXTERNAL)
      d->backend->calls->upload(d->backend, d->device[b], d->host[b], d->plan->buffers.items[b].n_bytes);
}

void device_plan_execute(device_plan *d) {
  d->backend->calls->execute(d->backend, d->made);
  for (uint32_t b = 0; b < d->plan->buffers.n; b++)
    if (d->host[b] && d->plan->buffers.items[b].kind == SX_BUFFER_OUTPUT)
      d->backend->calls->download(d->backend, d->host[b], d->device[b], d->plan->buffers.items[b].n_bytes);
}

void device_plan_free(device_plan *d) {
  for (uint32_t b = 0; b < d->plan->buffers.n; b++) {
    if (!d->host[b]) continue;
    d->backend->calls->give(d->backend, d->device[b]);
    d->backend->calls->give_host(d->backend, d->host[b]);
  }
  d->backend->calls->unmake(d->backend, d->made);
}

sx_finished device_finish(sexp_device *device, sx_stopped *why) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_diags diags;
  sx_stopped stopped;
  sx_arena_init(&arena, &memory);
  sx_diags_init(&diags, &arena);
  sx_finished finished = device->backend->calls->finish(device->backend, why ? why : &stopped, &diags);
  for (size_t i = 0; i < diags.list.n; i++)
    if (finished == SX_FINISHED_FAILED) fprintf(stderr, "%s\n", diags.list.items[i].message);
  CHECK(finished != SX_FINISHED_FAILED);
  sx_arena_free(&arena);
  return finished;
}

uint32_t device_buffer(const device_plan *d, sx_buffer_kind kind, const char *name) {
  for (uint32_t b = 0; b < d->plan->buffers.n; b++)
    if (d->plan->buffers.items[b].kind == kind && strcmp(d->plan->buffers.items[b].name, name) == 0) return b;
  fprintf(stderr, "there is no buffer %s\n", name);
  CHECK(false);
  return 0;
}
#else
typedef int test_device_case_is_empty;
#endif
