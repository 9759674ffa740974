/* Reference loops against values written down by hand: the rules of elements, casts, movements, extremes,
 * lookups, order and draws. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "../../kernels/draws.h"
#include "../../libsexp/cpu/kernel.h"
#include "../common/cmocka_all.h"

/* ---- elements ------------------------------------------------------------------------ */

static void element(sx_op op, sx_dtype from, sx_dtype to, void *out, int64_t n, const void *a, const void *b,
                    const void *c) {
  const void *inputs[3] = {a, b, c};
  sx_kernels(SX_SIMD_REFERENCE)->element(op, from, to, out, inputs, n);
}

static void assert_floats(const float *got, const float *want, int n) {
  for (int k = 0; k < n; k++) {
    bool both_nan = isnan(got[k]) && isnan(want[k]);
    if (!both_nan && memcmp(got + k, want + k, 4) != 0)
      fail_msg("%d: %a, expected %a", k, (double)got[k], (double)want[k]);
  }
}

#define COUNT(x) ((int64_t)(sizeof(x) / sizeof *(x)))

static void arithmetic_of_integers_wraps_and_floors(void **state) {
  (void)state;
  static const struct {
    sx_op op;
    int32_t a, b, want;
  } cases[] = {
      {SX_OP_ADD, INT_MAX, 1, INT_MIN},
      {SX_OP_SUB, INT_MIN, 1, INT_MAX},
      {SX_OP_MUL, 65536, 65537, 65536},
      {SX_OP_IDIV, 7, 2, 3},
      {SX_OP_IDIV, -7, 2, -4},
      {SX_OP_IDIV, 7, -2, -4},
      {SX_OP_IDIV, -7, -2, 3},
      {SX_OP_IDIV, 5, 0, 0},
      {SX_OP_IDIV, INT_MIN, -1, INT_MIN},
      {SX_OP_IDIV, INT_MIN, 1, INT_MIN},
      {SX_OP_MOD, 7, 3, 1},
      {SX_OP_MOD, -7, 3, 2},
      {SX_OP_MOD, 7, -3, -2},
      {SX_OP_MOD, -7, -3, -1},
      {SX_OP_MOD, 5, 0, 0},
      {SX_OP_MOD, INT_MIN, -1, 0},
      {SX_OP_MAX, -3, 2, 2},
      {SX_OP_MIN, -3, 2, -3},
      {SX_OP_NEG, INT_MIN, 0, INT_MIN},
      {SX_OP_ABS, INT_MIN, 0, INT_MIN},
      {SX_OP_ABS, -5, 0, 5},
      {SX_OP_SIGN, -5, 0, -1},
      {SX_OP_SIGN, 0, 0, 0},
  };
  for (int64_t k = 0; k < COUNT(cases); k++) {
    int32_t got = 77;
    element(cases[k].op, SX_I32, SX_I32, &got, 1, &cases[k].a, &cases[k].b, NULL);
    if (got != cases[k].want) fail_msg("case %d: %d, expected %d", (int)k, got, cases[k].want);
  }
}

