/* Writes safetensors. The bytes depend on the arrays alone: the header lists tensors in byte order of their paths;
 * their elements lie in order of element size, largest first, then path, so that each is aligned for any reader. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "bytes.h"
#include "dtype.h"
#include "error.h"
#include "output.h"

static const uint64_t default_shard_bytes = UINT64_C(5000000000);

/* One file's tensors: order[i] in order of paths, layout[i] in order of their bytes, begin[i] those of order[i]. */
typedef struct one_file {
  const ckpt_array *const *order;
  size_t n;
  const ckpt_array **layout;
  uint64_t *begin;
} one_file;

static uint64_t size_of(const ckpt_array *array) {
  uint64_t n_bytes = 0;
  ck_array_check(&n_bytes, array, NULL); /* was checked before: gives the size */
  return n_bytes;
}

static int by_layout(const void *left, const void *right) {
  const ckpt_array *a = *(const ckpt_array *const *)left, *b = *(const ckpt_array *const *)right;
  size_t a_width = ckpt_dtype_n_bytes(a->dtype), b_width = ckpt_dtype_n_bytes(b->dtype);
  if (a_width != b_width) return a_width > b_width ? -1 : 1;
  return strcmp(a->path, b->path);
}

static size_t index_of(const one_file *shard, const ckpt_array *array) {
  size_t low = 0, high = shard->n;
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(array->path, shard->order[middle]->path) < 0)
      high = middle;
    else
      low = middle;
  }
  return low;
}

static ckpt_status lay_out(one_file *shard, ckpt_error *error) {
  shard->layout = ck_take(shard->n, sizeof *shard->layout);
  shard->begin = ck_take(shard->n, sizeof *shard->begin);
  if (!shard->layout || !shard->begin) return ck_no_memory(error, shard->n * sizeof *shard->layout);
  for (size_t i = 0; i < shard->n; i++) shard->layout[i] = shard->order[i];
  if (shard->n) qsort(shard->layout, shard->n, sizeof *shard->layout, by_layout);
  uint64_t end = 0;
  for (size_t i = 0; i < shard->n; i++) {
    shard->begin[index_of(shard, shard->layout[i])] = end;
    end += size_of(shard->layout[i]);
  }
  return CKPT_OK;
}

static void put_entry(ckpt_json *json, const ckpt_array *array, uint64_t begin) {
  ckpt_json_key(json, array->path);
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "dtype");
  ckpt_json_string(json, ck_dtype_file_name(array->dtype));
  ckpt_json_key(json, "shape");
  ckpt_json_begin_array(json);
  for (int i = 0; i < array->rank; i++) ckpt_json_integer(json, array->dims[i]);
  ckpt_json_end_array(json);
  ckpt_json_key(json, "data_offsets");
  ckpt_json_begin_array(json);
  ckpt_json_unsigned(json, begin);
  ckpt_json_unsigned(json, begin + size_of(array));
  ckpt_json_end_array(json);
  ckpt_json_end_object(json);
}

/* The header, its line end and more spaces so that the tensors start at a multiple of 8. */
static ckpt_status write_header(ck_output *output, const one_file *shard, ckpt_error *error) {
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  if (!json) return ck_no_memory(error, 0);
  ckpt_json_begin_object(json);
  for (size_t i = 0; i < shard->n; i++) put_entry(json, shard->order[i], shard->begin[i]);
  ckpt_json_end_object(json);
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  ckpt_status status = text ? CKPT_OK : ck_no_memory(error, n);
  if (status == CKPT_OK) {
    unsigned char length[8];
    n--; /* without the line end */
    size_t n_padding = (8 - n % 8) % 8;
    ck_store_u64(length, n + n_padding);
    status = ck_output_write(output, length, sizeof length, error);
    if (status == CKPT_OK) status = ck_output_write(output, text, n, error);
    if (status == CKPT_OK) status = ck_output_write(output, "        ", n_padding, error);
  }
  ckpt_json_free(json);
  return status;
}

static ckpt_status put_bytes(void *context, const void *bytes, size_t n_bytes, ckpt_error *error) {
  return ck_output_write(context, bytes, n_bytes, error);
}

static ckpt_status write_file(ck_output *output, const char *name, const ckpt_array *const *order, size_t n,
                              ckpt_error *error) {
  one_file shard = {.order = order, .n = n};
  ckpt_status status = lay_out(&shard, error);
  if (status == CKPT_OK) status = ck_output_begin(output, name, error);
  if (status == CKPT_OK) status = write_header(output, &shard, error);
  for (size_t i = 0; status == CKPT_OK && i < n; i++) status = ck_array_each(shard.layout[i], put_bytes, output, error);
  if (status == CKPT_OK) status = ck_output_end(output, error);
  free(shard.layout);
  free(shard.begin);
  return status;
}

