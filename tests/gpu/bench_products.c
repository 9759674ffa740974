/* What multiplies: products beside a plain call of cuBLAS of the same shape, with the workspace and the arithmetic that
 * the device's handle has; the same by the project's own kernels; convolutions by each engine. */
#include "bench_parts.h"

#ifdef SX_CUDA
#include <stdio.h>
#include <string.h>

#include "../../libsexp/cuda/convolve.h"

/* C [m n] = A [m k] B [k n], or A [k m] transposed, so many of them. */
typedef struct shape {
  sx_dtype dtype;
  int64_t batch, m, n, k;
  bool a_transposed;
} shape;

static const shape SHAPES[] = {
    {SX_F32, 1, 4096, 4096, 4096, false},  {SX_F32, 1, 8192, 1024, 4096, false}, {SX_F32, 1, 768, 768, 65536, true},
    {SX_F32, 64, 1024, 1024, 64, false},   {SX_F32, 1, 512, 512, 512, false},    {SX_BF16, 1, 4096, 4096, 4096, false},
    {SX_BF16, 1, 8192, 1024, 4096, false}, {SX_BF16, 1, 768, 768, 65536, true},  {SX_BF16, 64, 1024, 1024, 64, false},
};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };

static shape shape_of(const bench *b, int i) {
  shape s = SHAPES[i];
  if (!b->shortened) return s;
  s.batch = s.batch > 1 ? 2 : 1;
  s.m = s.n = 64;
  s.k = s.k > 4096 ? 4096 : 64;
  return s;
}

static double flops_of(const shape *s) { return 2.0 * (double)s->batch * (double)s->m * (double)s->n * (double)s->k; }

static const char *text_of(const shape *s, sx_arena *arena) {
  const char *d = s->dtype == SX_F32 ? "f32" : "bf16";
  long long batch = s->batch, m = s->m, n = s->n, k = s->k;
  return sx_format(arena,
                   "graph \"g\"\n%%0 = input {name \"field/a\"} : %s [%lld %lld %lld]\n"
                   "%%1 = input {name \"field/b\"} : %s [%lld %lld %lld]\n"
                   "%%2 = einsum %%0 %%1 {labels \"%s,xkn->xmn\"} : %s [%lld %lld %lld]\noutput \"y\" %%2\n",
                   d, batch, s->a_transposed ? k : m, s->a_transposed ? m : k, d, batch, k, n,
                   s->a_transposed ? "xkm" : "xmk", d, batch, m, n);
}

static void print_shape(char text[120], const shape *s) {
  snprintf(text, 120, "%lld of %lld x %lld x %lld %s %s", (long long)s->batch, (long long)s->m, (long long)s->n,
           (long long)s->k, s->a_transposed ? "t" : "n", s->dtype == SX_F32 ? "f32" : "bf16");
}

/* ---- cuBLAS alone -------------------------------------------------------------------------------- */

typedef struct plain {
  sx_cuda *cuda;
  const shape *shape;
  void *a, *b, *c;
} plain;

/* Row-major C = A B is column-major C' = B' A'. */
static bool call_plain(void *context) {
  const plain *p = context;
  const shape *s = p->shape;
  const float one = 1, zero = 0;
  cudaDataType_t type = s->dtype == SX_F32 ? CUDA_R_32F : CUDA_R_16BF;
  cublasComputeType_t sums = s->dtype == SX_F32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
  cublasOperation_t of_a = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  return sx_cuda_check_cublas(p->cuda,
                              p->cuda->api.cublasGemmStridedBatchedEx(
                                  p->cuda->cublas, CUBLAS_OP_N, of_a, (int)s->n, (int)s->m, (int)s->k, &one, p->b, type,
                                  (int)s->n, s->n * s->k, p->a, type, (int)(s->a_transposed ? s->m : s->k), s->m * s->k,
                                  &zero, p->c, type, (int)s->n, s->m * s->n, (int)s->batch, sums, CUBLAS_GEMM_DEFAULT),
                              "cublasGemmStridedBatchedEx");
}

/* ---- products ------------------------------------------------------------------------------------ */

static void print_product(bench *b, const shape *s, bench_work *w) {
  char name[120];
  print_shape(name, s);
  double ns = bench_work_time(w), tera = flops_of(s) * 1e-3;
  if (ns <= 0) {
    bench_failed(b, name, b->gpu->why);
    return;
  }
  printf("| %s | %.1f | %.2f |", name, ns * 1e-3, tera / ns);
  if (!b->gpu->cuda->portable) {
    const sx_plan *plan = w->plan.plan;
    plain p = {b->gpu->cuda, s, w->plan.device[plan->views[0].buffer], w->plan.device[plan->views[1].buffer],
               w->plan.device[plan->views[2].buffer]};
    double alone = bench_time(b, call_plain, &p);
    if (alone > 0) printf(" %.2f | %.2f |", tera / alone, alone / ns);
  }
  puts("");
  fflush(stdout);
}

