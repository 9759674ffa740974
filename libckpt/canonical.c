/* Canonical bytes of elements. For each float width one loop looks for a NaN (the common answer is none, and the
 * elements are used where they are), another copies with each NaN replaced. Elements may stand at any alignment, so
 * they go through memcpy, which compilers make plain vector loads. */
#include "bytes.h"
#include "dtype.h"

enum { BLOCK = 64 }; /* elements that a loop of known length takes at a time */

#define FLOAT_LOOPS(suffix, type)                                                             \
  /* infinity - magnitude has its top bit set for a NaN and for nothing else */               \
  static bool has_nan_##suffix(const unsigned char *bytes, size_t n, type infinity) {         \
    const type magnitude = (type)((type) ~(type)0 >> 1);                                      \
    type found = 0;                                                                           \
    size_t i = 0;                                                                             \
    for (; i + BLOCK <= n; i += BLOCK) {                                                      \
      type bits[BLOCK];                                                                       \
      memcpy(bits, bytes + i * sizeof *bits, sizeof bits);                                    \
      for (size_t k = 0; k < BLOCK; k++) found |= (type)(infinity - (bits[k] & magnitude));   \
    }                                                                                         \
    for (; i < n; i++) {                                                                      \
      type bits;                                                                              \
      memcpy(&bits, bytes + i * sizeof bits, sizeof bits);                                    \
      found |= (type)(infinity - (bits & magnitude));                                         \
    }                                                                                         \
    return found > magnitude;                                                                 \
  }                                                                                           \
  static void replace_nan_##suffix(unsigned char *bytes, size_t n, type infinity, type nan) { \
    const type magnitude = (type)((type) ~(type)0 >> 1);                                      \
    for (size_t i = 0; i < n; i++) {                                                          \
      type bits;                                                                              \
      memcpy(&bits, bytes + i * sizeof bits, sizeof bits);                                    \
      if ((bits & magnitude) > infinity) memcpy(bytes + i * sizeof bits, &nan, sizeof nan);   \
    }                                                                                         \
  }

FLOAT_LOOPS(16, uint16_t)
FLOAT_LOOPS(32, uint32_t)
FLOAT_LOOPS(64, uint64_t)

static bool has_odd_bool(const unsigned char *bytes, size_t n) {
  int found = 0;
  for (size_t i = 0; i < n; i++) found |= bytes[i] > 1;
  return found != 0;
}

static bool needs_change(const unsigned char *bytes, size_t n, ckpt_dtype dtype) {
  switch (dtype) {
    case CKPT_F16:
      return has_nan_16(bytes, n, 0x7c00);
    case CKPT_BF16:
      return has_nan_16(bytes, n, 0x7f80);
    case CKPT_F32:
      return has_nan_32(bytes, n, 0x7f800000);
    case CKPT_F64:
      return has_nan_64(bytes, n, UINT64_C(0x7ff0000000000000));
    case CKPT_BOOL:
      return has_odd_bool(bytes, n);
    default:
      return false;
  }
}

static void change(unsigned char *bytes, size_t n, ckpt_dtype dtype) {
  switch (dtype) {
    case CKPT_F16:
      replace_nan_16(bytes, n, 0x7c00, 0x7e00);
      break;
    case CKPT_BF16:
      replace_nan_16(bytes, n, 0x7f80, 0x7fc0);
      break;
    case CKPT_F32:
      replace_nan_32(bytes, n, 0x7f800000, 0x7fc00000);
      break;
    case CKPT_F64:
      replace_nan_64(bytes, n, UINT64_C(0x7ff0000000000000), UINT64_C(0x7ff8000000000000));
      break;
    case CKPT_BOOL:
      for (size_t i = 0; i < n; i++) bytes[i] = bytes[i] != 0;
      break;
    default:
      break;
  }
}

const void *ck_canonical(void *room, const void *elements, size_t n_bytes, ckpt_dtype dtype) {
  size_t width = ckpt_dtype_n_bytes(dtype), n = n_bytes / width;
  bool swap = width > 1 && !ck_host_is_little(), replace = needs_change(elements, n, dtype);
  if (!swap && !replace) return elements;
  memcpy(room, elements, n_bytes);
  if (replace) change(room, n, dtype);
  if (swap) ck_swap_elements(room, n, width);
  return room;
}