static void arithmetic_of_floats(void **state) {
  (void)state;
  static const struct {
    sx_op op;
    float a, b, want;
  } cases[] = {
      {SX_OP_ADD, 0x1p24f, 1.0f, 0x1p24f},
      {SX_OP_SUB, 0x1p-149f, 0x1p-148f, -0x1p-149f},
      {SX_OP_MUL, 0x1p-100f, 0x1p-49f, 0x1p-149f},
      {SX_OP_DIV, 1.0f, 0.0f, INFINITY},
      {SX_OP_DIV, -1.0f, 0.0f, -INFINITY},
      {SX_OP_DIV, 0.0f, 0.0f, NAN},
      {SX_OP_MAX, -0.0f, 0.0f, 0.0f},
      {SX_OP_MAX, 0.0f, -0.0f, 0.0f},
      {SX_OP_MIN, 0.0f, -0.0f, -0.0f},
      {SX_OP_MAX, NAN, 1.0f, NAN},
      {SX_OP_MIN, 1.0f, NAN, NAN},
      {SX_OP_MAX, -INFINITY, -1.0f, -1.0f},
      {SX_OP_IDIV, -7.0f, 2.0f, -4.0f},
      {SX_OP_MOD, -7.0f, 3.0f, 2.0f},
      {SX_OP_MOD, 7.0f, -3.0f, -2.0f},
      {SX_OP_MOD, -6.0f, 3.0f, 0.0f},
      {SX_OP_MOD, 1.0f, 0.0f, NAN},
      {SX_OP_POW, -2.0f, 3.0f, -8.0f},
      {SX_OP_POW, 5.0f, 0.0f, 1.0f},
      {SX_OP_POW, -2.0f, 0.5f, NAN},
      {SX_OP_ATAN2, 0.0f, -1.0f, 0x1.921fb6p1f},
      {SX_OP_ATAN2, -0.0f, 1.0f, -0.0f},
      {SX_OP_NEG, 0.0f, 0, -0.0f},
      {SX_OP_ABS, -0.0f, 0, 0.0f},
      {SX_OP_SIGN, -0.0f, 0, -0.0f},
      {SX_OP_SIGN, -3.0f, 0, -1.0f},
      {SX_OP_SIGN, NAN, 0, NAN},
      {SX_OP_SQRT, -1.0f, 0, NAN},
      {SX_OP_SQRT, -0.0f, 0, -0.0f},
      {SX_OP_SQRT, 2.0f, 0, 0x1.6a09e6p0f},
      {SX_OP_RSQRT, 4.0f, 0, 0.5f},
      {SX_OP_RSQRT, 3.0f, 0, 1.0f / 0x1.bb67aep0f},
      {SX_OP_RSQRT, 0.0f, 0, INFINITY},
      {SX_OP_EXP, 1.0f, 0, 0x1.5bf0a8p1f},
      {SX_OP_EXP, -INFINITY, 0, 0.0f},
      {SX_OP_EXP2, -3.0f, 0, 0.125f},
      {SX_OP_EXPM1, 0x1p-30f, 0, 0x1p-30f},
      {SX_OP_LOG, 0x1.5bf0a8p1f, 0, 0x1.fffffep-1f},
      {SX_OP_LOG, -1.0f, 0, NAN},
      {SX_OP_LOG2, 8.0f, 0, 3.0f},
      {SX_OP_LOG1P, -1.0f, 0, -INFINITY},
      {SX_OP_SIN, 0x1.921fb6p0f, 0, 1.0f},
      {SX_OP_COS, 0.0f, 0, 1.0f},
      {SX_OP_COS, INFINITY, 0, NAN},
      {SX_OP_TAN, -0.0f, 0, -0.0f},
      {SX_OP_TANH, 20.0f, 0, 1.0f},
      {SX_OP_ERF, -5.0f, 0, -1.0f},
      {SX_OP_FLOOR, -0.5f, 0, -1.0f},
      {SX_OP_CEIL, -0.5f, 0, -0.0f},
      {SX_OP_ROUND, 2.5f, 0, 2.0f},
      {SX_OP_ROUND, -3.5f, 0, -4.0f},
  };
  for (int64_t k = 0; k < COUNT(cases); k++) {
    float got = 77.0f;
    element(cases[k].op, SX_F32, SX_F32, &got, 1, &cases[k].a, &cases[k].b, NULL);
    assert_floats(&got, &cases[k].want, 1);
  }
}

