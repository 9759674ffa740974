/* Opening the CUDA device, for the public entry points; without CUDA, the reason why there is none. */
#include <stdio.h>
#include <string.h>

#include "base/guard.h"
#include "cuda/open.h"
#include "cuda/probe.h"
#include "device/device.h"
#include "run/messages.h"

typedef struct opened {
  struct sexp_device device; /* first: it is what the caller holds */
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  const sexp_device_options *options;
  const char *libraries;
  struct sx_cuda *cuda;
  int n_devices;
  bool good;
} opened;

#ifdef SX_CUDA
static void open_body(void *context) {
  opened *o = context;
  sx_diags_init(&o->diags, &o->arena);
  o->good = sx_cuda_open(&o->cuda, o->options, &o->memory, &o->diags);
  if (!o->good) return;
  o->device.backend = sx_cuda_backend(o->cuda);
  o->device.facts = *sx_cuda_facts(o->cuda);
}

static void count_body(void *context) {
  opened *o = context;
  sx_diags_init(&o->diags, &o->arena);
  o->n_devices = sx_cuda_count(o->libraries, &o->arena, &o->diags);
}

static void close_cuda(struct sx_cuda *cuda) { sx_cuda_close(cuda); }
#define probe_cuda sx_cuda_probe
#else
static void refuse(void *context) {
  opened *o = context;
  sx_diags_init(&o->diags, &o->arena);
  sx_error(&o->diags, SX_E_DEVICE_UNBUILT, (sx_span){0},
           "this build has no CUDA device: it was made without the headers of CUDA and cuDNN");
}
#define open_body refuse
#define count_body refuse

static void close_cuda(struct sx_cuda *cuda) { (void)cuda; }

static sexp_ran probe_cuda(struct sx_cuda *cuda, uint64_t *digest, const char *kind, const char *key, const char *value,
                           const char **why) {
  (void)cuda, (void)digest, (void)kind, (void)key, (void)value;
  *why = "this build has no CUDA device";
  return SEXP_RAN_REFUSED;
}
#endif

static opened *make(void) {
  sx_memory memory = sx_memory_default();
  opened *o = memory.allocate(memory.context, sizeof *o);
  if (!o) return NULL;
  *o = (opened){.memory = memory};
  sx_arena_init(&o->arena, &o->memory);
  return o;
}

static void release(opened *o) {
  sx_memory memory = o->memory;
  close_cuda(o->cuda);
  sx_arena_free(&o->arena);
  memory.release(memory.context, o);
}

sexp_status sexp_device_open(sexp_device **device, sexp_messages **messages, const sexp_device_options *options) {
  *device = NULL;
  opened *o = make();
  if (!o) return sx_messages_no_memory(messages);
  o->options = options;
  sexp_status status = SEXP_NO_MEMORY;
  bool had_memory = sx_guard(&o->memory, open_body, o) && (o->good || o->diags.n_errors);
  if (had_memory) {
    status = o->good ? SEXP_OK : sx_status_of(&o->diags);
    status = sx_messages_add(messages, &o->memory, &o->diags, NULL, status);
  } else {
    sx_messages_no_memory(messages);
  }
  if (status == SEXP_OK)
    *device = &o->device;
  else
    release(o);
  return status;
}

void sexp_device_close(sexp_device *device) {
  if (device) release((opened *)device);
}

const sexp_device_facts *sexp_device_describe(const sexp_device *device) { return &device->facts; }

int sexp_device_count(const char *libraries, sexp_failure *why) {
  opened *o = make();
  int n = 0;
  *why = (sexp_failure){.code = "E-RUN-001", .message = "out of memory"};
  if (!o) return 0;
  o->libraries = libraries;
  if (sx_guard(&o->memory, count_body, o)) {
    n = o->n_devices;
    *why = (sexp_failure){0};
    if (o->diags.n_errors) {
      const sx_diag *diag = &o->diags.list.items[0];
      strncpy(why->code, sx_diag_code(diag), sizeof why->code - 1);
      strncpy(why->message, diag->message, sizeof why->message - 1);
    }
  }
  release(o);
  return n;
}

sexp_ran sexp_device_probe(uint64_t *digest, sexp_device *device, const char *kind, const char *key, const char *value,
                           sexp_failure *why) {
  const char *words = NULL;
  sexp_ran ran = probe_cuda(((opened *)device)->cuda, digest, kind, key, value, &words);
  if (ran == SEXP_RAN) return ran;
  *why = (sexp_failure){.code = "E-DEVICE-051"};
  snprintf(why->message, sizeof why->message, "%.20s %.200s = %.100s cannot be probed: %s", kind, key, value, words);
  return ran;
}
