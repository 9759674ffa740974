/* One element of an ELEMENT operation, as numerics 1 defines it: what reference loops compute and constants fold
 * to. Floats are f32; the functions are those of kernels/math.h. */
#ifndef SX_IR_ELEMENT_H
#define SX_IR_ELEMENT_H

#include "ir.h"

/* NEG ABS SIGN SQRT ... ROUND of one float, ADD SUB ... ATAN2 of two; another operation is a bug. */
float sx_element_unary(sx_op op, float x);
float sx_element_binary(sx_op op, float a, float b);

/* Floor division and its remainder, 0 by zero; of i32 operands in 64 bits, where INT_MIN / -1 has its place. */
int64_t sx_floor_divide(int64_t a, int64_t b);
int64_t sx_floor_modulo(int64_t a, int64_t b);

#endif
