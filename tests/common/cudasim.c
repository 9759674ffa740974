#define _POSIX_C_SOURCE 200809L
#include "cudasim.h"

#ifdef SX_CUDA
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

simulated_cuda cu;
static void *nvrtc;

/* ---- processes ------------------------------------------------------------------------------------ */

/* They lie beside the test's own folder. */
static void *open_beside(const char *name) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, 4000);
  if (n <= 0) return NULL;
  path[n] = 0;
  *strrchr(path, '/') = 0;
  strcpy(strrchr(path, '/'), "/cudasim/");
  strcat(path, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  return library;
}

#define NAME_OF(name) #name
static void load(void) {
  void *library = open_beside("libcuda.so.1"), *entry;
  CHECK(library);
#define SIM_ENTRY(name)                  \
  entry = dlsym(library, NAME_OF(name)); \
  CHECK(entry);                          \
  memcpy(&cu.name, &entry, sizeof entry);
#include "cudasim.def"
#undef SIM_ENTRY
}

static void run_child(int fd, const char *settings, void (*body)(void)) {
  char text[4096];
  const char *card = strstr(settings, "card=") ? "" : "card=tests/cuda/a100.json", *more = getenv("CUDASIM_MORE");
  snprintf(text, sizeof text, "%s\n%s\n%s", card, settings, more ? more : "");
  setenv("CUDASIM_SETTINGS", text, 1);
  dup2(fd, 2);
  close(fd);
  load();
  body();
  exit(0);
}

static void read_all(outcome *result, int fd) {
  size_t n = 0;
  for (ssize_t got; n < sizeof result->text - 1 && (got = read(fd, result->text + n, sizeof result->text - 1 - n)) > 0;)
    n += (size_t)got;
  result->text[n] = 0;
  close(fd);
}

void cudasim_run(outcome *result, const char *settings, void (*body)(void)) {
  int pipe_ends[2], status = 0;
  assert_int_equal(pipe(pipe_ends), 0);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(pipe_ends[0]);
    run_child(pipe_ends[1], settings, body);
  }
  close(pipe_ends[1]);
  read_all(result, pipe_ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void cudasim_expect(const char *settings, void (*body)(void), int status, const char *words) {
  outcome result;
  cudasim_run(&result, settings, body);
  if (result.status != status || !strstr(result.text, words) || (!*words && *result.text))
    fail_msg("status %d where %d was expected, \"%s\" in: %s", result.status, status, words, result.text);
}

void cudasim_good(const char *settings, void (*body)(void)) { cudasim_expect(settings, body, 0, ""); }

bool cudasim_has_nvrtc(void) {
  const char *named = getenv("CUDASIM_NVRTC"), *home = getenv("CUDA_HOME");
  char path[4096];
  snprintf(path, sizeof path, "%s/lib64/libnvrtc.so.13", home ? home : "");
  if ((named && access(named, R_OK) == 0) || access("/usr/local/cuda/lib64/libnvrtc.so.13", R_OK) == 0 ||
      access(path, R_OK) == 0)
    return true;
  puts("skipped: the toolkit's libnvrtc.so.13 is not found, so no kernel is run");
  return false;
}

/* ---- inside of a body ----------------------------------------------------------------------------- */

void cudasim_open(void) {
  CUcontext context = NULL;
  GOOD(cu.cuInit(0));
  GOOD(cu.cuDevicePrimaryCtxRetain(&context, 0));
  GOOD(cu.cuCtxSetCurrent(context));
}

void cudasim_close(void) { GOOD(cu.cuDevicePrimaryCtxRelease(0)); }

CUdeviceptr cudasim_memory(size_t n_bytes) {
  CUdeviceptr address = 0;
  GOOD(cu.cuMemAlloc(&address, n_bytes));
  return address;
}

float *cudasim_host(size_t n) {
  void *address = NULL;
  GOOD(cu.cuMemHostAlloc(&address, n * sizeof(float), 0));
  return address;
}

CUstream cudasim_stream(void) {
  CUstream stream = NULL;
  GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static void *nvrtc_entry(const char *name) {
  if (!nvrtc) nvrtc = open_beside("libnvrtc.so.13");
  CHECK(nvrtc);
  void *entry = dlsym(nvrtc, name);
  CHECK(entry);
  return entry;
}

#define NVRTC(name)                     \
  __typeof__(nvrtc##name) *name = NULL; \
  entry = nvrtc_entry("nvrtc" #name);   \
  memcpy(&name, &entry, sizeof entry)

char *cudasim_compile(const char *source, const char *architecture) {
  void *entry;
  NVRTC(CreateProgram);
  NVRTC(CompileProgram);
  NVRTC(GetCUBINSize);
  NVRTC(GetCUBIN);
  NVRTC(DestroyProgram);
  nvrtcProgram program = NULL;
  char option[64];
  snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
  const char *options[] = {option, "--fmad=false"};
  size_t n = 0;
  CHECK(CreateProgram(&program, source, "test.cu", 0, NULL, NULL) == NVRTC_SUCCESS);
  CHECK(CompileProgram(program, 2, options) == NVRTC_SUCCESS);
  CHECK(GetCUBINSize(program, &n) == NVRTC_SUCCESS && n > 0);
  char *image = malloc(n);
  CHECK(image && GetCUBIN(program, image) == NVRTC_SUCCESS);
  CHECK(DestroyProgram(&program) == NVRTC_SUCCESS);
  return image;
}

static const char SOURCE[] =
    "extern \"C\" __global__ void __launch_bounds__(256) fill(float *x, unsigned long long n, float value) {\n"
    "  __shared__ float shared[256];\n"
    "  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "  shared[threadIdx.x] = value;\n"
    "  __syncthreads();\n"
    "  if (i < n) x[i] = shared[blockDim.x - 1 - threadIdx.x];\n"
    "}\n"
    "extern \"C\" __global__ void copy(float *y, const float *x, unsigned long long n) {\n"
    "  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = x[i] * 2.0f;\n"
    "}\n"
    "__constant__ float table[4] = {1, 2, 3, 4};\n"
    "extern \"C\" __global__ void look_up(float *y) { y[threadIdx.x] = table[threadIdx.x]; }\n";

CUmodule cudasim_module(void) {
  CUmodule module = NULL;
  char *image = cudasim_compile(SOURCE, "sm_80");
  GOOD(cu.cuModuleLoadData(&module, image));
  free(image);
  return module;
}

static void launch(CUmodule module, const char *name, unsigned long long n, CUstream stream, void **params) {
  CUfunction function = NULL;
  GOOD(cu.cuModuleGetFunction(&function, module, name));
  GOOD(cu.cuLaunchKernel(function, (unsigned)((n + 127) / 128), 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

void cudasim_fill(CUmodule module, CUdeviceptr x, unsigned long long n, float value, CUstream stream) {
  launch(module, "fill", n, stream, (void *[]){&x, &n, &value});
}

void cudasim_copy(CUmodule module, CUdeviceptr y, CUdeviceptr x, unsigned long long n, CUstream stream) {
  launch(module, "copy", n, stream, (void *[]){&y, &x, &n});
}
#else
/* ISO C wants something in every file. */
extern const int cudasim_is_not_built;
const int cudasim_is_not_built = 1;
#endif
