/* Data manifests: the list of a data source's shards with their sizes and SHA-256. */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "file.h"
#include "json_read.h"
#include "sha256.h"
#include "tensors.h"

enum { LARGEST_MANIFEST = 1 << 28, MANIFEST_VERSION = 1 };

/* The public part first; behind it what it points into. */
typedef struct owned_manifest {
  ckpt_manifest public;
  char *path;
  json_t *root;
  const char **fields;
  ckpt_shard_file *files; /* paths owned */
  size_t n_files, room;
} owned_manifest;

static ckpt_status check_head(owned_manifest *manifest, const ck_json_object *root, ckpt_error *error) {
  const char *record = NULL;
  int64_t version = 0;
  if (!json_is_object(root->value))
    return ck_fail(error, root->text->code, root->text->path, 0, 0, "expected an object");
  ckpt_status status = ck_json_get_text(&record, root, "record", error);
  if (status == CKPT_OK && strcmp(record, "data-manifest") != 0)
    status = ck_json_refuse(root, "record", "\"data-manifest\"", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&version, root, "version", error);
  if (status == CKPT_OK && version != MANIFEST_VERSION)
    status = ck_fail(error, CK_E_MANIFEST_VERSION, root->text->path, ck_json_offset(root->text, "version", NULL), 0,
                     "expected version %d, found %lld", MANIFEST_VERSION, (long long)version);
  if (status == CKPT_OK) status = ck_json_get_text(&manifest->public.kind, root, "kind", error);
  return status;
}

static ckpt_status read_fields(owned_manifest *manifest, const ck_json_object *root, ckpt_error *error) {
  const json_t *fields = NULL;
  ckpt_status status = ck_json_get_array(&fields, root, "fields", error);
  if (status != CKPT_OK) return status;
  size_t n = json_array_size(fields);
  manifest->fields = ck_take(n, sizeof *manifest->fields);
  if (!manifest->fields) return ck_no_memory(error, n * sizeof *manifest->fields);
  for (size_t i = 0; i < n; i++) {
    manifest->fields[i] = json_string_value(json_array_get(fields, i));
    if (!manifest->fields[i] || !*manifest->fields[i])
      return ck_json_refuse(root, "fields", "an array of names", error);
  }
  if (n == 0) return ck_json_refuse(root, "fields", "an array of names, at least one", error);
  manifest->public.n_fields = n;
  return CKPT_OK;
}

static ckpt_status read_window(owned_manifest *manifest, const ck_json_object *root, ckpt_error *error) {
  ckpt_manifest *public = &manifest->public;
  ckpt_status status = ck_json_get_text(&public->dtype, root, "dtype", error);
  const char *dtype = public->dtype;
  if (status == CKPT_OK && strcmp(dtype, "u8") != 0 && strcmp(dtype, "u16") != 0 && strcmp(dtype, "i32") != 0)
    status = ck_json_refuse(root, "dtype", "\"u8\", \"u16\" or \"i32\"", error);
  if (status == CKPT_OK) status = ck_json_get_text(&public->field, root, "field", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->length, root, "length", error);
  if (status == CKPT_OK) status = ck_json_get_integer(&public->stride, root, "stride", error);
  if (status == CKPT_OK && public->length < 1) status = ck_json_refuse(root, "length", "at least 1", error);
  if (status == CKPT_OK && public->stride < 1) status = ck_json_refuse(root, "stride", "at least 1", error);
  return status;
}

/* What each kind has beside its shards. */
static ckpt_status read_kind(owned_manifest *manifest, const ck_json_object *root, ckpt_error *error) {
  const char *kind = manifest->public.kind;
  manifest->public.n_shard_files = 1;
  if (strcmp(kind, "arrays") == 0) return CKPT_OK;
  if (strcmp(kind, "windows") == 0) return read_window(manifest, root, error);
  if (strcmp(kind, "csv") != 0 && strcmp(kind, "idx") != 0)
    return ck_json_refuse(root, "kind", "\"arrays\", \"windows\", \"csv\" or \"idx\"", error);
  ckpt_status status = read_fields(manifest, root, error);
  if (strcmp(kind, "idx") == 0) manifest->public.n_shard_files = manifest->public.n_fields;
  return status;
}

/* A path as it is used: a relative one is taken from the manifest's directory. */
static char *resolve(const owned_manifest *manifest, const char *path) {
  if (path[0] == '/' || strncmp(path, "s3://", 5) == 0) return ck_copy_text(path);
  int n_directory = (int)(ck_base_name(manifest->path) - manifest->path);
  return ck_print("%.*s%s", n_directory, manifest->path, path);
}

static ckpt_status read_file(owned_manifest *manifest, const ck_json_object *file, ckpt_error *error) {
  ckpt_shard_file *grown = ck_grow(manifest->files, manifest->n_files, &manifest->room, sizeof *grown);
  if (!grown) return ck_no_memory(error, 0);
  manifest->files = grown;
  ckpt_shard_file *out = &grown[manifest->n_files];
  const char *path = NULL;
  ckpt_status status = ck_json_get_text(&path, file, "path", error);
  if (status == CKPT_OK && !*path) status = ck_json_refuse(file, "path", "a path", error);
  if (status == CKPT_OK) status = ck_json_get_size(&out->size, file, "size", error);
  if (status == CKPT_OK) status = ck_json_get_sha256(out->sha256, file, "sha256", error);
  if (status != CKPT_OK) return status;
  out->path = resolve(manifest, path);
  if (!out->path) return ck_no_memory(error, strlen(path));
  manifest->n_files++;
  return CKPT_OK;
}

