/* A host of the library whose files are in memory. Each opening gives a copy of its own on the heap, so
 * that a read past its end is found. */
#ifndef TESTS_MEMORY_HOST_H
#define TESTS_MEMORY_HOST_H

#include "../../libsexp/sexp.h"

enum { MEMORY_HOST_FILES = 32, MEMORY_HOST_TENSORS = 64 };

typedef struct memory_file {
  const char *path;
  const void *bytes;
  size_t n_bytes;
  const sexp_manifest *manifest;
} memory_file;

typedef struct memory_host {
  memory_file files[MEMORY_HOST_FILES];
  size_t n_files;
  sexp_file_tensor tensors[MEMORY_HOST_TENSORS]; /* path: of the file they are in */
  size_t n_tensors;
  int n_open;          /* files open now */
  const char *changed; /* path that check complains of, from check number changed_from on */
  int changed_from, n_checks;
  char printed[256]; /* the last line */
  bool says_nothing; /* a failure to open has neither code nor message */
} memory_host;

/* Adds a file; nothing is copied. */
void memory_host_add(memory_host *host, const char *path, const void *bytes, size_t n_bytes);
void memory_host_add_text(memory_host *host, const char *path, const char *text);
void memory_host_add_manifest(memory_host *host, const char *path, const sexp_manifest *manifest);
/* Adds a tensor to the file `path`. Sizes of elements come from the dtype. */
void memory_host_add_tensor(memory_host *host, const char *path, const char *name, sexp_dtype dtype, int rank,
                            const int64_t *dims, const void *bytes);
sexp_host memory_host_callbacks(memory_host *host);

#endif
