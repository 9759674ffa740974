#include "encoding.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
enum { HOST_IS_LITTLE = 1 };
#else
enum { HOST_IS_LITTLE = 0 };
#endif

typedef enum order { HOST, LITTLE, BIG } order;

enum { PIECE = 256 }; /* elements */

/* RAW: the bits are the value. SIGNED, UNSIGNED: to i32 where they fit. */
typedef enum reading { RAW, SIGNED, UNSIGNED, DOUBLE, TRUTH } reading;

typedef struct encoding_info {
  uint8_t n_bytes;
  order order;
  reading rule;
  sx_dtype dtype;
} encoding_info;

static const encoding_info encodings[SX_N_ENCODINGS] = {
    [SX_HOST_F32] = {4, HOST, RAW, SX_F32},      [SX_HOST_BF16] = {2, HOST, RAW, SX_BF16},
    [SX_HOST_F16] = {2, HOST, RAW, SX_F16},      [SX_HOST_I32] = {4, HOST, RAW, SX_I32},
    [SX_HOST_U8] = {1, HOST, RAW, SX_U8},        [SX_HOST_BOOL] = {1, HOST, TRUTH, SX_BOOL},
    [SX_HOST_F64] = {8, HOST, DOUBLE, SX_F32},   [SX_HOST_I64] = {8, HOST, SIGNED, SX_I32},
    [SX_HOST_U64] = {8, HOST, UNSIGNED, SX_I32}, [SX_HOST_U32] = {4, HOST, UNSIGNED, SX_I32},
    [SX_HOST_U16] = {2, HOST, UNSIGNED, SX_I32}, [SX_HOST_I16] = {2, HOST, SIGNED, SX_I32},
    [SX_HOST_I8] = {1, HOST, SIGNED, SX_I32},    [SX_LITTLE_U16] = {2, LITTLE, UNSIGNED, SX_I32},
    [SX_LITTLE_I32] = {4, LITTLE, RAW, SX_I32},  [SX_BIG_I16] = {2, BIG, SIGNED, SX_I32},
    [SX_BIG_I32] = {4, BIG, RAW, SX_I32},        [SX_BIG_F32] = {4, BIG, RAW, SX_F32},
    [SX_BIG_F64] = {8, BIG, DOUBLE, SX_F32},
};

/* Whether the first byte of an element is its highest. */
static bool is_big(const encoding_info *info) { return info->order == BIG || (info->order == HOST && !HOST_IS_LITTLE); }

size_t sx_encoding_bytes(sx_encoding encoding) { return encodings[encoding].n_bytes; }

sx_dtype sx_encoding_dtype(sx_encoding encoding) { return encodings[encoding].dtype; }

sx_encoding sx_encoding_of(sexp_dtype dtype) {
  static const sx_encoding of[] = {
      [SEXP_F32] = SX_HOST_F32, [SEXP_BF16] = SX_HOST_BF16, [SEXP_F16] = SX_HOST_F16, [SEXP_I32] = SX_HOST_I32,
      [SEXP_U8] = SX_HOST_U8,   [SEXP_BOOL] = SX_HOST_BOOL, [SEXP_F64] = SX_HOST_F64, [SEXP_I64] = SX_HOST_I64,
      [SEXP_U64] = SX_HOST_U64, [SEXP_U32] = SX_HOST_U32,   [SEXP_U16] = SX_HOST_U16, [SEXP_I16] = SX_HOST_I16,
      [SEXP_I8] = SX_HOST_I8,
  };
  return of[dtype];
}

/* One element as an integer of its bytes; where they are constants this is one load, and a swap of bytes. */
static inline __attribute__((always_inline)) uint64_t load_bytes(const unsigned char *in, unsigned n_bytes, bool swap) {
  uint64_t eight;
  uint32_t four;
  uint16_t two;
  switch (n_bytes) {
    case 8:
      memcpy(&eight, in, 8);
      return swap ? __builtin_bswap64(eight) : eight;
    case 4:
      memcpy(&four, in, 4);
      return swap ? __builtin_bswap32(four) : four;
    case 2:
      memcpy(&two, in, 2);
      return swap ? __builtin_bswap16(two) : two;
    default:
      return *in;
  }
}

static bool is_swapped(const encoding_info *info) { return is_big(info) == HOST_IS_LITTLE; }

static uint64_t load(const unsigned char *in, const encoding_info *info) {
  return load_bytes(in, info->n_bytes, is_swapped(info));
}

