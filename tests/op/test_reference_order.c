/* The orders of numerics 1, on values where another order gives other bits: each expectation is folded here
 * by hand, from the page, not by the code under test. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../libsexp/cpu/kernel.h"
#include "../common/cmocka_all.h"

/* ---- calls ------------------------------------------------------------------------- */

typedef struct operand {
  sx_operand view;
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
} operand;

/* Contiguous, of the dims given, ended by -1. */
static void see(operand *to, void *data, sx_dtype dtype, const int64_t *dims) {
  int rank = 0;
  while (dims[rank] >= 0) rank++;
  int64_t step = 1;
  for (int axis = rank - 1; axis >= 0; axis--) {
    to->dims[axis] = dims[axis];
    to->strides[axis] = step;
    step *= dims[axis];
  }
  to->view = (sx_operand){data, dtype, rank, to->dims, to->strides};
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__, -1})
#define SCALAR ((const int64_t[]){-1})

static void compute(sx_op op, operand *out, const operand *a, const operand *b, const char *text, const int64_t *ints,
                    uint32_t n_ints) {
  int64_t attributes[8] = {0};
  memcpy(attributes, ints, n_ints * sizeof *ints);
  sx_node node = {.op = op, .dtype = out->view.dtype, .rank = out->view.rank, .dims = out->dims, .text = text};
  node.ints = attributes;
  node.n_ints = n_ints;
  sx_operand inputs[2] = {a->view, b ? b->view : a->view};
  sx_fault fault = {.at = INT64_MAX};
  sx_call call = {.node = &node, .out = out->view, .inputs = inputs, .n_inputs = b ? 2 : 1, .fault = &fault};
  sx_reference[op](&call);
  assert_true(fault.at == INT64_MAX);
}

#define INTS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static void assert_bits(float got, float want) {
  uint32_t a, b;
  memcpy(&a, &got, 4);
  memcpy(&b, &want, 4);
  if (a != b) fail_msg("%a, expected %a", (double)got, (double)want);
}

/* Values whose sum depends on the order: magnitudes over 2^30, signs mixed. */
static float *uneven(int64_t n) {
  float *x = calloc((size_t)n + 1, sizeof *x);
  uint32_t state = 12345;
  for (int64_t k = 0; k < n; k++) {
    state = state * 1664525u + 1013904223u;
    x[k] = ldexpf((float)(int32_t)(state >> 8) - 8388608.0f, (int)(state >> 3 & 31) - 20);
  }
  return x;
}

/* ---- sums ----------------------------------------------------------------------------- */

static float sum_of(float *x, int64_t n) {
  operand in, out;
  float result = 77.0f;
  see(&in, x, SX_F32, DIMS(n));
  see(&out, &result, SX_F32, SCALAR);
  compute(SX_OP_SUM, &out, &in, NULL, NULL, INTS(0));
  return result;
}

static void sums_of_few_elements(void **state) {
  (void)state;
  float x[64] = {0};
  assert_bits(sum_of(x, 0), 0.0f);
  x[0] = -0.0f;
  assert_bits(sum_of(x, 1), -0.0f);
  /* Three elements: lanes 0, 1, 2; h = 2 folds lane 2 into lane 0, then h = 1 lane 1: (x0 + x2) + x1. */
  x[0] = 0x1p24f, x[1] = -0x1p24f, x[2] = 1.0f;
  assert_bits(sum_of(x, 3), (x[0] + x[2]) + x[1]);
  assert_bits((x[0] + x[2]) + x[1], 0.0f); /* in order it would be 1 */
  /* Five: h = 4 folds 4 into 0; h = 2: 2 into 0, 3 into 1; h = 1. */
  float y[5] = {0x1p25f, 3.0f, -0x1p25f, 0x1.8p1f, 1.0f};
  assert_bits(sum_of(y, 5), ((y[0] + y[4]) + y[2]) + (y[1] + y[3]));
  /* 33: lane 0 takes element 32 before the lanes are folded. */
  for (int k = 0; k < 33; k++) x[k] = 0.0f;
  x[0] = 1.0f, x[32] = 0x1p24f, x[16] = -0x1p24f;
  assert_bits(sum_of(x, 33), (1.0f + 0x1p24f) + -0x1p24f);
}

