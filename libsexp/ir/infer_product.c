/* Shape rules of products, convolutions, index operations and scans: ops.def names them. */
#include <string.h>

#include "infer.h"

static bool fail_differ(sx_inference *f, const char *expected, const sx_node *a, const sx_node *b) {
  return sx_problem_set(f->why, SX_E_SHAPE_DIFFER, "%s, got shapes %s and %s", expected, sx_shape_text_of(a).text,
                        sx_shape_text_of(b).text);
}

static bool give(sx_inference *f, int rank, const int64_t *dims) {
  f->rank = rank;
  memcpy(f->dims, dims, (size_t)rank * sizeof *dims);
  return true;
}

/* ---- einsum ------------------------------------------------------------------------------------- */

bool sx_labels_parse(const char *text, sx_labels *labels) {
  *labels = (sx_labels){.parts = {text, text, text}};
  const char *comma = strchr(text, ','), *arrow = strstr(text, "->");
  if (!comma || !arrow || arrow < comma) return false;
  const char *ends[3] = {comma, arrow, arrow + strlen(arrow)};
  labels->parts[1] = comma + 1;
  labels->parts[2] = arrow + 2;
  for (int part = 0; part < 3; part++) {
    ptrdiff_t n = ends[part] - labels->parts[part];
    if (n > SX_RANK_MAX) return false;
    labels->n[part] = (int)n;
    for (int i = 0; i < labels->n[part]; i++) {
      char c = labels->parts[part][i];
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) || sx_labels_find(labels, part, c) != i) return false;
    }
  }
  for (int i = 0; i < labels->n[2]; i++)
    if (sx_labels_find(labels, 0, labels->parts[2][i]) < 0 && sx_labels_find(labels, 1, labels->parts[2][i]) < 0)
      return false;
  return true;
}

int sx_labels_find(const sx_labels *labels, int part, char label) {
  for (int i = 0; i < labels->n[part]; i++)
    if (labels->parts[part][i] == label) return i;
  return -1;
}

bool sx_shape_einsum(sx_inference *f) {
  const sx_node *operands[2] = {sx_inference_input(f, 0), sx_inference_input(f, 1)};
  sx_labels labels;
  if (!sx_labels_parse(f->spec->text, &labels))
    return sx_problem_set(f->why, SX_E_SHAPE_EQUATION, "\"%.64s\" is not of the form ab,bc->ac", f->spec->text);
  for (int k = 0; k < 2; k++)
    if (labels.n[k] != operands[k]->rank)
      return sx_problem_set(f->why, SX_E_SHAPE_RANK, "operand %d of \"%.64s\" has shape %s", k, f->spec->text,
                            sx_shape_text_of(operands[k]).text);
  for (int i = 0; i < labels.n[0]; i++) {
    int k = sx_labels_find(&labels, 1, labels.parts[0][i]);
    if (k >= 0 && operands[0]->dims[i] != operands[1]->dims[k])
      return sx_problem_set(f->why, SX_E_SHAPE_INNER, "sizes of %c differ, %s by %s", labels.parts[0][i],
                            sx_shape_text_of(operands[0]).text, sx_shape_text_of(operands[1]).text);
  }
  f->rank = labels.n[2];
  for (int i = 0; i < labels.n[2]; i++) {
    int a = sx_labels_find(&labels, 0, labels.parts[2][i]), b = sx_labels_find(&labels, 1, labels.parts[2][i]);
    f->dims[i] = a >= 0 ? operands[0]->dims[a] : operands[1]->dims[b];
  }
  return true;
}

/* ---- convolutions ------------------------------------------------------------------------------- */

/* Positions of a kernel over a padded axis; false where there is none. */
static bool conv_positions(sx_inference *f, int64_t size, int64_t kernel, int64_t *positions) {
  int64_t stride = f->spec->ints[0], padding = f->spec->ints[1];
  int64_t limit = (int64_t)1 << 40;
  if (stride < 1 || padding < 0 || padding > limit || size > limit || size < 0 || kernel < 1 ||
      kernel > size + 2 * padding)
    return sx_problem_set(f->why, SX_E_SHAPE_RANGE,
                          "a kernel of %lld with stride %lld and padding %lld does not fit a size of %lld",
                          (long long)kernel, (long long)stride, (long long)padding, (long long)size);
  *positions = (size + 2 * padding - kernel) / stride + 1;
  return true;
}

static bool takes_four_axes(sx_inference *f) {
  for (uint32_t i = 0; i < 2; i++)
    if (sx_inference_input(f, i)->rank != 4) return sx_infer_no_rank(f, "operands of 4 axes", sx_inference_input(f, i));
  return true;
}

bool sx_shape_conv(sx_inference *f) {
  if (!takes_four_axes(f)) return false;
  const sx_node *x = sx_inference_input(f, 0), *w = sx_inference_input(f, 1);
  if (x->dims[3] != w->dims[3])
    return sx_problem_set(f->why, SX_E_SHAPE_INNER, "channels differ, [n h w c] is %s, [out kh kw c] is %s",
                          sx_shape_text_of(x).text, sx_shape_text_of(w).text);
  int64_t height = 0, width = 0;
  if (!conv_positions(f, x->dims[1], w->dims[1], &height) || !conv_positions(f, x->dims[2], w->dims[2], &width))
    return false;
  return give(f, 4, (int64_t[]){x->dims[0], height, width, w->dims[0]});
}

