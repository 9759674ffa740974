/* Units of kernels: text, NVRTC, code, module; each kernel once a device. */
#include "compile.h"

#include <string.h>

#include "../base/guard.h"
#include "../base/sha256.h"
#include "cubins.h"
#include "emit.h"

enum { UNIT_KERNELS = 24, LOG_MOST = 600 };

typedef struct kernel {
  const char *name;
  CUfunction function;
} kernel;

struct sx_kernels {
  const char *directory; /* NULL: nothing is kept */
  const char *options[SX_NVRTC_OPTIONS];
  SX_VEC(kernel) list;
  SX_VEC(CUmodule) modules;
  sx_kernel_counts counts;
};

/* What one compilation owns that is no arena memory. */
typedef struct code {
  void *bytes; /* of memory->allocate */
  size_t n_bytes;
  nvrtcProgram program;
} code;

void sx_nvrtc_options(const char *options[SX_NVRTC_OPTIONS], int64_t capability, sx_arena *arena) {
  static const char *const fixed[SX_NVRTC_OPTIONS - 1] = {"--fmad=false",     "--ftz=false",     "--prec-div=true",
                                                          "--prec-sqrt=true", "-default-device", "--std=c++17"};
  options[0] = sx_format(arena, "--gpu-architecture=sm_%d", (int)capability);
  memcpy(options + 1, fixed, sizeof fixed);
}

/* ---- one unit ------------------------------------------------------------------------------------ */

static const char *first_words(const sx_cuda *cuda, nvrtcProgram program, sx_arena *arena) {
  size_t n = 0;
  if (cuda->api.nvrtcGetProgramLogSize(program, &n) != NVRTC_SUCCESS || n < 2) return "no log";
  char *log = sx_arena_take(arena, n + 1, 1);
  if (cuda->api.nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) return "no log";
  if (n > LOG_MOST) memcpy(log + LOG_MOST - 4, "...", 4);
  for (char *at = log; *at; at++)
    if (*at == '\n' || *at == '\r') *at = at[1] ? ' ' : 0;
  return log;
}

static const char *names_text(const char *const *names, size_t n, sx_arena *arena) {
  sx_text text;
  sx_text_init(&text, arena);
  for (size_t i = 0; i < n; i++) sx_text_addf(&text, "%s%s", i ? ", " : "", names[i]);
  return sx_text_get(&text);
}

static bool refuse(sx_cuda *cuda, sx_diags *diags, const char *what, const char *words, const char *const *names,
                   size_t n) {
  sx_error(diags, SX_E_DEVICE_KERNEL, (sx_span){0}, "%s: %s; of kernel%s %s", what, words, n > 1 ? "s" : "",
           names_text(names, n, &cuda->arena));
  return false;
}

/* Names of the kernels are those of the text, so nothing is asked for by expression. */
static bool compile(code *made, sx_cuda *cuda, const char *text, const char *const *names, size_t n, sx_diags *diags) {
  const sx_api *api = &cuda->api;
  nvrtcResult result = api->nvrtcCreateProgram(&made->program, text, "kernels.cu", 0, NULL, NULL);
  if (result == NVRTC_SUCCESS) {
    result = api->nvrtcCompileProgram(made->program, SX_NVRTC_OPTIONS, cuda->kernels->options);
    if (result != NVRTC_SUCCESS)
      return refuse(cuda, diags, api->nvrtcGetErrorString(result), first_words(cuda, made->program, &cuda->arena),
                    names, n);
    result = api->nvrtcGetCUBINSize(made->program, &made->n_bytes);
  }
  if (result == NVRTC_SUCCESS) {
    made->bytes = cuda->memory.allocate(cuda->memory.context, made->n_bytes ? made->n_bytes : 1);
    if (!made->bytes) sx_memory_fail(&cuda->memory);
    result = api->nvrtcGetCUBIN(made->program, made->bytes);
  }
  if (result == NVRTC_SUCCESS) return true;
  return refuse(cuda, diags, "NVRTC fails", api->nvrtcGetErrorString(result), names, n);
}

/* Everything that decides the code. */
static void make_key(char key[65], const sx_cuda *cuda, const char *text) {
  sx_sha256 *hash = sx_sha256_new();
  if (!hash) sx_memory_fail(cuda->arena.memory);
  const char *version = cuda->api.found[SX_LIBRARY_NVRTC].version;
  sx_sha256_add_part(hash, version, strlen(version));
  for (int i = 0; i < SX_NVRTC_OPTIONS; i++)
    sx_sha256_add_part(hash, cuda->kernels->options[i], strlen(cuda->kernels->options[i]));
  sx_sha256_add_part(hash, text, strlen(text));
  uint8_t digest[32];
  char written[72];
  sx_sha256_end(hash, digest);
  sx_sha256_text(digest, written);
  memcpy(key, strchr(written, ':') + 1, 65);
}

