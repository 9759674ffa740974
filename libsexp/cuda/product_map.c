/* The eight ways to copy none, some or all of A, B and C are tried; without a copy of C its strides order the axes,
 * else an operand's that is not copied. */
#include "product_map.h"

#include <limits.h>

enum { CALL_COST = 1 << 20 }; /* bytes that move in the time that a further call takes, some microseconds */
enum { COPY_A = 1, COPY_B = 2, COPY_C = 4, WAYS = 8 };

typedef sx_contract_axis axis;
typedef sx_contract_walk walk;

/* ---- order -------------------------------------------------------------------------------------- */

typedef enum by { BY_A, BY_B, BY_C, BY_NOTHING } by;

static int64_t stride_by(const axis *of, by which) { return which == BY_A ? of->a : which == BY_B ? of->b : of->c; }

static walk without_ones(const walk *from) {
  walk to = {.count = from->count};
  for (int i = 0; i < from->n; i++)
    if (from->axes[i].dim != 1) to.axes[to.n++] = from->axes[i];
  return to;
}

/* Outermost, the largest stride, first; equal ones stay in order. */
static void sort(walk *w, by which) {
  if (which == BY_NOTHING) return;
  for (int i = 1; i < w->n; i++) {
    axis moved = w->axes[i];
    int at = i;
    for (; at > 0 && stride_by(&w->axes[at - 1], which) < stride_by(&moved, which); at--) w->axes[at] = w->axes[at - 1];
    w->axes[at] = moved;
  }
}

/* ---- copies ------------------------------------------------------------------------------------- */

static void push(sx_product_copy *copy, const walk *w, by which) {
  for (int i = 0; i < w->n; i++) {
    copy->dims[copy->rank] = w->axes[i].dim;
    copy->strides[copy->rank++] = stride_by(&w->axes[i], which);
    copy->n *= w->axes[i].dim;
  }
}

static int64_t pack(walk *w, by which, int64_t stride) {
  for (int i = w->n - 1; i >= 0; i--) {
    axis *packed = &w->axes[i];
    *(which == BY_A ? &packed->a : which == BY_B ? &packed->b : &packed->c) = stride;
    stride *= packed->dim;
  }
  return stride;
}

/* The operand as it will lie after the copy: outer axes first. */
static void copy(sx_product_copy *made, walk *outer, walk *middle, walk *inner, by which) {
  *made = (sx_product_copy){.is = true, .n = 1};
  push(made, outer, which);
  push(made, middle, which);
  push(made, inner, which);
  pack(outer, which, pack(middle, which, pack(inner, which, 1)));
}

static void append(walk *to, const walk *from) {
  for (int i = 0; i < from->n; i++) to->axes[to->n++] = from->axes[i];
}

/* The result will lie in scratch, packed in the order of the parts; its copy reads it there in the result's order. */
static void copy_result(sx_product_copy *made, walk *batch, walk *rows, walk *columns) {
  walk result = {.count = 1}, packed = {.count = 1};
  append(&result, batch);
  append(&result, rows);
  append(&result, columns);
  pack(batch, BY_C, pack(rows, BY_C, pack(columns, BY_C, 1)));
  append(&packed, batch);
  append(&packed, rows);
  append(&packed, columns);
  for (int i = 0; i < result.n; i++) result.axes[i].a = packed.axes[i].c;
  sort(&result, BY_C);
  *made = (sx_product_copy){.is = true, .n = 1};
  push(made, &result, BY_A);
}

/* ---- merging ------------------------------------------------------------------------------------ */

static bool continues(const axis *outer, const axis *inner) {
  int64_t n = inner->dim;
  return outer->a == n * inner->a && outer->b == n * inner->b && outer->c == n * inner->c;
}

