/* Convolutions: forward, data gradient and weight gradient of the layers of a small image classifier, ours and
 * oneDNN's (in the formats it likes best, without reordering) where it is installed, and the machine's fma
 * peak, measured in turn with rests: medians and best samples of GFLOP/s, padding counted as work.
 *
 *   bench_conv [--threads N] [--rounds N] [--batch N] [--simd LEVEL] [--clock wall|processor] [CASE...]
 *
 * A CASE selects the names that start with it. A sample is one convolution, of 20 ms where the batch is 64: longer than
 * a busy machine leaves a program alone, so that there the processor's time of one thread says more. */
#define _DEFAULT_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../../libsexp/cpu/operand.h"
#include "fma_peak.h"
#include "options.h"
#include "timing.h"

typedef enum kind { FORWARD, DATA, WEIGHT } kind;

typedef struct layer {
  const char *name;
  kind kind;
  int64_t image, channels, out, kernel, stride, padding;
} layer;

#define LAYER(name, ...) \
  {name "_fwd", FORWARD, __VA_ARGS__}, {name "_dX", DATA, __VA_ARGS__}, { name "_dW", WEIGHT, __VA_ARGS__ }
static const layer layers[] = {
    LAYER("conv0", 32, 3, 64, 3, 1, 1),   LAYER("conv1", 32, 64, 128, 3, 2, 1), LAYER("conv2", 16, 128, 256, 3, 2, 1),
    LAYER("same", 16, 128, 128, 3, 1, 1), LAYER("point", 16, 256, 64, 1, 1, 0),
};
enum { N_LAYERS = sizeof layers / sizeof *layers, MOST_ROUNDS = 1001 };

/* Large ones in huge pages, as an executable's. */
static float *new_array(int64_t n, uint64_t seed) {
  enum { HUGE_PAGE = 1 << 21 };
  float *array = NULL;
  if (posix_memalign((void **)&array, HUGE_PAGE, (size_t)n * 4)) abort();
  if (n * 4 >= HUGE_PAGE) madvise(array, (size_t)n * 4, MADV_HUGEPAGE);
  for (int64_t k = 0; k < n; k++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    array[k] = (float)(int32_t)(seed >> 40) * 0x1p-23f - 1.0f;
  }
  return array;
}

/* Arrays of the forward pass, or their gradients. */
typedef struct problem {
  const layer *layer;
  int64_t x_dims[4], w_dims[4], y_dims[4];
  float *x, *w, *y;
  sx_pool *pool;
  void *scratch;
  int n_threads;
  sx_simd simd;
} problem;

/* ---- ours ------------------------------------------------------------------------------- */

static void strides_of(const int64_t dims[4], int64_t strides[4]) {
  strides[3] = 1;
  for (int axis = 2; axis >= 0; axis--) strides[axis] = strides[axis + 1] * dims[axis + 1];
}

static const sx_op ops[] = {SX_OP_CONV, SX_OP_CONVDATA, SX_OP_CONVWEIGHT};

static void with_call(const problem *p, void (*use)(const problem *p, sx_call *call, void *result), void *result) {
  int64_t strides[3][4], ints[2] = {p->layer->stride, p->layer->padding};
  const int64_t *dims[3] = {p->x_dims, p->w_dims, p->y_dims};
  float *data[3] = {p->x, p->w, p->y};
  static const int which[][3] = {{2, 0, 1}, {0, 2, 1}, {1, 2, 0}}; /* result, inputs */
  sx_operand operands[3];
  for (int k = 0; k < 3; k++) {
    int array = which[p->layer->kind][k];
    strides_of(dims[array], strides[k]);
    operands[k] = (sx_operand){data[array], SX_F32, 4, dims[array], strides[k]};
  }
  sx_id ids[2] = {1, 2};
  sx_node nodes[3] = {{.op = ops[p->layer->kind], .rank = 4, .inputs = ids, .n_inputs = 2, .ints = ints, .n_ints = 2}};
  for (int k = 0; k < 3; k++) nodes[k].dims = (int64_t *)(uintptr_t)operands[k].dims;
  for (int k = 0; k < 3; k++) nodes[k].rank = 4;
  sx_call call = {.node = nodes, .out = operands[0], .inputs = operands + 1, .n_inputs = 2};
  call.scratch = p->scratch;
  call.pool = p->pool;
  use(p, &call, result);
}

