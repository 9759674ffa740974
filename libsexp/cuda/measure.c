/* f32 operations against bytes: a block of one multiprocessor multiplies and adds in registers, and memory is copied to
 * memory. Each is timed by events, the least of some runs; a launch that does nothing is taken off the first. */
#include "measure.h"

#include <stdio.h>
#include <string.h>

#include "../base/bug.h"
#include "../base/guard.h"
#include "compile.h"

enum { THREADS = 256, CHAINS = 8, TRIPS = 2048, RUNS = 3, MOVED_BYTES = 128 << 20 };

/* Chains that do not wait for one another fill the multiprocessor; nothing contracts them. */
static const char TEXT[] =
    "extern \"C\" __global__ void measure_arithmetic(float *out, float a, float b, int n) {\n"
    "  float x[8];\n"
    "  for (int i = 0; i < 8; i++) x[i] = (float)(threadIdx.x + i);\n"
    "  for (int t = 0; t < n; t++)\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 8; i++) x[i] = x[i] * a + b;\n"
    "  float sum = 0;\n"
    "  for (int i = 0; i < 8; i++) sum = sum + x[i];\n"
    "  out[threadIdx.x] = sum;\n"
    "}\n";

static const char *const NAMES[] = {"measure_arithmetic"};

typedef struct measuring {
  sx_cuda *cuda;
  CUdeviceptr from, to;
  int trips;
  sx_diags *diags;
  bool compiled;
} measuring;

static void compute(measuring *m) {
  float a = 0.999f, b = 0.001f;
  void *arguments[] = {&m->to, &a, &b, &m->trips};
  sx_cuda_check(m->cuda,
                m->cuda->api.cuLaunchKernel(sx_kernels_find(m->cuda, NAMES[0]), 1, 1, 1, THREADS, 1, 1, 0,
                                            m->cuda->stream, arguments, NULL),
                "cuLaunchKernel");
}

static void move(measuring *m) {
  sx_cuda_check(m->cuda, m->cuda->api.cuMemcpyDtoDAsync(m->to, m->from, MOVED_BYTES, m->cuda->stream),
                "cuMemcpyDtoDAsync");
}

/* The least of some runs after one that is not counted; what it takes is no run's time. */
static double time_s(measuring *m, void (*work)(measuring *)) {
  int64_t least = INT64_MAX, before = m->cuda->timed_ns;
  for (int i = 0; i <= RUNS && !m->cuda->failure.failed; i++) {
    m->cuda->timed_ns = 0;
    sx_cuda_time_begin(m->cuda);
    if (!m->cuda->failure.failed) work(m);
    sx_cuda_time_end(m->cuda);
    if (i && m->cuda->timed_ns < least) least = m->cuda->timed_ns;
  }
  m->cuda->timed_ns = before;
  return (double)least * 1e-9;
}

static bool ratio(double *flops_a_byte, measuring *m) {
  m->from = sx_cuda_take(m->cuda, MOVED_BYTES);
  m->to = sx_cuda_take(m->cuda, MOVED_BYTES);
  if (!m->from || !m->to) return false;
  double moved = time_s(m, move), launched = time_s(m, compute);
  m->trips = TRIPS;
  double computed = time_s(m, compute) - launched;
  if (m->cuda->failure.failed) return false;
  double n_flops = 2.0 * CHAINS * TRIPS * THREADS * (double)m->cuda->multiprocessors;
  if (!(moved > 0 && computed > 0))
    return sx_cuda_fail(m->cuda, SX_E_DEVICE_CALL, "the device's events tell no time: %g and %g s", moved, computed);
  *flops_a_byte = n_flops / computed / (2.0 * MOVED_BYTES / moved);
  return true;
}

static void compile(void *context) {
  measuring *m = context;
  m->compiled = sx_kernels_find(m->cuda, NAMES[0]) || sx_kernels_add_text(m->cuda, TEXT, NAMES, 1, m->diags);
}

bool sx_cuda_measure(sx_cuda *cuda, const char *what, char *text, size_t n_text, sx_diags *diags) {
  if (strcmp(what, "recompute") != 0) SX_BUG("nothing measures %s", what);
  measuring m = {.cuda = cuda, .diags = diags};
  double flops_a_byte = 0;
  if (!sx_cuda_enter(cuda)) return sx_cuda_report(cuda, diags);
  if (!sx_guard(&cuda->memory, compile, &m)) sx_memory_fail(diags->arena->memory);
  if (!m.compiled) return false;
  bool measured = ratio(&flops_a_byte, &m);
  sx_cuda_give(cuda, m.from);
  sx_cuda_give(cuda, m.to);
  if (measured) {
    snprintf(text, n_text, "%.2f", flops_a_byte);
    return true;
  }
  sx_cuda_report(cuda, diags);
  if (cuda->failure.memory) sx_cuda_forgive(cuda);
  return false;
}
