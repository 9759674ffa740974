/* Sharded safetensors: an index that says in which of several files each tensor lies. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "file.h"
#include "json_read.h"
#include "tensors.h"

enum { LARGEST_INDEX = 100000000 };

static ckpt_status refuse(const ck_json_text *text, const char *name, const char *expected, ckpt_error *error) {
  return ck_fail(error, CK_E_SAFETENSORS_INDEX, text->path, ck_json_offset(text, "weight_map", name), 0,
                 "expected %s%s%.200s", expected, name ? ", found that of tensor " : "", name ? name : "");
}

static ckpt_status read_text(ck_json_text *text, ckpt_file *file, char **owned, ckpt_error *error) {
  const char *path = ckpt_file_path(file);
  uint64_t size = ckpt_file_size(file);
  if (size > LARGEST_INDEX)
    return ck_fail(error, CK_E_SAFETENSORS_INDEX, path, -1, 0, "expected at most %d bytes, found %llu", LARGEST_INDEX,
                   (unsigned long long)size);
  ckpt_status status = ck_file_text(owned, file, 0, (size_t)size, error);
  *text = (ck_json_text){path, *owned, (size_t)size, 0, CK_E_SAFETENSORS_INDEX};
  return status;
}

static int by_text(const void *left, const void *right) {
  return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The distinct names of the files, in order. */
static ckpt_status list_files(const char ***out, size_t *n_out, const ck_json_text *text, const json_t *map,
                              ckpt_error *error) {
  const char **names = ck_take(json_object_size(map), sizeof *names), *tensor;
  json_t *value;
  size_t n = 0, n_kept = 0;
  if (!names) return ck_no_memory(error, json_object_size(map) * sizeof *names);
  *out = names;
  json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
    const char *name = json_string_value(value);
    if (!name) return refuse(text, tensor, "names of files", error);
    if (strchr(name, '/') || !ck_ends_with(name, ".safetensors"))
      return refuse(text, tensor, "names of .safetensors files beside the index", error);
    names[n++] = name;
  }
  if (n) qsort(names, n, sizeof *names, by_text);
  for (size_t i = 0; i < n; i++)
    if (n_kept == 0 || strcmp(names[n_kept - 1], names[i]) != 0) names[n_kept++] = names[i];
  *n_out = n_kept;
  return CKPT_OK;
}

static ckpt_status open_shard(ckpt_tensors *tensors, const ck_opener *opener, const char *name,
                              const ckpt_read_options *options, ckpt_error *error) {
  ckpt_file *file = NULL;
  ckpt_status status = opener->open(&file, opener->context, name, error);
  if (status == CKPT_OK) status = ck_tensors_add_file(tensors, file, error);
  if (status != CKPT_OK) {
    ckpt_file_close(file);
    return status;
  }
  return ck_safetensors_read(tensors, file, options, error);
}

/* Every tensor lies where the index says, and the index names every tensor. */
static ckpt_status check_map(const ckpt_tensors *tensors, const ck_json_text *text, const json_t *map,
                             ckpt_error *error) {
  for (size_t i = 0; i < tensors->n; i++) {
    const ckpt_tensor *tensor = &tensors->entries[i].tensor;
    const char *file = ck_base_name(ckpt_file_path(tensor->file));
    const char *named = json_string_value(json_object_get(map, tensor->name));
    if (!named || strcmp(named, file) != 0)
      return ck_fail(error, CK_E_SAFETENSORS_SHARD, text->path, ck_json_offset(text, "weight_map", tensor->name), 0,
                     "tensor '%.200s' is in '%.100s', expected %s%.100s", tensor->name, file,
                     named ? "it in " : "it in no file", named ? named : "");
  }
  if (tensors->n == json_object_size(map)) return CKPT_OK;
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)map, name, value) {
    const ckpt_tensor *found;
    if (ckpt_tensors_find(&found, tensors, name, NULL) == CKPT_OK) continue;
    return ck_fail(error, CK_E_SAFETENSORS_SHARD, text->path, ck_json_offset(text, "weight_map", name), 0,
                   "expected tensor '%.200s' in '%.100s', which does not have it", name, json_string_value(value));
  }
  return CKPT_OK;
}

static ckpt_status read_map(ckpt_tensors *tensors, const ck_opener *opener, const ck_json_text *text,
                            const json_t *root, const ckpt_read_options *options, ckpt_error *error) {
  const json_t *map = json_object_get(root, "weight_map");
  if (!json_is_object(map)) return refuse(text, NULL, "an object with a \"weight_map\" that is an object", error);
  const char **names = NULL;
  size_t n = 0;
  ckpt_status status = list_files(&names, &n, text, map, error);
  for (size_t i = 0; status == CKPT_OK && i < n; i++) status = open_shard(tensors, opener, names[i], options, error);
  if (status == CKPT_OK) status = ck_tensors_finish(tensors, text->path, error);
  if (status == CKPT_OK) status = check_map(tensors, text, map, error);
  free(names);
  return status;
}

ckpt_status ck_safetensors_read_index(ckpt_tensors *tensors, const ck_opener *opener, const char *name,
                                      const ckpt_read_options *options, ckpt_error *error) {
  ckpt_file *file = NULL;
  ck_json_text text = {0};
  char *owned = NULL;
  json_t *root = NULL;
  ckpt_status status = opener->open(&file, opener->context, name, error);
  if (status == CKPT_OK) status = read_text(&text, file, &owned, error);
  if (status == CKPT_OK) status = ck_json_parse(&root, &text, error);
  if (status == CKPT_OK) status = read_map(tensors, opener, &text, root, options, error);
  json_decref(root);
  free(owned);
  ckpt_file_close(file);
  return status;
}
