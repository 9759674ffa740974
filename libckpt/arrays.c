#include "arrays.h"

#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "error.h"
#include "file.h"
#include "utf8.h"

ckpt_status ck_array_check(uint64_t *n_bytes, const ckpt_array *array, ckpt_error *error) {
  uint64_t n_elements = 0;
  const char *path = array->path ? array->path : "";
  *n_bytes = 0;
  if (!*path || !ck_is_utf8(path, strlen(path)))
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "expected a tensor's path in UTF-8, found '%.200s'", path);
  if (strcmp(path, "__metadata__") == 0)
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "the path %s has another meaning in safetensors files", path);
  if ((unsigned)array->dtype >= CKPT_N_DTYPES ||
      ck_shape_size(&n_elements, n_bytes, array->dtype, array->rank, array->dims, NULL, -1, path, NULL) != CKPT_OK)
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "tensor '%.200s' has an impossible dtype or shape", path);
  return CKPT_OK;
}

static int by_path(const void *left, const void *right) {
  return strcmp((*(const ckpt_array *const *)left)->path, (*(const ckpt_array *const *)right)->path);
}

ckpt_status ck_arrays_sort(const ckpt_array ***out, const ckpt_array *arrays, size_t n, ckpt_error *error) {
  *out = NULL;
  for (size_t i = 0; i < n; i++) {
    uint64_t n_bytes;
    ckpt_status status = ck_array_check(&n_bytes, &arrays[i], error);
    if (status != CKPT_OK) return status;
  }
  const ckpt_array **order = ck_take(n, sizeof *order);
  if (!order) return ck_no_memory(error, n * sizeof *order);
  for (size_t i = 0; i < n; i++) order[i] = &arrays[i];
  if (n) qsort(order, n, sizeof *order, by_path);
  for (size_t i = 1; i < n; i++) {
    if (strcmp(order[i - 1]->path, order[i]->path) != 0) continue;
    ckpt_status status =
        ck_fail(error, CK_E_PATH_ORDER, NULL, -1, 0, "two tensors have the path '%.200s'", order[i]->path);
    free(order);
    return status;
  }
  *out = order;
  return CKPT_OK;
}

static ckpt_status each_piece(const ckpt_array *array, uint64_t n_bytes, unsigned char *room, ck_bytes_user *use,
                              void *context, ckpt_error *error) {
  for (uint64_t done = 0; done < n_bytes;) {
    size_t n = n_bytes - done < CK_PIECE_BYTES ? (size_t)(n_bytes - done) : CK_PIECE_BYTES;
    const unsigned char *elements = array->data;
    ckpt_status status = CKPT_OK;
    if (elements)
      elements += done;
    else
      status = array->fill(room + CK_PIECE_BYTES, array->context, done, n, error);
    if (!elements) elements = room + CK_PIECE_BYTES;
    if (status == CKPT_OK) status = use(context, ck_canonical(room, elements, n, array->dtype), n, error);
    if (status != CKPT_OK) return status;
    done += n;
  }
  return CKPT_OK;
}

ckpt_status ck_array_each(const ckpt_array *array, ck_bytes_user *use, void *context, ckpt_error *error) {
  uint64_t n_bytes;
  ckpt_status status = ck_array_check(&n_bytes, array, error);
  if (status != CKPT_OK || n_bytes == 0) return status;
  if (!array->data && !array->fill)
    return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "tensor '%.200s' has no elements", array->path);
  unsigned char *room = malloc(2 * CK_PIECE_BYTES);
  if (!room) return ck_no_memory(error, 2 * CK_PIECE_BYTES);
  status = each_piece(array, n_bytes, room, use, context, error);
  free(room);
  return status;
}