void bench_products(bench *b) {
  bool portable = b->gpu->cuda->portable;
  printf("| product | microseconds | TFLOP/s |%s\n| --- | --- | --- |%s\n",
         portable ? "" : " cuBLAS alone | of cuBLAS |", portable ? "" : " --- | --- |");
  for (int i = 0; i < N_SHAPES && !bench_is_over(b); i++) {
    sx_memory memory = sx_memory_default();
    sx_arena arena;
    bench_work w;
    shape s = shape_of(b, i);
    sx_arena_init(&arena, &memory);
    if (bench_work_make(&w, b, text_of(&s, &arena), (bench_size[]){{NULL, 0, 0}}, NULL))
      print_product(b, &s, &w);
    else
      bench_failed(b, "product", b->gpu->why);
    bench_work_free(&w);
    sx_arena_free(&arena);
  }
}

/* ---- convolutions -------------------------------------------------------------------------------- */

typedef struct taking_one {
  size_t wanted, n;
  char value[120], key[240];
} taking_one;

static const char *take(void *context, const sexp_choice *choice, sx_diags *diags) {
  taking_one *t = context;
  (void)diags;
  t->n = choice->n_values;
  const char *value = choice->values[t->wanted < t->n ? t->wanted : 0];
  snprintf(t->value, sizeof t->value, "%s", value);
  snprintf(t->key, sizeof t->key, "%s", choice->key);
  return value;
}

typedef struct layer {
  int64_t n, size, channels, out, kernel, stride;
  sx_dtype dtype;
} layer;

static const layer LAYERS[] = {{256, 32, 64, 128, 3, 1, SX_F32},
                               {256, 16, 256, 256, 3, 1, SX_F32},
                               {256, 32, 64, 128, 3, 1, SX_BF16},
                               {256, 16, 256, 256, 3, 1, SX_BF16}};
enum { N_LAYERS = sizeof LAYERS / sizeof *LAYERS };

static const char *convolution_text(const layer *l, int role, sx_arena *arena) {
  static const char *const ops[] = {"conv2d", "conv2d-data", "conv2d-weight"};
  const char *d = l->dtype == SX_F32 ? "f32" : "bf16";
  long long padding = l->kernel / 2, stride = l->stride, size = l->size, kernel = l->kernel;
  long long out_size = (size + 2 * padding - kernel) / stride + 1;
  const char *x = sx_format(arena, "[%lld %lld %lld %lld]", (long long)l->n, size, size, (long long)l->channels);
  const char *w = sx_format(arena, "[%lld %lld %lld %lld]", (long long)l->out, kernel, kernel, (long long)l->channels);
  const char *y = sx_format(arena, "[%lld %lld %lld %lld]", (long long)l->n, out_size, out_size, (long long)l->out);
  const char *const first[] = {x, y, y}, *const second[] = {w, w, x}, *const result[] = {y, x, w};
  const char *more = role == 0   ? ""
                     : role == 1 ? sx_format(arena, ",height %lld,width %lld", size, size)
                                 : sx_format(arena, ",height %lld,width %lld", kernel, kernel);
  return sx_format(arena,
                   "graph \"g\"\n%%0 = input {name \"field/a\"} : %s %s\n%%1 = input {name \"field/b\"} : %s %s\n"
                   "%%2 = %s %%0 %%1 {stride %lld,padding %lld%s} : %s %s\noutput \"y\" %%2\n",
                   d, first[role], d, second[role], ops[role], stride, padding, more, d, result[role]);
}

/* One engine; gives how many there are. */
static size_t bench_engine(bench *b, const layer *l, int role, size_t wanted) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  bench_work w;
  taking_one taken = {.wanted = wanted, .value = "the project's kernel"};
  sx_deciding deciding = {take, &taken};
  sx_arena_init(&arena, &memory);
  double out = (double)(l->size / l->stride),
         flops = 2.0 * (double)l->n * out * out * (double)l->out * (double)(l->channels * l->kernel * l->kernel);
  double ns = 0;
  if (bench_work_make(&w, b, convolution_text(l, role, &arena), (bench_size[]){{NULL, 0, 0}}, &deciding))
    ns = bench_work_time(&w);
  if (ns > 0)
    printf("| %s | %s | %.1f | %.2f |\n", taken.key, taken.value, ns * 1e-3, flops * 1e-3 / ns);
  else
    bench_failed(b, taken.value, b->gpu->why);
  fflush(stdout);
  bench_work_free(&w);
  sx_arena_free(&arena);
  return taken.n;
}

void bench_convolutions(bench *b) {
  puts("| convolution | by | microseconds | TFLOP/s |\n| --- | --- | --- | --- |");
  for (int i = 0; i < N_LAYERS; i++)
    for (int role = 0; role < 3; role++) {
      layer l = LAYERS[i];
      if (b->shortened) l = (layer){2, 8, 8, 8, 3, 1, l.dtype};
      if (b->shortened && i % 2) continue;
      for (size_t k = 0, n = 1; k < n && !bench_is_over(b); k++) {
        n = bench_engine(b, &l, role, k);
        if (b->shortened) break;
      }
    }
}
#else
typedef int test_gpu_bench_products_is_empty;
#endif
