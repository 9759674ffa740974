/* Elementwise operations on constants, with the bits of the kernels. */
#ifndef SX_PASS_FOLD_CONSTANT_H
#define SX_PASS_FOLD_CONSTANT_H

#include "../ir/ir.h"

/* The value of an ELEMENT operation on elements of dtype `from` (of input 0; WHERE: of input 1) that gives
 * the dtype `to`. Values are those that their dtypes hold. */
double sx_fold_constant(sx_op op, sx_dtype from, sx_dtype to, const double inputs[3]);

#endif
