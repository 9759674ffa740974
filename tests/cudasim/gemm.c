#include "gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mathlib.h"

/* ---- engines ------------------------------------------------------------------------------------ */

enum { N_PLAIN = 5, N_SPLITTING = SIM_GEMM_FAMILIES - N_PLAIN, TILE = 128, LEAST_SPLIT = 256, LEAST_PART = 64 };

/* Those that split k among multiprocessors come last; their parts are the heuristics'. */
static const sim_gemm_engine FAMILIES[SIM_GEMM_FAMILIES] = {
    {"serial", {1, 1, 0, false, 0}, 0.60, false},     {"blocks32", {1, 1, 32, false, 0}, 0.80, false},
    {"lanes4", {1, 4, 0, true, 0}, 0.75, false},      {"lanes2", {1, 2, 64, true, 0}, 0.85, false},
    {"halves", {2, 1, 0, false, 0}, 0.70, false},     {"split_blocks", {1, 1, 32, false, 0}, 0.75, true},
    {"split_lanes", {1, 2, 0, false, 0}, 0.70, true}, {"split_tree", {1, 1, 64, true, 0}, 0.65, true},
};

const char *sim_gemm_family(size_t i) { return i < SIM_GEMM_FAMILIES ? FAMILIES[i].name : NULL; }

bool sim_gemm_splits(size_t i) { return FAMILIES[i].splits; }

bool sim_gemm_is_engine(const char *name) {
  for (size_t i = 0; i < SIM_GEMM_FAMILIES; i++)
    if (!strcmp(FAMILIES[i].name, name)) return true;
  return false;
}

static size_t partial_n_bytes(const sim_gemm *g, int64_t parts) {
  return (size_t)(parts * g->m * g->n * g->n_batch) * sizeof(float);
}

bool sim_gemm_engine_make(sim_gemm_engine *engine, const sim_gemm *gemm, size_t i, int64_t parts) {
  *engine = FAMILIES[i];
  if (!engine->splits) return true;
  engine->order.parts = parts;
  return parts >= 2 && parts <= SIM_PARTS_MAX && partial_n_bytes(gemm, parts) <= gemm->workspace_n_bytes;
}

static bool is_aligned(const sim_gemm *g) {
  uintptr_t bits = (uintptr_t)g->a | (uintptr_t)g->b | (uintptr_t)g->d;
  int64_t input = (int64_t)sim_dtype_size(g->input), output = (int64_t)sim_dtype_size(g->output);
  bits |= (uintptr_t)((g->lda | g->ldb | g->stride_a | g->stride_b) * input | (g->ldd | g->stride_d) * output);
  return bits % 16 == 0;
}

/* As many parts as give every multiprocessor a tile, each of some length. */
static int64_t parts_for(const sim_gemm *g) {
  int64_t tiles = ((g->m + TILE - 1) / TILE) * ((g->n + TILE - 1) / TILE) * g->n_batch, parts = 1;
  if (g->k < LEAST_SPLIT) return 1;
  while (parts < SIM_PARTS_MAX && tiles * parts * 2 <= sim_card_fact("multiProcessorCount") &&
         g->k / (parts * 2) >= LEAST_PART && partial_n_bytes(g, parts * 2) <= g->workspace_n_bytes)
    parts *= 2;
  return parts;
}

void sim_gemm_choose(size_t *family, int64_t *parts, const sim_gemm *gemm, int version) {
  size_t kind = (size_t)gemm->transpose_a + 2 * (size_t)gemm->transpose_b + (gemm->m > gemm->n) +
                (size_t)sim_card_fact("deviceVer") / 100 + (size_t)version + (gemm->input != SIM_F32);
  *parts = is_aligned(gemm) ? parts_for(gemm) : 1;
  if (*parts > 1)
    *family = N_PLAIN + kind % N_SPLITTING;
  else
    *family = is_aligned(gemm) ? kind % N_PLAIN : 0;
}

/* ---- arguments ---------------------------------------------------------------------------------- */

static bool dtype_of(sim_dtype *dtype, cudaDataType_t type) {
  *dtype = type == CUDA_R_16BF ? SIM_BF16 : type == CUDA_R_16F ? SIM_F16 : SIM_F32;
  return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
}

