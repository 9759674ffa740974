/* Parts of bench_device: each prints tables. On the simulated device figures are none of a card's, and are marked. */
#ifndef TEST_GPU_BENCH_PARTS_H
#define TEST_GPU_BENCH_PARTS_H

#ifdef SX_CUDA
#include "on_device.h"

typedef struct bench {
  gpu_device *gpu;
  bool shortened;   /* small shapes, once */
  double ends;      /* seconds of bench_now after which nothing further begins */
  double copy_rate; /* GB/s of a copy of the device's memory, read and written; 0: not measured */
  int n_failed;
} bench;

double bench_now(void);
bool bench_is_over(const bench *b);
/* A row that has no figure, and why. */
void bench_failed(bench *b, const char *name, const char *why);

/* An executable of a graph's text whose inputs hold plain values, and ids below 1000; tokens @NAME of the text are
 * replaced by numbers. Freed by bench_work_free, also after a failure. */
typedef struct bench_size {
  const char *token;
  int64_t full, shortened;
} bench_size;
typedef struct bench_work {
  bench *bench;
  sx_memory memory;
  sx_arena arena;
  gpu_plan plan;
  bool made;
  int64_t n_bytes; /* of all buffers from outside */
} bench_work;
bool bench_work_make(bench_work *w, bench *b, const char *text, const bench_size *sizes, const sx_deciding *deciding);
void bench_work_free(bench_work *w);

/* Nanoseconds of the device that one call of `enqueue` takes: the least of some rounds of many calls. 0: it failed. */
typedef bool bench_enqueue(void *context);
double bench_time(bench *b, bench_enqueue *enqueue, void *context);
/* Of an execution. */
double bench_work_time(bench_work *w);

void bench_memory(bench *b);       /* copies, element groups, rows, reductions, moves, indices, draws, the update */
void bench_products(bench *b);     /* products beside a plain call of cuBLAS; on a portable device alone */
void bench_convolutions(bench *b); /* each engine */
void bench_launches(bench *b);     /* a replayed sequence beside an unrecorded one */
#endif

#endif
