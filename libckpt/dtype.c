#include "dtype.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "error.h"

static const struct {
  const char *name, *file_name;
  size_t n_bytes;
} dtypes[CKPT_N_DTYPES] = {
    [CKPT_BOOL] = {"bool", "BOOL", 1}, [CKPT_U8] = {"u8", "U8", 1},    [CKPT_I8] = {"i8", "I8", 1},
    [CKPT_U16] = {"u16", "U16", 2},    [CKPT_I16] = {"i16", "I16", 2}, [CKPT_F16] = {"f16", "F16", 2},
    [CKPT_BF16] = {"bf16", "BF16", 2}, [CKPT_U32] = {"u32", "U32", 4}, [CKPT_I32] = {"i32", "I32", 4},
    [CKPT_F32] = {"f32", "F32", 4},    [CKPT_U64] = {"u64", "U64", 8}, [CKPT_I64] = {"i64", "I64", 8},
    [CKPT_F64] = {"f64", "F64", 8},
};

const char *ckpt_dtype_name(ckpt_dtype dtype) { return dtypes[dtype].name; }

const char *ck_dtype_file_name(ckpt_dtype dtype) { return dtypes[dtype].file_name; }

size_t ckpt_dtype_n_bytes(ckpt_dtype dtype) { return dtypes[dtype].n_bytes; }

bool ckpt_dtype_find(ckpt_dtype *out, const char *name) {
  for (int i = 0; i < CKPT_N_DTYPES; i++) {
    if (strcmp(name, dtypes[i].name) != 0 && strcmp(name, dtypes[i].file_name) != 0) continue;
    *out = (ckpt_dtype)i;
    return true;
  }
  return false;
}

ckpt_status ck_shape_size(uint64_t *n_elements, uint64_t *n_bytes, ckpt_dtype dtype, int rank, const int64_t *dims,
                          const char *path, int64_t offset, const char *name, ckpt_error *error) {
  if (rank < 0 || rank > CKPT_MAX_RANK)
    return ck_fail(error, CK_E_SHAPE, path, offset, 0, "tensor '%.200s': expected at most %d dimensions, found %d",
                   name, CKPT_MAX_RANK, rank);
  uint64_t product = ckpt_dtype_n_bytes(dtype), elements = 1;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0)
      return ck_fail(error, CK_E_SHAPE, path, offset, 0, "tensor '%.200s': dimension %d is %lld", name, i,
                     (long long)dims[i]);
    uint64_t dim = (uint64_t)dims[i];
    if (dim > 1 && product > (uint64_t)INT64_MAX / dim) {
      char text[CK_SHAPE_TEXT];
      return ck_fail(error, CK_E_SHAPE, path, offset, 0, "tensor '%.200s': shape %s needs more than 2^63 - 1 bytes",
                     name, ck_shape_text(text, rank, dims));
    }
    product *= dim ? dim : 1;
    elements *= dim;
  }
  *n_elements = elements;
  *n_bytes = elements * ckpt_dtype_n_bytes(dtype);
  return CKPT_OK;
}

const char *ck_shape_text(char text[CK_SHAPE_TEXT], int rank, const int64_t *dims) {
  size_t used = 0;
  text[used++] = '[';
  for (int i = 0; i < rank && i < CKPT_MAX_RANK; i++)
    used += (size_t)snprintf(text + used, CK_SHAPE_TEXT - used, i ? " %lld" : "%lld", (long long)dims[i]);
  snprintf(text + used, CK_SHAPE_TEXT - used, "]");
  return text;
}

bool ck_same_shape(int rank, const int64_t *dims, int other_rank, const int64_t *other_dims) {
  return rank == other_rank && (rank == 0 || memcmp(dims, other_dims, (size_t)rank * sizeof *dims) == 0);
}

void ck_swap_elements(void *elements, size_t n, size_t width) {
  unsigned char *bytes = elements;
  for (size_t i = 0; i < n; i++, bytes += width)
    for (size_t low = 0, high = width - 1; low < high; low++, high--) {
      unsigned char kept = bytes[low];
      bytes[low] = bytes[high];
      bytes[high] = kept;
    }
}
