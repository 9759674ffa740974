/* What moves memory: bytes that must be read and written over the time, and the share of what a copy moves. */
#include "bench_parts.h"

#ifdef SX_CUDA
#include <stdio.h>
#include <string.h>

static const bench_size SIZES[] = {
    {"ROWS", 65536, 64}, {"COLUMNS", 1024, 256}, {"ALL", 65536 * 1024, 64 * 256}, {"TABLE", 1000, 1000}, {NULL, 0, 0}};

typedef struct row {
  const char *name, *text;
} row;

#define SHAPE "[@ROWS @COLUMNS]"
#define X "graph \"g\"\n%0 = param {path \"x\"} : f32 " SHAPE "\n"
#define ROW_OF(from, reshaped, spread) \
  reshaped " = reshape " from " : f32 [@ROWS 1]\n" spread " = broadcast " reshaped " : f32 " SHAPE "\n"

static const row ROWS[] = {
    {"add", X "%1 = param {path \"y\"} : f32 " SHAPE "\n%2 = add %0 %1 : f32 " SHAPE "\noutput \"z\" %2\n"},
    {"bias, relu",
     X "%1 = param {path \"b\"} : f32 [@COLUMNS]\n%2 = broadcast %1 : f32 " SHAPE "\n%3 = add %0 %2 : f32 " SHAPE
       "\n%4 = const {value 0.0} : f32 " SHAPE "\n%5 = max %3 %4 : f32 " SHAPE "\noutput \"z\" %5\n"},
    {"tanh", X "%1 = tanh %0 : f32 " SHAPE "\noutput \"z\" %1\n"},
    {"exp to bf16", X "%1 = exp %0 : f32 " SHAPE "\n%2 = cast %1 : bf16 " SHAPE "\noutput \"z\" %2\n"},
    {"softmax", X "%1 = reduce-max %0 {axes [1]} : f32 [@ROWS]\n" ROW_OF(
                    "%1", "%2", "%3") "%4 = sub %0 %3 : f32 " SHAPE "\n%5 = exp %4 : f32 " SHAPE
                                      "\n%6 = sum %5 {axes [1]} : f32 [@ROWS]\n" ROW_OF(
                                          "%6", "%7", "%8") "%9 = div %5 %8 : f32 " SHAPE "\noutput \"z\" %9\n"},
    {"layer norm",
     X "%1 = const {value 1024.0} : f32 [@ROWS]\n%2 = sum %0 {axes [1]} : f32 [@ROWS]\n"
       "%3 = div %2 %1 : f32 [@ROWS]\n" ROW_OF(
           "%3", "%4", "%5") "%6 = sub %0 %5 : f32 " SHAPE "\n%7 = mul %6 %6 : f32 " SHAPE
                             "\n%8 = sum %7 {axes [1]} : f32 [@ROWS]\n"
                             "%9 = div %8 %1 : f32 [@ROWS]\n%10 = const {value 1e-5} : f32 [@ROWS]\n"
                             "%11 = add %9 %10 : f32 [@ROWS]\n%12 = rsqrt %11 : f32 [@ROWS]\n" ROW_OF(
                                 "%12", "%13", "%14") "%15 = mul %6 %14 : f32 " SHAPE "\noutput \"z\" %15\n"},
    {"sum of all", X "%1 = sum %0 {axes [0 1]} : f32 []\noutput \"z\" %1\n"},
    {"sums of rows", X "%1 = sum %0 {axes [1]} : f32 [@ROWS]\noutput \"z\" %1\n"},
    {"sums of columns", X "%1 = sum %0 {axes [0]} : f32 [@COLUMNS]\noutput \"z\" %1\n"},
    {"argmax of rows", X "%1 = argmax %0 {axis [1]} : i32 [@ROWS]\noutput \"z\" %1\n"},
    {"transpose", X "%1 = transpose %0 {perm [1 0]} : f32 [@COLUMNS @ROWS]\noutput \"z\" %1\n"},
    {"transpose bf16", "graph \"g\"\n%0 = param {path \"x\"} : bf16 " SHAPE
                       "\n%1 = transpose %0 {perm [1 0]} : bf16 [@COLUMNS @ROWS]\noutput \"z\" %1\n"},
    {"gather",
     "graph \"g\"\n%0 = param {path \"x\"} : f32 [@TABLE @COLUMNS]\n%1 = input {name \"field/i\"} : i32 [@ROWS]\n"
     "%2 = gather %0 %1 : f32 " SHAPE "\noutput \"z\" %2\n"},
    {"scatter-add", X "%1 = input {name \"field/i\"} : i32 [@ROWS]\n"
                      "%2 = scatter-add %1 %0 {n @TABLE} : f32 [@TABLE @COLUMNS]\noutput \"z\" %2\n"},
    {"cumsum of rows", X "%1 = cumsum %0 {axis 1, reverse 0} : f32 " SHAPE "\noutput \"z\" %1\n"},
    {"cumsum of columns", X "%1 = cumsum %0 {axis 0, reverse 0} : f32 " SHAPE "\noutput \"z\" %1\n"},
    {"argsort of rows", X "%1 = argsort %0 {axis 1, descending 0} : i32 " SHAPE "\noutput \"z\" %1\n"},
    {"uniform", "graph \"g\"\n%0 = uniform {draw 0, stream \"\"} : f32 " SHAPE "\noutput \"z\" %0\n"},
    {"normal", "graph \"g\"\n%0 = normal {draw 0, stream \"\"} : f32 " SHAPE "\noutput \"z\" %0\n"},
};

