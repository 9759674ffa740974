/* Files that the host opened for one call or run, closed together. A place in the list is taken before a
 * file is opened, so that a failed allocation leaves none behind. */
#ifndef SX_RUN_FILES_H
#define SX_RUN_FILES_H

#include "../base/diag.h"
#include "../sexp.h"

typedef struct sx_file {
  sexp_file *file;
  const char *path;
  struct sx_file *next;
} sx_file;

typedef struct sx_files {
  const sexp_host *host;
  sx_arena *arena;
  sx_file *first; /* the one opened last */
} sx_files;

void sx_files_init(sx_files *files, const sexp_host *host, sx_arena *arena);
void sx_files_close(sx_files *files);

/* As the host's functions of these names; NULL: the failure is in diags. */
sx_file *sx_files_open(sx_files *files, const char *path, sexp_file_info *info, sx_span span, sx_diags *diags);
sx_file *sx_files_open_tensors(sx_files *files, const char *path, const sexp_file_tensor **tensors, size_t *n_tensors,
                               sx_span span, sx_diags *diags);
sx_file *sx_files_open_manifest(sx_files *files, const char *path, const sexp_manifest **manifest, sx_span span,
                                sx_diags *diags);

/* Size and version of an opened file; false: the failure is in diags. */
bool sx_files_version(const sx_files *files, const sx_file *file, char version[80], uint64_t *n_bytes, sx_span span,
                      sx_diags *diags);

/* A failure of the host as an error, under the host's own code. */
void sx_report_failure(sx_diags *diags, sx_span span, const char *path, const sexp_failure *why);

#endif