static void comparisons_and_logic(void **state) {
  (void)state;
  float a[4] = {1.0f, -0.0f, NAN, 2.0f}, b[4] = {2.0f, 0.0f, NAN, 1.0f};
  static const struct {
    sx_op op;
    uint8_t want[4];
  } floats[] = {{SX_OP_EQ, {0, 1, 0, 0}}, {SX_OP_NE, {1, 0, 1, 1}}, {SX_OP_LT, {1, 0, 0, 0}},
                {SX_OP_LE, {1, 1, 0, 0}}, {SX_OP_GT, {0, 0, 0, 1}}, {SX_OP_GE, {0, 1, 0, 1}}};
  uint8_t got[4];
  for (int64_t k = 0; k < COUNT(floats); k++) {
    element(floats[k].op, SX_F32, SX_BOOL, got, 4, a, b, NULL);
    assert_memory_equal(got, floats[k].want, 4);
  }
  uint8_t p[4] = {0, 0, 1, 1}, q[4] = {0, 1, 0, 1}, chosen[4];
  element(SX_OP_AND, SX_BOOL, SX_BOOL, got, 4, p, q, NULL);
  assert_memory_equal(got, ((uint8_t[]){0, 0, 0, 1}), 4);
  element(SX_OP_OR, SX_BOOL, SX_BOOL, got, 4, p, q, NULL);
  assert_memory_equal(got, ((uint8_t[]){0, 1, 1, 1}), 4);
  element(SX_OP_NOT, SX_BOOL, SX_BOOL, got, 4, p, NULL, NULL);
  assert_memory_equal(got, ((uint8_t[]){1, 1, 0, 0}), 4);
  uint8_t yes[4] = {200, 201, 202, 203}, no[4] = {1, 2, 3, 4};
  element(SX_OP_WHERE, SX_U8, SX_U8, chosen, 4, p, yes, no);
  assert_memory_equal(chosen, ((uint8_t[]){1, 2, 202, 203}), 4);
  element(SX_OP_GT, SX_U8, SX_BOOL, got, 4, yes, no, NULL); /* unsigned */
  assert_memory_equal(got, ((uint8_t[]){1, 1, 1, 1}), 4);
}

static void casts(void **state) {
  (void)state;
  float x[8] = {-1.5f, 1.9f, NAN, 0x1p31f, -0x1p40f, 255.9f, 300.0f, -0.0f};
  int32_t integers[8];
  uint8_t bytes[8];
  element(SX_OP_CAST, SX_F32, SX_I32, integers, 8, x, NULL, NULL);
  assert_memory_equal(integers, ((int32_t[]){-1, 1, 0, INT_MAX, INT_MIN, 255, 300, 0}), 32);
  element(SX_OP_CAST, SX_F32, SX_U8, bytes, 8, x, NULL, NULL);
  assert_memory_equal(bytes, ((uint8_t[]){0, 1, 0, 255, 0, 255, 255, 0}), 8);
  element(SX_OP_CAST, SX_F32, SX_BOOL, bytes, 8, x, NULL, NULL);
  assert_memory_equal(bytes, ((uint8_t[]){1, 1, 1, 1, 1, 1, 1, 0}), 8);
  int32_t y[5] = {-1, 256, 16777217, INT_MIN, 7};
  float floats[5];
  element(SX_OP_CAST, SX_I32, SX_F32, floats, 5, y, NULL, NULL);
  assert_floats(floats, (float[]){-1.0f, 256.0f, 16777216.0f, -0x1p31f, 7.0f}, 5);
  element(SX_OP_CAST, SX_I32, SX_U8, bytes, 5, y, NULL, NULL);
  assert_memory_equal(bytes, ((uint8_t[]){0, 255, 255, 0, 7}), 5);
  float z[6] = {1.0f + 0x1p-8f, 1.0f + 0x3p-8f, NAN, INFINITY, 0x1.fffffep127f, 0x1p-149f};
  uint16_t shorts[6]; /* ties to even */
  element(SX_OP_CAST, SX_F32, SX_BF16, shorts, 6, z, NULL, NULL);
  assert_memory_equal(shorts, ((uint16_t[]){0x3f80, 0x3f82, 0x7fc0, 0x7f80, 0x7f80, 0x0000}), 12);
  float h[6] = {65504.0f, 65520.0f, 1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1p-24f, -0x1p-25f};
  element(SX_OP_CAST, SX_F32, SX_F16, shorts, 6, h, NULL, NULL);
  assert_memory_equal(shorts, ((uint16_t[]){0x7bff, 0x7c00, 0x3c00, 0x3c02, 0x0001, 0x8000}), 12);
  element(SX_OP_CAST, SX_F16, SX_F32, floats, 5, (uint16_t[]){0x7bff, 0x0001, 0x83ff, 0xfc00, 0x3c00}, NULL, NULL);
  assert_floats(floats, (float[]){65504.0f, 0x1p-24f, -0x1.ff8p-15f, -INFINITY, 1.0f}, 5);
}

