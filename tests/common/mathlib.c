#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "mathlib.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

enum { STOPPED = 99, PATH_LENGTH = 4096 };

/* The libraries lie in cudasim/, beside the directory of the test that runs. */
static void path_of(char path[PATH_LENGTH], const char *file) {
  ssize_t n = readlink("/proc/self/exe", path, PATH_LENGTH - 1);
  path[n > 0 ? n : 0] = 0;
  for (int i = 0; i < 2; i++) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
  }
  size_t used = strlen(path);
  snprintf(path + used, PATH_LENGTH - used, "/cudasim/%s", file);
}

bool mathlib_ready(void) {
  char path[PATH_LENGTH];
  path_of(path, "libcuda.so.1");
  bool ready = access(path, R_OK) == 0;
  if (!ready) printf("skipped: there is no %s\n", path);
  return ready;
}

/* ---- cases -------------------------------------------------------------------------------------- */

static void read_all(mathlib_outcome *outcome, int from) {
  size_t n = 0;
  ssize_t more;
  char rest[512];
  while ((more = n < MATHLIB_TEXT_MAX - 1 ? read(from, outcome->text + n, MATHLIB_TEXT_MAX - 1 - n)
                                          : read(from, rest, sizeof rest)) > 0)
    if (n < MATHLIB_TEXT_MAX - 1) n += (size_t)more;
  outcome->text[n] = 0;
}

void mathlib_run(mathlib_outcome *outcome, const char *card, const char *settings, void (*body)(void *context),
                 void *context) {
  int ends[2], status = 0;
  fflush(NULL);
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    char text[2048];
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    snprintf(text, sizeof text, "card=tests/cuda/%s.json\n%s", card, settings);
    setenv("CUDASIM_SETTINGS", text, 1);
    body(context);
    exit(0);
  }
  close(ends[1]);
  read_all(outcome, ends[0]);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void mathlib_expect_ok(const mathlib_outcome *outcome) {
  if (outcome->status != 0 || strstr(outcome->text, "cudasim:"))
    fail_msg("status %d: %s", outcome->status, outcome->text);
}

void mathlib_expect_violation(const mathlib_outcome *outcome, const char *words) {
  if (outcome->status != MATHLIB_VIOLATION || !strstr(outcome->text, words))
    fail_msg("no violation with the words \"%s\"; status %d: %s", words, outcome->status, outcome->text);
}

void *mathlib_share(size_t n_bytes) {
  void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  return memory;
}

/* ---- in a case's process ------------------------------------------------------------------------ */

void mathlib_stop(const char *file, int line, const char *condition) {
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  fflush(NULL);
  _exit(STOPPED);
}

void *mathlib_library(const char *file) {
  char path[PATH_LENGTH];
  path_of(path, file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  mathlib_check(library);
  return library;
}

void *mathlib_function(void *library, const char *name) {
  void *function = dlsym(library, name);
  if (!function) fprintf(stderr, "%s\n", dlerror());
  mathlib_check(function);
  return function;
}

#ifdef SX_CUDA
#define NAME_OF(function) #function
#define SUCCEED(call) mathlib_check(call == CUDA_SUCCESS)

void mathlib_begin(mathlib_driver *driver) {
  void *library = mathlib_library("libcuda.so.1");
  CUcontext context = NULL;
#define ROW(function) *(void **)&driver->p_##function = mathlib_function(library, NAME_OF(function));
  MATHLIB_DRIVER(ROW)
#undef ROW
  SUCCEED(driver->p_cuInit(0));
  SUCCEED(driver->p_cuDevicePrimaryCtxRetain(&context, 0));
  SUCCEED(driver->p_cuCtxSetCurrent(context));
  SUCCEED(driver->p_cuStreamCreate(&driver->stream, CU_STREAM_NON_BLOCKING));
}

void mathlib_end(mathlib_driver *driver) {
  SUCCEED(driver->p_cuStreamSynchronize(driver->stream));
  SUCCEED(driver->p_cuStreamDestroy(driver->stream));
  SUCCEED(driver->p_cuDevicePrimaryCtxRelease(0));
}

void *mathlib_take(const mathlib_driver *driver, size_t n_bytes) {
  CUdeviceptr memory = 0;
  SUCCEED(driver->p_cuMemAlloc(&memory, n_bytes));
  return (void *)(uintptr_t)memory;
}

void mathlib_give(const mathlib_driver *driver, void *memory) { SUCCEED(driver->p_cuMemFree((uintptr_t)memory)); }

void mathlib_write(const mathlib_driver *driver, void *to, const void *from, size_t n_bytes) {
  SUCCEED(driver->p_cuMemcpyHtoD((uintptr_t)to, from, n_bytes));
}

void mathlib_read(const mathlib_driver *driver, void *to, const void *from, size_t n_bytes) {
  SUCCEED(driver->p_cuStreamSynchronize(driver->stream));
  SUCCEED(driver->p_cuMemcpyDtoH(to, (uintptr_t)from, n_bytes));
}
#endif