static void run_call(const problem *p, sx_call *call, void *result) {
  (void)result;
  sx_kernels(p->simd)->fast[call->node->op](call);
}

static void count_scratch(const problem *p, sx_call *call, void *result) {
  sx_graph graph = {.nodes = {.items = (sx_node *)(uintptr_t)call->node, .n = 3}};
  *(int64_t *)result = sx_kernel_scratch(sx_kernels(p->simd), &graph, 0, p->n_threads);
}

/* ---- oneDNN 2, by the numbers of its C interface -------------------------------------------- */

enum {
  DNNL_CPU = 1,
  DNNL_F32 = 3,
  DNNL_ANY = 1,
  DNNL_FORWARD_TRAINING = 64,
  DNNL_DIRECT = 1, /* not by Winograd's transform, which rounds otherwise */
  DNNL_IN_ORDER = 1,
  DNNL_QUERY_SRC = 129,
  DNNL_QUERY_WEIGHTS = 131,
  DNNL_QUERY_DST = 133, /* the gradients' are the next */
  DNNL_SRC = 1,
  DNNL_DST = 17,
  DNNL_WEIGHTS = 33,
  DNNL_GRADIENT = 128 /* of an argument */
};
typedef union dnnl_description {
  char bytes[16384]; /* larger than any of version 2 */
  int64_t align;
} dnnl_description;
typedef struct dnnl_argument {
  int number;
  void *memory;
} dnnl_argument;

typedef int describe_memory(void *memory, int n_dims, const int64_t *dims, int type, int format);
typedef int describe_forward(void *convolution, int pass, int algorithm, const void *x, const void *w, const void *bias,
                             const void *y, const int64_t *strides, const int64_t *before, const int64_t *after);
typedef int describe_data(void *convolution, int algorithm, const void *dx, const void *w, const void *dy,
                          const int64_t *strides, const int64_t *before, const int64_t *after);
typedef int describe_weight(void *convolution, int algorithm, const void *x, const void *dw, const void *bias,
                            const void *dy, const int64_t *strides, const int64_t *before, const int64_t *after);
typedef int choose_primitive(void **chosen, const void *description, const void *attributes, void *engine,
                             const void *forward);
typedef const void *query_memory(const void *chosen, int what, int index);
typedef size_t size_of_memory(const void *description);
typedef int create_memory(void **memory, const void *description, void *engine, void *data);
typedef int create_primitive(void **primitive, const void *chosen);
typedef int create_engine(void **engine, int kind, size_t index);
typedef int create_stream(void **stream, void *engine, unsigned flags);
typedef int execute_primitive(const void *primitive, void *stream, int n, const dnnl_argument *arguments);
typedef int wait_stream(void *stream);

static struct dnnl {
  describe_memory *describe_memory;
  describe_forward *describe_forward;
  describe_data *describe_data;
  describe_weight *describe_weight;
  choose_primitive *choose;
  query_memory *query;
  size_of_memory *size;
  create_memory *create_memory;
  create_primitive *create;
  create_engine *create_engine;
  create_stream *create_stream;
  execute_primitive *execute;
  wait_stream *wait;
  void *engine, *stream;
} dnnl;
static bool has_dnnl;

static void open_dnnl(int n_threads) {
  static const struct {
    const char *name;
    void *to;
  } symbols[] = {{"dnnl_memory_desc_init_by_tag", &dnnl.describe_memory},
                 {"dnnl_convolution_forward_desc_init", &dnnl.describe_forward},
                 {"dnnl_convolution_backward_data_desc_init", &dnnl.describe_data},
                 {"dnnl_convolution_backward_weights_desc_init", &dnnl.describe_weight},
                 {"dnnl_primitive_desc_create", &dnnl.choose},
                 {"dnnl_primitive_desc_query_md", &dnnl.query},
                 {"dnnl_memory_desc_get_size", &dnnl.size},
                 {"dnnl_memory_create", &dnnl.create_memory},
                 {"dnnl_primitive_create", &dnnl.create},
                 {"dnnl_engine_create", &dnnl.create_engine},
                 {"dnnl_stream_create", &dnnl.create_stream},
                 {"dnnl_primitive_execute", &dnnl.execute},
                 {"dnnl_stream_wait", &dnnl.wait}};
  void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  for (size_t k = 0; k < sizeof symbols / sizeof *symbols; k++) {
    void *symbol = dlsym(library, symbols[k].name);
    if (!symbol) return;
    memcpy(symbols[k].to, &symbol, sizeof symbol);
  }
  void *set = dlsym(library, "omp_set_num_threads");
  void (*set_threads)(int) = NULL;
  memcpy(&set_threads, &set, sizeof set);
  if (set_threads) set_threads(n_threads);
  has_dnnl = dnnl.create_engine(&dnnl.engine, DNNL_CPU, 0) == 0 &&
             dnnl.create_stream(&dnnl.stream, dnnl.engine, DNNL_IN_ORDER) == 0;
}

