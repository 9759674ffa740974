#include "probe.h"

#include <string.h>

#include "../base/guard.h"
#include "executable.h"
#include "product.h"
#include "trial.h"

typedef struct probing {
  sx_cuda *cuda;
  const char *kind, *key, *value;
  uint64_t *digest;
  sx_arena arena; /* of what is read, and of messages */
  sx_option option;
  sx_trial_calls calls;
  sx_trial trial;
  bool begun;
  sexp_ran ran;
  const char *why; /* static */
} probing;

/* An implementation is one of a long product's; any other product has the ordinary one alone. */
static bool has_implementation(const sx_product_key *key, sx_dtype to, const char *value, sx_arena *arena) {
  size_t n = 0;
  if (!strcmp(value, "ordinary")) return true;
  if (to != key->dtype || !sx_product_is_long(key)) return false;
  const char *const *values = sx_product_implementations(&n, key, arena);
  for (size_t i = 0; i < n; i++)
    if (!strcmp(values[i], value)) return true;
  return false;
}

static bool is_engine(const char *value, sx_arena *arena) {
  sx_engine engine;
  return !strcmp(value, sx_no_engine) || !sx_engine_parse(&engine, value, arena);
}

/* NULL: the option is filled. */
static const char *read_option(probing *p) {
  sx_option *option = &p->option;
  option->key = p->key;
  option->values = &p->value;
  option->n_values = 1;
  if (!strcmp(p->kind, "product")) {
    option->kind = "product";
    if (!sx_product_call_parse(&option->product, &option->to, p->key, &p->arena)) return "its key is no product's";
    return has_implementation(&option->product, option->to, p->value, &p->arena) ? NULL
                                                                                 : "it has no such implementation";
  }
  if (strcmp(p->kind, "convolution")) return "nothing probes choices of this kind";
  option->kind = "convolution";
  if (sx_convolution_parse(&option->convolution, p->key, &p->arena)) return "its key is no convolution's";
  if (!is_engine(p->value, &p->arena)) return "the value is no engine";
  return p->cuda->cudnn || !strcmp(p->value, sx_no_engine) ? NULL : "the device has no cuDNN";
}

static void probe(void *context) {
  probing *p = context;
  p->why = read_option(p);
  if (p->why) return;
  p->begun = true;
  sx_trial_begin(&p->trial, &p->cuda->options, &p->option, &p->calls);
  p->ran = sx_trial_probe(&p->trial, 0, p->digest);
}

sexp_ran sx_cuda_probe(sx_cuda *cuda, uint64_t *digest, const char *kind, const char *key, const char *value,
                       const char **why) {
  probing p = {.cuda = cuda, .kind = kind, .key = key, .value = value, .digest = digest, .ran = SEXP_RAN_REFUSED};
  sx_diags diags;
  *why = "the device is opened as portable, where no library decides";
  if (cuda->portable) return SEXP_RAN_REFUSED;
  *why = "the device has failed";
  if (!sx_cuda_enter(cuda) || cuda->failure.failed) return SEXP_RAN_REFUSED;
  sx_arena_init(&p.arena, &cuda->memory);
  sx_diags_init(&diags, &p.arena);
  p.calls = sx_cuda_trials(cuda);
  cuda->session.diags = &diags;
  if (!sx_guard(&cuda->memory, probe, &p)) p.ran = SEXP_RAN_OUT_OF_MEMORY;
  if (p.begun) sx_trial_end(&p.trial);
  cuda->session.diags = &cuda->late_diags;
  sx_arena_free(&p.arena);
  *why = p.why ? p.why : p.ran == SEXP_RAN_OUT_OF_MEMORY ? "there is no memory for it" : "the device refuses it";
  return p.ran;
}
