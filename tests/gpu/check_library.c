/* Products and convolutions by cuBLAS and cuDNN: every candidate of a choice within the bound of a sum of products in
 * any order, and twice the same; how many of them have other bits than the first is told. */
#include "check_parts.h"

#ifdef SX_CUDA
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/operand.h"
#include "../../libsexp/cuda/trial.h"

#define EINSUM(D, A, B, LABELS, OUT)                                                                   \
  "graph \"g\"\n%0 = input {name \"field/a\"} : " D " " A "\n%1 = input {name \"field/b\"} : " D " " B \
  "\n%2 = einsum %0 %1 {labels \"" LABELS "\"} : " D " " OUT "\noutput \"y\" %2\n"
#define CONV(D, OP, A, B, MORE, OUT)                                                                                \
  "graph \"g\"\n%0 = input {name \"field/a\"} : " D " " A "\n%1 = input {name \"field/b\"} : " D " " B "\n%2 = " OP \
  " %0 %1 {" MORE "} : " D " " OUT "\noutput \"y\" %2\n"

typedef struct row {
  const char *name, *text;
} row;

static const row ROWS[] = {
    {"product f32 n n", EINSUM("f32", "[130 300]", "[300 70]", "ab,bc->ac", "[130 70]")},
    {"product f32 t n", EINSUM("f32", "[300 128]", "[300 64]", "ba,bc->ac", "[128 64]")},
    {"product f32 n t", EINSUM("f32", "[128 256]", "[96 256]", "ab,cb->ac", "[128 96]")},
    {"product bf16 n n", EINSUM("bf16", "[128 320]", "[320 64]", "ab,bc->ac", "[128 64]")},
    {"product bf16 t t", EINSUM("bf16", "[96 64]", "[50 96]", "ba,cb->ac", "[64 50]")},
    {"product f16 n n", EINSUM("f16", "[64 256]", "[256 64]", "ab,bc->ac", "[64 64]")},
    {"batch of products f32", EINSUM("f32", "[6 64 80]", "[6 80 48]", "xab,xbc->xac", "[6 64 48]")},
    {"attention's scores f32", EINSUM("f32", "[2 96 3 64]", "[2 96 3 64]", "bthd,bshd->bhts", "[2 3 96 96]")},
    {"long product f32", EINSUM("f32", "[8192 64]", "[8192 48]", "ka,kb->ab", "[64 48]")},
    {"Forward f32", CONV("f32", "conv2d", "[4 14 14 16]", "[24 3 3 16]", "stride 1,padding 1", "[4 14 14 24]")},
    {"Forward bf16", CONV("bf16", "conv2d", "[4 14 14 16]", "[24 3 3 16]", "stride 1,padding 1", "[4 14 14 24]")},
    {"Forward f32, stride 2", CONV("f32", "conv2d", "[4 15 15 8]", "[16 5 5 8]", "stride 2,padding 2", "[4 8 8 16]")},
    {"Data f32", CONV("f32", "conv2d-data", "[4 14 14 24]", "[24 3 3 16]", "stride 1,padding 1,height 14,width 14",
                      "[4 14 14 16]")},
    {"Data bf16", CONV("bf16", "conv2d-data", "[4 14 14 24]", "[24 3 3 16]", "stride 1,padding 1,height 14,width 14",
                       "[4 14 14 16]")},
    {"Weight f32", CONV("f32", "conv2d-weight", "[4 14 14 24]", "[4 14 14 16]", "stride 1,padding 1,height 3,width 3",
                        "[24 3 3 16]")},
    {"Weight bf16", CONV("bf16", "conv2d-weight", "[4 14 14 24]", "[4 14 14 16]", "stride 1,padding 1,height 3,width 3",
                         "[24 3 3 16]")},
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* ---- the CPU's result, and how far another order may be from it ----------------------------------- */

typedef struct expected {
  const sx_plan *plan;
  const sx_node *node; /* that is computed: the third */
  int64_t n, depth;    /* elements of the result; products of one */
  void *value, *sizes; /* the sum; the sum of the products' sizes */
} expected;

static sx_operand operand_of(const sx_node *node, void *data, int64_t strides[SX_RANK_MAX]) {
  int64_t stride = 1;
  for (int axis = node->rank - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= node->dims[axis];
  }
  return (sx_operand){data, node->dtype, node->rank, node->dims, strides};
}

static bool compute(const sx_plan *plan, const sx_node *node, void *const inputs[2], void *out) {
  int64_t strides[3][SX_RANK_MAX];
  sx_operand operands[2];
  sx_fault fault = {INT64_MAX, 0, 0};
  for (int i = 0; i < 2; i++) operands[i] = operand_of(sx_node_at(plan->graph, (sx_id)i), inputs[i], strides[i]);
  sx_call call = {.node = node, .inputs = operands, .n_inputs = 2, .fault = &fault};
  call.out = operand_of(node, out, strides[2]);
  size_t scratch = (size_t)sx_kernel_scratch(sx_kernels(SX_SIMD_REFERENCE), plan->graph, 2, 1);
  call.scratch = aligned_alloc(64, scratch + 64 - scratch % 64);
  if (call.scratch) sx_reference[node->op](&call);
  free(call.scratch);
  return call.scratch != NULL;
}

/* Products of an element of the result: all that is multiplied over what is written. For a gradient of a convolution
 * at least that. */
static int64_t depth_of(const sx_plan *plan, const sx_node *node) {
  const sx_node *a = sx_node_at(plan->graph, 0), *b = sx_node_at(plan->graph, 1);
  if (node->op == SX_OP_CONV || node->op == SX_OP_CONVDATA) return sx_node_elements(b);
  if (node->op == SX_OP_CONVWEIGHT) return sx_node_elements(a) / a->dims[a->rank - 1];
  int64_t most = 1;
  for (int axis = 0; axis < a->rank; axis++)
    if (a->dims[axis] > most) most = a->dims[axis];
  return most;
}

static void absolute(void *to, const void *from, sx_dtype dtype, int64_t n) {
  for (int64_t k = 0; k < n; k++) sx_store(to, dtype, k, (sx_value){.f = fabsf(sx_load(from, dtype, k).f)});
}

static void expected_free(expected *e) {
  free(e->value);
  free(e->sizes);
}

/* Sizes are summed in f32, whatever the dtype of the result. */
static bool expected_make(expected *e, gpu_plan *p) {
  const sx_graph *graph = p->plan->graph;
  void *sizes[2] = {NULL, NULL}, *inputs[2];
  *e = (expected){.plan = p->plan, .node = sx_node_at(graph, 2)};
  e->n = sx_node_elements(e->node);
  e->depth = depth_of(p->plan, e->node);
  e->value = calloc((size_t)e->n + 1, 4);
  e->sizes = calloc((size_t)e->n + 1, 4);
  bool good = e->value && e->sizes;
  for (int i = 0; i < 2; i++) {
    const sx_node *node = sx_node_at(graph, (sx_id)i);
    inputs[i] = p->host[p->plan->views[i].buffer];
    sizes[i] = calloc((size_t)sx_node_elements(node) + 1, 4);
    if (sizes[i]) absolute(sizes[i], inputs[i], node->dtype, sx_node_elements(node));
    good = good && sizes[i];
  }
  sx_node wide = *e->node;
  wide.dtype = SX_F32;
  good = good && compute(p->plan, e->node, inputs, e->value) && compute(p->plan, &wide, sizes, e->sizes);
  free(sizes[0]);
  free(sizes[1]);
  return good;
}

/* Two orders of a sum of n products differ by at most 2 n 2^-24 times the sum of their sizes, and each result is
 * rounded once. The largest share of that is kept. */
static void judge(check_result *result, const expected *e, const void *got, const char *value, double *share) {
  double unit = e->node->dtype == SX_F32 ? 0x1p-24 : e->node->dtype == SX_BF16 ? 0x1p-8 : 0x1p-11;
  for (int64_t k = 0; k < e->n && result->good; k++) {
    double a = (double)sx_load(got, e->node->dtype, k).f, b = (double)sx_load(e->value, e->node->dtype, k).f;
    double sizes = (double)((const float *)e->sizes)[k];
    double bound = 1.01 * (2 * (double)e->depth * 0x1p-24 * sizes + 2 * unit * fabs(b)) + 0x1p-24;
    if (!(fabs(a - b) <= bound))
      check_failed(result, "%s: element %lld is %.9g, the CPU's %.9g: further than %.3g", value, (long long)k, a, b,
                   bound);
    if (fabs(a - b) / bound > *share) *share = fabs(a - b) / bound;
  }
}

/* ---- candidates ---------------------------------------------------------------------------------- */

typedef struct wanting {
  size_t wanted, n;
  char value[120];
} wanting;

static const char *take(void *context, const sexp_choice *choice, sx_diags *diags) {
  wanting *t = context;
  (void)diags;
  t->n = choice->n_values;
  const char *value = choice->values[t->wanted < t->n ? t->wanted : 0];
  snprintf(t->value, sizeof t->value, "%s", value);
  return value;
}

typedef struct trying {
  check_result *result;
  gpu_device *gpu;
  const sx_plan *plan;
  sx_arena *arena;
  void *first; /* result of the first candidate */
  int n_tried, n_other;
  double share;
} trying;

/* Of any exponent; in f16, which holds few, of one. */
static void fill(gpu_plan *p) {
  for (int i = 0; i < 2; i++) {
    const sx_node *node = sx_node_at(p->plan->graph, (sx_id)i);
    void *data = p->host[p->plan->views[i].buffer];
    int exponent;
    sx_trial_fill(data, node->dtype, (uint64_t)i + 1, sx_node_elements(node));
    for (int64_t k = 0; k < sx_node_elements(node) && node->dtype == SX_F16; k++)
      sx_store(data, SX_F16, k, (sx_value){.f = frexpf(sx_load(data, SX_F16, k).f, &exponent)});
  }
}

static void compare(trying *t, gpu_plan *p, const char *value) {
  void *got = p->host[p->plan->views[2].buffer];
  expected e;
  size_t n_bytes =
      (size_t)sx_node_elements(sx_node_at(p->plan->graph, 2)) * sx_dtype_bytes(sx_node_at(p->plan->graph, 2)->dtype);
  void *once = malloc(n_bytes + 1);
  if (expected_make(&e, p) && once) {
    memcpy(once, got, n_bytes);
    judge(t->result, &e, got, value, &t->share);
    if (!gpu_plan_run(p, NULL)) check_failed(t->result, "%s: %s", value, t->gpu->why);
    if (t->result->good && memcmp(once, got, n_bytes)) check_failed(t->result, "%s: two executions differ", value);
    if (t->first && memcmp(once, t->first, n_bytes)) t->n_other++;
    if (t->first)
      free(once);
    else
      t->first = once;
  } else {
    check_failed(t->result, "no memory");
    free(once);
  }
  expected_free(&e);
}

/* One candidate; gives how many there are. */
static size_t try_candidate(trying *t, size_t wanted) {
  wanting taking = {.wanted = wanted, .value = "no choice"};
  sx_deciding deciding = {take, &taking};
  gpu_plan p;
  bool made = gpu_plan_make(&p, t->gpu, t->plan, &deciding, t->arena);
  if (made) fill(&p);
  if (made && gpu_plan_run(&p, NULL))
    compare(t, &p, taking.value);
  else
    check_failed(t->result, "%s: %s", taking.value, t->gpu->why);
  gpu_plan_free(&p);
  t->n_tried++;
  return taking.n;
}

static void check_row(check_result *result, gpu_device *gpu, const check_piece *piece, const check_options *options) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  trying t = {.result = result, .gpu = gpu, .arena = &arena};
  t.plan = gpu_plan_of(ROWS[piece->number].text, false, &arena);
  if (!t.plan) check_failed(result, "its text is no graph");
  for (size_t i = 0, n = 1; i < n && i < (size_t)options->candidates && result->good; i++) n = try_candidate(&t, i);
  snprintf(result->what, sizeof result->what, "%d candidate%s, %d with other bits; at most %.2g of the bound",
           t.n_tried, t.n_tried == 1 ? "" : "s", t.n_other, t.share);
  free(t.first);
  sx_arena_free(&arena);
}

size_t check_library_pieces(check_piece *pieces, size_t n) {
  for (int i = 0; i < N_ROWS; i++) {
    check_piece *piece = &pieces[n++];
    *piece = (check_piece){.check = check_row, .number = i};
    snprintf(piece->name, sizeof piece->name, "%s", ROWS[i].name);
  }
  return n;
}
#else
typedef int test_gpu_check_library_is_empty;
#endif
