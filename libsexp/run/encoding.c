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

static uint64_t load(const unsigned char *in, const encoding_info *info) {
  uint64_t bits = 0;
  bool big = is_big(info);
  for (unsigned i = 0; i < info->n_bytes; i++) bits = bits << 8 | in[big ? i : info->n_bytes - 1u - i];
  return bits;
}

/* Two's complement of n_bytes, widened. */
static int64_t widen(uint64_t bits, unsigned n_bytes) {
  if (n_bytes == 8) return (int64_t)bits;
  uint64_t sign = UINT64_C(1) << (8 * n_bytes - 1);
  return (int64_t)(bits ^ sign) - (int64_t)sign;
}

static float round_to_f32(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static void store_raw(unsigned char *out, uint64_t bits, unsigned n_bytes) {
  uint32_t word = (uint32_t)bits;
  uint16_t half = (uint16_t)bits;
  if (n_bytes == 4)
    memcpy(out, &word, 4);
  else if (n_bytes == 2)
    memcpy(out, &half, 2);
  else
    *out = (unsigned char)bits;
}

static int64_t read_integers(const encoding_info *info, int32_t *out, const unsigned char *in, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = load(in + i * info->n_bytes, info);
    if (info->rule == UNSIGNED && bits > INT32_MAX) return i;
    int64_t value = info->rule == UNSIGNED ? (int64_t)bits : widen(bits, info->n_bytes);
    if (value < INT32_MIN || value > INT32_MAX) return i;
    out[i] = (int32_t)value;
  }
  return n;
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
  if (info->rule == RAW && is_big(info) != HOST_IS_LITTLE) {
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
      for (int64_t i = 0; i < n; i++) ((float *)out)[i] = round_to_f32(load(in + i * 8, info));
      return n;
    case RAW:
      break;
  }
  for (int64_t i = 0; i < n; i++)
    store_raw((unsigned char *)out + i * info->n_bytes, load(in + i * info->n_bytes, info), info->n_bytes);
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
