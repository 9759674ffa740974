/* Operands of attention by tiles, for one batch element after the other: copies, and whether columns may be left out.
 */
#include <math.h>

#include "attending.h"
#include "operand.h"

enum { PANEL = SX_ATTENDING_PANEL, LINE_FLOATS = 16 };

static const double MOST_SCORES = 1e38; /* well below the largest f32 */

static int64_t offset_at(const sx_attending_work *w, const int64_t *batch, const sx_attention_matrix *m) {
  int64_t at = 0;
  for (int i = 0; i < w->a->of->n_batch_axes; i++) at += batch[i] * m->batch[i];
  return at;
}

static int64_t batch_offset(const sx_attending_work *w, const sx_attention_matrix *m) {
  return offset_at(w, w->batch, m);
}

const float *sx_attending_outer_right(const sx_attending_work *w, const sx_attending_product *p) {
  return (const float *)w->data[p->right.buffer] + p->right.offset + batch_offset(w, &p->of->right);
}

const float *sx_attending_right_of(const sx_attending_work *w, const sx_attending_product *p) {
  return p->right.copied ? w->scratch + p->right.place : sx_attending_outer_right(w, p);
}

float *sx_attending_left_of(const sx_attending_work *w, const sx_attending_product *p) {
  return (float *)w->data[p->left_buffer] + p->left_offset + batch_offset(w, &p->of->left);
}

/* The largest magnitude in rows, the elements of each side by side; infinite if something is no number. */
static double largest(const sx_attending_work *w, const float *from, int64_t rows, int64_t row, int64_t columns) {
  enum { INFINITE = 0x7f800000 };
  int32_t bits = w->a->kernels->matrices->largest(from, rows, row, columns);
  return bits < INFINITE ? (double)sx_from_bits_f32((uint32_t)bits) : (double)INFINITY;
}

/* More than the scores can be. */
static double most_scores(const sx_attending_work *w, const sx_attending_product *p) {
  const sx_attention *of = w->a->of;
  const sx_attention_matrix *left = &p->of->left, *right = &p->of->right;
  int64_t depth = p->of->depth;
  if (left->column != 1 || right->column != 1) return (double)INFINITY;
  double rows = largest(w, sx_attending_left_of(w, p), of->rows, left->row, depth);
  return rows * largest(w, sx_attending_outer_right(w, p), of->columns, right->row, depth) * (double)depth;
}

/* Whether what hidden columns would add is 0 if their factors are: see sx_attention_skip. */
static bool are_finite(const sx_attending_work *w) {
  const sx_attention *of = w->a->of;
  if (!of->skip.allowed) return false;
  for (uint32_t i = 0; i < of->n_products; i++) {
    const sx_attending_product *p = &w->a->products[i];
    if (p->of->kind != SX_ATTENTION_SCORES) {
      if (!isfinite(largest(w, sx_attending_right_of(w, p), sx_attending_contracted(w->a, p->of), p->right.row,
                            p->of->depth)))
        return false;
    } else if (of->skip.bounded >> i & 1) {
      double most = of->skip.bound * (1 + most_scores(w, p));
      if (!(most < MOST_SCORES)) return false;
    }
  }
  return true;
}

static void copy_panels(const sx_attending_work *w, const sx_attending_product *p) {
  const sx_attention_matrix *m = &p->of->right;
  const float *from = sx_attending_outer_right(w, p);
  int64_t columns = w->a->of->columns, depth = p->of->depth;
  for (int64_t j = 0; j < columns; j += PANEL)
    w->a->kernels->matrices->transpose(from + j * m->row, m->row, m->column, columns - j < PANEL ? columns - j : PANEL,
                                       depth, PANEL, w->scratch + p->right.place + j * depth);
}

static void place_batch(const sx_attention *of, int64_t number, int64_t *batch) {
  for (int axis = of->n_batch_axes - 1; axis >= 0; axis--) {
    batch[axis] = number % of->batch[axis];
    number /= of->batch[axis];
  }
}

void sx_attending_begin(sx_attending_work *w, int64_t batch, int64_t end) {
  w->batch_number = batch;
  w->has_next = batch + 1 < end;
  place_batch(w->a->of, batch, w->batch);
  place_batch(w->a->of, batch + 1, w->next);
  for (uint32_t i = 0; i < w->a->of->n_products; i++) {
    const sx_attending_product *p = &w->a->products[i];
    if (p->of->kind == SX_ATTENTION_SCORES)
      copy_panels(w, p);
    else if (p->right.copied)
      sx_walk_read(&p->right.walk, sx_attending_outer_right(w, p), 0, p->right.walk.n, w->scratch + p->right.place);
  }
  w->finite = are_finite(w);
  w->whole = false;
}

void sx_attending_fetch(const sx_attending_work *w, int64_t first, int64_t n, uint32_t turn) {
  int64_t rows = w->a->of->rows;
  for (uint32_t i = turn; w->has_next && i < w->a->n_fetched; i += SX_ATTENDING_TURNS) {
    const sx_attending_fetched *m = &w->a->fetched[i];
    const float *from = (const float *)w->data[m->buffer] + m->offset + offset_at(w, w->next, m->of);
    for (int64_t row = first * m->n / rows; row < (first + n) * m->n / rows; row++)
      for (int64_t k = 0; k < m->depth; k += LINE_FLOATS) __builtin_prefetch(from + row * m->of->row + k, 0, 2);
  }
}
