/* Element groups, broadcasts, reductions and copies larger than the cache, against the machine's bandwidth: bytes that
 * must be read and written over the time, beside copies of 64 MiB measured in the same rounds, a plain one and one that
 * writes past the cache. Short bursts taken in turn, each followed by as long a rest.
 *
 *   bench_elementwise [THREADS [NAME [ROUNDS]]]   a NAME selects the names that start with it
 *
 * A line: name; GB/s, median and best; the ratio of the best to the best plain and to the best streaming copy. The best
 * is what the kernel does; the median, what else runs on the machine too. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../../libsexp/cpu/executable.h"

enum { ROUNDS = 15, MOST_ROUNDS = 1000, COPY_BYTES = 64 << 20, CHUNK = 4096 };

typedef struct work {
  const char *name, *graph;
  sx_executable *executable;
  double bytes, samples[MOST_ROUNDS];
} work;

#define ROWS "16384 1024"
#define X "%0 = param {path \"x\"} : f32 [" ROWS "]\n"

static work works[] = {
    {.name = "add",
     .graph = X "%1 = param {path \"y\"} : f32 [" ROWS "]\n"
                "%2 = add %0 %1 : f32 [" ROWS "]\noutput \"z\" %2\n"},
    {.name = "chain-8",
     .graph = X "%1 = const {value 0.5} : f32 [" ROWS "]\n"
                "%2 = mul %0 %1 : f32 [" ROWS "]\n%3 = add %2 %0 : f32 [" ROWS "]\n"
                "%4 = max %3 %1 : f32 [" ROWS "]\n%5 = mul %4 %2 : f32 [" ROWS "]\n"
                "%6 = sub %5 %1 : f32 [" ROWS "]\n%7 = mul %6 %6 : f32 [" ROWS "]\n"
                "%8 = add %7 %3 : f32 [" ROWS "]\n%9 = neg %8 : f32 [" ROWS "]\noutput \"z\" %9\n"},
    {.name = "bias-relu",
     .graph = X "%1 = param {path \"b\"} : f32 [1024]\n%2 = broadcast %1 : f32 [" ROWS "]\n"
                "%3 = add %0 %2 : f32 [" ROWS "]\n%4 = const {value 0.0} : f32 [" ROWS "]\n"
                "%5 = max %3 %4 : f32 [" ROWS "]\noutput \"z\" %5\n"},
    {.name = "bias-short",
     .graph = "%0 = param {path \"x\"} : f32 [1677721 10]\n"
              "%1 = param {path \"b\"} : f32 [10]\n%2 = broadcast %1 : f32 [1677721 10]\n"
              "%3 = add %0 %2 : f32 [1677721 10]\noutput \"z\" %3\n"},
    {.name = "row-scale",
     .graph = X "%1 = param {path \"r\"} : f32 [16384 1]\n%2 = broadcast %1 : f32 [" ROWS "]\n"
                "%3 = mul %0 %2 : f32 [" ROWS "]\noutput \"z\" %3\n"},
    {.name = "row-scale-short",
     .graph = "%0 = param {path \"x\"} : f32 [524288 32]\n"
              "%1 = param {path \"r\"} : f32 [524288 1]\n"
              "%2 = broadcast %1 : f32 [524288 32]\n"
              "%3 = mul %0 %2 : f32 [524288 32]\noutput \"z\" %3\n"},
    {.name = "mask",
     .graph = X "%1 = param {path \"y\"} : f32 [" ROWS "]\n%2 = const {value 0.0} : f32 [" ROWS "]\n"
                "%3 = gt %1 %2 : bool [" ROWS "]\n%4 = where %3 %0 %2 : f32 [" ROWS "]\noutput \"z\" %4\n"},
    {.name = "adam",
     .graph = "%0 = param {path \"p\"} : f32 [4194304]\n%1 = input {name \"g\"} : f32 [4194304]\n"
              "%2 = state {path \"m\"} : f32 [4194304]\n%3 = state {path \"v\"} : f32 [4194304]\n"
              "%4 = const {value 0.9} : f32 [4194304]\n%5 = const {value 0.1} : f32 [4194304]\n"
              "%6 = const {value 0.999} : f32 [4194304]\n%7 = const {value 0.001} : f32 [4194304]\n"
              "%8 = mul %2 %4 : f32 [4194304]\n%9 = mul %1 %5 : f32 [4194304]\n"
              "%10 = add %8 %9 : f32 [4194304]\n%11 = mul %3 %6 : f32 [4194304]\n"
              "%12 = mul %1 %1 : f32 [4194304]\n%13 = mul %12 %7 : f32 [4194304]\n"
              "%14 = add %11 %13 : f32 [4194304]\n%15 = sqrt %14 : f32 [4194304]\n"
              "%16 = add %15 %7 : f32 [4194304]\n%17 = div %10 %16 : f32 [4194304]\n"
              "%18 = mul %17 %7 : f32 [4194304]\n%19 = sub %0 %18 : f32 [4194304]\n"
              "output \"p\" %19\noutput \"m\" %10\noutput \"v\" %14\n"},
    {.name = "adam-corrected", /* with the division of both moments, as a step has it */
     .graph = "%0 = param {path \"p\"} : f32 [4194304]\n%1 = input {name \"g\"} : f32 [4194304]\n"
              "%2 = state {path \"m\"} : f32 [4194304]\n%3 = state {path \"v\"} : f32 [4194304]\n"
              "%4 = const {value 0.9} : f32 [4194304]\n%5 = const {value 0.1} : f32 [4194304]\n"
              "%6 = const {value 0.999} : f32 [4194304]\n%7 = const {value 0.001} : f32 [4194304]\n"
              "%8 = mul %2 %4 : f32 [4194304]\n%9 = mul %1 %5 : f32 [4194304]\n"
              "%10 = add %8 %9 : f32 [4194304]\n%11 = mul %1 %1 : f32 [4194304]\n"
              "%12 = mul %3 %6 : f32 [4194304]\n%13 = mul %11 %7 : f32 [4194304]\n"
              "%14 = add %12 %13 : f32 [4194304]\n%15 = div %10 %5 : f32 [4194304]\n"
              "%16 = div %14 %7 : f32 [4194304]\n%17 = sqrt %16 : f32 [4194304]\n"
              "%18 = add %17 %7 : f32 [4194304]\n%19 = div %15 %18 : f32 [4194304]\n"
              "%20 = mul %7 %19 : f32 [4194304]\n%21 = sub %0 %20 : f32 [4194304]\n"
              "output \"p\" %21\noutput \"m\" %10\noutput \"v\" %14\n"},
    {.name = "mixed", /* bf16 to f32 and back */
     .graph = "%0 = param {path \"x\"} : bf16 [16777216]\n%1 = param {path \"y\"} : bf16 [16777216]\n"
              "%2 = cast %0 : f32 [16777216]\n%3 = cast %1 : f32 [16777216]\n%4 = mul %2 %3 : f32 [16777216]\n"
              "%5 = add %4 %2 : f32 [16777216]\n%6 = cast %5 : bf16 [16777216]\noutput \"z\" %6\n"},
    {.name = "tanh", .graph = X "%1 = tanh %0 : f32 [" ROWS "]\noutput \"z\" %1\n"},
    {.name = "sum", .graph = X "%1 = sum %0 {axes [0 1]} : f32 []\noutput \"z\" %1\n"},
    {.name = "sum-rows", .graph = X "%1 = sum %0 {axes [1]} : f32 [16384]\noutput \"z\" %1\n"},
    {.name = "sum-columns", .graph = X "%1 = sum %0 {axes [0]} : f32 [1024]\noutput \"z\" %1\n"},
    {.name = "max-rows", .graph = X "%1 = reduce-max %0 {axes [1]} : f32 [16384]\noutput \"z\" %1\n"},
    {.name = "softmax",
     .graph = X "%1 = reduce-max %0 {axes [1]} : f32 [16384]\n%2 = reshape %1 : f32 [16384 1]\n"
                "%3 = broadcast %2 : f32 [" ROWS "]\n%4 = sub %0 %3 : f32 [" ROWS "]\n"
                "%5 = exp %4 : f32 [" ROWS "]\n%6 = sum %5 {axes [1]} : f32 [16384]\n"
                "%7 = reshape %6 : f32 [16384 1]\n%8 = broadcast %7 : f32 [" ROWS "]\n"
                "%9 = div %5 %8 : f32 [" ROWS "]\noutput \"z\" %9\n"},
    {.name = "softmax-grad", /* y g -> y (g - sum (y g)) */
     .graph = X "%1 = input {name \"g\"} : f32 [" ROWS "]\n%2 = mul %0 %1 : f32 [" ROWS "]\n"
                "%3 = sum %2 {axes [1]} : f32 [16384]\n%4 = reshape %3 : f32 [16384 1]\n"
                "%5 = broadcast %4 : f32 [" ROWS "]\n%6 = sub %1 %5 : f32 [" ROWS "]\n"
                "%7 = mul %0 %6 : f32 [" ROWS "]\noutput \"z\" %7\n"},
    {.name = "layer-norm",
     .graph = X "%1 = param {path \"g\"} : f32 [1024]\n%2 = broadcast %1 : f32 [" ROWS "]\n"
                "%3 = param {path \"b\"} : f32 [1024]\n%4 = broadcast %3 : f32 [" ROWS "]\n"
                "%5 = sum %0 {axes [1]} : f32 [16384]\n%6 = const {value 1024.0} : f32 [16384]\n"
                "%7 = div %5 %6 : f32 [16384]\n%8 = reshape %7 : f32 [16384 1]\n"
                "%9 = broadcast %8 : f32 [" ROWS "]\n%10 = sub %0 %9 : f32 [" ROWS "]\n"
                "%11 = mul %10 %10 : f32 [" ROWS "]\n%12 = sum %11 {axes [1]} : f32 [16384]\n"
                "%13 = div %12 %6 : f32 [16384]\n%14 = const {value 1e-5} : f32 [16384]\n"
                "%15 = add %13 %14 : f32 [16384]\n%16 = rsqrt %15 : f32 [16384]\n"
                "%17 = reshape %16 : f32 [16384 1]\n%18 = broadcast %17 : f32 [" ROWS "]\n"
                "%19 = mul %10 %18 : f32 [" ROWS "]\n%20 = mul %19 %2 : f32 [" ROWS "]\n"
                "%21 = add %20 %4 : f32 [" ROWS "]\noutput \"z\" %21\n"},
    {.name = "transpose", .graph = X "%1 = transpose %0 {perm [1 0]} : f32 [1024 16384]\noutput \"z\" %1\n"},
};
enum { N_WORKS = sizeof works / sizeof *works };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* As a run has it, on huge pages where the system gives them. */
static void *take(size_t n_bytes) {
  sx_memory from = sx_memory_default();
  char *memory = from.allocate(from.context, n_bytes + 64);
  if (!memory) exit(1);
  memory += (64 - (uintptr_t)memory % 64) % 64;
  for (size_t i = 0; i < n_bytes / 4; i++) ((float *)memory)[i] = (float)(i % 1000) * 0.002f - 0.7f;
  return memory;
}

