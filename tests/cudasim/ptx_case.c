#include "ptx_case.h"

#include <dlfcn.h>

#include "../common/cmocka_all.h"

const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libnvrtc"; }

uint64_t ptx_n_instructions;

/* ---- NVRTC, through what its functions take and give ---- */

static struct {
  int (*create)(void **program, const char *source, const char *name, int n_headers, const char *const *headers,
                const char *const *names);
  int (*compile)(void *program, int n_options, const char *const *options);
  int (*destroy)(void **program);
  int (*ptx_size)(void *program, size_t *n);
  int (*ptx)(void *program, char *ptx);
  int (*log_size)(void *program, size_t *n);
  int (*log)(void *program, char *log);
} nvrtc;

bool ptx_ready(void) {
  void *library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("/usr/local/cuda/lib64/libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    printf("skipped: NVRTC 13 is not here (%s)\n", dlerror());
    return false;
  }
  static const char *const names[] = {"nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcDestroyProgram",
                                      "nvrtcGetPTXSize",    "nvrtcGetPTX",         "nvrtcGetProgramLogSize",
                                      "nvrtcGetProgramLog"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *entry = dlsym(library, names[i]);
    memcpy((char *)&nvrtc + i * sizeof entry, &entry, sizeof entry);
  }
  return true;
}

static char *compile(const char *source, int architecture, const char *fmad) {
  char option[64];
  snprintf(option, sizeof option, "--gpu-architecture=compute_%d", architecture);
  const char *options[] = {option, fmad, "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "-I."};
  void *program;
  assert_int_equal(nvrtc.create(&program, source, "kernel.cu", 0, NULL, NULL), 0);
  if (nvrtc.compile(program, 6, options) != 0) {
    size_t n = 0;
    nvrtc.log_size(program, &n);
    char *log = calloc(1, n + 1);
    nvrtc.log(program, log);
    fail_msg("NVRTC refuses it: %s", log);
  }
  size_t n = 0;
  assert_int_equal(nvrtc.ptx_size(program, &n), 0);
  char *ptx = calloc(1, n + 1);
  assert_int_equal(nvrtc.ptx(program, ptx), 0);
  nvrtc.destroy(&program);
  return ptx;
}

char *ptx_compile(const char *source, int architecture) { return compile(source, architecture, "--fmad=false"); }

char *ptx_compile_contracted(const char *source, int architecture) {
  return compile(source, architecture, "--fmad=true");
}

sim_module *ptx_module(const char *source, int architecture) {
  char *ptx = ptx_compile(source, architecture), problem[512] = "";
  sim_module *module = sim_module_parse(ptx, problem, sizeof problem);
  if (!module) fail_msg("%s", problem);
  free(ptx);
  return module;
}

/* ---- memory ---- */

enum { MARGIN = 64 };

void *ptx_take(ptx_memory *memory, size_t n_bytes) {
  size_t room = (n_bytes + 63) / 64 * 64 + 2 * MARGIN;
  uint8_t *at = aligned_alloc(64, room);
  assert_true(at && memory->n < PTX_MOST_RANGES);
  memset(at, 0x5a, room);
  memset(at + MARGIN, 0, n_bytes);
  uint64_t begin = (uint64_t)(uintptr_t)at + MARGIN;
  memory->ranges[memory->n++] = (sim_span){begin, begin + n_bytes};
  return at + MARGIN;
}

void *ptx_take_copy(ptx_memory *memory, const void *from, size_t n_bytes) {
  void *at = ptx_take(memory, n_bytes);
  memcpy(at, from, n_bytes);
  memory->is_constant[memory->n - 1] = true;
  return at;
}

void ptx_free(ptx_memory *memory) {
  for (size_t i = 0; i < memory->n; i++) free((uint8_t *)(uintptr_t)memory->ranges[i].begin - MARGIN);
  *memory = (ptx_memory){0};
}

static bool check(void *context, sim_span *range, uint64_t address, size_t n_bytes, bool writes) {
  ptx_memory *memory = context;
  memory->n_asked++;
  for (size_t i = 0; i < memory->n; i++) {
    const sim_span *known = &memory->ranges[i];
    if (address < known->begin || address + n_bytes > known->end || (writes && memory->is_constant[i])) continue;
    *range = *known;
    return true;
  }
  return false;
}

/* ---- launches ---- */

bool ptx_try(const sim_module *module, const char *name, ptx_memory *memory, ptx_shape shape, char problem[512],
             size_t n, const ptx_argument *arguments) {
  const sim_kernel *kernel = sim_module_kernel(module, name);
  if (!kernel) fail_msg("no kernel %s", name);
  _Alignas(16) uint8_t params[4096];
  size_t n_params = 0;
  assert_int_equal(sim_kernel_params(kernel), n);
  for (size_t i = 0; i < n; i++) {
    size_t offset, n_bytes;
    sim_kernel_param(kernel, i, &offset, &n_bytes);
    assert_int_equal(n_bytes, arguments[i].n_bytes);
    memcpy(params + offset, arguments[i].at, n_bytes);
    n_params = offset + n_bytes;
  }
  const sim_launch launch = {.grid = {shape.grid, 1, 1},
                             .block = {shape.block, 1, 1},
                             .shared_bytes = shape.shared,
                             .params = params,
                             .n_params = n_params,
                             .check = check,
                             .context = memory,
                             .checks_uninitialized = shape.checks_uninitialized,
                             .checks_races = shape.checks_races,
                             .n_instructions = &ptx_n_instructions};
  problem[0] = 0;
  return sim_kernel_run(kernel, &launch, problem, 512);
}

void ptx_run(const sim_module *module, const char *kernel, ptx_memory *memory, ptx_shape shape, size_t n,
             const ptx_argument *arguments) {
  char problem[512];
  if (!ptx_try(module, kernel, memory, shape, problem, n, arguments)) fail_msg("%s", problem);
}