/* ---- the copy ------------------------------------------------------------------------------------ */

typedef struct copying {
  gpu_device *gpu;
  void *from, *to, *host;
  int64_t n_bytes;
} copying;

static bool copy_there(void *context) {
  copying *c = context;
  c->gpu->backend->calls->copy(c->gpu->backend, c->to, c->from, c->n_bytes);
  return !c->gpu->cuda->failure.failed;
}

static bool copy_in(void *context) {
  copying *c = context;
  c->gpu->backend->calls->upload(c->gpu->backend, c->from, c->host, c->n_bytes);
  return !c->gpu->cuda->failure.failed;
}

static bool copy_out(void *context) {
  copying *c = context;
  c->gpu->backend->calls->download(c->gpu->backend, c->host, c->from, c->n_bytes);
  return !c->gpu->cuda->failure.failed;
}

/* GB/s by the clock and the width of the memory; 0: the driver does not say. */
static double peak_rate(sx_cuda *cuda) {
  int khz = 0, bits = 0;
  if (cuda->api.cuDeviceGetAttribute(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, cuda->device) ||
      cuda->api.cuDeviceGetAttribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, cuda->device))
    return 0;
  return 2.0 * khz * 1e3 * bits / 8 * 1e-9;
}

static void print_rate(bench *b, const char *name, double bytes, double ns) {
  if (ns <= 0) {
    bench_failed(b, name, b->gpu->why);
    return;
  }
  printf("| %s | %.1f | %.0f |", name, ns * 1e-3, bytes / ns);
  if (b->copy_rate > 0) printf(" %.2f |", bytes / ns / b->copy_rate);
  puts(b->copy_rate > 0 ? "" : " |");
  fflush(stdout);
}

static void time_copies(bench *b, copying *c) {
  double in = bench_time(b, copy_in, c), out = bench_time(b, copy_out, c), there = bench_time(b, copy_there, c);
  double peak = peak_rate(b->gpu->cuda);
  print_rate(b, "copy to the device", (double)c->n_bytes, in);
  print_rate(b, "copy to the host", (double)c->n_bytes, out);
  if (there > 0) b->copy_rate = 2.0 * (double)c->n_bytes / there;
  print_rate(b, "copy within the device", 2.0 * (double)c->n_bytes, there);
  if (peak > 0 && b->copy_rate > 0)
    printf("| the memory's peak, by its clock and width | | %.0f | %.2f |\n", peak, peak / b->copy_rate);
}

