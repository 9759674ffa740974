#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../libckpt/ckpt.h"

struct sexp_file {
  ckpt_file *file;
  ckpt_tensors *tensors;
  sexp_file_tensor *list; /* of tensors */
  void **copies;          /* per tensor: its elements where the file does not hold them as they are, or NULL */
  ckpt_manifest *manifest;
  sexp_manifest shards;
  const char **paths; /* of shards */
  sexp_file *next;    /* of tensors */
};

static int fail(sexp_failure *why, const ckpt_error *error) {
  snprintf(why->code, sizeof why->code, "%s", error->code);
  snprintf(why->message, sizeof why->message, "%s", error->message);
  why->storage = error->status == CKPT_IO;
  return 1;
}

static int fail_memory(sexp_failure *why) {
  *why = (sexp_failure){"E-CKPT-001", "out of memory", true};
  return 1;
}

static void unlink_file(tool_files *files, const sexp_file *file) {
  sexp_file **link = &files->open;
  while (*link && *link != file) link = &(*link)->next;
  if (*link) *link = file->next;
}

static void host_close(void *context, sexp_file *file) {
  if (!file) return;
  unlink_file(context, file);
  for (size_t i = 0; file->copies && i < ckpt_tensors_count(file->tensors); i++) free(file->copies[i]);
  free(file->copies);
  free(file->list);
  free(file->paths);
  ckpt_tensors_close(file->tensors);
  ckpt_file_close(file->file);
  ckpt_manifest_free(file->manifest);
  free(file);
}

/* ---- files ---- */

static ckpt_status read_options(ckpt_read_options *out, const tool_files *files, const char *path, ckpt_error *error) {
  *out = CKPT_READ_OPTIONS;
  return files->credentials ? tool_credentials_client(&out->s3, files->credentials, TOOL_DATA, path, error) : CKPT_OK;
}

/* A shard is hashed when it is opened, so that an object is fetched once for both. */
static ckpt_status check_shard(const tool_files *files, const ckpt_file *file, ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; status == CKPT_OK && i < files->n_shards; i++)
    if (strcmp(files->shards[i].path, ckpt_file_path(file)) == 0)
      status = ckpt_manifest_check_file(&files->shards[i], file, error);
  return status;
}

/* The file of that path among those whose tensors are in use, or NULL. */
static const ckpt_file *find_open(const tool_files *files, const char *path) {
  for (const sexp_file *file = files->open; file; file = file->next)
    for (size_t i = 0; i < ckpt_tensors_n_files(file->tensors); i++)
      if (strcmp(ckpt_file_path(ckpt_tensors_file(file->tensors, i)), path) == 0)
        return ckpt_tensors_file(file->tensors, i);
  return NULL;
}

/* Shards of an index, which libsexp opens for their versions, are not fetched a second time. */
static ckpt_status open_file(sexp_file *file, const tool_files *files, const char *path, ckpt_error *error) {
  const ckpt_file *open = find_open(files, path);
  ckpt_read_options options;
  ckpt_status status = read_options(&options, files, path, error);
  if (status != CKPT_OK) return status;
  return open ? ckpt_file_again(&file->file, open, &options, error)
              : ckpt_file_open(&file->file, path, &options, error);
}

static int host_open(void *context, const char *path, sexp_file **out, sexp_file_info *info, sexp_failure *why) {
  ckpt_error error;
  sexp_file *file = calloc(1, sizeof *file);
  if (!file) return fail_memory(why);
  ckpt_status status = open_file(file, context, path, &error);
  if (status == CKPT_OK) status = check_shard(context, file->file, &error);
  if (status != CKPT_OK) {
    host_close(context, file);
    return fail(why, &error);
  }
  *info = (sexp_file_info){ckpt_file_bytes(file->file), ckpt_file_size(file->file)};
  *out = file;
  return 0;
}