typedef struct dnnl_convolution {
  void *primitive; /* NULL: oneDNN refused it */
  dnnl_argument arguments[3];
  float *data[3];
} dnnl_convolution;

static void *choose_dnnl(const problem *p, bool forward, const void *hint) {
  const layer *l = p->layer;
  int64_t x[4] = {p->x_dims[0], l->channels, l->image, l->image}, w[4] = {l->out, l->channels, l->kernel, l->kernel};
  int64_t y[4] = {p->y_dims[0], l->out, p->y_dims[1], p->y_dims[2]};
  int64_t strides[2] = {l->stride, l->stride}, before[2] = {l->padding, l->padding}, after[2];
  for (int k = 0; k < 2; k++) after[k] = (y[2] - 1) * l->stride + l->kernel - l->image - l->padding;
  static dnnl_description xd, wd, yd, description;
  void *chosen = NULL;
  if (dnnl.describe_memory(&xd, 4, x, DNNL_F32, DNNL_ANY) || dnnl.describe_memory(&wd, 4, w, DNNL_F32, DNNL_ANY) ||
      dnnl.describe_memory(&yd, 4, y, DNNL_F32, DNNL_ANY))
    return NULL;
  int failed = forward ? dnnl.describe_forward(&description, DNNL_FORWARD_TRAINING, DNNL_DIRECT, &xd, &wd, NULL, &yd,
                                               strides, before, after)
               : l->kind == DATA
                   ? dnnl.describe_data(&description, DNNL_DIRECT, &xd, &wd, &yd, strides, before, after)
                   : dnnl.describe_weight(&description, DNNL_DIRECT, &xd, &wd, NULL, &yd, strides, before, after);
  if (failed || dnnl.choose(&chosen, &description, NULL, dnnl.engine, hint)) return NULL;
  return chosen;
}

static dnnl_convolution new_dnnl(const problem *p) {
  dnnl_convolution c = {0};
  void *chosen = choose_dnnl(p, true, NULL);
  if (chosen && p->layer->kind != FORWARD) chosen = choose_dnnl(p, false, chosen);
  if (!chosen || dnnl.create(&c.primitive, chosen)) return c;
  static const struct {
    int argument, query;
    kind gradient_in; /* besides WEIGHT's and DATA's dst */
  } arrays[] = {{DNNL_SRC, DNNL_QUERY_SRC, DATA},
                {DNNL_WEIGHTS, DNNL_QUERY_WEIGHTS, WEIGHT},
                {DNNL_DST, DNNL_QUERY_DST, FORWARD}};
  for (int k = 0; k < 3; k++) {
    bool gradient = p->layer->kind != FORWARD && (k == 2 || arrays[k].gradient_in == p->layer->kind);
    const void *memory = dnnl.query(chosen, arrays[k].query + gradient, 0);
    c.arguments[k].number = arrays[k].argument + gradient * DNNL_GRADIENT;
    c.data[k] = new_array((int64_t)(dnnl.size(memory) + 3) / 4, (uint64_t)k); /* a format may pad channels */
    if (dnnl.create_memory(&c.arguments[k].memory, memory, dnnl.engine, c.data[k])) c.primitive = NULL;
  }
  return c;
}

/* ---- measuring ------------------------------------------------------------------------------ */

enum { OURS, DNNL, PEAK, N_IMPLEMENTATIONS };

static void run_peak_part(void *context, int64_t begin, int64_t end, int thread) {
  double flops = fma_flops(50000);
  if (thread == 0) *(double *)context = flops;
  (void)begin, (void)end;
}

