#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "available.h"
#include "failure.h"
#include "messages.h"
#include "paths.h"

enum { MOST_ORDINAL = 1023, MOST_THREADS = 1024 };

/* What would move bits without a record telling of it. */
static const char *const unheeded[] = {"CUBLAS_WORKSPACE_CONFIG", "CUBLAS_EMULATION_STRATEGY",
                                       "CUBLASLT_WORKSPACE_SIZE", "CUDA_FORCE_PTX_JIT", "NVIDIA_TF32_OVERRIDE"};

bool tool_engine_is_cuda(const tool_engine_settings *settings) {
  return settings->device && strcmp(settings->device, "cuda") == 0;
}

tool_ordinal tool_engine_ordinal(int *ordinal, const char *text) {
  char *end = NULL;
  long found = strtol(text, &end, 10);
  bool good = text[0] >= '0' && text[0] <= '9' && found <= MOST_ORDINAL;
  *ordinal = good ? (int)found : 0;
  if (good && *end == ',') return TOOL_ORDINAL_SEVERAL;
  return good && !*end ? TOOL_ORDINAL_ONE : TOOL_ORDINAL_MALFORMED;
}

static int parse_ordinal(int *ordinal, const char *text) {
  tool_ordinal found = tool_engine_ordinal(ordinal, text);
  if (found == TOOL_ORDINAL_SEVERAL)
    return tool_fail(TOOL_DEVICE, TOOL_E_DEVICE_SEVERAL,
                     "SEXPGPU_DEVICES: found \"%s\", a run of this version is on one", text);
  if (found == TOOL_ORDINAL_ONE) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE, "SEXPGPU_DEVICES: found \"%s\", expected the number of a device, as 0",
                   text);
}

static int check_simd(const char *simd) {
  static const char *const levels[] = {"reference", "scalar", "avx2", "avx512"};
  for (size_t i = 0; simd && i < sizeof levels / sizeof levels[0]; i++)
    if (strcmp(simd, levels[i]) == 0) return TOOL_DONE;
  if (!simd) return TOOL_DONE;
  return tool_fail(TOOL_INPUT, TOOL_E_ENV_VALUE,
                   "SEXPGPU_SIMD: found \"%s\", expected reference, scalar, avx2 or avx512", simd);
}

int tool_engine_check(const tool_engine_settings *settings) {
  int ordinal = 0;
  const char *device = settings->device;
  if (device && strcmp(device, "cpu") != 0 && strcmp(device, "cuda") != 0)
    return tool_fail(TOOL_DEVICE, TOOL_E_DEVICE_UNKNOWN, "device \"%s\": expected cpu or cuda", device);
  int status = settings->devices ? parse_ordinal(&ordinal, settings->devices) : TOOL_DONE;
  return status ? status : check_simd(settings->simd);
}

int64_t tool_engine_memory(const tool_engine_settings *settings, const char **whose) {
  tool_available available;
  double asked = settings->memory_gib * 1073741824.0;
  if (tool_engine_is_cuda(settings)) return 0;
  if (asked > 0) {
    *whose = "SEXPGPU_MEMORY allows";
    return asked < 1 ? 1 : asked < (double)(INT64_MAX / 2) ? (int64_t)asked : 0;
  }
  tool_available_read(&available, "");
  int64_t least = tool_available_least(&available, whose);
  return least > 0 ? least : 0;
}

void tool_engine_options(sexp_run_options *options, const tool_engine_settings *settings, sexp_device *device) {
  options->threads = (int)(settings->threads > MOST_THREADS ? MOST_THREADS : settings->threads);
  options->pin_threads = settings->pin;
  options->simd = settings->simd;
  options->device = device;
}

static void clear_environment(void) {
  for (size_t i = 0; i < sizeof unheeded / sizeof *unheeded; i++) {
    if (!getenv(unheeded[i])) continue;
    fprintf(stderr, "warning: %s is set, which a run's record could not tell: it is not heeded\n", unheeded[i]);
    unsetenv(unheeded[i]);
  }
}

int tool_engine_open(sexp_device **device, const tool_engine_settings *settings) {
  int ordinal = 0;
  char *cubins = NULL;
  sexp_messages *messages = NULL;
  *device = NULL;
  if (!tool_engine_is_cuda(settings)) return TOOL_DONE;
  if (settings->devices && parse_ordinal(&ordinal, settings->devices)) return TOOL_INPUT;
  if (!tool_cache_path(&cubins, "sexpgpu/cubins")) return tool_no_memory();
  clear_environment();
  const sexp_device_options options = {.ordinal = ordinal,
                                       .cubins = cubins,
                                       .memory_bytes = (int64_t)(settings->memory_gib * 1073741824.0),
                                       .portable = settings->portable,
                                       .patterns = settings->patterns};
  sexp_status status = sexp_device_open(device, &messages, &options);
  int failed = status == SEXP_OK ? TOOL_DONE : tool_fail_sexp(status, messages);
  sexp_messages_free(messages);
  free(cubins);
  return failed;
}
