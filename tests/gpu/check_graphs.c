/* Random graphs over every operation, fused and not, memory reused and not; a sequence that is recorded and replayed;
 * the functions over arrays: the bits of the reference loops. */
#include "check_parts.h"

#ifdef SX_CUDA
#include <stdio.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../common/interpret.h"
#include "../common/planned.h"

/* ---- graphs -------------------------------------------------------------------------------------- */

static void fill(gpu_plan *p, uint64_t seed) {
  for (uint32_t b = 0; b < p->plan->buffers.n; b++) {
    const sx_buffer *buffer = &p->plan->buffers.items[b];
    if (p->host[b] && buffer->kind == SX_BUFFER_EXTERNAL)
      leaf_fill(buffer->name, seed, buffer->dtype, buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype),
                p->host[b]);
  }
}

static void compare(check_result *result, gpu_plan *p, const sx_graph *graph, uint64_t seed) {
  void **values = interpret(graph, GPU_DRAW_SEED, seed);
  for (uint32_t b = 0; b < p->plan->buffers.n; b++) {
    const sx_buffer *buffer = &p->plan->buffers.items[b];
    if (buffer->kind != SX_BUFFER_OUTPUT) continue;
    for (size_t i = 0; i < graph->outputs.n; i++)
      if (!strcmp(graph->outputs.items[i].name, buffer->name))
        check_bits(result, buffer->name, buffer->dtype, p->host[b], values[graph->outputs.items[i].node],
                   buffer->n_bytes / (int64_t)sx_dtype_bytes(buffer->dtype));
  }
  interpret_free(graph, values);
}

static void check_random(check_result *result, gpu_device *gpu, const check_piece *piece,
                         const check_options *options) {
  uint64_t seed = (uint64_t)piece->number;
  gpu_plan p;
  (void)options;
  planned *graph = planned_random(seed, 20 + (int)(seed % 4) * 30);
  const sx_plan *plan = planned_plan(graph, seed % 4 != 3, seed % 3 != 0);
  bool made = gpu_plan_make(&p, gpu, plan, NULL, &graph->arena);
  if (made) fill(&p, seed);
  if (made && gpu_plan_run(&p, NULL))
    compare(result, &p, graph->graph, seed);
  else
    check_failed(result, "%s", gpu->why);
  snprintf(result->what, sizeof result->what, "%zu nodes, %zu tasks", graph->graph->nodes.n, plan->tasks.n);
  gpu_plan_free(&p);
  planned_free(graph);
}

/* ---- sequences ----------------------------------------------------------------------------------- */

static const char SUMS[] =
    "graph \"sums\"\n"
    "%0 = input {name \"field/x\"} : f32 [330 700]\n"
    "%1 = param {path \"w\"} : f32 [330 700]\n"
    "%2 = mul %0 %1 : f32 [330 700]\n"
    "%3 = sum %2 {axes [0]} : f32 [700]\n"
    "%4 = normal {draw 0, stream \"\"} : f32 [700]\n"
    "%5 = add %3 %4 : f32 [700]\n"
    "output \"y\" %5\n";

/* What a replay uploads is what is there then. */
static void check_sequence(check_result *result, gpu_device *gpu, const check_piece *piece,
                           const check_options *options) {
  const sx_backend_calls *calls = gpu->backend->calls;
  planned *graph = planned_text(SUMS);
  gpu_plan p;
  int n_replayed = 0;
  (void)options;
  (void)piece;
  if (!gpu_plan_make(&p, gpu, planned_plan(graph, true, true), NULL, &graph->arena))
    check_failed(result, "%s", gpu->why);
  for (uint64_t seed = 1; seed <= 6 && result->good; seed++) {
    fill(&p, seed);
    bool replayed = calls->replay(gpu->backend, 1);
    n_replayed += replayed;
    if (!replayed) {
      calls->record(gpu->backend, 1);
      gpu_plan_upload(&p);
      calls->execute(gpu->backend, p.made);
      gpu_plan_download(&p);
      calls->recorded(gpu->backend);
    }
    if (!gpu_finish(gpu, NULL)) check_failed(result, "%s", gpu->why);
    if (result->good) compare(result, &p, graph->graph, seed);
  }
  if (n_replayed < 3) check_failed(result, "of six times %d were replays", n_replayed);
  snprintf(result->what, sizeof result->what, "%d replays", n_replayed);
  gpu_plan_free(&p);
  calls->forget(gpu->backend);
  planned_free(graph);
}

