/* Sources of windows: one file as a sequence of little-endian elements, cut into records of equal length
 * that begin every `stride` elements. Only full windows count. */
#include <inttypes.h>

#include "dataset.h"

static sx_encoding encoding_of(const sx_data *data) {
  if (data->window_bytes == 1) return SX_HOST_U8;
  return data->window_bytes == 2 ? SX_LITTLE_U16 : SX_LITTLE_I32;
}

bool sx_open_windows(sx_dataset *dataset, const sx_data *data, sx_diags *diags) {
  sexp_file_info info = {0};
  sx_file *file = sx_files_open(&dataset->files, data->path, &info, data->span, diags);
  if (!file) return false;
  uint64_t size = (uint64_t)data->window_bytes, n_elements = info.n_bytes / size;
  uint64_t length = (uint64_t)data->window_length, stride = (uint64_t)data->window_stride;
  if (info.n_bytes % size) {
    sx_error(diags, SX_E_WINDOWS_SIZE, data->span,
             "%s: its %" PRIu64 " bytes end within an element of %" PRIu64 " bytes, at byte %" PRIu64, data->path,
             info.n_bytes, size, n_elements * size);
    return false;
  }
  if (n_elements < length) {
    sx_error(diags, SX_E_WINDOWS_SIZE, data->span, "%s: it has %" PRIu64 " elements, a window %" PRIu64, data->path,
             n_elements, length);
    return false;
  }
  uint64_t stride_bytes;
  if (__builtin_mul_overflow(stride, size, &stride_bytes)) stride_bytes = 0; /* then there is one window */
  sx_encoding encoding = encoding_of(data);
  sx_field_type field = {
      .name = data->window_field, .dtype = sx_encoding_dtype(encoding), .rank = 1, .dims = {data->window_length}};
  sx_part *part = SX_NEW(dataset->files.arena, sx_part);
  *part = (sx_part){info.bytes, stride_bytes, encoding, file->path};
  return sx_dataset_append(dataset, &field, 1, part, (int64_t)((n_elements - length) / stride + 1), data->path, diags);
}