static void merge(walk *w) {
  walk to = {.count = w->count};
  for (int i = 0; i < w->n; i++) {
    axis *last = to.n ? &to.axes[to.n - 1] : NULL;
    if (last && continues(last, &w->axes[i])) {
      int64_t dim = last->dim;
      *last = w->axes[i];
      last->dim *= dim;
    } else {
      to.axes[to.n++] = w->axes[i];
    }
  }
  *w = to;
}

/* Leaves the innermost axis; the others are batches whose other operand stays where it is. */
static bool keep_inner(walk *w, walk *batch) {
  int n = w->n - 1;
  if (n <= 0) return true;
  if (batch->n + n > 2 * SX_RANK_MAX) return false;
  for (int i = 0; i < n; i++) {
    batch->axes[batch->n++] = w->axes[i];
    batch->count *= w->axes[i].dim;
  }
  w->axes[0] = w->axes[n];
  w->n = 1;
  w->count = w->axes[0].dim;
  return true;
}

static bool has_steps_back(const walk *w) {
  for (int i = 0; i < w->n; i++)
    if (w->axes[i].a < 0 || w->axes[i].b < 0) return true;
  return false;
}

/* ---- one matrix --------------------------------------------------------------------------------- */

/* A matrix that is read column by column, or of its transpose; false: neither. */
static bool lay_out(bool *transposed, int *leading, int64_t rows, int64_t row, int64_t columns, int64_t column) {
  int64_t by_columns = columns == 1 ? rows : column, by_rows = rows == 1 ? columns : row;
  if ((row == 1 || rows == 1) && by_columns >= rows && by_columns <= INT_MAX) {
    *transposed = false;
    *leading = (int)by_columns;
    return true;
  }
  if ((column == 1 || columns == 1) && by_rows >= columns && by_rows <= INT_MAX) {
    *transposed = true;
    *leading = (int)by_rows;
    return true;
  }
  return false;
}

static axis only(const walk *w) { return w->n ? w->axes[0] : (axis){.dim = 1}; }

/* The result row by row is its transpose column by column, of the operands exchanged. */
static bool lay_out_call(sx_gemm_call *call, bool *exchanged, const axis *row, const axis *column, const axis *depth) {
  int64_t m = row->dim, n = column->dim, k = depth->dim;
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX) return false;
  bool by_rows = n == 1 || column->c == 1;
  int64_t leading = by_rows ? (m == 1 ? n : row->c) : (n == 1 ? m : column->c);
  if (!by_rows && !(m == 1 || row->c == 1)) return false;
  if (leading < (by_rows ? n : m) || leading > INT_MAX) return false;
  *exchanged = by_rows;
  *call = (sx_gemm_call){
      .m = (int)(by_rows ? n : m), .n = (int)(by_rows ? m : n), .k = (int)k, .c_leading = (int)leading, .batch = 1};
  if (by_rows)
    return lay_out(&call->a_transposed, &call->a_leading, n, column->b, k, depth->b) &&
           lay_out(&call->b_transposed, &call->b_leading, k, depth->a, m, row->a);
  return lay_out(&call->a_transposed, &call->a_leading, m, row->a, k, depth->a) &&
         lay_out(&call->b_transposed, &call->b_leading, k, depth->b, n, column->b);
}

/* The largest batch is the call's own, the others are calls. */
static bool lay_out_batches(sx_product_mapping *m, const walk *batch) {
  int largest = -1;
  for (int i = 0; i < batch->n; i++)
    if (largest < 0 || batch->axes[i].dim > batch->axes[largest].dim) largest = i;
  m->n_calls = 1;
  for (int i = 0; i < batch->n; i++) {
    const axis *of = &batch->axes[i];
    if (i != largest) {
      m->loops[m->n_loops++] = *of;
      m->n_calls *= of->dim;
      continue;
    }
    if (of->dim > INT_MAX) return false;
    m->call.batch = (int)of->dim;
    m->call.a_stride = m->exchanged ? of->b : of->a;
    m->call.b_stride = m->exchanged ? of->a : of->b;
    m->call.c_stride = of->c;
  }
  return m->n_calls <= SX_GEMM_CALLS_MOST;
}

