/* Types and shapes of every operation, and every reason for which a node cannot be. */
#include <stdio.h>
#include <string.h>

#include "../../libsexp/ir/infer.h"
#include "../common/cmocka_all.h"
#include "../common/graphs.h"

/* Operands by name: the nodes of the graph below. */
typedef enum operand {
  F,
  F3,
  F23,
  F34,
  F32B,
  F234,
  F4D,
  W4D,
  Y4D,
  B3,
  I,
  I3,
  I23,
  I2,
  U3,
  P3,
  P23,
  E0,
  F8,
  N_OPERANDS
} operand;

static const char operands[] =
    "graph \"t\"\n"
    "%0 = input {name \"f\"} : f32 []\n"
    "%1 = input {name \"f3\"} : f32 [3]\n"
    "%2 = input {name \"f23\"} : f32 [2 3]\n"
    "%3 = input {name \"f34\"} : f32 [3 4]\n"
    "%4 = input {name \"b23\"} : bf16 [2 3]\n"
    "%5 = input {name \"f234\"} : f32 [2 3 4]\n"
    "%6 = input {name \"x\"} : f32 [2 6 5 3]\n"
    "%7 = input {name \"w\"} : f32 [4 3 2 3]\n"
    "%8 = input {name \"y\"} : f32 [2 3 3 4]\n"
    "%9 = input {name \"b3\"} : bf16 [3]\n"
    "%10 = input {name \"i\"} : i32 []\n"
    "%11 = input {name \"i3\"} : i32 [3]\n"
    "%12 = input {name \"i23\"} : i32 [2 3]\n"
    "%13 = input {name \"i2\"} : i32 [2]\n"
    "%14 = input {name \"u3\"} : u8 [3]\n"
    "%15 = input {name \"p3\"} : bool [3]\n"
    "%16 = input {name \"p23\"} : bool [2 3]\n"
    "%17 = input {name \"e\"} : f32 [0 3]\n"
    "%18 = input {name \"f8\"} : f32 [1 1 1 1 1 1 1 2]\n";

/* A node, and its type or the code and the message of the problem. */
typedef struct row {
  sx_op op;
  uint32_t n_inputs;
  sx_id inputs[3];
  uint32_t n_ints;
  int64_t ints[12];
  const char *expected;
  const char *text;
  double real;
  sx_dtype dtype;
  int rank;
  int64_t dims[9];
} row;

#define INTS(...) .n_ints = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .ints = {__VA_ARGS__}
#define IN(...) .n_inputs = sizeof((sx_id[]){__VA_ARGS__}) / sizeof(sx_id), .inputs = {__VA_ARGS__}
#define GIVEN(type, ...) \
  .dtype = type, .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dims = {__VA_ARGS__}
#define BIG ((int64_t)1 << 32)

