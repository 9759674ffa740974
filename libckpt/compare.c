/* Comparing tensors element by element, in blocks: equal blocks cost a memcmp. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare_lanes.h"
#include "dtype.h"
#include "error.h"
#include "file.h"

enum { CHUNK_BYTES = 4096 };

/* Elements of one dtype: n of them from `base` on. */
typedef void comparer(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n,
                      uint64_t base);

static void note(ckpt_difference *out, uint64_t index) {
  if (out->n_differing++ == 0) out->first = index;
}

static void note_value(ckpt_difference *out, uint64_t ulps, double value) {
  if (ulps > out->max_ulps) out->max_ulps = ulps;
  if (value > out->max_value) out->max_value = value;
}

static double value_of_f32(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

/* As a float: exponents 15 below zero become 127 below, and what is subnormal there is normal here. */
static double value_of_f16(uint16_t bits) {
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  uint32_t wide = exponent == 31 ? 0x7f800000u : (exponent + 112) << 23 | fraction << 13;
  double magnitude = exponent == 0 ? fraction * 0x1p-24 : value_of_f32(wide);
  return bits >> 15 ? -magnitude : magnitude;
}

static double value_of_bf16(uint16_t bits) { return value_of_f32((uint32_t)bits << 16); }

static double value_of_f64(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Two NaNs are equal whatever their payloads, as in digests. The key counts the floats from the lowest up, both zeros
 * being one: so a distance across zero is the number of steps between two floats, and zero for +0 and -0. */
#define FLOAT_COMPARER(name, type, infinity)                                                                         \
  static void compare_##name(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n,  \
                             uint64_t base) {                                                                        \
    const type magnitude = (type)((type) ~(type)0 >> 1), middle = (type)(magnitude + 1);                             \
    for (size_t i = 0; i < n; i++) {                                                                                 \
      type a, b;                                                                                                     \
      memcpy(&a, left + i * sizeof a, sizeof a);                                                                     \
      memcpy(&b, right + i * sizeof b, sizeof b);                                                                    \
      if (a == b) continue;                                                                                          \
      bool a_nan = (a & magnitude) > (infinity), b_nan = (b & magnitude) > (infinity);                               \
      if (a_nan && b_nan) continue;                                                                                  \
      note(out, base + i);                                                                                           \
      if (a_nan || b_nan) {                                                                                          \
        out->n_nan++;                                                                                                \
        continue;                                                                                                    \
      }                                                                                                              \
      uint64_t a_key = a > magnitude ? (uint64_t)middle - (a & magnitude) : (uint64_t)middle + a;                    \
      uint64_t b_key = b > magnitude ? (uint64_t)middle - (b & magnitude) : (uint64_t)middle + b;                    \
      note_value(out, a_key > b_key ? a_key - b_key : b_key - a_key, fabs(value_of_##name(a) - value_of_##name(b))); \
    }                                                                                                                \
  }

#define INTEGER_COMPARER(name, type)                                                                                \
  static void compare_##name(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n, \
                             uint64_t base) {                                                                       \
    for (size_t i = 0; i < n; i++) {                                                                                \
      type a, b;                                                                                                    \
      memcpy(&a, left + i * sizeof a, sizeof a);                                                                    \
      memcpy(&b, right + i * sizeof b, sizeof b);                                                                   \
      if (a == b) continue;                                                                                         \
      note(out, base + i);                                                                                          \
      note_value(out, 0, (double)(a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a));                  \
    }                                                                                                               \
  }

FLOAT_COMPARER(f16, uint16_t, 0x7c00)
FLOAT_COMPARER(bf16, uint16_t, 0x7f80)
FLOAT_COMPARER(f32, uint32_t, 0x7f800000)
FLOAT_COMPARER(f64, uint64_t, UINT64_C(0x7ff0000000000000))
INTEGER_COMPARER(u8, uint8_t)
INTEGER_COMPARER(i8, int8_t)
INTEGER_COMPARER(u16, uint16_t)
INTEGER_COMPARER(i16, int16_t)
INTEGER_COMPARER(u32, uint32_t)
INTEGER_COMPARER(i32, int32_t)
INTEGER_COMPARER(u64, uint64_t)
INTEGER_COMPARER(i64, int64_t)

static void compare_bool(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n,
                         uint64_t base) {
  for (size_t i = 0; i < n; i++) {
    if (!left[i] == !right[i]) continue;
    note(out, base + i);
    note_value(out, 0, 1);
  }
}

static comparer *const comparers[CKPT_N_DTYPES] = {
    [CKPT_BOOL] = compare_bool, [CKPT_U8] = compare_u8,   [CKPT_I8] = compare_i8,     [CKPT_U16] = compare_u16,
    [CKPT_I16] = compare_i16,   [CKPT_F16] = compare_f16, [CKPT_BF16] = compare_bf16, [CKPT_U32] = compare_u32,
    [CKPT_I32] = compare_i32,   [CKPT_F32] = compare_f32, [CKPT_U64] = compare_u64,   [CKPT_I64] = compare_i64,
    [CKPT_F64] = compare_f64};

/* The first difference is looked for one by one; from then on its index does not matter. */
static void compare_chunk(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n,
                          ckpt_dtype dtype, uint64_t first) {
  size_t width = ckpt_dtype_n_bytes(dtype), fast = dtype == CKPT_F32 && out->n_differing ? n / CK_LANES * CK_LANES : 0;
  if (fast) ck_compare_lanes_f32(out, left, right, fast);
  comparers[dtype](out, left + fast * width, right + fast * width, n - fast, first + fast);
}

/* Most of two tensors that are nearly equal lies in equal chunks. */
static void compare_block(ckpt_difference *out, const unsigned char *left, const unsigned char *right, size_t n_bytes,
                          ckpt_dtype dtype, uint64_t first) {
  size_t width = ckpt_dtype_n_bytes(dtype);
  if (memcmp(left, right, n_bytes) == 0) return;
  for (size_t at = 0; at < n_bytes; at += CHUNK_BYTES) {
    size_t n = n_bytes - at < CHUNK_BYTES ? n_bytes - at : CHUNK_BYTES;
    if (memcmp(left + at, right + at, n) != 0)
      compare_chunk(out, left + at, right + at, n / width, dtype, first + at / width);
  }
}

static ckpt_status compare_blocks(ckpt_difference *out, const ckpt_tensors *left_of, const ckpt_tensor *left,
                                  const ckpt_tensors *right_of, const ckpt_tensor *right, unsigned char *room,
                                  size_t n_room, ckpt_error *error) {
  size_t width = ckpt_dtype_n_bytes(left->dtype), most = n_room / width;
  for (uint64_t first = 0; first < left->n_elements;) {
    size_t n = left->n_elements - first < most ? (size_t)(left->n_elements - first) : most;
    ckpt_status status = ckpt_tensors_read(room, left_of, left, first, n, error);
    if (status == CKPT_OK) status = ckpt_tensors_read(room + n_room, right_of, right, first, n, error);
    if (status != CKPT_OK) return status;
    compare_block(out, room, room + n_room, n * width, left->dtype, first);
    first += n;
  }
  return CKPT_OK;
}

ckpt_status ckpt_tensors_compare(ckpt_difference *out, const ckpt_tensors *left_of, const ckpt_tensor *left,
                                 const ckpt_tensors *right_of, const ckpt_tensor *right, ckpt_error *error) {
  memset(out, 0, sizeof *out);
  if (left->dtype != right->dtype || !ck_same_shape(left->rank, left->dims, right->rank, right->dims))
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "expected two tensors of one dtype and shape: '%.200s', '%.200s'",
                   left->name, right->name);
  if (left->n_elements == 0) return CKPT_OK;
  size_t n_room = left->n_bytes < CK_PIECE_BYTES ? (size_t)left->n_bytes : CK_PIECE_BYTES;
  unsigned char *room = malloc(2 * n_room);
  if (!room) return ck_no_memory(error, 2 * n_room);
  ckpt_status status = compare_blocks(out, left_of, left, right_of, right, room, n_room, error);
  free(room);
  return status;
}
