/* Standard pieces of work: memory is copied to memory and uploaded, a block of one multiprocessor multiplies and adds
 * in registers, kernels that do nothing are replayed, cuBLAS multiplies matrices. What is known of a piece in this
 * process is not timed again. */
#include "measure.h"

#include <stdio.h>
#include <string.h>

#include "../base/bug.h"
#include "../base/guard.h"
#include "../ir/infer.h"
#include "compile.h"

enum { RUNS = 3, PIECE_TEXT = 64 };

typedef enum piece {
  COPY,
  UPLOAD,
  ARITHMETIC,
  LAUNCHES,
  SEQUENCE,
  PRODUCT, /* and the sx_dtype: f32, bf16, f16 */
  N_PIECES = PRODUCT + 3
} piece;
_Static_assert((int)N_PIECES == (int)SX_CUDA_PIECES, "a time a piece");

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
    "}\n"
    "extern \"C\" __global__ void measure_nothing() {}\n";

enum { ARITHMETIC_KERNEL, NOTHING_KERNEL, N_KERNELS };
static const char *const NAMES[N_KERNELS] = {"measure_arithmetic", "measure_nothing"};

typedef struct measuring {
  sx_cuda *cuda;
  CUdeviceptr from, to; /* SX_PIECE_COPY_BYTES each */
  void *host;           /* SX_PIECE_UPLOAD_BYTES */
  int trips;            /* of the arithmetic */
  sx_dtype dtype;       /* of the product */
  CUgraphExec sequence;
  sx_diags *diags;
  bool compiled;
} measuring;

/* ---- the work of each piece ---- */

static void launch(measuring *m, int kernel, unsigned threads, void **arguments) {
  sx_cuda_check(m->cuda,
                m->cuda->api.cuLaunchKernel(sx_kernels_find(m->cuda, NAMES[kernel]), 1, 1, 1, threads, 1, 1, 0,
                                            m->cuda->stream, arguments, NULL),
                "cuLaunchKernel");
}

static void compute(measuring *m) {
  float a = 0.999f, b = 0.001f;
  launch(m, ARITHMETIC_KERNEL, SX_PIECE_THREADS, (void *[]){&m->to, &a, &b, &m->trips});
}

static void copy(measuring *m) {
  sx_cuda_check(m->cuda, m->cuda->api.cuMemcpyDtoDAsync(m->to, m->from, SX_PIECE_COPY_BYTES, m->cuda->stream),
                "cuMemcpyDtoDAsync");
}

static void upload(measuring *m) {
  sx_cuda_check(m->cuda, m->cuda->api.cuMemcpyHtoDAsync(m->to, m->host, SX_PIECE_UPLOAD_BYTES, m->cuda->stream),
                "cuMemcpyHtoDAsync");
}

static void replay(measuring *m) {
  sx_cuda_check(m->cuda, m->cuda->api.cuGraphLaunch(m->sequence, m->cuda->stream), "cuGraphLaunch");
}

static size_t matrix_bytes(sx_dtype dtype) {
  return (size_t)SX_PIECE_PRODUCT * SX_PIECE_PRODUCT * sx_dtype_bytes(dtype);
}

static void multiply(measuring *m) {
  const int n = SX_PIECE_PRODUCT;
  const sx_gemm_call call = {.m = n, .n = n, .k = n, .a_leading = n, .b_leading = n, .c_leading = n, .batch = 1};
  const char *a = (const char *)(uintptr_t)m->from;
  sx_gemm_run(m->cuda, &call, m->dtype, m->dtype, a, a + matrix_bytes(m->dtype), (char *)(uintptr_t)m->to);
}

/* ---- timing it ---- */

/* The least of some runs after one that is not counted; what it takes is no run's time. */
static int64_t time_ns(measuring *m, void (*work)(measuring *)) {
  int64_t least = INT64_MAX, before = m->cuda->timed_ns;
  for (int i = 0; i <= RUNS && !m->cuda->failure.failed; i++) {
    m->cuda->timed_ns = 0;
    sx_cuda_time_begin(m->cuda);
    if (!m->cuda->failure.failed) work(m);
    sx_cuda_time_end(m->cuda);
    if (i && m->cuda->timed_ns < least) least = m->cuda->timed_ns;
  }
  m->cuda->timed_ns = before;
  return least;
}