/* bf16: 1 + 2^-8 is not representable, so a node rounds; the exact sum is computed first. */
static void short_floats_round_at_the_node(void **state) {
  (void)state;
  uint16_t one = 0x3f80, small = 0x3b80 /* 2^-8 */, three_small = 0x3c40 /* 3 2^-8 */, got;
  element(SX_OP_ADD, SX_BF16, SX_BF16, &got, 1, &one, &small, NULL);
  assert_int_equal(got, 0x3f80);
  element(SX_OP_ADD, SX_BF16, SX_BF16, &got, 1, &one, &three_small, NULL);
  assert_int_equal(got, 0x3f82);
}

/* ---- nodes --------------------------------------------------------------------------------- */

typedef struct operand {
  sx_operand view;
  int64_t dims[SX_RANK_MAX], strides[SX_RANK_MAX];
} operand;

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
#define INTS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

/* Runs the reference; gives the first faulty index, INT64_MAX for none. */
static int64_t compute(sx_op op, operand *out, const operand *inputs, uint32_t n_inputs, double real,
                       const int64_t *ints, uint32_t n_ints) {
  int64_t attributes[16] = {0};
  memcpy(attributes, ints, n_ints * sizeof *ints);
  sx_node node = {.op = op, .dtype = out->view.dtype, .rank = out->view.rank, .dims = out->dims, .real = real};
  node.ints = attributes;
  node.n_ints = n_ints;
  sx_operand views[4];
  for (uint32_t k = 0; k < n_inputs; k++) views[k] = inputs[k].view;
  sx_fault fault = {.at = INT64_MAX};
  sx_call call = {.node = &node, .out = out->view, .inputs = views, .n_inputs = n_inputs, .fault = &fault};
  call.stream_key = 0x0123456789abcdefu;
  sx_reference[op](&call);
  return fault.at;
}

