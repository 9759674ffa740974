/* Safetensors files and sharded indexes. The format: a 64-bit length, a JSON header of that many bytes, the tensors.
 * Source: github.com/huggingface/safetensors, "Format"; what that text leaves to the reader is refused here: holes,
 * overlaps, bytes after the last tensor. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "file.h"
#include "json_read.h"
#include "tensors.h"

enum { LARGEST_HEADER = 100000000, LENGTH_BYTES = 8 };

/* The header of one file while its tensors are collected. */
typedef struct one_header {
  const ckpt_file *file;
  ck_json_text text;
  uint64_t data; /* byte of the file where tensors start */
  struct range {
    uint64_t begin, end;
    const char *name;
  } * ranges;
  size_t n;
} one_header;

static ckpt_status read_header(one_header *header, char **owned, ckpt_error *error) {
  const char *path = ckpt_file_path(header->file);
  uint64_t size = ckpt_file_size(header->file);
  unsigned char length[LENGTH_BYTES];
  ckpt_status status = ckpt_file_read(length, header->file, 0, sizeof length, error);
  if (status != CKPT_OK) return status;
  uint64_t n = ck_load_u64(length);
  if (n < 2 || n > LARGEST_HEADER)
    return ck_fail(error, CK_E_SAFETENSORS_HEADER, path, 0, 0, "expected a header length of 2 to %d, found %llu",
                   LARGEST_HEADER, (unsigned long long)n);
  if (n > size - LENGTH_BYTES)
    return ck_fail(error, CK_E_DATA_TRUNCATED, path, (int64_t)size, 0,
                   "expected a header of %llu bytes from byte 8 on, found the end of the file", (unsigned long long)n);
  status = ck_file_text(owned, header->file, LENGTH_BYTES, (size_t)n, error);
  header->text = (ck_json_text){path, *owned, (size_t)n, LENGTH_BYTES, CK_E_SAFETENSORS_HEADER};
  header->data = LENGTH_BYTES + n;
  return status;
}

/* Where a tensor's entry stands in the file: walks the header, so only errors ask. */
static int64_t place(const one_header *header, const char *name, const char *inner) {
  int64_t at = ck_json_offset(&header->text, name, inner);
  return at >= 0 ? at : ck_json_offset(&header->text, name, NULL);
}

static ckpt_status refuse(const one_header *header, const char *name, const char *inner, const char *expected,
                          ckpt_error *error) {
  return ck_fail(error, CK_E_SAFETENSORS_TENSOR, header->text.path, place(header, name, inner), 0,
                 "tensor '%.200s': expected %s", name, expected);
}

static ckpt_status check_metadata(const one_header *header, const json_t *metadata, ckpt_error *error) {
  const char *key;
  json_t *value;
  bool good = json_is_object(metadata);
  json_object_foreach((json_t *)(uintptr_t)metadata, key, value) good = good && json_is_string(value);
  if (good) return CKPT_OK;
  return ck_fail(error, CK_E_SAFETENSORS_HEADER, header->text.path, place(header, "__metadata__", NULL), 0,
                 "expected __metadata__ to be an object of strings");
}

static ckpt_status read_dtype(const one_header *header, ckpt_tensor *tensor, const json_t *entry, ckpt_error *error) {
  const char *text = json_string_value(json_object_get(entry, "dtype"));
  if (!text) return refuse(header, tensor->name, "dtype", "a \"dtype\" that is a string", error);
  for (int i = 0; i < CKPT_N_DTYPES; i++) {
    if (strcmp(text, ck_dtype_file_name((ckpt_dtype)i)) != 0) continue;
    tensor->dtype = (ckpt_dtype)i;
    return CKPT_OK;
  }
  return ck_fail(error, CK_E_DTYPE, header->text.path, place(header, tensor->name, "dtype"), 0,
                 "tensor '%.200s' has dtype '%.40s'", tensor->name, text);
}

static ckpt_status read_shape(const one_header *header, ckpt_tensor *tensor, const json_t *entry, ckpt_error *error) {
  const json_t *shape = json_object_get(entry, "shape");
  if (!json_is_array(shape)) return refuse(header, tensor->name, "shape", "a \"shape\" that is an array", error);
  size_t rank = json_array_size(shape);
  tensor->rank = rank <= CKPT_MAX_RANK ? (int)rank : CKPT_MAX_RANK + 1;
  for (int i = 0; i < tensor->rank && i < CKPT_MAX_RANK; i++) {
    const json_t *dim = json_array_get(shape, (size_t)i);
    if (!json_is_integer(dim))
      return refuse(header, tensor->name, "shape", "dimensions that are integers below 2^63", error);
    tensor->dims[i] = json_integer_value(dim);
  }
  ckpt_status status = ck_shape_size(&tensor->n_elements, &tensor->n_bytes, tensor->dtype, tensor->rank, tensor->dims,
                                     NULL, -1, tensor->name, NULL);
  if (status == CKPT_OK) return status;
  return ck_shape_size(&tensor->n_elements, &tensor->n_bytes, tensor->dtype, tensor->rank, tensor->dims,
                       header->text.path, place(header, tensor->name, "shape"), tensor->name, error);
}