static sexp_dtype dtype_of(ckpt_dtype dtype) {
  static const sexp_dtype map[CKPT_N_DTYPES] = {
      [CKPT_BOOL] = SEXP_BOOL, [CKPT_U8] = SEXP_U8,   [CKPT_I8] = SEXP_I8,     [CKPT_U16] = SEXP_U16,
      [CKPT_I16] = SEXP_I16,   [CKPT_F16] = SEXP_F16, [CKPT_BF16] = SEXP_BF16, [CKPT_U32] = SEXP_U32,
      [CKPT_I32] = SEXP_I32,   [CKPT_F32] = SEXP_F32, [CKPT_U64] = SEXP_U64,   [CKPT_I64] = SEXP_I64,
      [CKPT_F64] = SEXP_F64};
  return map[dtype];
}

/* The elements in memory: where the file has them, or a copy. */
static ckpt_status elements(sexp_file *file, size_t i, const ckpt_tensor *tensor, ckpt_error *error) {
  file->list[i].bytes = tensor->data;
  if (tensor->data || !tensor->n_bytes) return CKPT_OK;
  file->copies[i] = malloc((size_t)tensor->n_bytes);
  if (!file->copies[i]) {
    *error = (ckpt_error){.status = CKPT_IO, .code = "E-CKPT-001", .message = "out of memory"};
    return CKPT_IO;
  }
  file->list[i].bytes = file->copies[i];
  return ckpt_tensors_read(file->copies[i], file->tensors, tensor, 0, tensor->n_elements, error);
}

static ckpt_status list_tensors(sexp_file *file, ckpt_error *error) {
  ckpt_status status = CKPT_OK;
  for (size_t i = 0; i < ckpt_tensors_count(file->tensors) && status == CKPT_OK; i++) {
    const ckpt_tensor *tensor = ckpt_tensors_at(file->tensors, i);
    sexp_file_tensor *to = &file->list[i];
    *to = (sexp_file_tensor){.name = tensor->name,
                             .path = ckpt_file_path(tensor->file),
                             .dtype = dtype_of(tensor->dtype),
                             .rank = tensor->rank,
                             .n_bytes = tensor->n_bytes};
    memcpy(to->dims, tensor->dims, sizeof to->dims);
    status = elements(file, i, tensor, error);
  }
  return status;
}

static int host_open_tensors(void *context, const char *path, sexp_file **out, const sexp_file_tensor **tensors,
                             size_t *n_tensors, sexp_failure *why) {
  ckpt_error error;
  sexp_file *file = calloc(1, sizeof *file);
  if (!file) return fail_memory(why);
  ckpt_read_options options;
  ckpt_status status = read_options(&options, context, path, &error);
  if (status == CKPT_OK) status = ckpt_tensors_open(&file->tensors, path, &options, &error);
  for (size_t i = 0; status == CKPT_OK && i < ckpt_tensors_n_files(file->tensors); i++)
    status = check_shard(context, ckpt_tensors_file(file->tensors, i), &error);
  size_t n = status == CKPT_OK ? ckpt_tensors_count(file->tensors) : 0;
  if (status == CKPT_OK) {
    file->list = calloc(n + 1, sizeof *file->list);
    file->copies = calloc(n + 1, sizeof *file->copies);
    if (!file->list || !file->copies) {
      host_close(context, file);
      return fail_memory(why);
    }
    status = list_tensors(file, &error);
  }
  if (status != CKPT_OK) {
    host_close(context, file);
    return fail(why, &error);
  }
  tool_files *files = context;
  file->next = files->open;
  files->open = file;
  *tensors = file->list;
  *n_tensors = n;
  *out = file;
  return 0;
}

/* ---- manifests ---- */

/* False: out of memory. */
static bool add_shard(tool_files *files, const ckpt_shard_file *shard) {
  if (files->n_shards == files->room) {
    size_t room = files->room ? 2 * files->room : 16;
    ckpt_shard_file *grown = realloc(files->shards, room * sizeof *grown);
    if (!grown) return false;
    files->shards = grown;
    files->room = room;
  }
  char *path = strdup(shard->path);
  if (!path) return false;
  files->shards[files->n_shards] = *shard;
  files->shards[files->n_shards++].path = path;
  return true;
}