static void movements(void **state) {
  (void)state;
  int32_t x[6] = {1, 2, 3, 4, 5, 6}, y[24];
  operand in[2], out;
  see(&in[0], x, SX_I32, DIMS(2, 3));
  see(&out, y, SX_I32, DIMS(3, 2));
  compute(SX_OP_TRANSPOSE, &out, in, 1, 0, INTS(1, 0));
  assert_memory_equal(y, ((int32_t[]){1, 4, 2, 5, 3, 6}), 24);
  compute(SX_OP_RESHAPE, &out, in, 1, 0, INTS(0));
  assert_memory_equal(y, x, 24);
  see(&out, y, SX_I32, DIMS(2, 2));
  compute(SX_OP_SLICE, &out, in, 1, 0, INTS(0, 2, 1, 0, 3, 2));
  assert_memory_equal(y, ((int32_t[]){1, 3, 4, 6}), 16);
  see(&out, y, SX_I32, DIMS(2, 3));
  compute(SX_OP_REVERSE, &out, in, 1, 0, INTS(1));
  assert_memory_equal(y, ((int32_t[]){3, 2, 1, 6, 5, 4}), 24);
  see(&out, y, SX_I32, DIMS(3, 6)); /* low 1, high 0; low 0, high 1, inner 1 */
  compute(SX_OP_PAD, &out, in, 1, 9, INTS(1, 0, 0, 0, 1, 1));
  assert_memory_equal(y, ((int32_t[]){9, 9, 9, 9, 9, 9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9}), 72);
  see(&out, y, SX_I32, DIMS(2, 2, 2));
  compute(SX_OP_UNFOLD, &out, in, 1, 0, INTS(1, 2, 1));
  assert_memory_equal(y, ((int32_t[]){1, 2, 2, 3, 4, 5, 5, 6}), 32);
  int32_t z[2] = {7, 8};
  see(&in[1], z, SX_I32, DIMS(2, 1));
  see(&out, y, SX_I32, DIMS(2, 4));
  compute(SX_OP_CONCAT, &out, in, 2, 0, INTS(1));
  assert_memory_equal(y, ((int32_t[]){1, 2, 3, 7, 4, 5, 6, 8}), 32);
  see(&out, y, SX_I32, DIMS(2, 2, 1));
  compute(SX_OP_BROADCAST, &out, in + 1, 1, 0, INTS(0));
  assert_memory_equal(y, ((int32_t[]){7, 8, 7, 8}), 16);
  see(&out, y, SX_I32, DIMS(2, 3));
  compute(SX_OP_IOTA, &out, NULL, 0, 0, INTS(1));
  assert_memory_equal(y, ((int32_t[]){0, 1, 2, 0, 1, 2}), 24);
  compute(SX_OP_CONST, &out, NULL, 0, -5, INTS(0));
  assert_memory_equal(y, ((int32_t[]){-5, -5, -5, -5, -5, -5}), 24);
}

/* A broadcast, reversed view of [1 2 3] is read where it lies. */
static void strides_are_followed(void **state) {
  (void)state;
  int32_t x[3] = {1, 2, 3}, y[6];
  operand in, out;
  see(&in, x + 2, SX_I32, DIMS(2, 3));
  in.strides[0] = 0;
  in.strides[1] = -1;
  see(&out, y, SX_I32, DIMS(6));
  compute(SX_OP_RESHAPE, &out, &in, 1, 0, INTS(0));
  assert_memory_equal(y, ((int32_t[]){3, 2, 1, 3, 2, 1}), 24);
  see(&out, y, SX_I32, DIMS(2, 3));
  compute(SX_OP_NEG, &out, &in, 1, 0, INTS(0));
  assert_memory_equal(y, ((int32_t[]){-3, -2, -1, -3, -2, -1}), 24);
}

static void extremes(void **state) {
  (void)state;
  float x[6] = {-0.0f, 0.0f, -1.0f, 2.0f, NAN, 1.0f}, y[3];
  int32_t at[2], n[1];
  uint8_t logic[1];
  operand in, out;
  see(&in, x, SX_F32, DIMS(2, 3));
  see(&out, y, SX_F32, DIMS(2));
  compute(SX_OP_REDUCEMAX, &out, &in, 1, 0, INTS(1));
  assert_floats(y, (float[]){0.0f, NAN}, 2);
  compute(SX_OP_REDUCEMIN, &out, &in, 1, 0, INTS(1));
  assert_floats(y, (float[]){-1.0f, NAN}, 2);
  see(&out, at, SX_I32, DIMS(2));
  compute(SX_OP_ARGMAX, &out, &in, 1, 0, INTS(1));
  assert_memory_equal(at, ((int32_t[]){0, 1}), 8); /* zeros tie; the first NaN */
  compute(SX_OP_ARGMIN, &out, &in, 1, 0, INTS(1));
  assert_memory_equal(at, ((int32_t[]){2, 1}), 8);
  see(&in, x, SX_F32, DIMS(0, 3));
  see(&out, y, SX_F32, DIMS(3));
  compute(SX_OP_REDUCEMAX, &out, &in, 1, 0, INTS(0));
  assert_floats(y, (float[]){-INFINITY, -INFINITY, -INFINITY}, 3);
  see(&in, at, SX_I32, DIMS(0));
  see(&out, n, SX_I32, SCALAR);
  compute(SX_OP_REDUCEMAX, &out, &in, 1, 0, INTS(0));
  assert_int_equal(n[0], INT_MIN);
  compute(SX_OP_REDUCEMIN, &out, &in, 1, 0, INTS(0));
  assert_int_equal(n[0], INT_MAX);
  uint8_t bits[3] = {0, 1, 1};
  see(&in, bits, SX_BOOL, DIMS(3));
  see(&out, logic, SX_BOOL, SCALAR);
  compute(SX_OP_ANY, &out, &in, 1, 0, INTS(0));
  assert_int_equal(logic[0], 1);
  compute(SX_OP_ALL, &out, &in, 1, 0, INTS(0));
  assert_int_equal(logic[0], 0);
  see(&in, bits, SX_BOOL, DIMS(0));
  compute(SX_OP_ALL, &out, &in, 1, 0, INTS(0));
  assert_int_equal(logic[0], 1);
}

