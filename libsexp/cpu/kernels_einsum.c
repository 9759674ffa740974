/* Einsum as products of matrices: a label of both operands and the result is a batch, of one operand and
 * the result a row or a column, the others are contracted. Elements that are all batch are dot products
 * side by side, a register of them at a time. */
#include <stddef.h>

#include "fma.h"
#include "gemm.h"
#include "level.h"

enum { LABELS = 128, NARROW_GRAIN = 4096 };

/* Of a label that an operand has: its dim, and its strides, 0 where one lacks it. The others are not set. */
typedef struct labels {
  bool in_a[LABELS], in_b[LABELS], in_out[LABELS];
  int64_t dims[LABELS], a[LABELS], b[LABELS];
} labels;

static void push(sx_gemm_walk *walk, int64_t dim, int64_t stride) {
  walk->axes[walk->n++] = (sx_gemm_axis){.dim = dim, .stride = stride};
}

static int64_t walk_count(const sx_gemm_walk *walk) {
  int64_t n = 1;
  for (int k = 0; k < walk->n; k++) n *= walk->axes[k].dim;
  return n;
}

static void read_first(const char *text, const sx_operand *operand, labels *l) {
  for (int axis = 0; axis < operand->rank; axis++) {
    unsigned char label = (unsigned char)text[axis];
    l->in_a[label] = true;
    l->dims[label] = operand->dims[axis];
    l->a[label] = operand->strides[axis];
    l->b[label] = 0;
  }
}

static void read_second(const char *text, const sx_operand *operand, labels *l) {
  for (int axis = 0; axis < operand->rank; axis++) {
    unsigned char label = (unsigned char)text[axis];
    l->in_b[label] = true;
    l->dims[label] = operand->dims[axis];
    l->b[label] = operand->strides[axis];
    if (!l->in_a[label]) l->a[label] = 0;
  }
}

static void push_contracted(sx_gemm *gemm, const char *text, int rank, const labels *l, bool second) {
  for (int axis = 0; axis < rank; axis++) {
    unsigned char label = (unsigned char)text[axis];
    if (l->in_out[label] || (second && l->in_a[label])) continue;
    push(&gemm->row_side.depth, l->dims[label], l->a[label]);
    push(&gemm->column_side.depth, l->dims[label], l->b[label]);
  }
}

static void begin_side(sx_gemm_side *side, const sx_operand *operand) {
  side->data = operand->data;
  side->dtype = operand->dtype;
  side->base = side->y0 = side->x0 = 0;
  side->height = side->width = 1;
  side->rows.n = side->depth.n = 0;
}

/* Field by field: clearing all the axes would take as long as a small product. */
static void begin_product(sx_gemm *gemm, const sx_operand *a, const sx_operand *b) {
  begin_side(&gemm->row_side, a);
  begin_side(&gemm->column_side, b);
  gemm->c_rows.n = gemm->c_columns.n = 0;
  gemm->batch_rows.n = gemm->batch_columns.n = gemm->batch_c.n = 0;
  gemm->block_begin = NULL;
  gemm->context = NULL;
}

