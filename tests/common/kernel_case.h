/* For tests of kernels: a random but repeatable call of one operation. Shapes have odd, zero and unit
 * sizes, operands odd strides (permuted, with gaps, reversed, broadcast) and odd starts, values the special
 * ones, ids sometimes leave their range. Everything follows from the operation and the seed. */
#ifndef TEST_KERNEL_CASE_H
#define TEST_KERNEL_CASE_H

#include "../../libsexp/cpu/kernel.h"

enum { CASE_INPUTS = 6, CASE_BLOCKS = 16 };

typedef enum case_values {
  VALUES_PLAIN,   /* reals of a few units */
  VALUES_SPECIAL, /* one in four is a zero of either sign, subnormal, huge, infinite or NaN */
  VALUES_TIES,    /* few different values, zeros of either sign */
  VALUES_TINY,    /* products of them underflow */
  N_CASE_VALUES
} case_values;

typedef struct kernel_case {
  uint64_t state;
  case_values values;
  int64_t largest; /* size of an axis, about */
  bool strided;    /* inputs may lie in any way, else contiguous */
  char text[64];   /* what it is, for reports */

  sx_node node;
  int64_t ints[3 * SX_RANK_MAX];
  char labels[48];
  sx_operand inputs[CASE_INPUTS];
  uint32_t n_inputs;
  int64_t dims[CASE_INPUTS + 1][SX_RANK_MAX], strides[CASE_INPUTS + 1][SX_RANK_MAX];
  sx_operand out; /* without memory */
  void *blocks[CASE_BLOCKS];
  int n_blocks;
} kernel_case;

/* Whether the operation computes, so that it has cases: not INPUT, PARAM, STATE, META. */
bool kernel_case_has(sx_op op);
void kernel_case_make(kernel_case *c, sx_op op, uint64_t seed, int64_t largest);
/* As kernel_case_make, of contiguous operands and of ids that are in range. */
void kernel_case_make_contiguous(kernel_case *c, sx_op op, uint64_t seed, int64_t largest);
void kernel_case_free(kernel_case *c);

int64_t kernel_case_elements(const kernel_case *c); /* of the result */
int64_t kernel_case_bytes(const kernel_case *c);

/* A call of the case into memory of the caller. */
sx_call kernel_case_call(kernel_case *c, void *out, void *scratch, sx_fault *fault, sx_pool *pool);
/* Scratch that any kernel may use for it; 64-aligned, owned by the caller (free). */
void *kernel_case_scratch(const kernel_case *c, sx_simd simd, int n_threads, int64_t *n_bytes);

/* NaNs of a float dtype become the one NaN, so that results compare by memcmp. */
void canonicalize(void *data, sx_dtype dtype, int64_t n);

#endif
