/* Reference: products. Every element of a result is a contraction in the order of numerics 1: blocks of
 * 256 of the contracted index, in each block one accumulator from +0 that takes fma(a, b, acc) in index
 * order, the blocks' partials added in order to the first. Nothing contracted gives +0. */
#include <math.h>

#include "gemm.h"
#include "reference.h"

enum { PRODUCT_BLOCK = 256, LABELS = 128 };

typedef struct product {
  float total, block;
  int64_t n; /* pairs taken so far */
} product;

static float product_result(const product *sum) {
  return sum->n <= PRODUCT_BLOCK ? sum->block : sum->total + sum->block;
}

static void product_add(product *sum, float a, float b) {
  if (sum->n > 0 && sum->n % PRODUCT_BLOCK == 0) {
    sum->total = product_result(sum);
    sum->block = 0.0f;
  }
  sum->block = fmaf(a, b, sum->block);
  sum->n++;
}

/* The labels of "ab,bc->ac" as lengths and, for either operand and the result, strides by label. */
typedef struct einsum {
  int n_out, n_contracted;
  int64_t out_dims[SX_RANK_MAX], out_a[SX_RANK_MAX], out_b[SX_RANK_MAX];
  int64_t in_dims[2 * SX_RANK_MAX], in_a[2 * SX_RANK_MAX], in_b[2 * SX_RANK_MAX];
} einsum;

static void read_operand(const char *labels, const sx_operand *operand, int64_t dims[LABELS], int64_t strides[LABELS]) {
  for (int axis = 0; axis < operand->rank; axis++) {
    dims[(unsigned char)labels[axis]] = operand->dims[axis];
    strides[(unsigned char)labels[axis]] = operand->strides[axis];
  }
}

static void contract_labels(einsum *sum, const char *labels, size_t n, const char *out, bool seen[LABELS],
                            const int64_t *dims, const int64_t *a, const int64_t *b) {
  for (size_t k = 0; k < n; k++) {
    unsigned char label = (unsigned char)labels[k];
    if (seen[label] || strchr(out, labels[k])) continue;
    seen[label] = true;
    sum->in_dims[sum->n_contracted] = dims[label];
    sum->in_a[sum->n_contracted] = a[label];
    sum->in_b[sum->n_contracted++] = b[label];
  }
}

/* Contracted: the labels of the first operand that the result lacks, in its order; then the second's. */
static einsum read_labels(const sx_call *call) {
  const char *first = call->node->text, *second = strchr(first, ',') + 1, *out = strstr(second, "->") + 2;
  int64_t dims[LABELS] = {0}, a[LABELS] = {0}, b[LABELS] = {0};
  bool seen[LABELS] = {false};
  einsum sum = {.n_out = call->out.rank};
  read_operand(first, &call->inputs[0], dims, a);
  read_operand(second, &call->inputs[1], dims, b);
  for (int axis = 0; axis < sum.n_out; axis++) {
    unsigned char label = (unsigned char)out[axis];
    sum.out_dims[axis] = dims[label];
    sum.out_a[axis] = a[label];
    sum.out_b[axis] = b[label];
  }
  contract_labels(&sum, first, (size_t)call->inputs[0].rank, out, seen, dims, a, b);
  contract_labels(&sum, second, (size_t)call->inputs[1].rank, out, seen, dims, a, b);
  return sum;
}

static int64_t place(const int64_t *index, const int64_t *strides, int rank) {
  int64_t at = 0;
  for (int axis = 0; axis < rank; axis++) at += index[axis] * strides[axis];
  return at;
}

void sx_reference_einsum(const sx_call *call) {
  const sx_operand *a = &call->inputs[0], *b = &call->inputs[1];
  einsum sum = read_labels(call);
  int64_t n_out = sx_operand_count(&call->out), n_contracted = sx_count(sum.in_dims, sum.n_contracted);
  int64_t outer[SX_RANK_MAX] = {0}, inner[2 * SX_RANK_MAX] = {0};
  for (int64_t k = 0; k < n_out; k++) {
    int64_t base_a = place(outer, sum.out_a, sum.n_out), base_b = place(outer, sum.out_b, sum.n_out);
    product value = {.n = 0};
    for (int64_t j = 0; j < n_contracted; j++) {
      int64_t at_a = base_a + place(inner, sum.in_a, sum.n_contracted);
      int64_t at_b = base_b + place(inner, sum.in_b, sum.n_contracted);
      product_add(&value, sx_load(a->data, a->dtype, at_a).f, sx_load(b->data, b->dtype, at_b).f);
      sx_index_next(inner, sum.in_dims, sum.n_contracted);
    }
    sx_store(call->out.data, call->out.dtype, sx_operand_at(&call->out, outer),
             (sx_value){.f = product_result(&value)});
    sx_index_next(outer, call->out.dims, call->out.rank);
  }
}

void sx_reference_product(const sx_gemm_plain *plain, const sx_gemm_part *part, float *panels) {
  (void)panels;
  for (int64_t i = part->first_row; i < part->end_row; i++)
    for (int64_t j = part->first_column; j < part->end_column; j++) {
      const float *a = (const float *)part->a + i * plain->a_row, *b = (const float *)part->b + j * plain->b_column;
      float *c = part->c + i * plain->c_row + j * plain->c_column;
      product value = {.n = 0};
      for (int64_t k = 0; k < plain->k; k++) product_add(&value, a[k * plain->a_depth], b[k * plain->b_depth]);
      float sum = product_result(&value);
      *c = part->adds ? *c + sum : sum;
    }
}