static bool load(sx_cuda *cuda, const code *made, const char *const *names, size_t n, sx_diags *diags) {
  const sx_api *api = &cuda->api;
  struct sx_kernels *kernels = cuda->kernels;
  SX_PUSH(&cuda->arena, kernels->modules, NULL); /* may not return: so the place first, then the module */
  CUmodule *module = &kernels->modules.items[kernels->modules.n - 1];
  if (!sx_cuda_enter(cuda) || !sx_cuda_check(cuda, api->cuModuleLoadData(module, made->bytes), "cuModuleLoadData")) {
    kernels->modules.n--;
    return sx_cuda_report(cuda, diags);
  }
  for (size_t i = 0; i < n; i++) {
    kernel found = {.name = sx_arena_copy_text(&cuda->arena, names[i], strlen(names[i]))};
    CUresult result = api->cuModuleGetFunction(&found.function, *module, names[i]);
    if (result == CUDA_ERROR_NOT_FOUND)
      return refuse(cuda, diags, "the code has no such kernel", "cuModuleGetFunction", &names[i], 1);
    if (!sx_cuda_check(cuda, result, "cuModuleGetFunction")) return sx_cuda_report(cuda, diags);
    SX_PUSH(&cuda->arena, kernels->list, found);
  }
  kernels->counts.n_units++;
  kernels->counts.n_kernels += (int64_t)n;
  return true;
}

typedef struct adding {
  sx_cuda *cuda;
  const char *text;
  const char *const *names;
  size_t n_names;
  sx_diags *diags;
  code made;
  bool added;
} adding;

static void add_unit(void *context) {
  adding *a = context;
  sx_cuda *cuda = a->cuda;
  struct sx_kernels *kernels = cuda->kernels;
  char key[65];
  make_key(key, cuda, a->text);
  bool taken =
      kernels->directory && sx_cubin_read(&a->made.bytes, &a->made.n_bytes, kernels->directory, key, &cuda->memory);
  if (!taken && !compile(&a->made, cuda, a->text, a->names, a->n_names, a->diags)) return;
  *(taken ? &kernels->counts.n_taken : &kernels->counts.n_compiled) += 1;
  a->added = load(cuda, &a->made, a->names, a->n_names, a->diags);
  if (a->added && !taken && kernels->directory) sx_cubin_write(kernels->directory, key, a->made.bytes, a->made.n_bytes);
}

bool sx_kernels_add_text(sx_cuda *cuda, const char *text, const char *const *names, size_t n_names, sx_diags *diags) {
  adding a = {.cuda = cuda, .text = text, .names = names, .n_names = n_names, .diags = diags};
  bool had_memory = sx_guard(&cuda->memory, add_unit, &a);
  if (a.made.program) cuda->api.nvrtcDestroyProgram(&a.made.program);
  if (a.made.bytes) cuda->memory.release(cuda->memory.context, a.made.bytes);
  if (!had_memory) sx_memory_fail(&cuda->memory);
  return a.added;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static bool add_some(sx_cuda *cuda, const sx_kernel_source *const *sources, size_t n, sx_diags *diags) {
  const char *names[UNIT_KERNELS];
  sx_text text;
  sx_text_init(&text, &cuda->arena);
  sx_text_add(&text, sx_emit_prelude);
  for (size_t i = 0; i < n; i++) {
    names[i] = sources[i]->name;
    sx_text_addf(&text, "\n%s", sources[i]->text);
  }
  return sx_kernels_add_text(cuda, sx_text_get(&text), names, n, diags);
}

bool sx_kernels_add(sx_cuda *cuda, const sx_kernel_source *sources, size_t n, sx_diags *diags) {
  const sx_kernel_source *unit[UNIT_KERNELS];
  size_t n_unit = 0;
  for (size_t i = 0; i < n; i++) {
    if (sx_kernels_find(cuda, sources[i].name)) continue;
    unit[n_unit++] = &sources[i];
    if (n_unit < UNIT_KERNELS) continue;
    if (!add_some(cuda, unit, n_unit, diags)) return false;
    n_unit = 0;
  }
  return !n_unit || add_some(cuda, unit, n_unit, diags);
}

CUfunction sx_kernels_find(const sx_cuda *cuda, const char *name) {
  for (size_t i = 0; i < cuda->kernels->list.n; i++)
    if (!strcmp(cuda->kernels->list.items[i].name, name)) return cuda->kernels->list.items[i].function;
  return NULL;
}

sx_kernel_counts sx_kernels_count(const sx_cuda *cuda) { return cuda->kernels->counts; }

bool sx_kernels_open(sx_cuda *cuda, const char *directory, sx_diags *diags) {
  static const char *const arrays[] = {"arrays_add",       "arrays_divide",      "arrays_widen_bf16",
                                       "arrays_widen_f16", "arrays_narrow_bf16", "arrays_narrow_f16"};
  cuda->kernels = SX_NEW(&cuda->arena, struct sx_kernels);
  if (directory) cuda->kernels->directory = sx_arena_copy_text(&cuda->arena, directory, strlen(directory));
  sx_nvrtc_options(cuda->kernels->options, cuda->capability, &cuda->arena);
  const char *text = sx_format(&cuda->arena, "%s\n%s", sx_emit_prelude, sx_emit_arrays);
  return sx_kernels_add_text(cuda, text, arrays, sizeof arrays / sizeof *arrays, diags);
}

void sx_kernels_close(sx_cuda *cuda) {
  if (!cuda->kernels) return;
  for (size_t i = 0; i < cuda->kernels->modules.n; i++)
    if (cuda->kernels->modules.items[i]) cuda->api.cuModuleUnload(cuda->kernels->modules.items[i]);
}