/* ---- one way ------------------------------------------------------------------------------------ */

typedef struct parts {
  walk batch, rows, columns, depth;
} parts;

static void sort_parts(parts *p, int way) {
  by operand = !(way & COPY_A) ? BY_A : !(way & COPY_B) ? BY_B : BY_NOTHING;
  bool free_c = way & COPY_C;
  sort(&p->batch, free_c ? operand : BY_C);
  sort(&p->rows, !free_c ? BY_C : way & COPY_A ? BY_NOTHING : BY_A);
  sort(&p->columns, !free_c ? BY_C : way & COPY_B ? BY_NOTHING : BY_B);
  sort(&p->depth, operand);
}

static void copy_parts(sx_product_mapping *m, parts *p, const sx_contract *contract, int way) {
  int64_t c_bytes = (int64_t)sx_dtype_bytes(contract->to), from_bytes = (int64_t)sx_dtype_bytes(contract->from);
  if (way & COPY_A) copy(&m->a, &p->batch, &p->rows, &p->depth, BY_A);
  if (way & COPY_B) copy(&m->b, &p->batch, &p->columns, &p->depth, BY_B);
  if (way & COPY_C) copy_result(&m->c, &p->batch, &p->rows, &p->columns);
  m->cost = 2 * ((m->a.is ? m->a.n : 0) + (m->b.is ? m->b.n : 0)) * from_bytes + 2 * (m->c.is ? m->c.n : 0) * c_bytes;
}

static bool try_way(sx_product_mapping *m, const sx_contract *contract, int way) {
  parts p = {without_ones(&contract->batch), without_ones(&contract->rows), without_ones(&contract->columns),
             without_ones(&contract->depth)};
  *m = (sx_product_mapping){0};
  sort_parts(&p, way);
  copy_parts(m, &p, contract, way);
  merge(&p.batch);
  merge(&p.rows);
  merge(&p.columns);
  merge(&p.depth);
  if (p.depth.n > 1 || !keep_inner(&p.rows, &p.batch) || !keep_inner(&p.columns, &p.batch)) return false;
  merge(&p.batch);
  if (has_steps_back(&p.batch)) return false;
  axis row = only(&p.rows), column = only(&p.columns), depth = only(&p.depth);
  if (!lay_out_call(&m->call, &m->exchanged, &row, &column, &depth) || !lay_out_batches(m, &p.batch)) return false;
  m->cost += (m->n_calls - 1) * CALL_COST;
  return true;
}

/* What cuBLAS multiplies with f32 sums. */
static bool has_types(const sx_contract *c) {
  return c->from == SX_F32 ? c->to == SX_F32 : c->to == SX_F32 || c->to == c->from;
}

bool sx_product_map(sx_product_mapping *mapping, const sx_contract *contract) {
  if (!has_types(contract) || contract->a.is || contract->b.is) return false;
  bool found = false;
  for (int way = 0; way < WAYS; way++) {
    sx_product_mapping tried;
    if (!try_way(&tried, contract, way) || (found && tried.cost >= mapping->cost)) continue;
    *mapping = tried;
    found = true;
  }
  return found;
}

sx_gemm_call *sx_product_calls(const sx_product_mapping *m, sx_arena *arena) {
  sx_gemm_call *calls = SX_NEW_N(arena, sx_gemm_call, m->n_calls);
  for (int64_t i = 0; i < m->n_calls; i++) {
    calls[i] = m->call;
    int64_t rest = i;
    for (int loop = m->n_loops - 1; loop >= 0; loop--) {
      const axis *of = &m->loops[loop];
      int64_t at = rest % of->dim;
      rest /= of->dim;
      calls[i].a += at * (m->exchanged ? of->b : of->a);
      calls[i].b += at * (m->exchanged ? of->a : of->b);
      calls[i].c += at * of->c;
    }
  }
  return calls;
}
