#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "cudasim_mathlib.h"

#ifdef SX_CUDA
#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

/* ---- cases -------------------------------------------------------------------------------------- */

static void (*case_body)(void *context);
static void *case_context;
static void run_case(void) { case_body(case_context); }

void mathlib_run(outcome *ended, const char *card, const char *settings, void (*body)(void *context), void *context) {
  char text[2048];
  snprintf(text, sizeof text, "card=tests/cuda/%s.json\n%s", card, settings);
  case_body = body;
  case_context = context;
  cudasim_run(ended, text, run_case);
}

void mathlib_expect_ok(const outcome *ended) {
  if (ended->status != 0 || strstr(ended->text, "cudasim:")) fail_msg("status %d: %s", ended->status, ended->text);
}

void mathlib_expect_violation(const outcome *ended, const char *words) {
  const char *first = strstr(ended->text, "cudasim:");
  if (ended->status != CUDASIM_VIOLATED || !first || !strstr(first, words) || strstr(first + 1, "cudasim:"))
    fail_msg("not the one violation \"%s\"; status %d: %s", words, ended->status, ended->text);
}

void *mathlib_share(size_t n_bytes) {
  void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(memory, MAP_FAILED);
  return memory;
}

/* ---- in a case's process ------------------------------------------------------------------------ */

/* The libraries lie in cudasim/, beside the directory of the test that runs. */
void *mathlib_library(const char *file) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, 4000);
  CHECK(n > 0);
  path[n] = 0;
  for (int i = 0; i < 2; i++) *strrchr(path, '/') = 0;
  size_t used = strlen(path);
  snprintf(path + used, sizeof path - used, "/cudasim/%s", file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror());
  CHECK(library);
  return library;
}

void *mathlib_function(void *library, const char *name) {
  void *function = dlsym(library, name);
  if (!function) fprintf(stderr, "%s\n", dlerror());
  CHECK(function);
  return function;
}

CUstream mathlib_begin(void) {
  cudasim_open();
  return cudasim_stream();
}

void mathlib_end(CUstream stream) {
  GOOD(cu.cuStreamSynchronize(stream));
  GOOD(cu.cuStreamDestroy(stream));
  cudasim_close();
}

void *mathlib_take(size_t n_bytes) { return (void *)(uintptr_t)cudasim_memory(n_bytes); }

void mathlib_give(void *memory) { GOOD(cu.cuMemFree((uintptr_t)memory)); }

void mathlib_write(void *to, const void *from, size_t n_bytes) { GOOD(cu.cuMemcpyHtoD((uintptr_t)to, from, n_bytes)); }

void mathlib_read(CUstream stream, void *to, const void *from, size_t n_bytes) {
  GOOD(cu.cuStreamSynchronize(stream));
  GOOD(cu.cuMemcpyDtoH(to, (uintptr_t)from, n_bytes));
}

float mathlib_uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

float mathlib_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t mathlib_bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
#else
/* ISO C wants something in every file. */
extern const int mathlib_is_not_built;
const int mathlib_is_not_built = 1;
#endif