/* The rule of the page for one chunk, with the lanes as an array. */
static float chunk_by_hand(const float *x, int64_t n) {
  float lane[32];
  bool exists[32] = {false};
  for (int64_t k = 0; k < n; k++) {
    lane[k % 32] = exists[k % 32] ? lane[k % 32] + x[k] : x[k];
    exists[k % 32] = true;
  }
  for (int h = 16; h >= 1; h /= 2)
    for (int j = 0; j + h < 32; j++)
      if (j < h && exists[j] && exists[j + h]) lane[j] = lane[j] + lane[j + h];
  return lane[0];
}

static void sums_of_chunks(void **state) {
  (void)state;
  static const int64_t lengths[] = {31, 32, 33, 63, 64, 65, 1000, 4095, 4096, 4097, 8192, 10000, 70000};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    int64_t n = lengths[k];
    float *x = uneven(n), chunks[32];
    int64_t n_chunks = (n + 4095) / 4096;
    for (int64_t c = 0; c < n_chunks; c++)
      chunks[c] = chunk_by_hand(x + c * 4096, n - c * 4096 < 4096 ? n - c * 4096 : 4096);
    assert_bits(sum_of(x, n), n_chunks == 1 ? chunks[0] : chunk_by_hand(chunks, n_chunks));
    free(x);
  }
}

/* Over axes 0 and 2 of [3 2 4]: the elements of a result in row-major order of the reduced axes. */
static void sums_over_several_axes(void **state) {
  (void)state;
  float *x = uneven(24), result[2];
  operand in, out;
  see(&in, x, SX_F32, DIMS(3, 2, 4));
  see(&out, result, SX_F32, DIMS(2));
  compute(SX_OP_SUM, &out, &in, NULL, NULL, INTS(2, 0)); /* a set: named in any order */
  for (int j = 0; j < 2; j++) {
    float line[12];
    for (int i = 0; i < 3; i++) memcpy(line + 4 * i, x + 8 * i + 4 * j, 4 * sizeof *x);
    assert_bits(result[j], chunk_by_hand(line, 12));
  }
  free(x);
}

static void sums_of_short_floats_are_rounded_once(void **state) {
  (void)state;
  enum { N = 300 };
  uint16_t ones[N], result;
  operand in, out;
  for (int k = 0; k < N; k++) ones[k] = 0x3f80; /* 1 in bf16, which cannot count to 257 */
  see(&in, ones, SX_BF16, DIMS(N));
  see(&out, &result, SX_BF16, SCALAR);
  compute(SX_OP_SUM, &out, &in, NULL, NULL, INTS(0));
  assert_int_equal(result, 0x4396); /* 300 */
}

static void integer_sums_wrap(void **state) {
  (void)state;
  int32_t x[3] = {INT32_MAX, 5, INT32_MIN}, result = 0;
  operand in, out;
  see(&in, x, SX_I32, DIMS(2));
  see(&out, &result, SX_I32, SCALAR);
  compute(SX_OP_SUM, &out, &in, NULL, NULL, INTS(0));
  assert_int_equal(result, INT32_MIN + 4);
}

/* ---- products --------------------------------------------------------------------------- */

/* The rule of the page: blocks of 256, an accumulator from +0 in each, partials added to the first. */
static float product_by_hand(const float *a, const float *b, int64_t n) {
  float total = 0.0f;
  for (int64_t begin = 0; begin < n; begin += 256) {
    float accumulator = 0.0f;
    for (int64_t k = begin; k < n && k < begin + 256; k++) accumulator = fmaf(a[k], b[k], accumulator);
    total = begin == 0 ? accumulator : total + accumulator;
  }
  return total;
}

static void products_go_in_blocks_of_256(void **state) {
  (void)state;
  static const int64_t lengths[] = {0, 1, 2, 255, 256, 257, 512, 513, 3000};
  float *a = uneven(3000), *b = uneven(3001) + 1;
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    float result = 77.0f;
    operand x, y, out;
    see(&x, a, SX_F32, DIMS(lengths[k]));
    see(&y, b, SX_F32, DIMS(lengths[k]));
    see(&out, &result, SX_F32, SCALAR);
    compute(SX_OP_EINSUM, &out, &x, &y, "a,a->", INTS(0));
    assert_bits(result, product_by_hand(a, b, lengths[k]));
  }
  free(a);
  free(b - 1);
}