const char *sim_gemm_types(sim_dtype *input, sim_dtype *output, cudaDataType_t a, cudaDataType_t b, cudaDataType_t d) {
  if (!dtype_of(input, a) || a != b) return "A and B have to be f32, bf16 or f16, both the same";
  if (!dtype_of(output, d) || (d != CUDA_R_32F && d != a)) return "C has to be f32 or of the type of A";
  return NULL;
}

static int64_t at_least_one(int64_t n) { return n > 1 ? n : 1; }

const char *sim_gemm_check(const sim_gemm *g) {
  if (g->m < 0 || g->n < 0 || g->k < 0 || g->n_batch < 0) return "a size is negative";
  if (g->lda < at_least_one(g->transpose_a ? g->k : g->m)) return "lda is less than the rows of A";
  if (g->ldb < at_least_one(g->transpose_b ? g->n : g->k)) return "ldb is less than the rows of B";
  if (g->ldc < at_least_one(g->m)) return "ldc is less than the rows of C";
  if (g->ldd < at_least_one(g->m)) return "ldd is less than the rows of D";
  if (g->n_batch > 1 && (g->stride_a < 0 || g->stride_b < 0 || g->stride_c < 0 || g->stride_d < 0))
    return "a stride of the batch is negative";
  if (g->m && g->n && (!g->d || (g->k && (!g->a || !g->b)) || (g->beta != 0 && !g->c))) return "a matrix is NULL";
  return NULL;
}

static size_t matrix_n_bytes(int64_t rows, int64_t columns, int64_t ld, int64_t n_batch, int64_t stride, sim_dtype t) {
  if (!rows || !columns || !n_batch) return 0;
  return (size_t)((n_batch - 1) * stride + (columns - 1) * ld + rows) * sim_dtype_size(t);
}

static size_t a_n_bytes(const sim_gemm *g) {
  return matrix_n_bytes(g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, g->n_batch, g->stride_a,
                        g->input);
}
static size_t b_n_bytes(const sim_gemm *g) {
  return matrix_n_bytes(g->transpose_b ? g->n : g->k, g->transpose_b ? g->k : g->n, g->ldb, g->n_batch, g->stride_b,
                        g->input);
}
static size_t d_n_bytes(const sim_gemm *g) {
  return matrix_n_bytes(g->m, g->n, g->ldd, g->n_batch, g->stride_d, g->output);
}

static bool refuse(const char *call, const char *why) {
  sim_violation("%s: %s", call, why);
  return false;
}

/* Matrices of a batch may lie one after the other, or side by side as the heads of attention do. */
static bool is_disjoint(const sim_gemm *g) {
  if (g->n_batch <= 1) return true;
  return g->stride_d >= (g->n - 1) * g->ldd + g->m || (g->stride_d >= g->m && g->ldd >= g->n_batch * g->stride_d);
}

bool sim_gemm_check_memory(const sim_gemm *g, const char *call) {
  uintptr_t bits = (uintptr_t)g->a | (uintptr_t)g->b;
  if (bits % sim_dtype_size(g->input) || (uintptr_t)g->d % sim_dtype_size(g->output))
    return refuse(call, "a matrix is not aligned to its elements");
  if (!is_disjoint(g)) return refuse(call, "matrices of the batch overlap in the result");
  if (sim_overlap(g->d, d_n_bytes(g), g->a, a_n_bytes(g)) || sim_overlap(g->d, d_n_bytes(g), g->b, b_n_bytes(g)))
    return refuse(call, "the result overlaps an operand");
  if (sim_overlap(g->d, d_n_bytes(g), g->workspace, g->workspace_n_bytes))
    return refuse(call, "the result overlaps the workspace");
  if (g->beta != 0 && g->c != g->d && sim_overlap(g->d, d_n_bytes(g), g->c, d_n_bytes(g)))
    return refuse(call, "the result overlaps C and is not C");
  return true;
}

/* ---- computing ---------------------------------------------------------------------------------- */

typedef struct job {
  sim_gemm gemm;
  sim_fold_order order;
  bool differs; /* from call to call */
} job;

static const void *element(const void *values, int64_t at, sim_dtype dtype) {
  return (const char *)values + at * (int64_t)sim_dtype_size(dtype);
}