/* ---- Shards ---- */

/* How many of the arrays from the first on fit one file: at least one. *n_bytes is their size. */
static size_t shard_length(const ckpt_array *const *arrays, size_t n, uint64_t limit, uint64_t *n_bytes) {
  size_t taken = 0;
  *n_bytes = 0;
  while (taken < n && (taken == 0 || size_of(arrays[taken]) <= limit - *n_bytes)) {
    *n_bytes += size_of(arrays[taken++]);
    if (*n_bytes >= limit) break;
  }
  return taken;
}

static char *shard_name(const char *stem, size_t index, size_t n_shards) {
  return ck_print("%s-%05zu-of-%05zu.safetensors", stem, index + 1, n_shards);
}

typedef struct index_writer {
  ck_output *output;
  const char *stem;
  size_t n_shards;
  ckpt_json *map; /* the object of tensors and files */
} index_writer;

static ckpt_status write_shard(index_writer *index, size_t number, const ckpt_array *const *arrays, size_t n,
                               ckpt_error *error) {
  char *name = shard_name(index->stem, number, index->n_shards);
  if (!name) return ck_no_memory(error, 0);
  ckpt_status status = write_file(index->output, name, arrays, n, error);
  for (size_t i = 0; i < n; i++) {
    ckpt_json_key(index->map, arrays[i]->path);
    ckpt_json_string(index->map, name);
  }
  free(name);
  return status;
}

static ckpt_status write_text(ck_output *output, const char *stem, ckpt_json *json, ckpt_error *error) {
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  char *name = ck_print("%s.safetensors.index.json", stem);
  ckpt_status status = text && name ? ck_output_begin(output, name, error) : ck_no_memory(error, n);
  if (status == CKPT_OK) status = ck_output_write(output, text, n, error);
  if (status == CKPT_OK) status = ck_output_end(output, error);
  free(name);
  return status;
}

static ckpt_status write_shards(ck_output *output, const char *stem, const ckpt_array *const *arrays, size_t n,
                                uint64_t limit, size_t n_shards, uint64_t total, ckpt_error *error) {
  index_writer index = {output, stem, n_shards, ckpt_json_new(CKPT_JSON_PRETTY)};
  if (!index.map) return ck_no_memory(error, 0);
  ckpt_json_begin_object(index.map);
  ckpt_json_key(index.map, "metadata");
  ckpt_json_begin_object(index.map);
  ckpt_json_key(index.map, "total_size");
  ckpt_json_unsigned(index.map, total);
  ckpt_json_end_object(index.map);
  ckpt_json_key(index.map, "weight_map");
  ckpt_json_begin_object(index.map);
  ckpt_status status = CKPT_OK;
  for (size_t first = 0, number = 0; status == CKPT_OK && first < n; number++) {
    uint64_t n_bytes;
    size_t taken = shard_length(arrays + first, n - first, limit, &n_bytes);
    status = write_shard(&index, number, arrays + first, taken, error);
    first += taken;
  }
  ckpt_json_end_object(index.map);
  ckpt_json_end_object(index.map);
  if (status == CKPT_OK) status = write_text(output, stem, index.map, error);
  ckpt_json_free(index.map);
  return status;
}

ckpt_status ck_safetensors_write(ck_output *output, const char *stem, const ckpt_array *const *arrays, size_t n,
                                 uint64_t shard_n_bytes, ckpt_error *error) {
  uint64_t limit = shard_n_bytes ? shard_n_bytes : default_shard_bytes, total = 0;
  size_t n_shards = 0;
  for (size_t first = 0; first < n; n_shards++) {
    uint64_t n_bytes;
    first += shard_length(arrays + first, n - first, limit, &n_bytes);
    if (n_bytes > (uint64_t)INT64_MAX - total)
      return ck_fail(error, CK_E_ARGUMENT, NULL, -1, 0, "the tensors need more than 2^63 - 1 bytes");
    total += n_bytes;
  }
  if (n_shards > 1) return write_shards(output, stem, arrays, n, limit, n_shards, total, error);
  char *name = ck_print("%s.safetensors", stem);
  if (!name) return ck_no_memory(error, 0);
  ckpt_status status = write_file(output, name, arrays, n, error);
  free(name);
  return status;
}