/* A fused multiply-add keeps what two roundings lose, and starts from +0. */
static void products_are_fused(void **state) {
  (void)state;
  float a[2] = {1.0f + 0x1p-12f, -1.0f}, b[2] = {1.0f + 0x1p-12f, 1.0f + 0x1p-11f}, result;
  operand x, y, out;
  see(&x, a, SX_F32, DIMS(2));
  see(&y, b, SX_F32, DIMS(2));
  see(&out, &result, SX_F32, SCALAR);
  /* (1 + 2^-12)^2 rounds to 1 + 2^-11 first; the second term then cancels it: only its own rounding is left. */
  compute(SX_OP_EINSUM, &out, &x, &y, "a,a->", INTS(0));
  assert_bits(result, 0.0f);
  float c[2] = {-1.0f, 1.0f + 0x1p-12f}, d[2] = {1.0f + 0x1p-11f, 1.0f + 0x1p-12f};
  see(&x, c, SX_F32, DIMS(2));
  see(&y, d, SX_F32, DIMS(2));
  compute(SX_OP_EINSUM, &out, &x, &y, "a,a->", INTS(0));
  assert_bits(result, 0x1p-24f); /* fused; rounded products would give 0 */
  float minus[1] = {-0.0f}, one[1] = {1.0f};
  see(&x, minus, SX_F32, DIMS(1));
  see(&y, one, SX_F32, DIMS(1));
  compute(SX_OP_EINSUM, &out, &x, &y, "a,a->", INTS(0));
  assert_bits(result, 0.0f); /* fma(-0, 1, +0) */
}

/* bac,abc->: contracted in the order of the first operand, b slowest. Labels of the second alone come last. */
static void einsum_contracts_in_the_order_of_the_first_operand(void **state) {
  (void)state;
  enum { A = 3, B = 20, C = 11, N = A * B * C };
  float *x = uneven(N), *y = uneven(N + 7), lined_x[N], lined_y[N], result;
  operand first, second, out;
  see(&first, x, SX_F32, DIMS(B, A, C));
  see(&second, y, SX_F32, DIMS(A, B, C));
  see(&out, &result, SX_F32, SCALAR);
  compute(SX_OP_EINSUM, &out, &first, &second, "bac,abc->", INTS(0));
  int64_t n = 0;
  for (int b = 0; b < B; b++)
    for (int a = 0; a < A; a++)
      for (int c = 0; c < C; c++, n++) {
        lined_x[n] = x[(b * A + a) * C + c];
        lined_y[n] = y[(a * B + b) * C + c];
      }
  assert_bits(result, product_by_hand(lined_x, lined_y, N));

  see(&first, x, SX_F32, DIMS(B));
  see(&second, y, SX_F32, DIMS(C, B));
  compute(SX_OP_EINSUM, &out, &first, &second, "b,cb->", INTS(0));
  n = 0;
  for (int b = 0; b < B; b++)
    for (int c = 0; c < C; c++, n++) {
      lined_x[n] = x[b];
      lined_y[n] = y[c * B + b];
    }
  assert_bits(result, product_by_hand(lined_x, lined_y, n));
  free(x);
  free(y);
}

/* ---- convolutions ------------------------------------------------------------------------- */

enum { H = 5, W = 6, C = 40, O = 30, KH = 3, KW = 2, STRIDE = 2, PADDING = 1, BATCH = 2 };
enum { OH = (H + 2 * PADDING - KH) / STRIDE + 1, OW = (W + 2 * PADDING - KW) / STRIDE + 1 };

static float image_at(const float *x, int n, int row, int column, int c, int height, int width, int channels) {
  if (row < 0 || row >= height || column < 0 || column >= width) return 0.0f;
  return x[((n * height + row) * width + column) * channels + c];
}

