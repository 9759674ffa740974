/* Einsum and convolutions as walks. */
#include "contract.h"

#include <string.h>

#include "../base/bug.h"

enum { LABELS = 128 };

static void push(sx_contract_walk *walk, sx_contract_axis axis) {
  walk->axes[walk->n++] = axis;
  walk->count *= axis.dim;
}

static sx_contract empty(sx_dtype from, sx_dtype to) {
  sx_contract_walk one = {.count = 1};
  return (sx_contract){.from = from, .to = to, .batch = one, .rows = one, .columns = one, .depth = one};
}

/* ---- einsum ------------------------------------------------------------------------------------- */

typedef struct label {
  bool in_a, in_b, in_out;
  sx_contract_axis axis;
} label;

/* Contracted: the labels of the first operand that the result lacks, in its order; then the second's. */
static void push_contracted(sx_contract *contract, const char *text, int rank, const label labels[LABELS],
                            bool second) {
  for (int axis = 0; axis < rank; axis++) {
    const label *l = &labels[(unsigned char)text[axis]];
    if (!l->in_out && !(second && l->in_a)) push(&contract->depth, l->axis);
  }
}

static sx_contract contract_of_einsum(const sx_node *node, const sx_strided in[2]) {
  const char *first = node->text, *second = strchr(first, ',') + 1, *out = strstr(second, "->") + 2;
  label labels[LABELS] = {0};
  int64_t strides[SX_RANK_MAX];
  for (int axis = 0; axis < in[0].rank; axis++) {
    label *l = &labels[(unsigned char)first[axis]];
    l->in_a = true;
    l->axis.dim = in[0].dims[axis];
    l->axis.a = in[0].strides[axis];
  }
  for (int axis = 0; axis < in[1].rank; axis++) {
    label *l = &labels[(unsigned char)second[axis]];
    l->in_b = true;
    l->axis.dim = in[1].dims[axis];
    l->axis.b = in[1].strides[axis];
  }
  sx_row_major(strides, node->dims, node->rank);
  sx_contract contract = empty(in[0].dtype, node->dtype);
  for (int axis = 0; axis < node->rank; axis++) {
    label *l = &labels[(unsigned char)out[axis]];
    l->in_out = true;
    l->axis.c = strides[axis];
    push(l->in_a && l->in_b ? &contract.batch : l->in_a ? &contract.rows : &contract.columns, l->axis);
  }
  push_contracted(&contract, first, in[0].rank, labels, false);
  push_contracted(&contract, second, in[1].rank, labels, true);
  return contract;
}

/* ---- convolutions ------------------------------------------------------------------------------- */

static sx_contract_image image_of(const sx_strided *tensor, int64_t first, int64_t divide) {
  return (sx_contract_image){
      true, first, first, divide, tensor->dims[1], tensor->dims[2], tensor->strides[1], tensor->strides[2]};
}

/* y [n oh ow o]: (kh, kw, c) of x [n h w c] and w [o kh kw c]. */
static sx_contract contract_of_forward(const sx_node *node, const sx_strided in[2]) {
  const sx_strided *x = &in[0], *w = &in[1];
  int64_t stride = node->ints[0], c[SX_RANK_MAX];
  sx_row_major(c, node->dims, node->rank);
  sx_contract contract = empty(x->dtype, node->dtype);
  contract.a = image_of(x, -node->ints[1], 1);
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[0], .a = x->strides[0], .c = c[0]});
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[1], .y = stride, .c = c[1]});
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[2], .x = stride, .c = c[2]});
  push(&contract.columns, (sx_contract_axis){.dim = node->dims[3], .b = w->strides[0], .c = c[3]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[1], .y = 1, .b = w->strides[1]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[2], .x = 1, .b = w->strides[2]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[3], .a = x->strides[3], .b = w->strides[3]});
  return contract;
}

/* dx [n h w c]: (kh, kw, o) of dy [n oh ow o] and w [o kh kw c]. dy is seen by a pixel through a place of the kernel
 * where their distance is a multiple of the stride. */
static sx_contract contract_of_data(const sx_node *node, const sx_strided in[2]) {
  const sx_strided *dy = &in[0], *w = &in[1];
  int64_t c[SX_RANK_MAX];
  sx_row_major(c, node->dims, node->rank);
  sx_contract contract = empty(dy->dtype, node->dtype);
  contract.a = image_of(dy, node->ints[1], node->ints[0]);
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[0], .a = dy->strides[0], .c = c[0]});
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[1], .y = 1, .c = c[1]});
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[2], .x = 1, .c = c[2]});
  push(&contract.columns, (sx_contract_axis){.dim = node->dims[3], .b = w->strides[3], .c = c[3]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[1], .y = -1, .b = w->strides[1]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[2], .x = -1, .b = w->strides[2]});
  push(&contract.depth, (sx_contract_axis){.dim = w->dims[0], .a = dy->strides[3], .b = w->strides[0]});
  return contract;
}