static void prepare(work *w, const sx_cpu *cpu, sx_arena *arena, sx_intern *names) {
  sx_diags diags;
  sx_diags_init(&diags, arena);
  const char *text = sx_format(arena, "graph \"%s\"\n%s", w->name, w->graph);
  sx_graph *graph = sx_graph_parse(arena, names, text, strlen(text), &diags);
  if (!graph) {
    fprintf(stderr, "%s: %s\n", w->name, diags.list.items[0].message);
    exit(1);
  }
  sx_plan *plan = sx_plan_make(graph, &(sx_plan_options){.fuse = true, .reuse = true, .layout = true}, arena);
  w->executable = sx_executable_new(cpu, plan, 0, arena);
  if (!w->executable) exit(1);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    sx_executable_bind(w->executable, b, take((size_t)buffer->n_bytes));
    w->bytes += (double)buffer->n_bytes;
  }
}

typedef struct copying {
  const char *from;
  char *to;
} copying;

/* By pieces that memcpy writes through the cache, as a kernel does. */
static void copy_part(void *context, int64_t begin, int64_t end, int thread) {
  const copying *c = context;
  (void)thread;
  for (int64_t at = begin; at < end; at += CHUNK) memcpy(c->to + at, c->from + at, CHUNK);
}

/* By stores past the cache, so that the lines written are not read first. */
static void stream_part(void *context, int64_t begin, int64_t end, int thread) {
#if defined(__SSE2__)
  const copying *c = context;
  (void)thread;
  for (int64_t at = begin; at < end; at += 16)
    _mm_stream_si128((__m128i *)(void *)(c->to + at), _mm_load_si128((const __m128i *)(const void *)(c->from + at)));
  _mm_sfence();
#else
  copy_part(context, begin, end, thread);
#endif
}