static void convolutions_contract_in_their_order(void **state) {
  (void)state;
  float *x = uneven(BATCH * H * W * C), *w = uneven(O * KH * KW * C), *dy = uneven(BATCH * OH * OW * O + 3) + 3;
  float y[BATCH * OH * OW * O], a[2000], b[2000];
  operand image, kernel, pixels, out;
  see(&image, x, SX_F32, DIMS(BATCH, H, W, C));
  see(&kernel, w, SX_F32, DIMS(O, KH, KW, C));
  see(&pixels, dy, SX_F32, DIMS(BATCH, OH, OW, O));
  see(&out, y, SX_F32, DIMS(BATCH, OH, OW, O));
  compute(SX_OP_CONV, &out, &image, &kernel, NULL, INTS(STRIDE, PADDING));
  static const int places[][4] = {{0, 0, 0, 0}, {1, 1, 2, 17}, {1, OH - 1, OW - 1, O - 1}};
  for (size_t p = 0; p < sizeof places / sizeof *places; p++) { /* (kh, kw, c) */
    const int *at = places[p];
    int64_t n = 0;
    for (int i = 0; i < KH; i++)
      for (int j = 0; j < KW; j++)
        for (int c = 0; c < C; c++, n++) {
          a[n] = image_at(x, at[0], at[1] * STRIDE + i - PADDING, at[2] * STRIDE + j - PADDING, c, H, W, C);
          b[n] = w[((at[3] * KH + i) * KW + j) * C + c];
        }
    assert_bits(y[((at[0] * OH + at[1]) * OW + at[2]) * O + at[3]], product_by_hand(a, b, n));
  }

  float dx[BATCH * H * W * C];
  see(&out, dx, SX_F32, DIMS(BATCH, H, W, C));
  compute(SX_OP_CONVDATA, &out, &pixels, &kernel, NULL, INTS(STRIDE, PADDING, H, W));
  static const int image_places[][4] = {{0, 0, 0, 0}, {1, 2, 3, 9}, {1, H - 1, W - 1, C - 1}};
  for (size_t p = 0; p < 3; p++) { /* (kh, kw, o), zeros where no output pixel is */
    const int *at = image_places[p];
    int64_t n = 0;
    for (int i = 0; i < KH; i++)
      for (int j = 0; j < KW; j++)
        for (int o = 0; o < O; o++, n++) {
          int row = at[1] + PADDING - i, column = at[2] + PADDING - j;
          bool between = row % STRIDE != 0 || column % STRIDE != 0;
          a[n] = between ? 0.0f : image_at(dy, at[0], row / STRIDE, column / STRIDE, o, OH, OW, O);
          b[n] = w[((o * KH + i) * KW + j) * C + at[3]];
        }
    assert_bits(dx[((at[0] * H + at[1]) * W + at[2]) * C + at[3]], product_by_hand(a, b, n));
  }

  float dw[O * KH * KW * C];
  see(&out, dw, SX_F32, DIMS(O, KH, KW, C));
  compute(SX_OP_CONVWEIGHT, &out, &pixels, &image, NULL, INTS(STRIDE, PADDING, KH, KW));
  static const int kernel_places[][4] = {{0, 0, 0, 0}, {7, 1, 1, 20}, {O - 1, KH - 1, KW - 1, C - 1}};
  for (size_t p = 0; p < 3; p++) { /* (n, oh, ow) */
    const int *at = kernel_places[p];
    int64_t n = 0;
    for (int k = 0; k < BATCH; k++)
      for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++, n++) {
          a[n] = dy[((k * OH + i) * OW + j) * O + at[0]];
          b[n] = image_at(x, k, i * STRIDE + at[1] - PADDING, j * STRIDE + at[2] - PADDING, at[3], H, W, C);
        }
    assert_bits(dw[((at[0] * KH + at[1]) * KW + at[2]) * C + at[3]], product_by_hand(a, b, n));
  }
  free(x);
  free(w);
  free(dy - 3);
}

/* Padding is a term like any other: 0 times an infinite weight is NaN. */
static void padding_contributes_its_zeros(void **state) {
  (void)state;
  float x[1] = {2.0f}, w[9], y[1];
  for (int k = 0; k < 9; k++) w[k] = 1.0f;
  operand image, kernel, out;
  see(&image, x, SX_F32, DIMS(1, 1, 1, 1));
  see(&kernel, w, SX_F32, DIMS(1, 3, 3, 1));
  see(&out, y, SX_F32, DIMS(1, 1, 1, 1));
  compute(SX_OP_CONV, &out, &image, &kernel, NULL, INTS(1, 1));
  assert_bits(y[0], 2.0f);
  w[0] = INFINITY;
  compute(SX_OP_CONV, &out, &image, &kernel, NULL, INTS(1, 1));
  assert_true(isnan(y[0]));
}

/* ---- scans, additions ------------------------------------------------------------------------ */