/* Sizes are checked at once, which reads nothing of the shards. They may be on S3 where the manifest is not. */
static ckpt_status open_and_check(sexp_file *file, const tool_files *files, const char *path, ckpt_error *error) {
  ckpt_read_options options;
  ckpt_status status = read_options(&options, files, path, error);
  if (status == CKPT_OK) status = ckpt_manifest_open(&file->manifest, path, &options, error);
  size_t n = status == CKPT_OK ? file->manifest->n_shards * file->manifest->n_shard_files : 0;
  for (size_t i = 0; status == CKPT_OK && !options.s3 && i < n; i++)
    status = read_options(&options, files, file->manifest->files[i].path, error);
  if (status == CKPT_OK) status = ckpt_manifest_check(file->manifest, false, &options, error);
  if (status == CKPT_OK) status = ckpt_file_open(&file->file, path, &options, error);
  return status;
}

static int host_open_manifest(void *context, const char *path, sexp_file **out, const sexp_manifest **manifest,
                              sexp_failure *why) {
  ckpt_error error;
  sexp_file *file = calloc(1, sizeof *file);
  if (!file) return fail_memory(why);
  if (open_and_check(file, context, path, &error) != CKPT_OK) {
    host_close(context, file);
    return fail(why, &error);
  }
  const ckpt_manifest *from = file->manifest;
  size_t n = from->n_shards * from->n_shard_files;
  bool good = (file->paths = calloc(n + 1, sizeof *file->paths)) != NULL;
  for (size_t i = 0; good && i < n; i++) {
    file->paths[i] = from->files[i].path;
    good = add_shard(context, &from->files[i]);
  }
  if (!good) {
    host_close(context, file);
    return fail_memory(why);
  }
  file->shards = (sexp_manifest){from->kind,     from->dtype,  from->field,    from->length,        from->stride,
                                 from->n_fields, from->fields, from->n_shards, from->n_shard_files, file->paths};
  *manifest = &file->shards;
  *out = file;
  return 0;
}

void tool_files_free(tool_files *files) {
  for (size_t i = 0; i < files->n_shards; i++) free((void *)(uintptr_t)files->shards[i].path);
  free(files->shards);
  *files = (tool_files){0};
}

static int host_check(void *context, sexp_file *file, sexp_failure *why) {
  (void)context;
  ckpt_error error;
  if (file->file && ckpt_file_check(file->file, &error) != CKPT_OK) return fail(why, &error);
  for (size_t i = 0; file->tensors && i < ckpt_tensors_n_files(file->tensors); i++)
    if (ckpt_file_check(ckpt_tensors_file(file->tensors, i), &error) != CKPT_OK) return fail(why, &error);
  return 0;
}

static int host_version(void *context, sexp_file *file, char version[80], uint64_t *n_bytes, sexp_failure *why) {
  (void)context;
  ckpt_error error;
  char text[CKPT_SHA256_TEXT];
  const ckpt_file *of = file->file ? file->file : ckpt_tensors_file(file->tensors, 0);
  if (ckpt_file_version(text, of, &error) != CKPT_OK) return fail(why, &error);
  snprintf(version, 80, "%s", text);
  *n_bytes = ckpt_file_identity(of).n_bytes;
  return 0;
}

static void host_print(void *context, const char *line) {
  (void)context;
  fprintf(stderr, "%s\n", line);
}

sexp_host tool_host(tool_files *files) {
  return (sexp_host){.context = files,
                     .open = host_open,
                     .open_tensors = host_open_tensors,
                     .open_manifest = host_open_manifest,
                     .check = host_check,
                     .version = host_version,
                     .close = host_close,
                     .print = host_print};
}