/* dy is what a convolution of height x width with a kernel gives. */
static bool check_conv_result(sx_inference *f, const sx_node *dy, const int64_t size[2], const int64_t kernel[2]) {
  int64_t height = 0, width = 0;
  if (!conv_positions(f, size[0], kernel[0], &height) || !conv_positions(f, size[1], kernel[1], &width)) return false;
  if (dy->dims[1] == height && dy->dims[2] == width) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_DIFFER, "the convolution gives [%lld %lld], not those of %s",
                        (long long)height, (long long)width, sx_shape_text_of(dy).text);
}

bool sx_shape_conv_data(sx_inference *f) {
  if (!takes_four_axes(f)) return false;
  const sx_node *dy = sx_inference_input(f, 0), *w = sx_inference_input(f, 1);
  const int64_t *size = &f->spec->ints[2];
  if (dy->dims[3] != w->dims[0])
    return sx_problem_set(f->why, SX_E_SHAPE_INNER, "output channels differ, [n oh ow out] is %s, [out kh kw c] is %s",
                          sx_shape_text_of(dy).text, sx_shape_text_of(w).text);
  if (!check_conv_result(f, dy, size, &w->dims[1])) return false;
  return give(f, 4, (int64_t[]){dy->dims[0], size[0], size[1], w->dims[3]});
}

bool sx_shape_conv_weight(sx_inference *f) {
  if (!takes_four_axes(f)) return false;
  const sx_node *dy = sx_inference_input(f, 0), *x = sx_inference_input(f, 1);
  const int64_t *kernel = &f->spec->ints[2];
  if (dy->dims[0] != x->dims[0])
    return sx_problem_set(f->why, SX_E_SHAPE_INNER, "batches differ, [n oh ow out] is %s, [n h w c] is %s",
                          sx_shape_text_of(dy).text, sx_shape_text_of(x).text);
  if (!check_conv_result(f, dy, &x->dims[1], kernel)) return false;
  return give(f, 4, (int64_t[]){dy->dims[3], kernel[0], kernel[1], x->dims[3]});
}

/* ---- index operations --------------------------------------------------------------------------- */

static bool check_count(sx_inference *f, int64_t n) {
  if (n >= 0 && n <= INT32_MAX) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "%lld is no number of i32 ids", (long long)n);
}

bool sx_shape_gather(sx_inference *f) {
  const sx_node *table = sx_inference_input(f, 0), *ids = sx_inference_input(f, 1);
  if (table->rank == 0) return sx_infer_no_rank(f, "a table of at least one axis", table);
  if (ids->rank + table->rank - 1 > SX_RANK_MAX)
    return sx_infer_no_rank(f, "fewer axes in table and ids together", ids);
  f->rank = 0;
  for (int i = 0; i < ids->rank; i++) f->dims[f->rank++] = ids->dims[i];
  for (int i = 1; i < table->rank; i++) f->dims[f->rank++] = table->dims[i];
  return true;
}

bool sx_shape_scatter(sx_inference *f) {
  const sx_node *ids = sx_inference_input(f, 0), *values = sx_inference_input(f, 1);
  int64_t n = f->spec->ints[0];
  bool fits = ids->rank <= values->rank && values->rank - ids->rank < SX_RANK_MAX;
  for (int i = 0; fits && i < ids->rank; i++) fits = ids->dims[i] == values->dims[i];
  if (!fits) return fail_differ(f, "values begin with the axes of ids", ids, values);
  if (!check_count(f, n)) return false;
  f->rank = 0;
  f->dims[f->rank++] = n;
  for (int i = ids->rank; i < values->rank; i++) f->dims[f->rank++] = values->dims[i];
  return true;
}

bool sx_shape_take(sx_inference *f) {
  const sx_node *x = sx_inference_input(f, 0), *ids = sx_inference_input(f, 1);
  int64_t axis = f->spec->ints[0];
  if (!sx_infer_axis(f, x, axis)) return false;
  bool fits = x->rank == ids->rank;
  for (int i = 0; fits && i < x->rank; i++) fits = i == axis || x->dims[i] == ids->dims[i];
  if (!fits) return fail_differ(f, "ids agree with the operand but along the axis", x, ids);
  return give(f, ids->rank, ids->dims);
}

bool sx_shape_put(sx_inference *f) {
  const sx_node *ids = sx_inference_input(f, 0), *values = sx_inference_input(f, 1);
  int64_t axis = f->spec->ints[0], n = f->spec->ints[1];
  if (!sx_shape_equal(ids, values)) return fail_differ(f, "ids and values have one shape", ids, values);
  if (!sx_infer_axis(f, values, axis) || !check_count(f, n)) return false;
  give(f, values->rank, values->dims);
  f->dims[axis] = n;
  return true;
}

bool sx_shape_one_hot(sx_inference *f) {
  const sx_node *ids = sx_inference_input(f, 0);
  if (ids->rank == SX_RANK_MAX) return sx_infer_no_rank(f, "ids of fewer than 8 axes", ids);
  if (!check_count(f, f->spec->ints[0])) return false;
  if (ids->rank) give(f, ids->rank, ids->dims);
  f->dims[f->rank++] = f->spec->ints[0];
  return true;
}

bool sx_shape_scan(sx_inference *f) {
  const sx_node *x = sx_inference_input(f, 0);
  int64_t reverse = f->spec->ints[1];
  if (!sx_shape_same(f) || !sx_infer_axis(f, x, f->spec->ints[0])) return false;
  if (reverse == 0 || reverse == 1) return true;
  return sx_problem_set(f->why, SX_E_SHAPE_RANGE, "reverse is 0 or 1, not %lld", (long long)reverse);
}
