/* Element types, shapes, and the canonical bytes of elements. */
#ifndef CK_DTYPE_H
#define CK_DTYPE_H

#include "ckpt.h"

/* The name of the dtype in safetensors files: "F32". */
const char *ck_dtype_file_name(ckpt_dtype dtype);

/* Elements and bytes of a shape. Errors: E-DATA-150 or `code`, naming `path`, `offset` and the tensor `name`. */
ckpt_status ck_shape_size(uint64_t *n_elements, uint64_t *n_bytes, ckpt_dtype dtype, int rank, const int64_t *dims,
                          const char *path, int64_t offset, const char *name, ckpt_error *error);

/* "[3 4]" into text; the end of a very long one is cut. */
enum { CK_SHAPE_TEXT = 192 };
const char *ck_shape_text(char text[CK_SHAPE_TEXT], int rank, const int64_t *dims);

bool ck_same_shape(int rank, const int64_t *dims, int other_rank, const int64_t *other_dims);

/* Bytes that stand for elements in files and digests: little-endian, each NaN the one of docs/checkpoints.md, each
 * bool 0 or 1. Gives `elements` itself where they are canonical already, else `room`, which has n_bytes. */
const void *ck_canonical(void *room, const void *elements, size_t n_bytes, ckpt_dtype dtype);

#endif
