/* The tensors of a file, whatever its format. */
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "error.h"
#include "file.h"
#include "utf8.h"

static const struct {
  const char *end;
  ck_format_reader *read;
} formats[] = {
    {".safetensors", ck_safetensors_read},
    {".safetensors.gz", ck_safetensors_read},
    {".npy", ck_npy_read},
    {".npy.gz", ck_npy_read},
    {".npz", ck_npz_read},
    {".npz.gz", ck_npz_read},
};

static ck_format_reader *find_format(const char *path) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (ck_ends_with(path, formats[i].end)) return formats[i].read;
  return NULL;
}

static ckpt_status refuse_format(const char *path, ckpt_error *error) {
  return ck_fail(error, CK_E_TENSOR_FORMAT, path, -1, 0,
                 "expected a name that ends in .safetensors, .safetensors.index.json, .npy or .npz, found '%.200s'",
                 ck_base_name(path));
}

const char *ck_base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

ckpt_status ck_tensors_add_file(ckpt_tensors *tensors, const ckpt_file *file, ckpt_error *error) {
  const ckpt_file **grown = realloc(tensors->files, (tensors->n_files + 1) * sizeof *grown);
  if (!grown) return ck_no_memory(error, (tensors->n_files + 1) * sizeof *grown);
  tensors->files = grown;
  grown[tensors->n_files++] = file;
  return CKPT_OK;
}

ckpt_status ck_tensors_add(ckpt_tensors *tensors, const ckpt_tensor *tensor, bool big_endian, void *owned,
                           ckpt_error *error) {
  ck_entry *grown = ck_grow(tensors->entries, tensors->n, &tensors->room, sizeof *grown);
  if (grown) tensors->entries = grown;
  char *name = grown ? ck_copy_text(tensor->name) : NULL;
  if (!name) {
    free(owned);
    return ck_no_memory(error, strlen(tensor->name));
  }
  bool swap = ckpt_dtype_n_bytes(tensor->dtype) > 1 && big_endian == ck_host_is_little();
  ck_entry *entry = &tensors->entries[tensors->n++];
  *entry = (ck_entry){*tensor, swap, owned};
  entry->tensor.name = name;
  const unsigned char *content = ckpt_file_bytes(tensor->file);
  if (owned) {
    if (swap) ck_swap_elements(owned, tensor->n_elements, ckpt_dtype_n_bytes(tensor->dtype));
    entry->tensor.data = owned;
  } else {
    entry->tensor.data = swap || !content ? NULL : content + tensor->offset;
  }
  return CKPT_OK;
}

static int by_name(const void *left, const void *right) {
  return strcmp(((const ck_entry *)left)->tensor.name, ((const ck_entry *)right)->tensor.name);
}

ckpt_status ck_tensors_finish(ckpt_tensors *tensors, const char *path, ckpt_error *error) {
  if (tensors->n) qsort(tensors->entries, tensors->n, sizeof *tensors->entries, by_name);
  for (size_t i = 0; i < tensors->n; i++) {
    const char *name = tensors->entries[i].tensor.name;
    if (!*name || !ck_is_utf8(name, strlen(name)))
      return ck_fail(error, CK_E_TENSOR_NAME, path, -1, 0, "expected a name in UTF-8, found '%.200s'", name);
    if (i > 0 && strcmp(name, tensors->entries[i - 1].tensor.name) == 0)
      return ck_fail(error, CK_E_TENSOR_NAME, path, -1, 0, "'%.200s' stands twice", name);
  }
  return CKPT_OK;
}

static ckpt_status read_single(ckpt_tensors *tensors, const ckpt_file *file, ck_format_reader *read,
                               const ckpt_read_options *options, ckpt_error *error) {
  ckpt_status status = read(tensors, file, options, error);
  if (status == CKPT_OK) status = ck_tensors_finish(tensors, ckpt_file_path(file), error);
  return status;
}