static void lookups(void **state) {
  (void)state;
  float table[6] = {1, 2, 3, 4, 5, 6}, y[8];
  int32_t ids[3] = {2, 0, 2};
  operand in[2], out;
  see(&in[0], table, SX_F32, DIMS(3, 2));
  see(&in[1], ids, SX_I32, DIMS(3));
  see(&out, y, SX_F32, DIMS(3, 2));
  assert_true(compute(SX_OP_GATHER, &out, in, 2, 0, INTS(0)) == INT64_MAX);
  assert_floats(y, (float[]){5, 6, 1, 2, 5, 6}, 6);
  see(&in[0], table, SX_F32, DIMS(2, 3));
  see(&in[1], (int32_t[]){2, 0}, SX_I32, DIMS(2, 1));
  see(&out, y, SX_F32, DIMS(2, 1));
  compute(SX_OP_TAKE, &out, in, 2, 0, INTS(1));
  assert_floats(y, (float[]){3, 4}, 2);
  see(&in[0], ids, SX_I32, DIMS(2));
  see(&out, y, SX_F32, DIMS(2, 3));
  compute(SX_OP_ONEHOT, &out, in, 1, 0, INTS(3));
  assert_floats(y, (float[]){0, 0, 1, 1, 0, 0}, 6);
}

/* The lowest flat index of an id that is out of range, whatever else there is. */
static void faults(void **state) {
  (void)state;
  float table[4] = {1, 2, 3, 4}, y[20];
  int32_t ids[4] = {0, 4, -1, 9};
  operand in[2], out;
  see(&in[0], table, SX_F32, DIMS(4));
  see(&in[1], ids, SX_I32, DIMS(2, 2));
  see(&out, y, SX_F32, DIMS(2, 2));
  assert_int_equal(compute(SX_OP_GATHER, &out, in, 2, 0, INTS(0)), 1);
  assert_floats(y, (float[]){1, 0, 0, 0}, 4);
  see(&in[1], ids, SX_I32, DIMS(4));
  see(&out, y, SX_F32, DIMS(4));
  assert_int_equal(compute(SX_OP_TAKE, &out, in, 2, 0, INTS(0)), 1);
  operand swapped[2] = {in[1], in[0]};
  swapped[0].view.dims = swapped[0].dims;
  swapped[1].view.dims = swapped[1].dims;
  assert_int_equal(compute(SX_OP_SCATTER, &out, swapped, 2, 0, INTS(4)), 1);
  assert_floats(y, (float[]){1, 0, 0, 0}, 4);
  assert_int_equal(compute(SX_OP_PUT, &out, swapped, 2, 0, INTS(0, 4)), 1);
  see(&out, y, SX_F32, DIMS(4, 4));
  assert_int_equal(compute(SX_OP_ONEHOT, &out, swapped, 1, 0, INTS(4)), 1);
}

