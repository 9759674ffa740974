/* Our libnvrtc.so.13: forwards to the real one, compiles for a virtual architecture where a real one was asked for, and
 * gives the PTX in the cubin's place (image.h).
 *
 * The real library is CUDASIM_NVRTC, else /usr/local/cuda/lib64/libnvrtc.so.13, else lib64/libnvrtc.so.13 of CUDA_HOME;
 * always by its absolute path. */
#define _GNU_SOURCE /* pthread_once beside dlopen's RTLD_ constants */
#include <dlfcn.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

static struct {
  void *library;
#define SIM_NVRTC(name) __typeof__(name) *name;
#include "nvrtc.def"
#undef SIM_NVRTC
} real;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The architecture that each program was last compiled for: 0, or 80 of sm_80. */
typedef struct compiled {
  struct compiled *next;
  nvrtcProgram program;
  unsigned architecture;
} compiled;
static compiled *programs;

/* ---- the real library ----------------------------------------------------------------------------- */

static bool open_at(const char *path) {
  real.library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  return real.library != NULL;
}

static bool open_real(void) {
  const char *named = getenv("CUDASIM_NVRTC"), *home = getenv("CUDA_HOME");
  char path[4096];
  snprintf(path, sizeof path, "%s/lib64/libnvrtc.so.13", home ? home : "");
  if (named ? open_at(named) : open_at("/usr/local/cuda/lib64/libnvrtc.so.13") || (home && open_at(path))) return true;
  fprintf(stderr, "cudasim: the real NVRTC is not found: %s\n", dlerror());
  return false;
}

static void *find(const char *name) {
  void *entry = dlsym(real.library, name);
  if (!entry) fprintf(stderr, "cudasim: the real NVRTC has no %s\n", name);
  return entry;
}

static void load(void) {
  if (!open_real()) return;
  void *entry;
#define SIM_NVRTC(name) \
  entry = find(#name);  \
  memcpy(&real.name, &entry, sizeof entry);
#include "nvrtc.def"
#undef SIM_NVRTC
}

__attribute__((constructor)) static void load_once(void) { pthread_once(&once, load); }

#define NEED(entry) \
  if (!real.entry) return NVRTC_ERROR_INTERNAL_ERROR

/* ---- versions ------------------------------------------------------------------------------------- */

/* The value of a setting in CUDASIM_SETTINGS, one "name=value" a line; the last counts. */
static const char *setting(const char *name) {
  const char *found = NULL, *at = getenv("CUDASIM_SETTINGS");
  size_t n = strlen(name);
  for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
    if (strncmp(at, name, n) == 0 && at[n] == '=') found = at + n + 1;
  return found;
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
  NEED(nvrtcVersion);
  const char *said = setting("nvrtc.version");
  if (!said) return real.nvrtcVersion(major, minor);
  if (!major || !minor || sscanf(said, "%d.%d", major, minor) != 2) return NVRTC_ERROR_INVALID_INPUT;
  return NVRTC_SUCCESS;
}

/* ---- compiling ------------------------------------------------------------------------------------ */

static compiled *find_program(nvrtcProgram program, bool add) {
  for (compiled *at = programs; at; at = at->next)
    if (at->program == program) return at;
  compiled *at = add ? calloc(1, sizeof *at) : NULL;
  if (!at) return NULL;
  *at = (compiled){programs, program, 0};
  return programs = at;
}

static void keep_architecture(nvrtcProgram program, unsigned architecture) {
  pthread_mutex_lock(&lock);
  compiled *at = find_program(program, true);
  if (at) at->architecture = architecture;
  pthread_mutex_unlock(&lock);
}

static unsigned architecture_of(nvrtcProgram program) {
  pthread_mutex_lock(&lock);
  const compiled *at = find_program(program, false);
  unsigned architecture = at ? at->architecture : 0;
  pthread_mutex_unlock(&lock);
  return architecture;
}

/* "compute_80" of "sm_80" or "sm_90a" in an option that names an architecture; 0: it names none. */
static unsigned real_architecture(const char *option) {
  static const char *const names[] = {"--gpu-architecture=", "-arch=", "-arch", "--gpu-architecture"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(option, names[i], strlen(names[i])) == 0) option += strlen(names[i]);
  unsigned architecture = 0;
  return sscanf(option, "sm_%u", &architecture) == 1 ? architecture : 0;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options) {
  NEED(nvrtcCompileProgram);
  if (n < 0 || (n && !options)) return real.nvrtcCompileProgram(program, n, options);
  const char **given = calloc((size_t)n + 1, sizeof *given);
  char virtual_text[64];
  unsigned architecture = 0;
  if (!given) return NVRTC_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < n; i++) {
    unsigned named = options[i] ? real_architecture(options[i]) : 0;
    given[i] = options[i];
    if (!named) continue;
    architecture = named;
    bool alone = strncmp(options[i], "sm_", 3) == 0;
    snprintf(virtual_text, sizeof virtual_text, "%scompute_%u", alone ? "" : "--gpu-architecture=", named);
    given[i] = virtual_text;
  }
  nvrtcResult result = real.nvrtcCompileProgram(program, n, given);
  keep_architecture(program, result == NVRTC_SUCCESS ? architecture : 0);
  free(given);
  return result;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n_headers,
                               const char *const *headers, const char *const *names) {
  NEED(nvrtcCreateProgram);
  return real.nvrtcCreateProgram(program, source, name, n_headers, headers, names);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  NEED(nvrtcDestroyProgram);
  if (program) {
    pthread_mutex_lock(&lock);
    for (compiled **at = &programs; *at; at = &(*at)->next) {
      compiled *found = *at;
      if (found->program != *program) continue;
      *at = found->next;
      free(found);
      break;
    }
    pthread_mutex_unlock(&lock);
  }
  return real.nvrtcDestroyProgram(program);
}