/* GFLOP/s of one sample; 0: not installed. */
static double sample(int implementation, const problem *p, const dnnl_convolution *other) {
  double flops = 2.0, start = now_ns();
  for (int axis = 0; axis < 4; axis++) flops *= (double)p->y_dims[axis];
  for (int axis = 1; axis < 4; axis++) flops *= (double)p->w_dims[axis];
  if (implementation == PEAK) {
    sx_pool_run(p->pool, p->n_threads, 1, run_peak_part, &flops);
    flops *= p->n_threads;
  } else if (implementation == OURS) {
    with_call(p, run_call, NULL);
  } else {
    if (!other->primitive || dnnl.execute(other->primitive, dnnl.stream, 3, other->arguments)) return 0.0;
    dnnl.wait(dnnl.stream);
  }
  return flops / (now_ns() - start);
}

static void measure(const problem *p, const dnnl_convolution *other, int rounds) {
  static double samples[N_IMPLEMENTATIONS][MOST_ROUNDS];
  for (int k = 0; k < N_IMPLEMENTATIONS; k++) sample(k, p, other);
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < N_IMPLEMENTATIONS; k++) {
      int turn = (k + round) % N_IMPLEMENTATIONS;
      samples[turn][round] = sample(turn, p, other);
      nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
  double median[N_IMPLEMENTATIONS], best[N_IMPLEMENTATIONS];
  for (int k = 0; k < N_IMPLEMENTATIONS; k++) {
    qsort(samples[k], (size_t)rounds, sizeof **samples, ascending);
    median[k] = samples[k][rounds / 2];
    best[k] = samples[k][rounds - 1];
  }
  printf("%-10s  %6.1f [%5.1f]  %6.1f [%5.1f]  %6.1f", p->layer->name, median[OURS], best[OURS], median[DNNL],
         best[DNNL], best[PEAK]);
  printf("  %5.2f", best[PEAK] > 0 ? best[OURS] / best[PEAK] : 0.0);
  if (best[DNNL] > 0) printf("  %5.2f [%4.2f]", median[OURS] / median[DNNL], best[OURS] / best[DNNL]);
  printf("\n");
  fflush(stdout);
}

static void bench(const layer *l, problem p, int64_t batch, int rounds) {
  int64_t size = (l->image + 2 * l->padding - l->kernel) / l->stride + 1, bytes = 0;
  p.layer = l;
  memcpy(p.x_dims, (int64_t[]){batch, l->image, l->image, l->channels}, sizeof p.x_dims);
  memcpy(p.w_dims, (int64_t[]){l->out, l->kernel, l->kernel, l->channels}, sizeof p.w_dims);
  memcpy(p.y_dims, (int64_t[]){batch, size, size, l->out}, sizeof p.y_dims);
  p.x = new_array(sx_count(p.x_dims, 4), 1);
  p.w = new_array(sx_count(p.w_dims, 4), 2);
  p.y = new_array(sx_count(p.y_dims, 4), 3);
  with_call(&p, count_scratch, &bytes);
  if (posix_memalign(&p.scratch, 64, (size_t)bytes)) abort();
  dnnl_convolution other = {0};
  if (has_dnnl) other = new_dnnl(&p);
  measure(&p, &other, rounds);
  free(p.x);
  free(p.w);
  free(p.y);
  free(p.scratch);
  for (int k = 0; k < 3; k++) free(other.data[k]);
}

int main(int argc, char **argv) {
  problem p = {.n_threads = option("--threads", 1, argc, argv), .simd = level(argc, argv)};
  int rounds = option("--rounds", 15, argc, argv), batch = option("--batch", 64, argc, argv);
  if (rounds < 1 || rounds > MOST_ROUNDS || p.n_threads < 1 || batch < 1) {
    fprintf(stderr, "bench_conv: --rounds is 1 to %d, --threads and --batch at least 1\n", MOST_ROUNDS);
    return 2;
  }
  for (int k = 1; k + 1 < argc; k++)
    if (strcmp(argv[k], "--clock") == 0 && strcmp(argv[k + 1], "processor") == 0) the_clock = CLOCK_PROCESS_CPUTIME_ID;
  open_dnnl(p.n_threads);
  p.pool = sx_pool_new(p.n_threads);
  printf("GFLOP/s, median [best] of %d; %s, %d thread(s), batch %d\n", rounds, sx_simd_name(p.simd), p.n_threads,
         batch);
  printf("%-10s  %14s  %14s  %6s  %5s  %12s\n", "case", "ours", "oneDNN", "peak", "/peak", "/oneDNN");
  for (int k = 0; k < N_LAYERS; k++)
    if (selected(layers[k].name, argc, argv)) bench(&layers[k], p, batch, rounds);
  sx_pool_free(p.pool);
  return 0;
}
