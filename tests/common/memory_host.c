#include "memory_host.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sexp_file {
  const char *path;
  unsigned char *copy;
  sexp_file_tensor tensors[MEMORY_HOST_TENSORS];
  size_t n_tensors, n_bytes;
};

static size_t size_of(sexp_dtype dtype) {
  static const size_t sizes[] = {
      [SEXP_F32] = 4, [SEXP_BF16] = 2, [SEXP_F16] = 2, [SEXP_I32] = 4, [SEXP_U8] = 1,  [SEXP_BOOL] = 1, [SEXP_F64] = 8,
      [SEXP_I64] = 8, [SEXP_U64] = 8,  [SEXP_U32] = 4, [SEXP_U16] = 2, [SEXP_I16] = 2, [SEXP_I8] = 1};
  return sizes[dtype];
}

void memory_host_add(memory_host *host, const char *path, const void *bytes, size_t n_bytes) {
  assert(host->n_files < MEMORY_HOST_FILES);
  host->files[host->n_files++] = (memory_file){path, bytes, n_bytes, NULL};
}

void memory_host_add_text(memory_host *host, const char *path, const char *text) {
  memory_host_add(host, path, text, strlen(text));
}

void memory_host_add_manifest(memory_host *host, const char *path, const sexp_manifest *manifest) {
  memory_host_add(host, path, "", 0);
  host->files[host->n_files - 1].manifest = manifest;
}

void memory_host_add_tensor(memory_host *host, const char *path, const char *name, sexp_dtype dtype, int rank,
                            const int64_t *dims, const void *bytes) {
  assert(host->n_tensors < MEMORY_HOST_TENSORS);
  sexp_file_tensor *tensor = &host->tensors[host->n_tensors++];
  *tensor = (sexp_file_tensor){.name = name, .path = path, .dtype = dtype, .rank = rank, .bytes = bytes};
  tensor->n_bytes = size_of(dtype);
  for (int i = 0; i < rank; i++) tensor->n_bytes *= (uint64_t)(tensor->dims[i] = dims[i]);
}

static const memory_file *find(const memory_host *host, const char *path) {
  for (size_t i = 0; i < host->n_files; i++)
    if (!strcmp(host->files[i].path, path)) return &host->files[i];
  return NULL;
}

static int missing(const memory_host *host, const char *path, sexp_failure *why) {
  if (host->says_nothing) return 1;
  snprintf(why->code, sizeof why->code, "E-DATA-101");
  snprintf(why->message, sizeof why->message, "%s: no such file", path);
  why->storage = true;
  return 1;
}

static sexp_file *opened(memory_host *host, const char *path) {
  sexp_file *file = calloc(1, sizeof *file);
  assert(file);
  file->path = path;
  host->n_open++;
  return file;
}

static unsigned char *copy_of(const void *bytes, size_t n) {
  unsigned char *copy = malloc(n ? n : 1);
  assert(copy);
  if (n) memcpy(copy, bytes, n);
  return copy;
}

static int open_file(void *context, const char *path, sexp_file **out, sexp_file_info *info, sexp_failure *why) {
  memory_host *host = context;
  const memory_file *from = find(host, path);
  if (!from) return missing(host, path, why);
  sexp_file *file = opened(host, from->path);
  file->copy = copy_of(from->bytes, from->n_bytes);
  file->n_bytes = from->n_bytes;
  *info = (sexp_file_info){file->copy, from->n_bytes};
  *out = file;
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const sexp_file_tensor *)a)->name, ((const sexp_file_tensor *)b)->name);
}

static int open_tensors(void *context, const char *path, sexp_file **out, const sexp_file_tensor **tensors,
                        size_t *n_tensors, sexp_failure *why) {
  memory_host *host = context;
  sexp_file *file = opened(host, path);
  for (size_t i = 0; i < host->n_tensors; i++) {
    if (strcmp(host->tensors[i].path, path)) continue;
    sexp_file_tensor *tensor = &file->tensors[file->n_tensors++];
    *tensor = host->tensors[i];
    tensor->bytes = copy_of(tensor->bytes, (size_t)tensor->n_bytes);
    file->path = tensor->path;
    file->n_bytes += (size_t)tensor->n_bytes;
  }
  if (!file->n_tensors) {
    host->n_open--;
    free(file);
    return missing(host, path, why);
  }
  qsort(file->tensors, file->n_tensors, sizeof *file->tensors, by_name);
  *tensors = file->tensors;
  *n_tensors = file->n_tensors;
  *out = file;
  return 0;
}

static int open_manifest(void *context, const char *path, sexp_file **out, const sexp_manifest **manifest,
                         sexp_failure *why) {
  memory_host *host = context;
  const memory_file *from = find(host, path);
  if (!from || !from->manifest) return missing(host, path, why);
  *out = opened(host, from->path);
  *manifest = from->manifest;
  return 0;
}

static int check(void *context, sexp_file *file, sexp_failure *why) {
  memory_host *host = context;
  if (!host->changed || strcmp(host->changed, file->path) || host->n_checks++ < host->changed_from) return 0;
  snprintf(why->code, sizeof why->code, "E-DATA-103");
  snprintf(why->message, sizeof why->message, "%s: it changed at byte 7", file->path);
  why->storage = true;
  return 1;
}

static int version(void *context, sexp_file *file, char text[80], uint64_t *n_bytes, sexp_failure *why) {
  (void)context;
  (void)why;
  snprintf(text, 80, "sha256:of %s", file->path);
  *n_bytes = file->n_bytes;
  return 0;
}

static void close_file(void *context, sexp_file *file) {
  memory_host *host = context;
  host->n_open--;
  free(file->copy);
  for (size_t i = 0; i < file->n_tensors; i++) free((void *)file->tensors[i].bytes);
  free(file);
}

static void print(void *context, const char *line) {
  memory_host *host = context;
  snprintf(host->printed, sizeof host->printed, "%s", line);
}

sexp_host memory_host_callbacks(memory_host *host) {
  return (sexp_host){.context = host,
                     .open = open_file,
                     .open_tensors = open_tensors,
                     .open_manifest = open_manifest,
                     .check = check,
                     .version = version,
                     .close = close_file,
                     .print = print};
}