static const row rows[] = {
    /* leaves */
    {SX_OP_CONST, .real = 1, GIVEN(SX_F32, 2, 3), .expected = "f32 [2 3]"},
    {SX_OP_CONST, .real = 0.1, GIVEN(SX_F32, 2), .expected = "E-TYPE-003 f32 does not hold the value 0.1"},
    {SX_OP_CONST, .real = 300, GIVEN(SX_U8, 2), .expected = "E-TYPE-003 u8 does not hold the value 300"},
    {SX_OP_CONST, .real = 1.5, GIVEN(SX_I32, 2), .expected = "E-TYPE-003 i32 does not hold the value 1.5"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_F32, -2), .expected = "E-SHAPE-006 a size is negative in shape [-2]"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_F32, 1, 1, 1, 1, 1, 1, 1, 1, 1),
     .expected = "E-SHAPE-004 a tensor has at most 8 axes, not 9"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_F32, BIG, BIG),
     .expected = "E-SHAPE-006 a result of shape [4294967296 4294967296] is not possible"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_U8, BIG, BIG, 0),
     .expected = "E-SHAPE-006 a result of shape [4294967296 4294967296 0] is not possible"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_U8, BIG, (int64_t)1 << 26), .expected = "u8 [4294967296 67108864]"},
    {SX_OP_CONST, .real = 1, GIVEN(SX_U8, BIG, (int64_t)1 << 27),
     .expected = "E-SHAPE-006 a result of shape [4294967296 134217728] is not possible"},
    {SX_OP_IOTA, INTS(1), GIVEN(SX_F32, 2, 3), .expected = "i32 [2 3]"},
    {SX_OP_IOTA, INTS(2), GIVEN(SX_I32, 2, 3), .expected = "E-SHAPE-002 axis 2 does not exist in shape [2 3]"},
    {SX_OP_IOTA, INTS(0), GIVEN(SX_I32, BIG), .expected = "E-SHAPE-007 indices up to 4294967295 do not fit i32"},
    {SX_OP_PARAM, .text = "w", GIVEN(SX_F16, 2), .expected = "f16 [2]"},
    {SX_OP_PARAM, GIVEN(SX_F16, 2), .expected = "E-TYPE-004 takes a text"},
    {SX_OP_CONST, .text = "w", GIVEN(SX_F16, 2), .expected = "E-TYPE-004 takes no text"},
    {SX_OP_CONST, IN(F), GIVEN(SX_F16, 2), .expected = "E-TYPE-004 takes 0 operands, got 1"},
    {SX_OP_CONST, INTS(1), GIVEN(SX_F16, 2), .expected = "E-TYPE-004 takes other integers, got 1"},
    {SX_OP_IOTA, INTS(0), .real = 1, GIVEN(SX_I32, 2), .expected = "E-TYPE-004 takes no real"},
    /* elements */
    {SX_OP_ADD, IN(F23, F23), .expected = "f32 [2 3]"},
    {SX_OP_ADD, IN(I3, I3), .expected = "i32 [3]"},
    {SX_OP_ADD, IN(F23), .expected = "E-TYPE-004 takes 2 operands, got 1"},
    {SX_OP_NEG, IN(F23, F23), .expected = "E-TYPE-004 takes 1 operand, got 2"},
    {SX_OP_ADD, IN(F23, 99), .expected = "E-TYPE-004 operand 1, %99, does not exist"},
    {SX_OP_ADD, IN(F23, F34), .expected = "E-SHAPE-008 shapes [2 3] and [3 4] differ"},
    {SX_OP_ADD, IN(F23, F32B), .expected = "E-TYPE-001 dtypes differ, f32 and bf16; cast one of them"},
    {SX_OP_ADD, IN(U3, U3), .expected = "E-TYPE-002 takes numbers (f32 bf16 f16 i32), got u8; cast it"},
    {SX_OP_MUL, IN(P3, P3), .expected = "E-TYPE-002 takes numbers (f32 bf16 f16 i32), got bool; cast it"},
    {SX_OP_DIV, IN(I3, I3), .expected = "E-TYPE-002 takes floats (f32 bf16 f16), got i32; cast it"},
    {SX_OP_IDIV, IN(I3, I3), .expected = "i32 [3]"},
    {SX_OP_EXP, IN(I3), .expected = "E-TYPE-002 takes floats (f32 bf16 f16), got i32; cast it"},
    {SX_OP_EXP, IN(B3), .expected = "bf16 [3]"},
    {SX_OP_LT, IN(U3, U3), .expected = "bool [3]"},
    {SX_OP_EQ, IN(F3, B3), .expected = "E-TYPE-001 dtypes differ, f32 and bf16; cast one of them"},
    {SX_OP_AND, IN(P3, P3), .expected = "bool [3]"},
    {SX_OP_NOT, IN(F3), .expected = "E-TYPE-002 takes bools, got f32; cast it"},
    {SX_OP_WHERE, IN(P3, U3, U3), .expected = "u8 [3]"},
    {SX_OP_WHERE, IN(F3, F3, F3), .expected = "E-TYPE-002 takes bools, got f32; cast it"},
    {SX_OP_WHERE, IN(P3, F3, B3), .expected = "E-TYPE-001 dtypes differ, f32 and bf16; cast one of them"},
    {SX_OP_WHERE, IN(P23, F3, F3), .expected = "E-SHAPE-008 shapes [2 3] and [3] differ"},
    {SX_OP_CAST, IN(F3), .dtype = SX_BOOL, .expected = "bool [3]"},
    {SX_OP_STOP, IN(I3), .expected = "i32 [3]"},
    /* moves */
    {SX_OP_RESHAPE, IN(F23), GIVEN(SX_F32, 3, 1, 2), .expected = "f32 [3 1 2]"},
    {SX_OP_RESHAPE, IN(F23), GIVEN(SX_F32, 4), .expected = "E-SHAPE-005 shape [4] has not as many elements as [2 3]"},
    {SX_OP_RESHAPE, IN(E0), GIVEN(SX_F32, 7, 0), .expected = "f32 [7 0]"},
    {SX_OP_TRANSPOSE, IN(F234), INTS(2, 0, 1), .expected = "f32 [4 2 3]"},
    {SX_OP_TRANSPOSE, IN(F234), INTS(2, 0, 2), .expected = "E-SHAPE-002 axis 2 is named twice"},
    {SX_OP_TRANSPOSE, IN(F234), INTS(2, 0, -1), .expected = "E-SHAPE-002 axis -1 does not exist in shape [2 3 4]"},
    {SX_OP_TRANSPOSE, IN(F234), INTS(1, 0), .expected = "E-SHAPE-004 takes an entry an axis, got 2 for shape [2 3 4]"},
    {SX_OP_BROADCAST, IN(F3), GIVEN(SX_F32, 2, 3), .expected = "f32 [2 3]"},
    {SX_OP_BROADCAST, IN(F3), GIVEN(SX_F32, 3, 2), .expected = "E-SHAPE-001 shape [3] does not broadcast to [3 2]"},
    {SX_OP_BROADCAST, IN(F23), GIVEN(SX_F32, 3), .expected = "E-SHAPE-001 shape [2 3] does not broadcast to [3]"},
    {SX_OP_SLICE, IN(F23), INTS(0, 2, 1, 0, 3, 2), .expected = "f32 [2 2]"},
    {SX_OP_SLICE, IN(F23), INTS(2, 2, 1, 0, 3, 2), .expected = "f32 [0 2]"},
    {SX_OP_SLICE, IN(F23), INTS(0, 2, 1, 0, 4, 1),
     .expected = "E-SHAPE-007 0 up to 4 by 1 is no part of axis 1 of shape [2 3]"},
    {SX_OP_SLICE, IN(F23), INTS(0, 2, 0, 0, 3, 1),
     .expected = "E-SHAPE-007 0 up to 2 by 0 is no part of axis 0 of shape [2 3]"},
    {SX_OP_SLICE, IN(F23), INTS(0, 2), .expected = "E-TYPE-004 takes other integers, got 2"},
    {SX_OP_PAD, IN(F23), INTS(1, 0, 0, 0, 2, 1), .expected = "f32 [3 7]"},
    {SX_OP_PAD, IN(F23), INTS(1, -1, 0, 0, 2, 1), .expected = "E-SHAPE-007 padding of axis 0 is negative"},
    {SX_OP_PAD, IN(F23), INTS(INT64_MAX, 0, 0, 0, 2, 1), .expected = "E-SHAPE-006 padding of axis 0 is too large"},
    {SX_OP_PAD, IN(F23), INTS(0, 0, INT64_MAX, 0, 2, 1), .expected = "E-SHAPE-006 padding of axis 0 is too large"},
    {SX_OP_PAD, IN(U3), INTS(1, 0, 0), .real = -1, .expected = "E-TYPE-003 u8 does not hold the value -1"},
    {SX_OP_CONCAT, IN(F23, F23, F23), INTS(1), .expected = "f32 [2 9]"},
    {SX_OP_CONCAT, IN(F23, F34), INTS(1),
     .expected = "E-SHAPE-008 shapes [2 3] and [3 4] differ in another axis than 1"},
    {SX_OP_CONCAT, IN(F23, F32B), INTS(1), .expected = "E-TYPE-001 dtypes differ, f32 and bf16; cast one of them"},
    {SX_OP_CONCAT, INTS(1), .expected = "E-TYPE-004 takes at least one operand"},
    {SX_OP_REVERSE, IN(F23), INTS(1), .expected = "f32 [2 3]"},
    {SX_OP_REVERSE, IN(F23), INTS(2), .expected = "E-SHAPE-002 axis 2 does not exist in shape [2 3]"},
    {SX_OP_UNFOLD, IN(F234), INTS(2, 3, 1), .expected = "f32 [2 3 2 3]"},
    {SX_OP_UNFOLD, IN(F234), INTS(2, 5, 1),
     .expected = "E-SHAPE-007 windows of 5 by steps of 1 do not fit an axis of 4"},
    {SX_OP_UNFOLD, IN(F8), INTS(7, 1, 1),
     .expected = "E-SHAPE-004 takes fewer than 8 axes, got shape [1 1 1 1 1 1 1 2]"},
    {SX_OP_FOLD, IN(F234), INTS(1, 4, 2, 9), .expected = "f32 [2 9]"},
    {SX_OP_FOLD, IN(F234), INTS(1, 4, 2, 10),
     .expected = "E-SHAPE-008 shape [2 3 4] does not hold the windows of 4 by 2 of 10"},
    {SX_OP_FOLD, IN(F234), INTS(2, 4, 2, 9),
     .expected = "E-SHAPE-008 shape [2 3 4] does not hold the windows of 4 by 2 of 9"},
    /* reductions */
    {SX_OP_SUM, IN(F234), INTS(0, 2), .expected = "f32 [3]"},
    {SX_OP_SUM, IN(F234), .expected = "f32 [2 3 4]"},
    {SX_OP_SUM, IN(F234), INTS(2, 0), .expected = "E-SHAPE-002 axis 0 is named twice or out of order"},
    {SX_OP_SUM, IN(F234), INTS(0, 0), .expected = "E-SHAPE-002 axis 0 is named twice or out of order"},
    {SX_OP_SUM, IN(F234), INTS(3), .expected = "E-SHAPE-002 axis 3 does not exist in shape [2 3 4]"},
    {SX_OP_SUM, IN(I3), INTS(0), .expected = "i32 []"},
    {SX_OP_SUM, IN(P3), INTS(0), .expected = "E-TYPE-002 takes numbers (f32 bf16 f16 i32), got bool; cast it"},
    {SX_OP_SUM, IN(U3), INTS(0), .expected = "E-TYPE-002 takes numbers (f32 bf16 f16 i32), got u8; cast it"},
    {SX_OP_SUM, IN(E0), INTS(0), .expected = "f32 [3]"},
    {SX_OP_REDUCEMAX, IN(E0), INTS(1), .expected = "f32 [0]"},
    {SX_OP_REDUCEMAX, IN(E0), INTS(0), .expected = "E-SHAPE-009 axis 0 of shape [0 3] has no elements"},
    {SX_OP_ANY, IN(P23), INTS(1), .expected = "bool [2]"},
    {SX_OP_ALL, IN(F3), INTS(0), .expected = "E-TYPE-002 takes bools, got f32; cast it"},
    {SX_OP_ARGMAX, IN(F23), INTS(1), .expected = "i32 [2]"},
    {SX_OP_ARGMAX, IN(F23), INTS(0, 1), .expected = "E-SHAPE-002 takes one axis, got 2"},
    {SX_OP_ARGMIN, IN(E0), INTS(0), .expected = "E-SHAPE-009 axis 0 of shape [0 3] has no elements"},
    /* products */
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bc->ca", .expected = "f32 [4 2]"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bc->", .dtype = SX_BF16, .expected = "bf16 []"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,cd->", .expected = "f32 []"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,ac->bc", .expected = "E-SHAPE-003 sizes of a differ, [2 3] by [3 4]"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bcd->a",
     .expected = "E-SHAPE-004 operand 1 of \"ab,bcd->a\" has shape [3 4]"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bb->a",
     .expected = "E-SHAPE-010 \"ab,bb->a\" is not of the form ab,bc->ac"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bc->d",
     .expected = "E-SHAPE-010 \"ab,bc->d\" is not of the form ab,bc->ac"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bc", .expected = "E-SHAPE-010 \"ab,bc\" is not of the form ab,bc->ac"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab->bc,a",
     .expected = "E-SHAPE-010 \"ab->bc,a\" is not of the form ab,bc->ac"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "a1,bc->a",
     .expected = "E-SHAPE-010 \"a1,bc->a\" is not of the form ab,bc->ac"},
    {SX_OP_EINSUM, IN(F23, F34), .text = "ab,bc->ac", .dtype = SX_I32, .expected = "E-TYPE-002 gives a float, not i32"},
    {SX_OP_EINSUM, IN(F23, F32B), .text = "ab,ab->a",
     .expected = "E-TYPE-001 dtypes differ, f32 and bf16; cast one of them"},
    {SX_OP_EINSUM, IN(I23, I23), .text = "ab,ab->a",
     .expected = "E-TYPE-002 takes floats (f32 bf16 f16), got i32; cast it"},
    {SX_OP_CONV, IN(F4D, W4D), INTS(2, 1), .expected = "f32 [2 3 3 4]"},
    {SX_OP_CONV, IN(F4D, W4D), INTS(1, 0), .expected = "f32 [2 4 4 4]"},
    {SX_OP_CONV, IN(F4D, Y4D), INTS(1, 0),
     .expected = "E-SHAPE-003 channels differ, [n h w c] is [2 6 5 3], [out kh kw c] is [2 3 3 4]"},
    {SX_OP_CONV, IN(F4D, F23), INTS(1, 0), .expected = "E-SHAPE-004 takes operands of 4 axes, got shape [2 3]"},
    {SX_OP_CONV, IN(F4D, W4D), INTS(0, 0),
     .expected = "E-SHAPE-007 a kernel of 3 with stride 0 and padding 0 does not fit a size of 6"},
    {SX_OP_CONV, IN(W4D, F4D), INTS(1, 1),
     .expected = "E-SHAPE-007 a kernel of 6 with stride 1 and padding 1 does not fit a size of 3"},
    {SX_OP_CONVDATA, IN(Y4D, W4D), INTS(2, 1, 6, 5), .expected = "f32 [2 6 5 3]"},
    {SX_OP_CONVDATA, IN(Y4D, W4D), INTS(2, 1, 9, 5),
     .expected = "E-SHAPE-008 the convolution gives [5 3], not those of [2 3 3 4]"},
    {SX_OP_CONVDATA, IN(F4D, W4D), INTS(2, 1, 9, 5),
     .expected = "E-SHAPE-003 output channels differ, [n oh ow out] is [2 6 5 3], [out kh kw c] is [4 3 2 3]"},
    {SX_OP_CONVWEIGHT, IN(Y4D, F4D), INTS(2, 1, 3, 2), .expected = "f32 [4 3 2 3]"},
    {SX_OP_CONVWEIGHT, IN(W4D, F4D), INTS(2, 1, 3, 2),
     .expected = "E-SHAPE-003 batches differ, [n oh ow out] is [4 3 2 3], [n h w c] is [2 6 5 3]"},
    /* index operations and scans */
    {SX_OP_GATHER, IN(F34, I23), .expected = "f32 [2 3 4]"},
    {SX_OP_GATHER, IN(F34, F3), .expected = "E-TYPE-002 takes i32, got f32; cast it"},
    {SX_OP_GATHER, IN(F, I23), .expected = "E-SHAPE-004 takes a table of at least one axis, got shape []"},
    {SX_OP_GATHER, IN(F8, I23), .expected = "E-SHAPE-004 takes fewer axes in table and ids together, got shape [2 3]"},
    {SX_OP_SCATTER, IN(I2, F234), INTS(7), .expected = "f32 [7 3 4]"},
    {SX_OP_SCATTER, IN(I23, F234), INTS(7), .expected = "f32 [7 4]"},
    {SX_OP_SCATTER, IN(I3, F234), INTS(7),
     .expected = "E-SHAPE-008 values begin with the axes of ids, got shapes [3] and [2 3 4]"},
    {SX_OP_SCATTER, IN(I2, F234), INTS(-1), .expected = "E-SHAPE-007 -1 is no number of i32 ids"},
    {SX_OP_SCATTER, IN(I, F8), INTS(2),
     .expected = "E-SHAPE-008 values begin with the axes of ids, got shapes [] and [1 1 1 1 1 1 1 2]"},
    {SX_OP_TAKE, IN(F34, I23), INTS(0),
     .expected = "E-SHAPE-008 ids agree with the operand but along the axis, got shapes [3 4] and [2 3]"},
    {SX_OP_TAKE, IN(F23, I23), INTS(1), .expected = "f32 [2 3]"},
    {SX_OP_TAKE, IN(F, I), INTS(0), .expected = "E-SHAPE-002 axis 0 does not exist in shape []"},
    {SX_OP_PUT, IN(I23, F23), INTS(1, 9), .expected = "f32 [2 9]"},
    {SX_OP_PUT, IN(I23, F34), INTS(1, 9),
     .expected = "E-SHAPE-008 ids and values have one shape, got shapes [2 3] and [3 4]"},
    {SX_OP_PUT, IN(I23, P23), INTS(1, 9), .expected = "E-TYPE-002 takes numbers (f32 bf16 f16 i32), got bool; cast it"},
    {SX_OP_ONEHOT, IN(I23), INTS(5), .dtype = SX_BF16, .expected = "bf16 [2 3 5]"},
    {SX_OP_ONEHOT, IN(I23), INTS(BIG), .expected = "E-SHAPE-007 4294967296 is no number of i32 ids"},
    {SX_OP_ARGSORT, IN(F23), INTS(1, 0), .expected = "i32 [2 3]"},
    {SX_OP_ARGSORT, IN(F23), INTS(1, 2), .expected = "E-SHAPE-007 a direction is 0 or 1, not 2"},
    {SX_OP_CUMSUM, IN(I23), INTS(1, 0), .expected = "i32 [2 3]"},
    {SX_OP_CUMSUM, IN(F23, I23), INTS(1, 1), .expected = "f32 [2 3]"},
    {SX_OP_CUMSUM, IN(F23, I3), INTS(1, 1), .expected = "E-SHAPE-008 shapes [2 3] and [3] differ"},
    {SX_OP_CUMSUM, IN(F23, F23), INTS(1, 1), .expected = "E-TYPE-002 takes i32, got f32; cast it"},
    {SX_OP_CUMSUM, IN(F23, I23, I23), INTS(1, 1), .expected = "E-TYPE-004 takes 1 operands and segments, got 3"},
    {SX_OP_CUMSUM, IN(F23), INTS(1, 2), .expected = "E-SHAPE-007 reverse is 0 or 1, not 2"},
    {SX_OP_SCANLINEAR, IN(F23, F23, I23), INTS(0, 0), .expected = "f32 [2 3]"},
    {SX_OP_SCANLINEAR, IN(I23, I23), INTS(0, 0),
     .expected = "E-TYPE-002 takes floats (f32 bf16 f16), got i32; cast it"},
    {SX_OP_UNIFORM, IN(I, I), INTS(3), GIVEN(SX_F32, 2, 3), .expected = "f32 [2 3]"},
    {SX_OP_NORMAL, INTS(3), .text = "stream", GIVEN(SX_F32, 2, 3), .expected = "f32 [2 3]"},
    {SX_OP_NORMAL, IN(I3), INTS(3), GIVEN(SX_F32, 2, 3),
     .expected = "E-SHAPE-004 takes scalars as salts, got shape [3]"},
    {SX_OP_NORMAL, IN(F), INTS(3), GIVEN(SX_F32, 2, 3), .expected = "E-TYPE-002 takes i32, got f32; cast it"},
    {SX_OP_NORMAL, INTS(-1), GIVEN(SX_F32, 2, 3), .expected = "E-SHAPE-007 the number of a draw is negative"},
    {SX_OP_GRAD, IN(F, F23), .expected = "f32 [2 3]"},
    {SX_OP_GRAD, IN(F3, F23), .expected = "E-GRAD-002 takes the gradient of a float scalar, got f32 [3]"},
    {SX_OP_GRAD, IN(I, F23), .expected = "E-GRAD-002 takes the gradient of a float scalar, got i32 []"},
    {SX_OP_GRAD, IN(F, I3), .expected = "E-GRAD-003 takes gradients with respect to floats, got i32"},
};