static ckpt_status open_single(ckpt_tensors *tensors, const ck_opener *opener, const char *name,
                               const ckpt_read_options *options, ckpt_error *error) {
  ck_format_reader *read = find_format(name);
  if (!read) return refuse_format(name, error);
  ckpt_file *file = NULL;
  ckpt_status status = opener->open(&file, opener->context, name, error);
  if (status == CKPT_OK) status = ck_tensors_add_file(tensors, file, error);
  if (status != CKPT_OK) {
    ckpt_file_close(file);
    return status;
  }
  return read_single(tensors, file, read, options, error);
}

ckpt_status ck_tensors_open(ckpt_tensors **out, const ck_opener *opener, const char *name,
                            const ckpt_read_options *options, ckpt_error *error) {
  *out = NULL;
  ckpt_status status;
  ckpt_tensors *tensors = ck_take(1, sizeof *tensors);
  if (!tensors) return ck_no_memory(error, sizeof *tensors);
  tensors->owns_files = true;
  if (ck_ends_with(name, ".safetensors.index.json") || ck_ends_with(name, ".safetensors.index.json.gz"))
    status = ck_safetensors_read_index(tensors, opener, name, options, error);
  else
    status = open_single(tensors, opener, name, options, error);
  if (status == CKPT_OK)
    *out = tensors;
  else
    ckpt_tensors_close(tensors);
  return status;
}

/* `stored` is for files alone: a .gz whose tensors are wanted must be inflated. */
static ckpt_read_options content_options(const ckpt_read_options *options) {
  ckpt_read_options content = options ? *options : CKPT_READ_OPTIONS;
  content.stored = false;
  return content;
}

/* Files beside the one at `path`. */
typedef struct beside {
  const char *path;
  ckpt_read_options options;
} beside;

static ckpt_status open_beside(ckpt_file **out, const void *context, const char *name, ckpt_error *error) {
  const beside *place = context;
  int n_directory = (int)(ck_base_name(place->path) - place->path);
  *out = NULL;
  char *path = ck_print("%.*s%s", n_directory, place->path, name);
  ckpt_status status = path ? ckpt_file_open(out, path, &place->options, error) : ck_no_memory(error, 0);
  free(path);
  return status;
}

ckpt_status ckpt_tensors_open(ckpt_tensors **out, const char *path, const ckpt_read_options *options,
                              ckpt_error *error) {
  *out = NULL;
  beside place = {path, content_options(options)};
  const ck_opener opener = {open_beside, &place};
  ckpt_status status = place.options.s3 ? CKPT_OK : ck_refuse_s3(path, error);
  return status == CKPT_OK ? ck_tensors_open(out, &opener, ck_base_name(path), &place.options, error) : status;
}

ckpt_status ckpt_tensors_from_file(ckpt_tensors **out, const ckpt_file *file, const ckpt_read_options *options,
                                   ckpt_error *error) {
  *out = NULL;
  ck_format_reader *read = find_format(ckpt_file_path(file));
  if (!read) return refuse_format(ckpt_file_path(file), error);
  ckpt_tensors *tensors = ck_take(1, sizeof *tensors);
  if (!tensors) return ck_no_memory(error, sizeof *tensors);
  ckpt_read_options content = content_options(options);
  ckpt_status status = ck_tensors_add_file(tensors, file, error);
  if (status == CKPT_OK) status = read_single(tensors, file, read, &content, error);
  if (status == CKPT_OK)
    *out = tensors;
  else
    ckpt_tensors_close(tensors);
  return status;
}

ckpt_status ck_tensors_fetch(ckpt_tensors *tensors, ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < tensors->n_files; i++)
    status = ck_file_fetch((ckpt_file *)(uintptr_t)tensors->files[i], error);
  for (size_t i = 0; status == CKPT_OK && i < tensors->n; i++) {
    ck_entry *entry = &tensors->entries[i];
    const unsigned char *content = ckpt_file_bytes(entry->tensor.file);
    if (!entry->tensor.data && !entry->swap && content) entry->tensor.data = content + entry->tensor.offset;
  }
  return status;
}

