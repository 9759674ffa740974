/* Operands of attention by tiles, for one batch element after the other: copies, and whether columns may be left out.
 */
#include <math.h>

#include "attending.h"
#include "operand.h"

enum { PANEL = SX_ATTENDING_PANEL, LINE_FLOATS = 16 };

static const double MOST_SCORES = 1e38; /* well below the largest f32 */

/* Where a batch element of a matrix begins. */
static float *place_of(const sx_attending_work *w, const int64_t *batch, const sx_attending_matrix *m) {
  int64_t at = m->offset;
  for (int i = 0; i < w->a->of->n_batch_axes; i++) at += batch[i] * m->of->batch[i];
  return (float *)w->data[m->buffer] + at;
}

/* The largest magnitude in a matrix; infinite if something is no number. */
static double largest(const sx_attending_work *w, uint32_t matrix) {
  enum { INFINITE = 0x7f800000 };
  const sx_attending_matrix *m = &w->a->matrices[matrix];
  const sx_matrix_kernels *kernels = w->a->kernels->matrices;
  int32_t bits = INFINITE;
  if (m->n_copied)
    bits = kernels->largest(w->scratch + m->copy, 1, 0, m->n_copied);
  else if (m->of->column == 1)
    bits = kernels->largest(w->at[matrix], m->n, m->of->row, m->depth);
  return bits < INFINITE ? (double)sx_from_bits_f32((uint32_t)bits) : (double)INFINITY;
}

/* The same, looked for once a batch element. */
static double find_largest(const sx_attending_work *w, double *known, uint32_t matrix) {
  if (known[matrix] < 0) known[matrix] = largest(w, matrix);
  return known[matrix];
}

/* Whether what hidden columns would add is 0 if their factors are: see sx_attention_skip. */
static bool are_finite(const sx_attending_work *w) {
  const sx_attention *of = w->a->of;
  double known[2 * SX_ATTENTION_PRODUCTS];
  if (!of->skip.allowed) return false;
  for (uint32_t i = 0; i < w->a->n_matrices; i++) known[i] = -1;
  for (uint32_t i = 0; i < of->n_products; i++) {
    const sx_attending_product *p = &w->a->products[i];
    bool scores = p->of->kind == SX_ATTENTION_SCORES;
    if (!scores && !isfinite(find_largest(w, known, p->right))) return false;
    if (!scores || !(of->skip.bounded >> i & 1)) continue;
    double most = find_largest(w, known, p->left) * find_largest(w, known, p->right) * (double)p->of->depth;
    if (!(of->skip.bound * (1 + most) < MOST_SCORES)) return false;
  }
  return true;
}

static void copy_panels(const sx_attending_work *w, const sx_attending_product *p) {
  const sx_attention_matrix *m = &p->of->right;
  const float *from = w->at[p->right];
  int64_t columns = w->a->of->columns, depth = p->of->depth;
  for (int64_t j = 0; j < columns; j += PANEL)
    w->a->kernels->matrices->transpose(from + j * m->row, m->row, m->column, columns - j < PANEL ? columns - j : PANEL,
                                       depth, PANEL, w->scratch + p->operand.place + j * depth);
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
  place_batch(w->a->of, batch, w->next);
  for (uint32_t i = 0; i < w->a->n_matrices; i++) w->at[i] = place_of(w, w->next, &w->a->matrices[i]);
  place_batch(w->a->of, batch + 1, w->next);
  for (uint32_t i = 0; i < w->a->of->n_products; i++) {
    const sx_attending_product *p = &w->a->products[i];
    if (p->of->kind == SX_ATTENTION_SCORES)
      copy_panels(w, p);
    else if (p->operand.copied)
      sx_walk_read(&p->operand.walk, w->at[p->right], 0, p->operand.walk.n, w->scratch + p->operand.place);
  }
  w->finite = are_finite(w);
  w->whole = false;
}

void sx_attending_fetch(const sx_attending_work *w, int64_t first, int64_t n, uint32_t turn) {
  int64_t rows = w->a->of->rows;
  for (uint32_t i = 0, number = 0; w->has_next && i < w->a->n_matrices; i++) {
    const sx_attending_matrix *m = &w->a->matrices[i];
    if (m->written || m->of->column != 1 || number++ % SX_ATTENDING_TURNS != turn) continue;
    const float *from = place_of(w, w->next, m);
    for (int64_t row = first * m->n / rows; row < (first + n) * m->n / rows; row++)
      for (int64_t k = 0; k < m->depth; k += LINE_FLOATS) __builtin_prefetch(from + row * m->of->row + k, 0, 2);
  }
}
