/* Attention, forward alone and with its gradients: a plan that computes it by tiles of rows beside the plan that has a
 * task for each product and group, in turn; medians and best of short samples, one thread, its processor time.
 * usage: bench_attention [SAMPLES] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../libsexp/cpu/executable.h"
#include "../common/attention_graph.h"

enum { MOST = 400 };

static const attention_shape shapes[] = {
    {16, 4, 128, 128, 32, MASK_CAUSAL, false, false, false, true, false, false},
    {16, 4, 128, 128, 32, MASK_CAUSAL, false, false, true, true, false, false},
    {4, 6, 256, 256, 64, MASK_CAUSAL, false, false, false, true, false, false},
    {4, 6, 256, 256, 64, MASK_CAUSAL, false, false, true, true, false, false},
    {1, 8, 1024, 1024, 64, MASK_CAUSAL, false, false, true, true, false, false},
    {4, 6, 256, 256, 64, MASK_NONE, false, false, false, true, false, false},
    {4, 6, 256, 256, 64, MASK_NONE, false, false, true, true, false, false},
    {1, 8, 1024, 1024, 64, MASK_NONE, false, false, true, true, false, false},
    {4, 8, 1024, 1024, 32, MASK_NONE, false, false, true, true, false, false},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static sx_executable *prepare(const sx_cpu *cpu, planned *p, sx_attention_use use, int64_t *block_bytes) {
  const sx_plan_options options = {.fuse = true, .reuse = true, .layout = true, .attention = use};
  const sx_plan *plan = sx_plan_make(p->graph, &options, &p->arena);
  sx_executable *e = sx_executable_new(cpu, plan, 0, &p->arena);
  if (!e) exit(1);
  for (uint32_t b = 0; b < plan->buffers.n; b++) {
    const sx_buffer *buffer = &plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_EXTERNAL && buffer->kind != SX_BUFFER_OUTPUT) continue;
    float *data = sx_arena_take(&p->arena, (size_t)buffer->n_bytes + 64, 1);
    data += (64 - (uintptr_t)data % 64) % 64 / sizeof *data;
    for (int64_t i = 0; i < buffer->n_bytes / 4; i++) data[i] = (float)(i * 7919 % 2003) * 0.001f - 1.0f;
    sx_executable_bind(e, b, data);
  }
  *block_bytes = plan->block_bytes;
  return e;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void measure(const attention_shape *c, int n) {
  static const sx_attention_use uses[2] = {SX_ATTENTION_NEVER, SX_ATTENTION_ALWAYS};
  planned *p = planned_attention(c, NULL);
  sx_cpu cpu = {.kernels = sx_kernels(sx_simd_best()), .memory = &p->memory};
  sx_executable *e[2];
  sx_stopped why;
  int64_t bytes[2];
  double times[2][MOST];
  for (int k = 0; k < 2; k++) e[k] = prepare(&cpu, p, uses[k], &bytes[k]);
  for (int i = -1; i < n; i++)
    for (int k = 0; k < 2; k++) {
      double begin = now();
      if (!sx_executable_execute(e[k], &why)) exit(1);
      if (i >= 0) times[k][i] = now() - begin;
    }
  for (int k = 0; k < 2; k++) qsort(times[k], (size_t)n, sizeof(double), ascending);
  printf("%2d %2d %4d %4d %3d  %-6s %-8s  %7.2f %7.2f  %5.2f  [%7.2f %7.2f  %5.2f]  %6.1f %6.1f\n", c->b, c->h, c->t,
         c->s, c->d, c->mask == MASK_CAUSAL ? "causal" : "", c->backward ? "backward" : "forward", times[0][n / 2],
         times[1][n / 2], times[0][n / 2] / times[1][n / 2], times[0][0], times[1][0], times[0][0] / times[1][0],
         (double)bytes[0] / (1 << 20), (double)bytes[1] / (1 << 20));
  for (int k = 0; k < 2; k++) sx_executable_free(e[k]);
  planned_free(p);
}

int main(int n_arguments, char **arguments) {
  int n = n_arguments > 1 ? atoi(arguments[1]) : 15;
  if (n < 1 || n > MOST) return 2;
  printf(" b  h    t    s   d                   ms by tasks, by tiles, ratio  [best]           MiB of temporaries\n");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) measure(&shapes[i], n);
  return 0;
}