static void argsort_is_stable_with_nan_last(void **state) {
  (void)state;
  float x[8] = {2, NAN, -0.0f, 1, 0.0f, 2, -INFINITY, NAN};
  int32_t at[8];
  operand in, out;
  see(&in, x, SX_F32, DIMS(8));
  see(&out, at, SX_I32, DIMS(8));
  compute(SX_OP_ARGSORT, &out, &in, 1, 0, INTS(0, 0));
  assert_memory_equal(at, ((int32_t[]){6, 2, 4, 3, 0, 5, 1, 7}), 32);
  compute(SX_OP_ARGSORT, &out, &in, 1, 0, INTS(0, 1));
  assert_memory_equal(at, ((int32_t[]){0, 5, 3, 2, 4, 6, 1, 7}), 32);
}

static void scans_start_anew_at_segments(void **state) {
  (void)state;
  int32_t x[6] = {1, 2, 3, 4, 5, 6}, segments[6] = {7, 7, 8, 8, 8, 7}, y[6];
  operand in[3], out;
  see(&in[0], x, SX_I32, DIMS(6));
  see(&in[1], segments, SX_I32, DIMS(6));
  see(&out, y, SX_I32, DIMS(6));
  compute(SX_OP_CUMSUM, &out, in, 2, 0, INTS(0, 0));
  assert_memory_equal(y, ((int32_t[]){1, 3, 3, 7, 12, 6}), 24);
  compute(SX_OP_CUMSUM, &out, in, 2, 0, INTS(0, 1));
  assert_memory_equal(y, ((int32_t[]){3, 2, 12, 9, 5, 6}), 24);
  float a[4] = {9, 2, 3, 4}, b[4] = {1, 1, 1, 1}, h[4];
  int32_t s[4] = {0, 0, 1, 1};
  see(&in[0], a, SX_F32, DIMS(4));
  see(&in[1], b, SX_F32, DIMS(4));
  see(&in[2], s, SX_I32, DIMS(4));
  see(&out, h, SX_F32, DIMS(4));
  compute(SX_OP_SCANLINEAR, &out, in, 3, 0, INTS(0, 0));
  assert_floats(h, (float[]){1, 3, 1, 5}, 4);
  compute(SX_OP_SCANLINEAR, &out, in, 2, 0, INTS(0, 1));
  assert_floats(h, (float[]){9 * (2 * (3 * 1 + 1) + 1) + 1, 2 * (3 * 1 + 1) + 1, 3 * 1 + 1, 1}, 4);
}

/* Salts in order; element i of the stream. */
static void draws_follow_the_stream(void **state) {
  (void)state;
  float y[7];
  int32_t first = 3, second = -4;
  operand in[2], out;
  see(&in[0], &first, SX_I32, SCALAR);
  see(&in[1], &second, SX_I32, SCALAR);
  see(&out, y, SX_F32, DIMS(7));
  compute(SX_OP_UNIFORM, &out, in, 2, 0, INTS(0));
  uint64_t key = sx_draw_salt(0x0123456789abcdefu, (int32_t[]){3, -4}, 2);
  for (uint64_t k = 0; k < 7; k++) assert_true(y[k] == sx_draw_uniform(key, k));
  compute(SX_OP_NORMAL, &out, NULL, 0, 0, INTS(0));
  for (uint64_t k = 0; k < 7; k++) assert_true(y[k] == sx_draw_normal(0x0123456789abcdefu, k));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic_of_integers_wraps_and_floors),
      cmocka_unit_test(arithmetic_of_floats),
      cmocka_unit_test(comparisons_and_logic),
      cmocka_unit_test(casts),
      cmocka_unit_test(short_floats_round_at_the_node),
      cmocka_unit_test(movements),
      cmocka_unit_test(strides_are_followed),
      cmocka_unit_test(extremes),
      cmocka_unit_test(lookups),
      cmocka_unit_test(faults),
      cmocka_unit_test(argsort_is_stable_with_nan_last),
      cmocka_unit_test(scans_start_anew_at_segments),
      cmocka_unit_test(draws_follow_the_stream),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