/* ---- arrays -------------------------------------------------------------------------------------- */

enum { N = 777 };

typedef struct arrays {
  gpu_device *gpu;
  check_result *result;
  void *host, *device[3];
} arrays;

static void put(arrays *a, int i, const void *from, size_t n_bytes) {
  memcpy(a->host, from, n_bytes);
  a->gpu->backend->calls->upload(a->gpu->backend, a->device[i], a->host, (int64_t)n_bytes);
  if (!gpu_finish(a->gpu, NULL)) check_failed(a->result, "%s", a->gpu->why);
}

static void expect(arrays *a, const char *what, int i, sx_dtype dtype, void *want) {
  a->gpu->backend->calls->download(a->gpu->backend, a->host, a->device[i], N * (int64_t)sx_dtype_bytes(dtype));
  if (!gpu_finish(a->gpu, NULL)) check_failed(a->result, "%s", a->gpu->why);
  if (a->result->good) check_bits(a->result, what, dtype, a->host, want, N);
}

static void compute_arrays(arrays *a) {
  const sx_backend_calls *calls = a->gpu->backend->calls;
  sx_backend *b = a->gpu->backend;
  float left[N], right[N], sum[N], part[N], wide[2][N];
  uint16_t narrow[2][N];
  for (int i = 0; i < N; i++) {
    left[i] = (float)(i * 37 % 101) * 0.37f - 7;
    right[i] = 1.0f / (float)(i + 1);
    sum[i] = left[i] + right[i];
    part[i] = sum[i] / 3.0f;
    narrow[0][i] = sx_bf16_from_f32(part[i]);
    narrow[1][i] = sx_f16_from_f32(part[i]);
    wide[0][i] = sx_f32_from_bf16(narrow[0][i]);
    wide[1][i] = sx_f32_from_f16(narrow[1][i]);
  }
  put(a, 0, left, sizeof left);
  put(a, 1, right, sizeof right);
  calls->add(b, a->device[2], a->device[0], a->device[1], N);
  expect(a, "add", 2, SX_F32, sum);
  calls->copy(b, a->device[0], a->device[2], sizeof sum);
  calls->divide(b, a->device[0], 3.0f, N);
  expect(a, "divide", 0, SX_F32, part);
  for (int i = 0; i < 2; i++) {
    sx_dtype dtype = i ? SX_F16 : SX_BF16;
    calls->narrow(b, a->device[1], dtype, a->device[0], N);
    expect(a, "narrow", 1, dtype, narrow[i]);
    calls->widen(b, a->device[2], a->device[1], dtype, N);
    expect(a, "widen", 2, SX_F32, wide[i]);
  }
}

static void check_arrays(check_result *result, gpu_device *gpu, const check_piece *piece,
                         const check_options *options) {
  sx_backend *b = gpu->backend;
  arrays a = {gpu, result, b->calls->take_host(b, N * 4), {NULL}};
  (void)piece;
  (void)options;
  bool taken = a.host != NULL;
  for (int i = 0; i < 3; i++) taken = (a.device[i] = b->calls->take(b, N * 4)) && taken;
  if (taken)
    compute_arrays(&a);
  else
    check_failed(result, "no memory");
  for (int i = 0; i < 3; i++) b->calls->give(b, a.device[i]);
  if (a.host) b->calls->give_host(b, a.host);
  snprintf(result->what, sizeof result->what, "%d elements", N);
}

size_t check_graph_pieces(check_piece *pieces, size_t n, const check_options *options) {
  pieces[n++] = (check_piece){.name = "arrays: add, divide, narrow, widen", .portable = true, .check = check_arrays};
  pieces[n++] = (check_piece){.name = "a recorded sequence", .portable = true, .check = check_sequence};
  for (int seed = 1; seed <= options->graphs && n < CHECK_PIECES_MOST - 100; seed++) {
    check_piece *piece = &pieces[n++];
    *piece = (check_piece){.portable = true, .check = check_random, .number = seed};
    snprintf(piece->name, sizeof piece->name, "random graph %d", seed);
  }
  return n;
}
#else
typedef int test_gpu_check_graphs_is_empty;
#endif
