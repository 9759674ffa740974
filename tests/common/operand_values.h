/* Values of operands that are to be multiplied and added up. */
#ifndef TESTS_OPERAND_VALUES_H
#define TESTS_OPERAND_VALUES_H

#include <stdint.h>

typedef enum operand_values {
  VALUES_UNIT,       /* from [-1, 1) */
  VALUES_UNDERFLOW,  /* most products underflow, to zeros of either sign */
  VALUES_NOT_FINITE, /* some infinities and NaNs, more zeros of either sign */
  N_OPERAND_VALUES
} operand_values;

/* One of them, by bits 20 to 29 and 40 to 63. */
float operand_value(operand_values values, uint64_t bits);

#endif