/* dw [o kh kw c]: (n, oh, ow) of dy [n oh ow o] and x [n h w c]. */
static sx_contract contract_of_weight(const sx_node *node, const sx_strided in[2]) {
  const sx_strided *dy = &in[0], *x = &in[1];
  int64_t stride = node->ints[0], c[SX_RANK_MAX];
  sx_row_major(c, node->dims, node->rank);
  sx_contract contract = empty(dy->dtype, node->dtype);
  contract.b = image_of(x, -node->ints[1], 1);
  push(&contract.rows, (sx_contract_axis){.dim = node->dims[0], .a = dy->strides[3], .c = c[0]});
  push(&contract.columns, (sx_contract_axis){.dim = node->dims[1], .y = 1, .c = c[1]});
  push(&contract.columns, (sx_contract_axis){.dim = node->dims[2], .x = 1, .c = c[2]});
  push(&contract.columns, (sx_contract_axis){.dim = node->dims[3], .b = x->strides[3], .c = c[3]});
  push(&contract.depth, (sx_contract_axis){.dim = dy->dims[0], .a = dy->strides[0], .b = x->strides[0]});
  push(&contract.depth, (sx_contract_axis){.dim = dy->dims[1], .a = dy->strides[1], .y = stride});
  push(&contract.depth, (sx_contract_axis){.dim = dy->dims[2], .a = dy->strides[2], .x = stride});
  return contract;
}

sx_contract sx_contract_of(const sx_node *node, const sx_strided inputs[2]) {
  switch (node->op) {
    case SX_OP_EINSUM:
      return contract_of_einsum(node, inputs);
    case SX_OP_CONV:
      return contract_of_forward(node, inputs);
    case SX_OP_CONVDATA:
      return contract_of_data(node, inputs);
    case SX_OP_CONVWEIGHT:
      return contract_of_weight(node, inputs);
    default:
      SX_BUG("%s is no contraction", sx_op_describe(node->op)->name);
  }
}

/* ---- merging ------------------------------------------------------------------------------------ */

static bool continues(const sx_contract_axis *outer, const sx_contract_axis *inner) {
  int64_t n = inner->dim;
  return outer->a == n * inner->a && outer->b == n * inner->b && outer->c == n * inner->c && outer->y == n * inner->y &&
         outer->x == n * inner->x;
}

static sx_contract_walk merged(const sx_contract_walk *walk) {
  sx_contract_walk to = {.count = walk->count};
  for (int i = 0; i < walk->n; i++) {
    const sx_contract_axis *axis = &walk->axes[i];
    if (axis->dim == 1) continue;
    if (to.n > 0 && continues(&to.axes[to.n - 1], axis)) {
      int64_t dim = to.axes[to.n - 1].dim;
      to.axes[to.n - 1] = *axis;
      to.axes[to.n - 1].dim *= dim;
    } else {
      to.axes[to.n++] = *axis;
    }
  }
  return to;
}

/* Least and greatest place in the image that a walk adds. */
static void reach(const sx_contract_walk *walk, int64_t y[2], int64_t x[2]) {
  for (int i = 0; i < walk->n; i++) {
    const sx_contract_axis *axis = &walk->axes[i];
    y[axis->y > 0] += (axis->dim - 1) * axis->y;
    x[axis->x > 0] += (axis->dim - 1) * axis->x;
  }
}

static bool stays_inside(const sx_contract *c, const sx_contract_image *image) {
  int64_t y[2] = {image->y, image->y}, x[2] = {image->x, image->x};
  reach(&c->rows, y, x);
  reach(&c->columns, y, x);
  reach(&c->depth, y, x);
  return image->divide == 1 && image->y == 0 && image->x == 0 && y[0] == 0 && x[0] == 0 && y[1] < image->height &&
         x[1] < image->width;
}

static void flatten(sx_contract_walk *walk, const sx_contract_image *image, bool first) {
  for (int i = 0; i < walk->n; i++) {
    sx_contract_axis *axis = &walk->axes[i];
    *(first ? &axis->a : &axis->b) += axis->y * image->row + axis->x * image->column;
    axis->y = axis->x = 0;
  }
}

/* An image that is never left is strides like others. */
static void flatten_image(sx_contract *contract) {
  sx_contract_image *image = contract->a.is ? &contract->a : &contract->b;
  if (!image->is || !stays_inside(contract, image)) return;
  sx_contract_image old = *image;
  *image = (sx_contract_image){0};
  flatten(&contract->rows, &old, image == &contract->a);
  flatten(&contract->columns, &old, image == &contract->a);
  flatten(&contract->depth, &old, image == &contract->a);
}

sx_contract sx_contract_merged(const sx_contract *contract) {
  sx_contract to = *contract;
  if (to.batch.count * to.rows.count * to.columns.count * to.depth.count > 0) flatten_image(&to);
  to.batch = merged(&to.batch);
  to.rows = merged(&to.rows);
  to.columns = merged(&to.columns);
  to.depth = merged(&to.depth);
  return to;
}