/* False: more contracted labels than a walk has room for. */
static bool make_product(const sx_call *call, sx_gemm *gemm) {
  const sx_operand *a = &call->inputs[0], *b = &call->inputs[1], *out = &call->out;
  const char *first = call->node->text, *second = strchr(first, ',') + 1, *result = strstr(second, "->") + 2;
  labels l;
  memset(l.in_a, 0, offsetof(labels, dims));
  read_first(first, a, &l);
  read_second(second, b, &l);
  for (int axis = 0; axis < out->rank; axis++) l.in_out[(unsigned char)result[axis]] = true;
  int n_contracted = 0;
  for (int axis = 0; axis < a->rank; axis++) n_contracted += !l.in_out[(unsigned char)first[axis]];
  for (int axis = 0; axis < b->rank; axis++) {
    unsigned char label = (unsigned char)second[axis];
    n_contracted += !l.in_out[label] && !l.in_a[label];
  }
  if (n_contracted > SX_RANK_MAX) return false;

  begin_product(gemm, a, b);
  for (int axis = 0; axis < out->rank; axis++) {
    unsigned char label = (unsigned char)result[axis];
    int64_t dim = l.dims[label], stride = out->strides[axis];
    if (l.in_a[label] && l.in_b[label]) {
      push(&gemm->batch_rows, dim, l.a[label]);
      push(&gemm->batch_columns, dim, l.b[label]);
      push(&gemm->batch_c, dim, stride);
    } else if (l.in_a[label]) {
      push(&gemm->row_side.rows, dim, l.a[label]);
      push(&gemm->c_rows, dim, stride);
    } else {
      push(&gemm->column_side.rows, dim, l.b[label]);
      push(&gemm->c_columns, dim, stride);
    }
  }
  push_contracted(gemm, first, a->rank, &l, false);
  push_contracted(gemm, second, b->rank, &l, true);
  gemm->m = walk_count(&gemm->c_rows);
  gemm->n = walk_count(&gemm->c_columns);
  gemm->k = walk_count(&gemm->row_side.depth);
  gemm->n_batches = walk_count(&gemm->batch_c);
  gemm->n_blocks = sx_ceil_div(gemm->k, SX_GEMM_DEPTH);
  return true;
}

static void copy_walk(sx_gemm_walk *to, const sx_gemm_walk *from) {
  to->n = from->n;
  for (int axis = 0; axis < from->n; axis++) to->axes[axis] = from->axes[axis];
}

static void swap_walks(sx_gemm_walk *a, sx_gemm_walk *b) {
  sx_gemm_walk old;
  copy_walk(&old, a);
  copy_walk(a, b);
  copy_walk(b, &old);
}

static void swap_sides(sx_gemm *gemm) {
  sx_gemm_side *a = &gemm->row_side, *b = &gemm->column_side;
  char fields[offsetof(sx_gemm_side, rows)];
  memcpy(fields, a, sizeof fields);
  memcpy(a, b, sizeof fields);
  memcpy(b, fields, sizeof fields);
  int64_t m = gemm->m;
  swap_walks(&a->rows, &b->rows);
  swap_walks(&a->depth, &b->depth);
  swap_walks(&gemm->c_rows, &gemm->c_columns);
  swap_walks(&gemm->batch_rows, &gemm->batch_columns);
  gemm->m = gemm->n;
  gemm->n = m;
}

static bool ends_in_unit_stride(const sx_gemm_walk *walk) { return walk->n > 0 && walk->axes[walk->n - 1].stride == 1; }

/* Lanes used over lanes needed, in percent, when n runs along the registers. */
static int64_t lanes_percent(int64_t n) { return sx_ceil_div(n, SX_LANES) * SX_LANES * 100 / n; }

void SX_AT_LEVEL(sx_gemm_orient)(sx_gemm *gemm) {
  sx_gemm_plain plain;
  if (SX_AT_LEVEL(sx_gemm_plain_of)(gemm, &plain)) {
    if (SX_AT_LEVEL(sx_gemm_plain_swaps)(&plain)) swap_sides(gemm);
    return;
  }
  if (ends_in_unit_stride(&gemm->c_rows)) swap_sides(gemm);
  if (lanes_percent(gemm->n) > lanes_percent(gemm->m) * 13 / 10) swap_sides(gemm);
}

/* ---- dot products side by side ----------------------------------------------------- */

enum { DOTS = 2 * SX_LANES };

typedef struct dots_job {
  const sx_gemm *gemm;
  char *scratch;
} dots_job;

