#include "files.h"

#include <string.h>

void sx_files_init(sx_files *files, const sexp_host *host, sx_arena *arena) {
  *files = (sx_files){.host = host, .arena = arena};
}

void sx_files_close(sx_files *files) {
  for (sx_file *file = files->first; file; file = file->next)
    if (file->file) files->host->close(files->host->context, file->file);
  files->first = NULL;
}

void sx_report_failure(sx_diags *diags, sx_span span, const char *path, const sexp_failure *why) {
  const char *message = why->message[0] ? why->message : "the file cannot be read";
  sx_diag *diag = sx_error(diags, SX_E_DATA_HOST, span, "%.*s", (int)sizeof why->message - 1, message);
  if (why->code[0]) diag->host_code = sx_arena_copy_text(diags->arena, why->code, strnlen(why->code, sizeof why->code));
  diag->path = path;
  diag->storage = why->storage;
}

static sx_file *add(sx_files *files, const char *path) {
  sx_file *file = SX_NEW(files->arena, sx_file);
  *file = (sx_file){.path = sx_arena_copy_text(files->arena, path, strlen(path)), .next = files->first};
  files->first = file;
  return file;
}

static sx_file *opened(sx_file *file, int status, const sexp_failure *why, sx_span span, sx_diags *diags) {
  if (!status) return file;
  file->file = NULL;
  sx_report_failure(diags, span, file->path, why);
  return NULL;
}

sx_file *sx_files_open(sx_files *files, const char *path, sexp_file_info *info, sx_span span, sx_diags *diags) {
  sexp_failure why = {0};
  sx_file *file = add(files, path);
  int status = files->host->open(files->host->context, path, &file->file, info, &why);
  return opened(file, status, &why, span, diags);
}

sx_file *sx_files_open_tensors(sx_files *files, const char *path, const sexp_file_tensor **tensors, size_t *n_tensors,
                               sx_span span, sx_diags *diags) {
  sexp_failure why = {0};
  sx_file *file = add(files, path);
  int status = files->host->open_tensors(files->host->context, path, &file->file, tensors, n_tensors, &why);
  return opened(file, status, &why, span, diags);
}

sx_file *sx_files_open_manifest(sx_files *files, const char *path, const sexp_manifest **manifest, sx_span span,
                                sx_diags *diags) {
  sexp_failure why = {0};
  sx_file *file = add(files, path);
  int status = files->host->open_manifest(files->host->context, path, &file->file, manifest, &why);
  return opened(file, status, &why, span, diags);
}

bool sx_files_version(const sx_files *files, const sx_file *file, char version[80], uint64_t *n_bytes, sx_span span,
                      sx_diags *diags) {
  sexp_failure why = {0};
  if (!files->host->version(files->host->context, file->file, version, n_bytes, &why)) return true;
  sx_report_failure(diags, span, file->path, &why);
  return false;
}