static void bench_copies(bench *b) {
  sx_backend *backend = b->gpu->backend;
  copying c = {.gpu = b->gpu, .n_bytes = b->shortened ? 1 << 20 : 256 << 20};
  c.from = backend->calls->take(backend, c.n_bytes);
  c.to = backend->calls->take(backend, c.n_bytes);
  c.host = backend->calls->take_host(backend, c.n_bytes);
  if (c.from && c.to && c.host) {
    memset(c.host, 0, (size_t)c.n_bytes);
    time_copies(b, &c);
  } else {
    bench_failed(b, "copies", "no memory");
  }
  if (c.from) backend->calls->give(backend, c.from);
  if (c.to) backend->calls->give(backend, c.to);
  if (c.host) backend->calls->give_host(backend, c.host);
}

/* ---- the update ---------------------------------------------------------------------------------- */

/* Parameters as a transformer has them: matrices and vectors, by momentum. */
static const char *update_text(sx_arena *arena, bool shortened) {
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_add(&text, "graph \"update\"\n%0 = input {name \"rate\"} : f32 []\n");
  for (int i = 0, id = 1; i < (shortened ? 6 : 100); i++, id += 9) {
    int n = (i % 2 ? 1024 : 1024 * 1024 * (1 + i % 3)) / (shortened ? 512 : 1);
    sx_text_addf(&text,
                 "%%%d = param {path \"w%d\"} : f32 [%d]\n%%%d = state {path \"m%d\"} : f32 [%d]\n"
                 "%%%d = input {name \"grad/w%d\"} : f32 [%d]\n%%%d = const {value 0.9} : f32 [%d]\n",
                 id, i, n, id + 1, i, n, id + 2, i, n, id + 3, n);
    sx_text_addf(&text, "%%%d = mul %%%d %%%d : f32 [%d]\n%%%d = add %%%d %%%d : f32 [%d]\n", id + 4, id + 1, id + 3, n,
                 id + 5, id + 4, id + 2, n);
    sx_text_addf(&text, "%%%d = broadcast %%0 : f32 [%d]\n%%%d = mul %%%d %%%d : f32 [%d]\n", id + 6, n, id + 7, id + 5,
                 id + 6, n);
    sx_text_addf(&text, "%%%d = sub %%%d %%%d : f32 [%d]\noutput \"param/w%d\" %%%d\noutput \"state/m%d\" %%%d\n",
                 id + 8, id, id + 7, n, i, id + 8, i, id + 5);
  }
  return sx_text_get(&text);
}

static int count_works(bench_work *w) {
  sx_text text;
  int n = 0;
  sx_text_init(&text, &w->arena);
  w->bench->gpu->backend->calls->print(w->bench->gpu->backend, w->plan.made, &text);
  for (const char *c = sx_text_get(&text); *c; c++) n += *c == '\n';
  return n;
}

static void bench_row(bench *b, const char *name, const char *text) {
  bench_work w;
  char full[120];
  if (bench_work_make(&w, b, text, SIZES, NULL)) {
    int n = count_works(&w);
    snprintf(full, sizeof full, "%s%s", name, n == 1 ? "" : sx_format(&w.arena, ", %d launches", n));
    print_rate(b, full, (double)w.n_bytes, bench_work_time(&w));
  } else {
    bench_failed(b, name, b->gpu->why);
  }
  bench_work_free(&w);
}

void bench_memory(bench *b) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  puts("| what | microseconds | GB/s | of the copy |\n| --- | --- | --- | --- |");
  bench_copies(b);
  for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS && !bench_is_over(b); i++) bench_row(b, ROWS[i].name, ROWS[i].text);
  sx_arena_init(&arena, &memory);
  if (!bench_is_over(b))
    bench_row(b, b->shortened ? "update of 6 parameters" : "update of 100 parameters",
              update_text(&arena, b->shortened));
  sx_arena_free(&arena);
}
#else
typedef int test_gpu_bench_memory_is_empty;
#endif