static void scans_fold_in_order(void **state) {
  (void)state;
  enum { N = 200 };
  float *x = uneven(N), *a = uneven(N + 5), y[N];
  operand first, second, out;
  see(&first, x, SX_F32, DIMS(N));
  see(&second, a, SX_F32, DIMS(N));
  see(&out, y, SX_F32, DIMS(N));
  compute(SX_OP_CUMSUM, &out, &first, NULL, NULL, INTS(0, 0));
  float sum = x[0];
  assert_bits(y[0], sum);
  for (int k = 1; k < N; k++) assert_bits(y[k], sum = sum + x[k]);
  compute(SX_OP_CUMSUM, &out, &first, NULL, NULL, INTS(0, 1));
  sum = x[N - 1];
  for (int k = N - 2; k >= 0; k--) assert_bits(y[k], sum = sum + x[k]);
  for (int k = 0; k < N; k++) a[k] = ldexpf(a[k], -20);
  compute(SX_OP_SCANLINEAR, &out, &second, &first, NULL, INTS(0, 0));
  float h = x[0];
  assert_bits(y[0], h);
  for (int k = 1; k < N; k++) assert_bits(y[k], h = fmaf(a[k], h, x[k]));
  x[0] = -0.0f; /* the first element is itself, not 0 and it */
  compute(SX_OP_CUMSUM, &out, &first, NULL, NULL, INTS(0, 0));
  assert_bits(y[0], -0.0f);
  free(x);
  free(a);
}

static void scatter_adds_in_order_of_the_source(void **state) {
  (void)state;
  int32_t ids[4] = {1, 1, 0, 1};
  float values[4] = {0x1p24f, 1.0f, -0.0f, -0x1p24f}, y[3];
  operand where, what, out;
  see(&where, ids, SX_I32, DIMS(4));
  see(&what, values, SX_F32, DIMS(4));
  see(&out, y, SX_F32, DIMS(3));
  compute(SX_OP_SCATTER, &out, &where, &what, NULL, INTS(3));
  assert_bits(y[0], 0.0f); /* +0 + -0 */
  assert_bits(y[1], ((0.0f + 0x1p24f) + 1.0f) + -0x1p24f);
  assert_bits(y[1], 0.0f);
  assert_bits(y[2], 0.0f);
  compute(SX_OP_PUT, &out, &where, &what, NULL, INTS(0, 3));
  assert_bits(y[1], 0.0f);
  uint16_t ones[300], sum[1]; /* short floats: one rounding at the end */
  int32_t zeros[300] = {0};
  for (int k = 0; k < 300; k++) ones[k] = 0x3f80;
  float scratch[64];
  see(&where, zeros, SX_I32, DIMS(300));
  see(&what, ones, SX_BF16, DIMS(300));
  see(&out, sum, SX_BF16, DIMS(1));
  int64_t n = 1;
  sx_node node = {.op = SX_OP_SCATTER, .dtype = SX_BF16, .rank = 1, .dims = out.dims, .ints = &n, .n_ints = 1};
  sx_operand inputs[2] = {where.view, what.view};
  sx_fault fault = {.at = INT64_MAX};
  sx_call call = {.node = &node, .out = out.view, .inputs = inputs, .n_inputs = 2, .fault = &fault, .scratch = scratch};
  sx_reference[SX_OP_SCATTER](&call);
  assert_int_equal(sum[0], 0x4396);
}

static void fold_adds_windows_in_order(void **state) {
  (void)state;
  /* Windows of 3 with step 1 over 5 places: place 2 takes window 0's last, 1's middle, 2's first. */
  float windows[9] = {0, 0, 0x1p24f, 0, 1.0f, 0, -0x1p24f, 0, 0}, y[5];
  operand in, out;
  see(&in, windows, SX_F32, DIMS(3, 3));
  see(&out, y, SX_F32, DIMS(5));
  compute(SX_OP_FOLD, &out, &in, NULL, NULL, INTS(0, 3, 1, 5));
  assert_bits(y[2], ((0.0f + 0x1p24f) + 1.0f) + -0x1p24f);
  assert_bits(y[2], 0.0f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_of_few_elements),
      cmocka_unit_test(sums_of_chunks),
      cmocka_unit_test(sums_over_several_axes),
      cmocka_unit_test(sums_of_short_floats_are_rounded_once),
      cmocka_unit_test(integer_sums_wrap),
      cmocka_unit_test(products_go_in_blocks_of_256),
      cmocka_unit_test(products_are_fused),
      cmocka_unit_test(einsum_contracts_in_the_order_of_the_first_operand),
      cmocka_unit_test(convolutions_contract_in_their_order),
      cmocka_unit_test(padding_contributes_its_zeros),
      cmocka_unit_test(scans_fold_in_order),
      cmocka_unit_test(scatter_adds_in_order_of_the_source),
      cmocka_unit_test(fold_adds_windows_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
