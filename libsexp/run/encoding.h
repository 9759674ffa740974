/* How elements lie in data files, and their reading into the dtypes of fields. */
#ifndef SX_RUN_ENCODING_H
#define SX_RUN_ENCODING_H

#include "../ir/ir.h"
#include "../sexp.h"

typedef enum sx_encoding {
  /* of this machine's byte order: tensors as the host gives them, and text once parsed */
  SX_HOST_F32,
  SX_HOST_BF16,
  SX_HOST_F16,
  SX_HOST_I32,
  SX_HOST_U8,
  SX_HOST_BOOL,
  SX_HOST_F64,
  SX_HOST_I64,
  SX_HOST_U64,
  SX_HOST_U32,
  SX_HOST_U16,
  SX_HOST_I16,
  SX_HOST_I8,
  SX_LITTLE_U16,
  SX_LITTLE_I32,
  SX_BIG_I16,
  SX_BIG_I32,
  SX_BIG_F32,
  SX_BIG_F64,
  SX_N_ENCODINGS
} sx_encoding;

size_t sx_encoding_bytes(sx_encoding encoding);
sx_dtype sx_encoding_dtype(sx_encoding encoding); /* of a field */
sx_encoding sx_encoding_of(sexp_dtype dtype);     /* of a tensor of the host */

/* Reads n elements at any alignment. The result is n, or the index of the first whose value the field's
 * dtype does not hold. f64 is rounded to the nearest f32. */
int64_t sx_encoding_read(sx_encoding encoding, void *out, const unsigned char *in, int64_t n);

/* The value of an integer or bool element, for a message; room for 24 bytes. */
void sx_encoding_print(sx_encoding encoding, const unsigned char *in, char text[24]);

#endif
