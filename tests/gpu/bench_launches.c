/* What a launch costs: a chain of small kernels enqueued one by one, and as a recorded sequence. */
#include "bench_parts.h"

#ifdef SX_CUDA
#include <stdio.h>

enum { LINKS = 64 };

static const char *chain_text(sx_arena *arena) {
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_add(&text, "graph \"chain\"\n%0 = input {name \"field/x\"} : f32 [32 32]\n");
  for (int i = 1; i <= LINKS; i++)
    sx_text_addf(&text, "%%%d = cumsum %%%d {axis %d, reverse 0} : f32 [32 32]\n", i, i - 1, i % 2);
  sx_text_addf(&text, "output \"y\" %%%d\n", LINKS);
  return sx_text_get(&text);
}

/* Once more, as it is done in a step; microseconds of the wall's clock until it ended. */
static double once(bench *b, gpu_plan *plan, bool recorded, bool *replayed) {
  const sx_backend_calls *calls = b->gpu->backend->calls;
  sx_backend *backend = b->gpu->backend;
  double begin = bench_now();
  *replayed = recorded && calls->replay(backend, 1);
  if (recorded && !*replayed) calls->record(backend, 1);
  if (!*replayed) calls->execute(backend, plan->made);
  if (recorded && !*replayed) calls->recorded(backend);
  if (!gpu_finish(b->gpu, NULL)) return -1;
  return (bench_now() - begin) * 1e6;
}

static void bench_chain(bench *b, gpu_plan *plan, bool recorded) {
  int wanted = b->shortened ? 4 : 300, n = 0;
  double least = 0, sum = 0;
  for (int i = 0; i < wanted + 4; i++) {
    bool replayed;
    double us = once(b, plan, recorded, &replayed);
    if (us < 0) {
      bench_failed(b, "chain", b->gpu->why);
      return;
    }
    if (i < 4 || replayed != recorded) continue;
    least = n == 0 || us < least ? us : least;
    sum += us;
    n++;
  }
  const char *how = recorded ? "a replayed sequence" : "enqueued one by one";
  if (n)
    printf("| %s | %d | %.1f | %.1f | %.2f |\n", how, n, least, sum / n, least / LINKS);
  else
    bench_failed(b, how, "it was not replayed");
  fflush(stdout);
}

void bench_launches(bench *b) {
  bench_work w;
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  printf("%d small kernels, each needing the one before, until the host sees the end.\n\n", LINKS);
  puts("| how | times | least microseconds | mean | a kernel |\n| --- | --- | --- | --- | --- |");
  if (bench_work_make(&w, b, chain_text(&arena), (bench_size[]){{NULL, 0, 0}}, NULL)) {
    bench_chain(b, &w.plan, false);
    bench_chain(b, &w.plan, true);
    b->gpu->backend->calls->forget(b->gpu->backend);
  } else {
    bench_failed(b, "chain", b->gpu->why);
  }
  bench_work_free(&w);
  sx_arena_free(&arena);
}
#else
typedef int test_gpu_bench_launches_is_empty;
#endif