void sx_reference_transpose(const float *from, int64_t row, int64_t step, int64_t n, int64_t depth, int64_t width,
                            float *out) {
  for (int64_t k = 0; k < depth; k++)
    for (int64_t j = 0; j < width; j++) out[k * width + j] = j < n ? from[j * row + k * step] : 0.0f;
}

int32_t sx_reference_largest(const float *from, int64_t rows, int64_t row, int64_t columns) {
  int32_t most = 0;
  for (int64_t i = 0; i < rows * columns; i++) {
    int32_t magnitude = (int32_t)(sx_bits_f32(from[i / columns * row + i % columns]) & INT32_MAX);
    if (magnitude > most) most = magnitude;
  }
  return most;
}

bool sx_reference_has_minus_zero(const float *from, int64_t rows, int64_t row, int64_t columns) {
  for (int64_t i = 0; i < rows * columns; i++)
    if (sx_bits_f32(from[i / columns * row + i % columns]) == 0x80000000u) return true;
  return false;
}

void sx_reference_apply_constant(float *to, int64_t rows, int64_t row, int64_t columns, bool adds, float value) {
  for (int64_t i = 0; i < rows * columns; i++) {
    float *x = &to[i / columns * row + i % columns];
    *x = adds ? *x + value : *x * value;
  }
}

/* x at a pixel, 0 in the padding. */
static float pixel(const sx_operand *x, int64_t n, int64_t row, int64_t column, int64_t channel) {
  if (row < 0 || row >= x->dims[1] || column < 0 || column >= x->dims[2]) return 0.0f;
  return sx_operand_load(x, (int64_t[]){n, row, column, channel}).f;
}

float sx_reference_conv_at(const sx_call *call, const int64_t at[4]) {
  const sx_operand *x = &call->inputs[0], *w = &call->inputs[1];
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  product value = {.n = 0};
  for (int64_t row = 0; row < w->dims[1]; row++)
    for (int64_t column = 0; column < w->dims[2]; column++)
      for (int64_t channel = 0; channel < w->dims[3]; channel++)
        product_add(&value, pixel(x, at[0], at[1] * stride + row - padding, at[2] * stride + column - padding, channel),
                    sx_operand_load(w, (int64_t[]){at[3], row, column, channel}).f);
  return product_result(&value);
}

/* y [n oh ow o] = sum over (kh, kw, c) of x [n h w c] and w [o kh kw c]. */
void sx_reference_conv(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t at[SX_RANK_MAX] = {0};
  int64_t n_out = sx_operand_count(out);
  for (int64_t k = 0; k < n_out; k++) {
    sx_store(out->data, out->dtype, k, (sx_value){.f = sx_reference_conv_at(call, at)});
    sx_index_next(at, out->dims, out->rank);
  }
}

/* dy of the output pixel that saw this input pixel through this place of the kernel; 0 where there is none. */
static float pixel_seen(const sx_operand *dy, int64_t n, int64_t row, int64_t column, int64_t stride, int64_t out) {
  if (row < 0 || column < 0 || row % stride != 0 || column % stride != 0) return 0.0f;
  return pixel(dy, n, row / stride, column / stride, out);
}

float sx_reference_conv_data_at(const sx_call *call, const int64_t at[4]) {
  const sx_operand *dy = &call->inputs[0], *w = &call->inputs[1];
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  product value = {.n = 0};
  for (int64_t row = 0; row < w->dims[1]; row++)
    for (int64_t column = 0; column < w->dims[2]; column++)
      for (int64_t o = 0; o < w->dims[0]; o++)
        product_add(&value, pixel_seen(dy, at[0], at[1] + padding - row, at[2] + padding - column, stride, o),
                    sx_operand_load(w, (int64_t[]){o, row, column, at[3]}).f);
  return product_result(&value);
}

/* dx [n h w c] = sum over (kh, kw, o) of dy [n oh ow o] and w [o kh kw c]. */
void sx_reference_conv_data(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t at[SX_RANK_MAX] = {0};
  int64_t n_out = sx_operand_count(out);
  for (int64_t k = 0; k < n_out; k++) {
    sx_store(out->data, out->dtype, k, (sx_value){.f = sx_reference_conv_data_at(call, at)});
    sx_index_next(at, out->dims, out->rank);
  }
}

float sx_reference_conv_weight_at(const sx_call *call, const int64_t at[4]) {
  const sx_operand *dy = &call->inputs[0], *x = &call->inputs[1];
  int64_t stride = call->node->ints[0], padding = call->node->ints[1];
  product value = {.n = 0};
  for (int64_t n = 0; n < dy->dims[0]; n++)
    for (int64_t row = 0; row < dy->dims[1]; row++)
      for (int64_t column = 0; column < dy->dims[2]; column++)
        product_add(&value, sx_operand_load(dy, (int64_t[]){n, row, column, at[0]}).f,
                    pixel(x, n, row * stride + at[1] - padding, column * stride + at[2] - padding, at[3]));
  return product_result(&value);
}

/* dw [o kh kw c] = sum over (n, oh, ow) of dy [n oh ow o] and x [n h w c]. */
void sx_reference_conv_weight(const sx_call *call) {
  const sx_operand *out = &call->out;
  int64_t at[SX_RANK_MAX] = {0};
  int64_t n_out = sx_operand_count(out);
  for (int64_t k = 0; k < n_out; k++) {
    sx_store(out->data, out->dtype, k, (sx_value){.f = sx_reference_conv_weight_at(call, at)});
    sx_index_next(at, out->dims, out->rank);
  }
}