/* Two's complement of n_bytes, widened. */
static inline int64_t widen(uint64_t bits, unsigned n_bytes) {
  if (n_bytes == 8) return (int64_t)bits;
  uint64_t sign = UINT64_C(1) << (8 * n_bytes - 1);
  return (int64_t)(bits ^ sign) - (int64_t)sign;
}

static inline float round_to_f32(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

/* An element as i32. False: it does not fit. */
static inline __attribute__((always_inline)) bool to_i32(uint64_t bits, unsigned n_bytes, bool sign, int32_t *out) {
  int64_t value = sign ? widen(bits, n_bytes) : (int64_t)bits;
  *out = (int32_t)value;
  return sign ? value == *out : bits <= INT32_MAX;
}

/* Piece by piece, each without a branch; only in one that has a bad element is that looked for. */
static inline __attribute__((always_inline)) int64_t integers(int32_t *out, const unsigned char *in, int64_t n,
                                                              unsigned n_bytes, bool swap, bool sign) {
  for (int64_t at = 0; at < n; at += PIECE) {
    int64_t end = n - at < PIECE ? n : at + PIECE;
    bool good = true;
    for (int64_t i = at; i < end; i++)
      good &= to_i32(load_bytes(in + i * n_bytes, n_bytes, swap), n_bytes, sign, &out[i]);
    for (int64_t i = at; i < end && !good; i++)
      if (!to_i32(load_bytes(in + i * n_bytes, n_bytes, swap), n_bytes, sign, &out[i])) return i;
  }
  return n;
}

static int64_t read_integers(const encoding_info *info, int32_t *out, const unsigned char *in, int64_t n) {
  bool sign = info->rule == SIGNED;
  if (is_swapped(info)) return integers(out, in, n, info->n_bytes, true, sign);
  switch (info->n_bytes) {
    case 8:
      return sign ? integers(out, in, n, 8, false, true) : integers(out, in, n, 8, false, false);
    case 4:
      return integers(out, in, n, 4, false, sign);
    case 2:
      return sign ? integers(out, in, n, 2, false, true) : integers(out, in, n, 2, false, false);
    default:
      return integers(out, in, n, 1, false, sign);
  }
}

static void read_doubles(float *out, const unsigned char *in, int64_t n, bool swap) {
  if (swap)
    for (int64_t i = 0; i < n; i++) out[i] = round_to_f32(load_bytes(in + i * 8, 8, true));
  else
    for (int64_t i = 0; i < n; i++) out[i] = round_to_f32(load_bytes(in + i * 8, 8, false));
}

/* Raw elements of the other order of bytes. */
static void read_swapped(const encoding_info *info, unsigned char *out, const unsigned char *in, int64_t n) {
  for (int64_t i = 0; i < n && info->n_bytes == 4; i++) {
    uint32_t word = (uint32_t)load_bytes(in + 4 * i, 4, true);
    memcpy(out + 4 * i, &word, 4);
  }
  for (int64_t i = 0; i < n && info->n_bytes == 2; i++) {
    uint16_t half = (uint16_t)load_bytes(in + 2 * i, 2, true);
    memcpy(out + 2 * i, &half, 2);
  }
}

static int64_t read_bools(unsigned char *out, const unsigned char *in, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (in[i] > 1) return i;
    out[i] = in[i];
  }
  return n;
}

int64_t sx_encoding_read(sx_encoding encoding, void *out, const unsigned char *in, int64_t n) {
  const encoding_info *info = &encodings[encoding];
  if (info->rule == RAW && (info->n_bytes == 1 || !is_swapped(info))) {
    if (n) memcpy(out, in, (size_t)n * info->n_bytes);
    return n;
  }
  switch (info->rule) {
    case SIGNED:
    case UNSIGNED:
      return read_integers(info, out, in, n);
    case TRUTH:
      return read_bools(out, in, n);
    case DOUBLE:
      read_doubles(out, in, n, is_swapped(info));
      return n;
    case RAW:
      break;
  }
  read_swapped(info, out, in, n);
  return n;
}

void sx_encoding_print(sx_encoding encoding, const unsigned char *in, char text[24]) {
  const encoding_info *info = &encodings[encoding];
  uint64_t bits = load(in, info);
  if (info->rule == SIGNED)
    snprintf(text, 24, "%" PRId64, widen(bits, info->n_bytes));
  else
    snprintf(text, 24, "%" PRIu64, bits);
}