/* sums[j * m + i], as the columns lie. */
static void finish(const sim_gemm *g, const float *sums, int64_t batch) {
  char *d = (char *)g->d + batch * g->stride_d * (int64_t)sim_dtype_size(g->output);
  const void *c = element(g->c, g->beta != 0 ? batch * g->stride_c : 0, g->output);
  for (int64_t j = 0; j < g->n; j++)
    for (int64_t i = 0; i < g->m; i++) {
      float value = g->alpha * sums[j * g->m + i];
      if (g->beta != 0) value += g->beta * sim_widen(g->output, c, j * g->ldc + i);
      if (g->bias) value += sim_widen(g->output, g->bias, i);
      if (g->relu) value = value > 0 ? value : value != value ? value : 0;
      sim_narrow(g->output, d, j * g->ldd + i, value);
    }
}

static bool is_zero(const void *values, size_t n_bytes) {
  const char *bytes = values;
  return n_bytes && !bytes[0] && !memcmp(bytes, bytes + 1, n_bytes - 1);
}

/* Sums of +0 are +0 in every order: large products whose time alone is asked for need not be computed. */
static bool sums_are_zero(const sim_gemm *g) { return is_zero(g->a, a_n_bytes(g)) && is_zero(g->b, b_n_bytes(g)); }

static void run(void *context) {
  static int64_t n_runs;
  const job *j = context;
  const sim_gemm *g = &j->gemm;
  sim_fold_order order = j->order;
  if (j->differs) order.first = __atomic_add_fetch(&n_runs, 1, __ATOMIC_RELAXED);
  float *sums = sim_take((size_t)(g->m * g->n) * sizeof *sums);
  bool zero = sums_are_zero(g);
  memset(sums, 0, (size_t)(g->m * g->n) * sizeof *sums);
  for (int64_t batch = 0; batch < g->n_batch; batch++) {
    sim_operand rows = {.n = g->m,
                        .fill = sim_fill_strided,
                        .values = element(g->a, batch * g->stride_a, g->input),
                        .dtype = g->input,
                        .row_stride = g->transpose_a ? g->lda : 1,
                        .term_stride = g->transpose_a ? 1 : g->lda};
    sim_operand columns = {.n = g->n,
                           .fill = sim_fill_strided,
                           .values = element(g->b, batch * g->stride_b, g->input),
                           .dtype = g->input,
                           .row_stride = g->transpose_b ? 1 : g->ldb,
                           .term_stride = g->transpose_b ? g->ldb : 1};
    if (!zero) sim_fold(sums, g->k, &columns, &rows, &order);
    finish(g, sums, batch);
  }
  free(sums);
}

CUresult sim_gemm_enqueue(CUstream stream, const char *call, const sim_gemm *gemm, const sim_gemm_engine *engine) {
  const sim_gemm *g = gemm;
  size_t n_partial = engine->splits ? partial_n_bytes(g, engine->order.parts) : 0;
  const sim_range ranges[] = {
      {g->a, a_n_bytes(g), false},
      {g->b, b_n_bytes(g), false},
      {g->c, g->beta != 0 ? matrix_n_bytes(g->m, g->n, g->ldc, g->n_batch, g->stride_c, g->output) : 0, false},
      {g->bias, g->bias ? (size_t)g->m * sim_dtype_size(g->output) : 0, false},
      {g->d, d_n_bytes(g), true},
      {g->workspace, n_partial, true},
  };
  job *copy = sim_take(sizeof *copy);
  *copy = (job){*g, engine->order, sim_setting_lists("cublas.nondeterministic", engine->name)};
  copy->order.first = (int64_t)sim_setting_number("cublas.order", 0);
  char speed[64];
  snprintf(speed, sizeof speed, "cublas.%s", engine->name);
  return sim_enqueue(
      stream, &(sim_task){.name = call,
                          .speed = speed,
                          .run = run,
                          .drop = free,
                          .context = copy,
                          .ranges = ranges,
                          .n_ranges = sizeof ranges / sizeof *ranges,
                          .rate = g->input == SIM_F32 ? SIM_RATE_F32 : SIM_RATE_BF16,
                          .n_flops = 2.0 * (double)(g->m * g->n) * (double)(g->k * g->n_batch) / engine->efficiency});
}