static ckpt_status read_range(one_header *header, ckpt_tensor *tensor, const json_t *entry, ckpt_error *error) {
  const json_t *offsets = json_object_get(entry, "data_offsets");
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
    return refuse(header, tensor->name, "data_offsets", "\"data_offsets\" of two integers below 2^63", error);
  json_int_t from = json_integer_value(begin), to = json_integer_value(end);
  if (from < 0 || to < from)
    return ck_fail(error, CK_E_SAFETENSORS_RANGE, header->text.path, place(header, tensor->name, "data_offsets"), 0,
                   "tensor '%.200s': expected 0 <= begin <= end, found %lld and %lld", tensor->name, (long long)from,
                   (long long)to);
  if ((uint64_t)(to - from) != tensor->n_bytes) {
    char shape[CK_SHAPE_TEXT];
    return ck_fail(error, CK_E_SAFETENSORS_RANGE, header->text.path, place(header, tensor->name, "data_offsets"), 0,
                   "tensor '%.200s', %s %s: expected %llu bytes, found data_offsets %lld to %lld", tensor->name,
                   ckpt_dtype_name(tensor->dtype), ck_shape_text(shape, tensor->rank, tensor->dims),
                   (unsigned long long)tensor->n_bytes, (long long)from, (long long)to);
  }
  header->ranges[header->n++] = (struct range){(uint64_t)from, (uint64_t)to, tensor->name};
  if ((uint64_t)to > ckpt_file_size(header->file) - header->data)
    return ck_fail(error, CK_E_DATA_TRUNCATED, header->text.path, (int64_t)ckpt_file_size(header->file), 0,
                   "tensor '%.200s': expected %lld bytes after the header, found %llu", tensor->name, (long long)to,
                   (unsigned long long)(ckpt_file_size(header->file) - header->data));
  tensor->offset = (int64_t)(header->data + (uint64_t)from);
  return CKPT_OK;
}

static ckpt_status read_entry(ckpt_tensors *tensors, one_header *header, const char *name, const json_t *entry,
                              ckpt_error *error) {
  if (strcmp(name, "__metadata__") == 0) return check_metadata(header, entry, error);
  if (!json_is_object(entry)) return refuse(header, name, NULL, "an object", error);
  ckpt_tensor tensor = {.name = name, .file = header->file};
  ckpt_status status = read_dtype(header, &tensor, entry, error);
  if (status == CKPT_OK) status = read_shape(header, &tensor, entry, error);
  if (status == CKPT_OK) status = read_range(header, &tensor, entry, error);
  if (status == CKPT_OK) status = ck_tensors_add(tensors, &tensor, false, NULL, error);
  return status;
}

static int by_place(const void *left, const void *right) {
  const struct range *a = left, *b = right;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Every byte after the header belongs to exactly one tensor. */
static ckpt_status check_ranges(one_header *header, ckpt_error *error) {
  uint64_t end = 0;
  if (header->n) qsort(header->ranges, header->n, sizeof *header->ranges, by_place);
  for (size_t i = 0; i < header->n; i++) {
    const struct range *range = &header->ranges[i];
    if (range->begin != end)
      return ck_fail(error, CK_E_SAFETENSORS_RANGE, header->text.path, (int64_t)(header->data + end), 0,
                     "expected a tensor to start at data offset %llu, found '%.200s' at %llu: they %s",
                     (unsigned long long)end, range->name, (unsigned long long)range->begin,
                     range->begin < end ? "overlap" : "leave a hole");
    end = range->end;
  }
  uint64_t size = ckpt_file_size(header->file);
  if (header->data + end == size) return CKPT_OK;
  return ck_fail(error, CK_E_SAFETENSORS_RANGE, header->text.path, (int64_t)(header->data + end), 0,
                 "expected the end of the file after the last tensor, found %llu more bytes",
                 (unsigned long long)(size - header->data - end));
}

static ckpt_status read_entries(ckpt_tensors *tensors, one_header *header, const json_t *root, ckpt_error *error) {
  if (!json_is_object(root))
    return ck_fail(error, CK_E_SAFETENSORS_HEADER, header->text.path, LENGTH_BYTES, 0, "expected a JSON object");
  header->ranges = ck_take(json_object_size(root), sizeof *header->ranges);
  if (!header->ranges) return ck_no_memory(error, json_object_size(root) * sizeof *header->ranges);
  const char *name;
  json_t *entry;
  json_object_foreach((json_t *)(uintptr_t)root, name, entry) {
    ckpt_status status = read_entry(tensors, header, name, entry, error);
    if (status != CKPT_OK) return status;
  }
  return check_ranges(header, error);
}

ckpt_status ck_safetensors_read(ckpt_tensors *tensors, const ckpt_file *file, const ckpt_read_options *options,
                                ckpt_error *error) {
  (void)options;
  one_header header = {.file = file};
  char *text = NULL;
  json_t *root = NULL;
  ckpt_status status = read_header(&header, &text, error);
  if (status == CKPT_OK) status = ck_json_parse(&root, &header.text, error);
  if (status == CKPT_OK) status = read_entries(tensors, &header, root, error);
  free(header.ranges);
  json_decref(root);
  free(text);
  return status;
}