static void run_dots(void *context, int64_t begin, int64_t end, int thread) {
  const dots_job *job = context;
  sx_gemm_side a = job->gemm->row_side, b = job->gemm->column_side;
  a.rows = job->gemm->batch_rows;
  b.rows = job->gemm->batch_columns;
  float *panel_a = (float *)(void *)(job->scratch + thread * sx_gemm_scratch_bytes(1, 1));
  float *panel_b = panel_a + (SX_GEMM_PANEL + 1) * SX_GEMM_DEPTH;
  for (int64_t at = begin; at < end; at += DOTS) {
    int64_t n = sx_min_i64(DOTS, end - at);
    float totals[DOTS] = {0};
    for (int64_t k = 0; k < job->gemm->k; k += SX_GEMM_DEPTH) {
      int64_t depth = sx_min_i64(SX_GEMM_DEPTH, job->gemm->k - k);
      SX_AT_LEVEL(sx_gemm_pack)(&a, 0, at, n, k, depth, DOTS, panel_a);
      SX_AT_LEVEL(sx_gemm_pack)(&b, 0, at, n, k, depth, DOTS, panel_b);
      sx_floats low = {0}, high = {0};
      for (int64_t j = 0; j < depth; j++) {
        const float *pa = panel_a + j * DOTS, *pb = panel_b + j * DOTS;
        sx_floats_fma(&low, sx_floats_load(pa), sx_floats_load(pb));
        sx_floats_fma(&high, sx_floats_load(pa + SX_LANES), sx_floats_load(pb + SX_LANES));
      }
      sx_floats_store(totals, k == 0 ? low : (sx_floats)(sx_floats_load(totals) + low));
      sx_floats_store(totals + SX_LANES, k == 0 ? high : (sx_floats)(sx_floats_load(totals + SX_LANES) + high));
    }
    memcpy(job->gemm->c + at, totals, (size_t)n * 4);
  }
}

/* ---- results of any float dtype -------------------------------------------------------- */

/* A short result is computed in f32 at the start of the scratch; panels come after it. */
static int64_t wide_bytes(const sx_call *call) {
  return call->out.dtype == SX_F32 ? 0 : (sx_operand_count(&call->out) * 4 + 63) / 64 * 64;
}

static void run_narrow(void *context, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const sx_call *call = context;
  const float *wide = call->scratch;
  SX_AT_LEVEL(sx_narrow)((uint16_t *)call->out.data + begin, call->out.dtype, wide + begin, end - begin);
}

sx_product SX_AT_LEVEL(sx_product_begin)(const sx_call *call) {
  bool direct = call->out.dtype == SX_F32;
  return (sx_product){direct ? call->out.data : call->scratch, (char *)call->scratch + wide_bytes(call)};
}

void SX_AT_LEVEL(sx_product_end)(const sx_call *call) {
  sx_call whole = *call;
  if (call->out.dtype != SX_F32)
    sx_pool_run(call->pool, sx_operand_count(&call->out), NARROW_GRAIN, run_narrow, &whole);
}

void SX_AT_LEVEL(sx_gemm_compute)(const sx_call *call, sx_gemm *gemm) {
  sx_product product = SX_AT_LEVEL(sx_product_begin)(call);
  gemm->c = product.c;
  SX_AT_LEVEL(sx_gemm_run)(gemm, call->pool, product.panels);
  SX_AT_LEVEL(sx_product_end)(call);
}

static bool is_row_major(const sx_gemm_walk *walk) {
  int64_t stride = 1;
  for (int k = walk->n - 1; k >= 0; k--) {
    if (walk->axes[k].dim > 1 && walk->axes[k].stride != stride) return false;
    stride *= walk->axes[k].dim;
  }
  return true;
}

bool SX_AT_LEVEL(sx_fast_einsum)(const sx_call *call) {
  sx_gemm gemm;
  int64_t n = sx_operand_count(&call->out);
  if (!make_product(call, &gemm)) return false;
  if (n == 0) return true;
  if (gemm.k == 0) {
    memset(call->out.data, 0, (size_t)(n * sx_element_bytes(call->out.dtype)));
    return true;
  }
  if (gemm.m * gemm.n == 1 && gemm.n_batches > 1 && is_row_major(&gemm.batch_c)) {
    sx_product product = SX_AT_LEVEL(sx_product_begin)(call);
    dots_job job = {&gemm, product.panels};
    gemm.c = product.c;
    sx_pool_run(call->pool, n, DOTS, run_dots, &job);
    SX_AT_LEVEL(sx_product_end)(call);
    return true;
  }
  SX_AT_LEVEL(sx_gemm_orient)(&gemm);
  SX_AT_LEVEL(sx_gemm_compute)(call, &gemm);
  return true;
}
