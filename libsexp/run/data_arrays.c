/* Sources of whole arrays: safetensors, npy and npz. Each tensor is a field, its first axis the records;
 * the field of an npy file is named as the file without its suffixes. */
#include <inttypes.h>

#include "dataset.h"

static bool take_tensor(const sx_dataset *dataset, const sx_file *file, const sexp_file_tensor *tensor,
                        sx_field_type *field, sx_part *part, sx_diags *diags) {
  if (tensor->rank < 1) {
    sx_error(diags, SX_E_DATA_SHAPE, dataset->data->span,
             "%s: tensor %s is a scalar; its first axis must count records", file->path, tensor->name);
    return false;
  }
  sx_encoding encoding = sx_encoding_of(tensor->dtype);
  *field = (sx_field_type){.name = tensor->name, .dtype = sx_encoding_dtype(encoding), .rank = tensor->rank - 1};
  uint64_t stride = sx_encoding_bytes(encoding);
  for (int i = 1; i < tensor->rank; i++) {
    field->dims[i - 1] = tensor->dims[i];
    stride *= (uint64_t)tensor->dims[i]; /* the host checked that the whole tensor lies in the file */
  }
  *part = (sx_part){tensor->bytes, stride, encoding, tensor->path};
  return true;
}

bool sx_open_arrays(sx_dataset *dataset, const sx_data *data, sx_diags *diags) {
  const sexp_file_tensor *tensors = NULL;
  size_t n = 0;
  sx_file *file = sx_files_open_tensors(&dataset->files, data->path, &tensors, &n, data->span, diags);
  if (!file) return false;
  sx_field_type *fields = SX_NEW_N(dataset->files.arena, sx_field_type, n);
  sx_part *parts = SX_NEW_N(dataset->files.arena, sx_part, n);
  for (size_t i = 0; i < n; i++) {
    if (!take_tensor(dataset, file, &tensors[i], &fields[i], &parts[i], diags)) return false;
    if (tensors[i].dims[0] == tensors[0].dims[0]) continue;
    sx_error(diags, SX_E_DATA_COUNTS, data->span, "%s: %s has %" PRId64 " records, %s has %" PRId64, data->path,
             tensors[0].name, tensors[0].dims[0], tensors[i].name, tensors[i].dims[0]);
    return false;
  }
  return sx_dataset_append(dataset, fields, (uint32_t)n, parts, n ? tensors[0].dims[0] : 0, data->path, diags);
}