static double copy_rate(sx_pool *pool, sx_parallel *part, copying *c) {
  double begin = now();
  sx_pool_run(pool, COPY_BYTES, CHUNK, part, c);
  return 2e-9 * COPY_BYTES / (now() - begin);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts; gives the median, and the best in *best. */
static double median(double *samples, int n, double *best) {
  qsort(samples, (size_t)n, sizeof *samples, ascending);
  *best = samples[n - 1];
  return samples[n / 2];
}

static void measure(work *w, int round) {
  sx_stopped why;
  double begin = now();
  sx_executable_execute(w->executable, &why);
  double took = now() - begin;
  w->samples[round] = 1e-9 * w->bytes / took;
  struct timespec rest = {0, (long)(took * 1e9 < 9e8 ? took * 1e9 : 9e8)};
  nanosleep(&rest, NULL);
}

int main(int argc, char **argv) {
  int n_threads = argc > 1 ? atoi(argv[1]) : 1, n_rounds = argc > 3 ? atoi(argv[3]) : ROUNDS;
  const char *only = argc > 2 ? argv[2] : "";
  static double plain[MOST_ROUNDS], streamed[MOST_ROUNDS];
  double best_plain, best_streamed, best;
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_intern names;
  sx_arena_init(&arena, &memory);
  sx_intern_init(&names, &arena);
  sx_cpu cpu = {sx_kernels(sx_simd_best()), sx_pool_new(n_threads), &memory, NULL};
  copying c = {take(COPY_BYTES), take(COPY_BYTES)};
  if (n_rounds < 1 || n_rounds > MOST_ROUNDS) n_rounds = ROUNDS;
  for (int i = 0; i < N_WORKS; i++)
    if (!strncmp(works[i].name, only, strlen(only))) prepare(&works[i], &cpu, &arena, &names);
  for (int round = 0; round < n_rounds; round++) {
    plain[round] = copy_rate(cpu.pool, copy_part, &c);
    streamed[round] = copy_rate(cpu.pool, stream_part, &c);
    for (int i = 0; i < N_WORKS; i++)
      if (works[i].executable) measure(&works[i], round);
  }
  double middle_plain = median(plain, n_rounds, &best_plain);
  double middle_streamed = median(streamed, n_rounds, &best_streamed);
  printf("%s, %d threads; GB/s, median (best): copy %.1f (%.1f), streaming %.1f (%.1f)\n",
         sx_simd_name(cpu.kernels->simd), n_threads, middle_plain, best_plain, middle_streamed, best_streamed);
  for (int i = 0; i < N_WORKS; i++) {
    if (!works[i].executable) continue;
    double ours = median(works[i].samples, n_rounds, &best);
    printf("%-16s %6.2f %6.2f   of copy %5.2f, of streaming %5.2f\n", works[i].name, ours, best, best / best_plain,
           best / best_streamed);
    sx_executable_free(works[i].executable);
  }
  return 0;
}