void ckpt_tensors_close(ckpt_tensors *tensors) {
  if (!tensors) return;
  for (size_t i = 0; i < tensors->n; i++) {
    free((void *)(uintptr_t)tensors->entries[i].tensor.name);
    free(tensors->entries[i].owned);
  }
  free(tensors->entries);
  for (size_t i = 0; tensors->owns_files && i < tensors->n_files; i++)
    ckpt_file_close((ckpt_file *)(uintptr_t)tensors->files[i]);
  free(tensors->files);
  free(tensors);
}

size_t ckpt_tensors_count(const ckpt_tensors *tensors) { return tensors->n; }
const ckpt_tensor *ckpt_tensors_at(const ckpt_tensors *tensors, size_t index) {
  return &tensors->entries[index].tensor;
}
size_t ckpt_tensors_n_files(const ckpt_tensors *tensors) { return tensors->n_files; }
const ckpt_file *ckpt_tensors_file(const ckpt_tensors *tensors, size_t index) { return tensors->files[index]; }

/* Edits (insert, delete, replace one byte) between two names, of which the first 63 bytes count. */
static size_t distance(const char *left, const char *right) {
  enum { MOST = 64 };
  size_t row[MOST], n_left = strnlen(left, MOST - 1), n_right = strnlen(right, MOST - 1);
  for (size_t j = 0; j <= n_right; j++) row[j] = j;
  for (size_t i = 1; i <= n_left; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= n_right; j++) {
      size_t replaced = diagonal + (left[i - 1] != right[j - 1]);
      size_t shorter = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      diagonal = row[j];
      row[j] = replaced < shorter ? replaced : shorter;
    }
  }
  return row[n_right];
}

static ckpt_status not_found(const ckpt_tensors *tensors, const char *name, ckpt_error *error) {
  const char *path = tensors->n_files ? ckpt_file_path(tensors->files[0]) : NULL;
  if (tensors->n == 0)
    return ck_fail(error, CK_E_LOAD_NAME, path, -1, 0, "expected '%.200s', found no tensors at all", name);
  size_t nearest = 0, least = SIZE_MAX;
  for (size_t i = 0; i < tensors->n; i++) {
    size_t edits = distance(name, tensors->entries[i].tensor.name);
    if (edits < least) nearest = i;
    if (edits < least) least = edits;
  }
  return ck_fail(error, CK_E_LOAD_NAME, path, -1, 0, "expected '%.200s', found %zu others; the nearest is '%.200s'",
                 name, tensors->n, tensors->entries[nearest].tensor.name);
}

ckpt_status ckpt_tensors_find(const ckpt_tensor **out, const ckpt_tensors *tensors, const char *name,
                              ckpt_error *error) {
  size_t low = 0, high = tensors->n;
  *out = NULL;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(name, tensors->entries[middle].tensor.name);
    if (order == 0) {
      *out = &tensors->entries[middle].tensor;
      return CKPT_OK;
    }
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return not_found(tensors, name, error);
}

ckpt_status ckpt_tensors_read(void *out, const ckpt_tensors *tensors, const ckpt_tensor *tensor, uint64_t first,
                              uint64_t n_elements, ckpt_error *error) {
  (void)tensors;
  const ck_entry *entry = (const ck_entry *)(const void *)tensor;
  size_t width = ckpt_dtype_n_bytes(tensor->dtype);
  if (first > tensor->n_elements || n_elements > tensor->n_elements - first)
    return ck_fail(error, CK_E_DATA_TRUNCATED, ckpt_file_path(tensor->file), -1, 0,
                   "tensor '%.200s' has %llu elements, expected %llu from element %llu on", tensor->name,
                   (unsigned long long)tensor->n_elements, (unsigned long long)n_elements, (unsigned long long)first);
  if (n_elements == 0) return CKPT_OK;
  if (entry->owned) {
    memcpy(out, (const unsigned char *)entry->owned + first * width, (size_t)(n_elements * width));
    return CKPT_OK;
  }
  ckpt_status status =
      ckpt_file_read(out, tensor->file, (uint64_t)tensor->offset + first * width, (size_t)(n_elements * width), error);
  if (status == CKPT_OK && entry->swap) ck_swap_elements(out, (size_t)n_elements, width);
  return status;
}