/* An idx shard has a file for each field, in their order. */
static ckpt_status read_shard(owned_manifest *manifest, const ck_json_object *shard, ckpt_error *error) {
  if (strcmp(manifest->public.kind, "idx") != 0) return read_file(manifest, shard, error);
  const json_t *files = json_object_get(shard->value, "files");
  if (json_array_size(files) != manifest->public.n_shard_files)
    return ck_json_refuse(shard, "files", "an array with a file for each of \"fields\"", error);
  for (size_t i = 0; i < json_array_size(files); i++) {
    ck_json_object file = *shard;
    file.value = json_array_get(files, i);
    ckpt_status status = read_file(manifest, &file, error);
    if (status != CKPT_OK) return status;
  }
  return CKPT_OK;
}

static ckpt_status read_shards(owned_manifest *manifest, const ck_json_object *root, ckpt_error *error) {
  const json_t *shards = NULL;
  ckpt_status status = ck_json_get_array(&shards, root, "shards", error);
  if (status != CKPT_OK) return status;
  size_t n = json_array_size(shards);
  if (n == 0) return ck_json_refuse(root, "shards", "an array of at least one", error);
  for (size_t i = 0; i < n; i++) {
    ck_json_object shard;
    status = ck_json_get_item(&shard, root, "shards", i, error);
    if (status == CKPT_OK) status = read_shard(manifest, &shard, error);
    if (status != CKPT_OK) return status;
  }
  manifest->public.n_shards = n;
  return CKPT_OK;
}

static ckpt_status read_manifest(owned_manifest *manifest, const ck_json_text *text, ckpt_error *error) {
  ckpt_status status = ck_json_parse(&manifest->root, text, error);
  ck_json_object root = {text, manifest->root, NULL, -1};
  if (status == CKPT_OK) status = check_head(manifest, &root, error);
  if (status == CKPT_OK) status = read_kind(manifest, &root, error);
  if (status == CKPT_OK) status = read_shards(manifest, &root, error);
  manifest->public.path = manifest->path;
  manifest->public.fields = manifest->fields;
  manifest->public.files = manifest->files;
  return status;
}

ckpt_status ckpt_manifest_from_file(ckpt_manifest **out, const ckpt_file *file, ckpt_error *error) {
  const char *path = ckpt_file_path(file);
  uint64_t size = ckpt_file_size(file);
  *out = NULL;
  if (size > LARGEST_MANIFEST)
    return ck_fail(error, CK_E_MANIFEST_FORMAT, path, -1, 0, "expected at most %d bytes, found %llu", LARGEST_MANIFEST,
                   (unsigned long long)size);
  owned_manifest *manifest = ck_take(1, sizeof *manifest);
  if (!manifest) return ck_no_memory(error, sizeof *manifest);
  char *owned = NULL;
  manifest->path = ck_copy_text(path);
  ckpt_status status = manifest->path ? ck_file_text(&owned, file, 0, (size_t)size, error) : ck_no_memory(error, 0);
  ck_json_text text = {path, owned, (size_t)size, 0, CK_E_MANIFEST_FORMAT};
  if (status == CKPT_OK) status = read_manifest(manifest, &text, error);
  free(owned);
  if (status == CKPT_OK)
    *out = &manifest->public;
  else
    ckpt_manifest_free(&manifest->public);
  return status;
}

ckpt_status ckpt_manifest_open(ckpt_manifest **out, const char *path, const ckpt_read_options *options,
                               ckpt_error *error) {
  ckpt_file *file = NULL;
  *out = NULL;
  ckpt_status status = ckpt_file_open(&file, path, options, error);
  if (status == CKPT_OK) status = ckpt_manifest_from_file(out, file, error);
  ckpt_file_close(file);
  return status;
}

void ckpt_manifest_free(ckpt_manifest *public) {
  if (!public) return;
  owned_manifest *owner = (owned_manifest *)(void *)public;
  for (size_t i = 0; i < owner->n_files; i++) free((void *)(uintptr_t)owner->files[i].path);
  free(owner->files);
  free(owner->fields);
  free(owner->path);
  json_decref(owner->root);
  free(owner);
}

static ckpt_status check_size(const ckpt_shard_file *shard, const ckpt_file *file, ckpt_error *error) {
  uint64_t size = ck_file_stored_size(file);
  if (size == shard->size) return CKPT_OK;
  return ck_fail(error, CK_E_SHARD_SIZE, shard->path, -1, 0, "expected %llu bytes, found %llu",
                 (unsigned long long)shard->size, (unsigned long long)size);
}

static ckpt_status check_hash(const ckpt_shard_file *shard, const ckpt_file *file, ckpt_error *error) {
  char found[CKPT_SHA256_TEXT];
  ckpt_status status = ckpt_file_sha256(found, file, error);
  if (status == CKPT_OK && strcmp(found, shard->sha256) != 0)
    status = ck_fail(error, CK_E_SHARD_HASH, shard->path, -1, 0, "expected %s, found %s", shard->sha256, found);
  return status;
}

ckpt_status ckpt_manifest_check_file(const ckpt_shard_file *shard, const ckpt_file *file, ckpt_error *error) {
  ckpt_status status = check_size(shard, file, error);
  return status == CKPT_OK ? check_hash(shard, file, error) : status;
}

ckpt_status ckpt_manifest_check(const ckpt_manifest *public, bool hashes, const ckpt_read_options *options,
                                ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < public->n_shards * public->n_shard_files; i++) {
    const ckpt_shard_file *shard = &public->files[i];
    ckpt_file *file = NULL;
    status = ck_file_open_stored(&file, shard->path, options ? options->s3 : NULL, error);
    if (status == CKPT_OK) status = check_size(shard, file, error);
    if (status == CKPT_OK && hashes) status = check_hash(shard, file, error);
    ckpt_file_close(file);
  }
  return status;
}