/* ---- results -------------------------------------------------------------------------------------- */

/* The image of a program that was compiled for a real architecture, malloc'ed; NULL: it has none, as a program that was
 * compiled for a virtual one has no cubin. */
static char *image_of(nvrtcProgram program, size_t *n_bytes) {
  size_t n = 0;
  int major = 0, minor = 0;
  unsigned architecture = architecture_of(program);
  *n_bytes = 0;
  if (!architecture || real.nvrtcGetPTXSize(program, &n) != NVRTC_SUCCESS || n == 0) return NULL;
  char *ptx = malloc(n), *image = malloc(n + 128);
  if (ptx && image && real.nvrtcGetPTX(program, ptx) == NVRTC_SUCCESS &&
      nvrtcVersion(&major, &minor) == NVRTC_SUCCESS) {
    size_t length = strlen(ptx);
    int head = snprintf(image, 128, SIM_IMAGE_FORMAT, architecture, (unsigned)major, (unsigned)minor, length,
                        sim_image_sum(ptx, length));
    memcpy(image + head, ptx, length + 1);
    *n_bytes = (size_t)head + length + 1;
  }
  free(ptx);
  return image;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *n_bytes) {
  NEED(nvrtcGetPTXSize);
  if (!n_bytes) return NVRTC_ERROR_INVALID_INPUT;
  free(image_of(program, n_bytes));
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  NEED(nvrtcGetPTX);
  size_t n = 0;
  char *image = image_of(program, &n);
  if (image && n && cubin) memcpy(cubin, image, n);
  free(image);
  return n && cubin ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

#define FORWARD(name, parameters, arguments) \
  nvrtcResult name parameters {              \
    NEED(name);                              \
    return real.name arguments;              \
  }
FORWARD(nvrtcGetPTXSize, (nvrtcProgram program, size_t *n_bytes), (program, n_bytes))
FORWARD(nvrtcGetPTX, (nvrtcProgram program, char *ptx), (program, ptx))
FORWARD(nvrtcGetProgramLogSize, (nvrtcProgram program, size_t *n_bytes), (program, n_bytes))
FORWARD(nvrtcGetProgramLog, (nvrtcProgram program, char *text), (program, text))
FORWARD(nvrtcAddNameExpression, (nvrtcProgram program, const char *expression), (program, expression))
FORWARD(nvrtcGetLoweredName, (nvrtcProgram program, const char *expression, const char **name),
        (program, expression, name))
FORWARD(nvrtcGetNumSupportedArchs, (int *n), (n))
FORWARD(nvrtcGetSupportedArchs, (int *list), (list))

/* The real cuDNN looks for this one, whose parameters no header states: as many words as it may have go on. */
typedef long (*words)(long, long, long, long, long, long, long, long, long, long);
long __nvrtcCPEx(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j);
long __nvrtcCPEx(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j) {
  words entry = NULL;
  void *address = real.library ? dlsym(real.library, "__nvrtcCPEx") : NULL;
  memcpy(&entry, &address, sizeof entry);
  return entry ? entry(a, b, c, d, e, f, g, h, i, j) : NVRTC_ERROR_INTERNAL_ERROR;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
  return real.nvrtcGetErrorString ? real.nvrtcGetErrorString(result) : "the real NVRTC was not found";
}