/* A launch of the same kernel that computes nothing is taken off. */
static int64_t time_arithmetic(measuring *m) {
  m->trips = 0;
  int64_t launched = time_ns(m, compute);
  m->trips = SX_PIECE_TRIPS;
  return time_ns(m, compute) - launched;
}

static bool capture(measuring *m, int n_launches) {
  sx_cuda *cuda = m->cuda;
  CUgraph graph = NULL;
  if (!sx_cuda_check(cuda, cuda->api.cuStreamBeginCapture(cuda->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     "cuStreamBeginCapture"))
    return false;
  for (int i = 0; i < n_launches && !cuda->failure.failed; i++) launch(m, NOTHING_KERNEL, 1, NULL);
  CUresult result = cuda->api.cuStreamEndCapture(cuda->stream, &graph);
  if (!cuda->failure.failed) sx_cuda_check(cuda, result, "cuStreamEndCapture");
  if (!cuda->failure.failed)
    sx_cuda_check(cuda, cuda->api.cuGraphInstantiate(&m->sequence, graph, 0), "cuGraphInstantiate");
  if (graph) cuda->api.cuGraphDestroy(graph);
  return !cuda->failure.failed;
}

static int64_t time_sequence(measuring *m, int n_launches) {
  m->sequence = NULL;
  int64_t ns = capture(m, n_launches) ? time_ns(m, replay) : 0;
  if (m->sequence) m->cuda->api.cuGraphExecDestroy(m->sequence);
  return ns;
}

static int64_t time_product(measuring *m, sx_dtype dtype) {
  m->dtype = dtype;
  sx_cuda_check(m->cuda, m->cuda->api.cuMemsetD8Async(m->from, 0, 2 * matrix_bytes(dtype), m->cuda->stream),
                "cuMemsetD8Async");
  return time_ns(m, multiply);
}

static int64_t time_piece(measuring *m, piece p) {
  switch (p) {
    case COPY:
      return time_ns(m, copy);
    case UPLOAD:
      return time_ns(m, upload);
    case ARITHMETIC:
      return time_arithmetic(m);
    case LAUNCHES:
      return time_sequence(m, SX_PIECE_LAUNCHES + 1) - time_sequence(m, 1);
    case SEQUENCE:
      return time_sequence(m, 1);
    default:
      return time_product(m, (sx_dtype)(p - PRODUCT));
  }
}

/* ---- what timing takes ---- */

static void compile(void *context) {
  measuring *m = context;
  m->compiled = sx_kernels_find(m->cuda, NAMES[0]) || sx_kernels_add_text(m->cuda, TEXT, NAMES, N_KERNELS, m->diags);
}

/* What is there already is kept: pieces are timed one after the other. False: see close. */
static bool open(measuring *m) {
  if (!sx_cuda_enter(m->cuda)) return false;
  if (!m->compiled && !sx_guard(&m->cuda->memory, compile, m)) return false;
  if (!m->compiled) return false;
  if (!m->from) m->from = sx_cuda_take(m->cuda, SX_PIECE_COPY_BYTES);
  if (!m->to && m->from) m->to = sx_cuda_take(m->cuda, SX_PIECE_COPY_BYTES);
  if (!m->host && m->to) m->host = sx_cuda_take_host(m->cuda, SX_PIECE_UPLOAD_BYTES);
  return m->host != NULL;
}

/* The failure, if there is one, is added to the diagnostics; one for want of memory is no failure of the device. */
static void close(measuring *m) {
  sx_cuda_give(m->cuda, m->from);
  sx_cuda_give(m->cuda, m->to);
  sx_cuda_give_host(m->cuda, m->host);
  sx_cuda_report(m->cuda, m->diags);
  if (m->cuda->failure.memory) sx_cuda_forgive(m->cuda);
}

/* 0: a failure, or the device's events tell no time. */
static int64_t find_ns(measuring *m, piece p) {
  int64_t *known = &m->cuda->piece_ns[p];
  if (*known || !open(m)) return *known;
  int64_t ns = time_piece(m, p);
  if (!m->cuda->failure.failed && ns > 0) *known = ns;
  return *known;
}

/* ---- rates ---- */

static double block_flops(void) { return 2.0 * SX_PIECE_CHAINS * SX_PIECE_TRIPS * SX_PIECE_THREADS; }

bool sx_cuda_measure(sx_cuda *cuda, const char *what, char *text, size_t n_text, sx_diags *diags) {
  if (strcmp(what, "recompute") != 0) SX_BUG("nothing measures %s", what);
  measuring m = {.cuda = cuda, .diags = diags};
  int64_t copied = find_ns(&m, COPY), computed = copied ? find_ns(&m, ARITHMETIC) : 0;
  if (!computed && m.host && !cuda->failure.failed)
    sx_cuda_fail(cuda, SX_E_DEVICE_CALL, "the device's events tell no time of what was measured");
  close(&m);
  if (!computed) return false;
  double flops = block_flops() * (double)cuda->multiprocessors / (double)computed;
  snprintf(text, n_text, "%.2f", flops / (2.0 * SX_PIECE_COPY_BYTES / (double)copied));
  return true;
}

typedef struct asking {
  measuring m;
  const sexp_chooser *chooser;
  piece piece;
} asking;

static sexp_ran measure(void *work, int64_t *measured_ns) {
  asking *a = work;
  *measured_ns = find_ns(&a->m, a->piece);
  return *measured_ns ? SEXP_RAN : a->m.cuda->failure.memory ? SEXP_RAN_OUT_OF_MEMORY : SEXP_RAN_REFUSED;
}

static void write_key(char text[PIECE_TEXT], piece p) {
  const int n = SX_PIECE_PRODUCT;
  if (p == COPY) snprintf(text, PIECE_TEXT, "copy %d bytes", SX_PIECE_COPY_BYTES);
  if (p == UPLOAD) snprintf(text, PIECE_TEXT, "upload %d bytes", SX_PIECE_UPLOAD_BYTES);
  if (p == ARITHMETIC) snprintf(text, PIECE_TEXT, "%.0f f32 operations in a block", block_flops());
  if (p == LAUNCHES) snprintf(text, PIECE_TEXT, "%d launches in a sequence", SX_PIECE_LAUNCHES);
  if (p == SEQUENCE) snprintf(text, PIECE_TEXT, "a sequence of a launch");
  if (p >= PRODUCT)
    snprintf(text, PIECE_TEXT, "product %d x %d x %d %s", n, n, n, sx_dtype_name((sx_dtype)(p - PRODUCT)));
}

/* Nanoseconds, above 0; else the model is not to be used. */
static double ask(asking *a, piece p) {
  char key[PIECE_TEXT];
  write_key(key, p);
  a->piece = p;
  return (double)a->chooser->cost(a->chooser->context, key, measure, a);
}

static bool ask_products(asking *a, sx_cost_rates *rates, unsigned dtypes) {
  const double n = SX_PIECE_PRODUCT;
  for (int dtype = SX_F32; dtype <= SX_F16; dtype++) {
    if (!(dtypes & 1u << dtype)) continue;
    double ns = a->m.cuda->cublas ? ask(a, (piece)(PRODUCT + dtype)) : -1;
    if (ns <= 0) return false;
    rates->product_ns[dtype] = 2 * n * n * n / ns;
  }
  return true;
}

static bool ask_all(asking *a, sx_cost_rates *rates, unsigned dtypes) {
  double ns[PRODUCT];
  for (int p = COPY; p < PRODUCT; p++)
    if ((ns[p] = ask(a, (piece)p)) <= 0) return false;
  *rates = (sx_cost_rates){.bytes_ns = 2.0 * SX_PIECE_COPY_BYTES / ns[COPY],
                           .upload_ns = (double)SX_PIECE_UPLOAD_BYTES / ns[UPLOAD],
                           .element_ns = block_flops() * (double)a->m.cuda->multiprocessors / ns[ARITHMETIC],
                           .launch_ns = ns[LAUNCHES] / SX_PIECE_LAUNCHES};
  rates->sequence_ns = ns[SEQUENCE] > rates->launch_ns ? ns[SEQUENCE] - rates->launch_ns : 0;
  return ask_products(a, rates, dtypes);
}

bool sx_cuda_rates(sx_cuda *cuda, sx_cost_rates *rates, unsigned dtypes, const sexp_chooser *chooser, sx_diags *diags) {
  asking a = {.m = {.cuda = cuda, .diags = diags}, .chooser = chooser};
  bool rated = ask_all(&a, rates, dtypes);
  close(&a.m);
  return rated;
}
