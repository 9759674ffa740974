/* The files of a checkpoint in a local directory, and what all kinds of places have in common. */
#include "folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "s3.h"
#include "tensors.h"

static void close_directory(ck_folder *folder) {
  free(folder->path);
  free(folder);
}

static ckpt_status open_in_directory(ckpt_file **out, const ck_folder *folder, const char *name, ckpt_error *error) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  options.stored = true;
  *out = NULL;
  char *path = ck_join(folder->path, name);
  ckpt_status status = path ? ckpt_file_open(out, path, &options, error) : ck_no_memory(error, 0);
  free(path);
  return status;
}

static const ck_folder_ops directory_ops = {close_directory, open_in_directory};

static ckpt_status check_directory(const char *path, ckpt_error *error) {
  struct stat status;
  if (stat(path, &status) != 0) return ck_fail(error, CK_E_CHECKPOINT_OPEN, path, -1, errno, "expected a directory");
  if (S_ISDIR(status.st_mode)) return CKPT_OK;
  return ck_fail(error, CK_E_CHECKPOINT_OPEN, path, -1, ENOTDIR, "expected a directory");
}

static ckpt_status open_directory(ck_folder **out, const char *path, ckpt_error *error) {
  ckpt_status status = check_directory(path, error);
  if (status != CKPT_OK) return status;
  ck_folder *folder = ck_take(1, sizeof *folder);
  if (!folder) return ck_no_memory(error, sizeof *folder);
  *folder = (ck_folder){&directory_ops, ck_copy_text(path)};
  if (!folder->path) {
    close_directory(folder);
    return ck_no_memory(error, strlen(path));
  }
  *out = folder;
  return CKPT_OK;
}

ckpt_status ck_folder_open(ck_folder **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  *out = NULL;
  if (s3 && ck_s3_is_name(path)) return ck_s3_folder_open(out, path, s3, error);
  ckpt_status status = ck_refuse_s3(path, error);
  return status == CKPT_OK ? open_directory(out, path, error) : status;
}

void ck_folder_close(ck_folder *folder) {
  if (folder) folder->ops->close(folder);
}

/* ---- Files ---- */

static ckpt_status fail_listed(const ck_folder *folder, const ckpt_file_entry *entry, const ckpt_error *own,
                               ckpt_error *error) {
  char *path = ck_join(folder->path, entry->name);
  if (!path) return ck_no_memory(error, 0);
  ckpt_status status = own->errno_value
                           ? ck_fail(error, CK_E_FILE_SIZE, path, -1, own->errno_value, "opening it failed")
                           : ck_fail(error, CK_E_FILE_SIZE, path, -1, 0, "expected a regular file");
  free(path);
  return status;
}

ckpt_status ck_folder_open_listed(ckpt_file **out, const ck_folder *folder, const ckpt_file_entry *entry,
                                  ckpt_error *error) {
  ckpt_error own;
  if (folder->ops->open(out, folder, entry->name, &own) != CKPT_OK) return fail_listed(folder, entry, &own, error);
  if (ckpt_file_size(*out) == entry->size) return CKPT_OK;
  ckpt_status status = ck_fail(error, CK_E_FILE_SIZE, ckpt_file_path(*out), -1, 0, "expected %llu bytes, found %llu",
                               (unsigned long long)entry->size, (unsigned long long)ckpt_file_size(*out));
  ckpt_file_close(*out);
  *out = NULL;
  return status;
}

static ckpt_status open_named(ckpt_file **out, const void *context, const char *name, ckpt_error *error) {
  const ck_folder *folder = context;
  return folder->ops->open(out, folder, name, error);
}

ckpt_status ck_folder_open_tensors(ckpt_tensors **out, const ck_folder *folder, const char *name, ckpt_error *error) {
  const ckpt_read_options options = CKPT_READ_OPTIONS;
  const ck_opener opener = {open_named, folder};
  return ck_tensors_open(out, &opener, name, &options, error);
}
