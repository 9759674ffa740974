/* Single elements of operands and walks over their indices, for kernels that take any strides.
 *
 * A value is read into the type it is computed in: f of a float dtype (bf16 and f16 widened exactly),
 * i of an integer one. Writing a float rounds it to nearest even. */
#ifndef SX_CPU_OPERAND_H
#define SX_CPU_OPERAND_H

#include <stdatomic.h>
#include <string.h>

#include "../../kernels/math.h"
#include "../base/bug.h"
#include "kernel.h"

typedef struct sx_value {
  float f;
  int32_t i;
} sx_value;

static inline bool sx_is_float(sx_dtype dtype) { return dtype == SX_F32 || dtype == SX_BF16 || dtype == SX_F16; }

static inline int64_t sx_element_bytes(sx_dtype dtype) {
  return dtype == SX_F32 || dtype == SX_I32 ? 4 : dtype == SX_BF16 || dtype == SX_F16 ? 2 : 1;
}

static inline sx_value sx_load(const void *data, sx_dtype dtype, int64_t at) {
  switch (dtype) {
    case SX_F32:
      return (sx_value){.f = ((const float *)data)[at]};
    case SX_BF16:
      return (sx_value){.f = sx_f32_from_bf16(((const uint16_t *)data)[at])};
    case SX_F16:
      return (sx_value){.f = sx_f32_from_f16(((const uint16_t *)data)[at])};
    case SX_I32:
      return (sx_value){.i = ((const int32_t *)data)[at]};
    default:
      return (sx_value){.i = ((const uint8_t *)data)[at]};
  }
}

static inline void sx_store(void *data, sx_dtype dtype, int64_t at, sx_value value) {
  switch (dtype) {
    case SX_F32:
      ((float *)data)[at] = value.f;
      break;
    case SX_BF16:
      ((uint16_t *)data)[at] = sx_bf16_from_f32(value.f);
      break;
    case SX_F16:
      ((uint16_t *)data)[at] = sx_f16_from_f32(value.f);
      break;
    case SX_I32:
      ((int32_t *)data)[at] = value.i;
      break;
    default:
      ((uint8_t *)data)[at] = (uint8_t)value.i;
      break;
  }
}

/* i32 arithmetic wraps; computed unsigned, where C defines it. */
static inline int32_t sx_wrap_add(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
static inline int32_t sx_wrap_sub(int32_t a, int32_t b) { return (int32_t)((uint32_t)a - (uint32_t)b); }
static inline int32_t sx_wrap_mul(int32_t a, int32_t b) { return (int32_t)((uint32_t)a * (uint32_t)b); }

static inline int64_t sx_count(const int64_t *dims, int rank) {
  int64_t n = 1;
  for (int axis = 0; axis < rank; axis++) n *= dims[axis];
  return n;
}

static inline int64_t sx_operand_count(const sx_operand *operand) { return sx_count(operand->dims, operand->rank); }

/* Where the element with the index lies, in elements from data. */
static inline int64_t sx_operand_at(const sx_operand *operand, const int64_t *index) {
  int64_t at = 0;
  for (int axis = 0; axis < operand->rank; axis++) at += index[axis] * operand->strides[axis];
  return at;
}

static inline sx_value sx_operand_load(const sx_operand *operand, const int64_t *index) {
  return sx_load(operand->data, operand->dtype, sx_operand_at(operand, index));
}

/* The next index in row-major order; from the last back to the first. */
static inline void sx_index_next(int64_t *index, const int64_t *dims, int rank) {
  for (int axis = rank - 1; axis >= 0; axis--) {
    if (++index[axis] < dims[axis]) return;
    index[axis] = 0;
  }
}

/* Moves one element of bytes 1, 2 or 4. */
static inline void sx_move_element(void *to, int64_t to_at, const void *from, int64_t from_at, int64_t bytes) {
  memcpy((char *)to + to_at * bytes, (const char *)from + from_at * bytes, (size_t)bytes);
}

/* The key of a draw, salted by the call's inputs. */
uint64_t sx_call_stream(const sx_call *call);

/* The lowest faulty index wins, whatever the order of reports. */
static inline void sx_fault_report(sx_fault *fault, int64_t at) {
  int64_t lowest = atomic_load_explicit(&fault->at, memory_order_relaxed);
  while (at < lowest && !atomic_compare_exchange_weak(&fault->at, &lowest, at)) continue;
}

#endif