static const char *infer(graphs *g, const sx_graph *graph, const row *r) {
  sx_spec spec = {.op = r->op,
                  .dtype = r->dtype,
                  .rank = r->rank,
                  .dims = r->dims,
                  .inputs = r->inputs,
                  .n_inputs = r->n_inputs,
                  .ints = r->ints,
                  .n_ints = r->n_ints,
                  .real = r->real,
                  .text = r->text};
  sx_inference inferred;
  sx_problem why;
  if (!sx_infer(&inferred, graph, &spec, &why))
    return sx_format(&g->arena, "%s %s", sx_code_describe(why.code)->code, why.message);
  return sx_format(&g->arena, "%s %s", sx_dtype_name(inferred.dtype),
                   sx_shape_text_of_dims(inferred.dims, inferred.rank).text);
}

static void test_rows(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = graphs_parse(&g, operands);
  if (!graph) fail_msg("%s", graphs_error(&g));
  assert_int_equal(graph->nodes.n, N_OPERANDS);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *given = infer(&g, graph, &rows[i]);
    if (strcmp(given, rows[i].expected) != 0)
      fail_msg("row %d, %s: expected %s, given %s", (int)i, sx_op_describe(rows[i].op)->name, rows[i].expected, given);
  }
  graphs_free(&g);
}

static void test_every_operation_has_a_row(void **state) {
  (void)state;
  bool seen[SX_N_OPS] = {false};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) seen[rows[i].op] = true;
  /* One row speaks for the elementwise operations that share its rules. */
  for (int op = 0; op < SX_N_OPS; op++)
    if (sx_op_describe((sx_op)op)->class != SX_CLASS_ELEMENT && !seen[op] && op != SX_OP_INPUT && op != SX_OP_STATE &&
        op != SX_OP_REDUCEMIN)
      fail_msg("no row of %s", sx_op_describe((sx_op)op)->name);
}

/* A message never outgrows its buffer. */
static void test_long_messages(void **state) {
  (void)state;
  graphs g;
  graphs_init(&g);
  sx_graph *graph = sx_graph_new(&g.arena, &g.names, "t");
  int64_t dims[8];
  for (int i = 0; i < 8; i++) dims[i] = INT64_MAX;
  sx_problem why;
  sx_id id;
  assert_false(sx_graph_try(graph, &(sx_spec){.op = SX_OP_CONST, .rank = 8, .dims = dims}, &id, &why));
  assert_true(strlen(why.message) < sizeof why.message);
  graphs_free(&g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_every_operation_has_a_row),
      cmocka_unit_test(test_long_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
