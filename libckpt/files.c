#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sync_file_range */
#endif
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arrays.h"
#include "error.h"
#include "file.h"
#include "tensors.h"

enum { MOST_TRIES = 100, FLUSH_BYTES = 8 << 20 };

ckpt_status ck_fail_write(ckpt_error *error, const char *directory, const char *name, const char *what) {
  int cause = errno;
  char *path = name ? ck_join(directory, name) : NULL;
  ckpt_status status = ck_fail(error, cause == ENOENT ? CK_E_LOCATION_GONE : CK_E_WRITE, path ? path : directory, -1,
                               cause, "%s failed", what);
  free(path);
  return status;
}

int ck_sync_directory(int directory) { return fsync(directory) == 0 || errno == EINVAL ? 0 : -1; }

static ckpt_status create_file(ck_output *output, const char *name, ckpt_error *error) {
  ck_files *files = (ck_files *)(void *)output;
  for (int i = 0; i < MOST_TRIES; i++) {
    char *written = files->atomic ? ck_print(".tmp-%s-%ld-%d", name, (long)getpid(), i) : ck_copy_text(name);
    if (!written) return ck_no_memory(error, 0);
    files->fd = openat(files->directory, written, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (files->fd >= 0) {
      files->written = written;
      files->n_written = files->n_started = 0;
      return CKPT_OK;
    }
    free(written);
    if (errno != EEXIST || !files->atomic) break;
  }
  return ck_fail_write(error, files->path, name, "creating it");
}

/* The disk begins with what is written, so that the fsync at the end finds most of it done. */
static void start_flush(ck_files *files) {
  if (files->n_written - files->n_started < FLUSH_BYTES) return;
#ifdef SYNC_FILE_RANGE_WRITE
  sync_file_range(files->fd, (off_t)files->n_started, (off_t)(files->n_written - files->n_started),
                  SYNC_FILE_RANGE_WRITE);
#endif
  files->n_started = files->n_written;
}

static ckpt_status write_file(ck_output *output, const void *bytes, size_t n_bytes, ckpt_error *error) {
  ck_files *files = (ck_files *)(void *)output;
  for (size_t done = 0; done < n_bytes;) {
    size_t piece = n_bytes - done < CK_PIECE_BYTES ? n_bytes - done : CK_PIECE_BYTES;
    ssize_t n = write(files->fd, (const char *)bytes + done, piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return ck_fail_write(error, files->path, output->name, "writing it");
    done += (size_t)n;
  }
  files->n_written += n_bytes;
  start_flush(files);
  return CKPT_OK;
}

static ckpt_status finish_file(ck_output *output, const char *name, ckpt_error *error) {
  ck_files *files = (ck_files *)(void *)output;
  if (fsync(files->fd) != 0) return ck_fail_write(error, files->path, name, "fsync");
  int closed = close(files->fd);
  files->fd = -1;
  if (closed != 0) return ck_fail_write(error, files->path, name, "closing it");
  if (files->atomic && renameat(files->directory, files->written, files->directory, name) != 0)
    return ck_fail_write(error, files->path, name, "renaming it");
  free(files->written);
  files->written = NULL;
  return CKPT_OK;
}

static void abandon_file(ck_output *output) {
  ck_files *files = (ck_files *)(void *)output;
  if (files->fd >= 0) close(files->fd);
  if (files->written) unlinkat(files->directory, files->written, 0);
  free(files->written);
  files->fd = -1;
  files->written = NULL;
}

static const ck_output_ops file_ops = {create_file, write_file, finish_file, abandon_file};

ckpt_status ck_files_init(ck_files *files, int directory, const char *path, bool atomic, ckpt_error *error) {
  memset(files, 0, sizeof *files);
  files->directory = directory;
  files->path = path;
  files->atomic = atomic;
  files->fd = -1;
  return ck_output_init(&files->output, &file_ops, error);
}

void ck_files_clear(ck_files *files) { ck_output_clear(&files->output); }

/* ---- Directories ---- */

int ck_open_directory(int parent, const char *name) {
  return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

void ck_free_names(char **names, size_t n) {
  for (size_t i = 0; names && i < n; i++) free(names[i]);
  free(names);
}

static bool add_name(char ***names, size_t *n, size_t *room, const char *name) {
  char **grown = ck_grow(*names, *n, room, sizeof *grown);
  if (grown) *names = grown;
  char *copy = grown ? ck_copy_text(name) : NULL;
  if (copy) grown[(*n)++] = copy;
  if (!copy) errno = ENOMEM;
  return copy != NULL;
}

char **ck_list_names(size_t *n_out, int directory) {
  int fd = ck_open_directory(directory, ".");
  DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
  size_t n = 0, room = 0;
  char **names = ck_take(1, sizeof *names);
  bool good = stream && names;
  if (fd >= 0 && !stream) close(fd);
  while (good) {
    errno = 0;
    const struct dirent *entry = readdir(stream);
    if (!entry) {
      good = errno == 0;
      break;
    }
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      good = add_name(&names, &n, &room, entry->d_name);
  }
  int cause = errno;
  if (stream) closedir(stream);
  if (good) {
    *n_out = n;
    return names;
  }
  ck_free_names(names, n);
  errno = cause ? cause : ENOMEM;
  return NULL;
}

int ck_remove_directory(int parent, const char *name) {
  int fd = ck_open_directory(parent, name), cause = 0;
  if (fd < 0) return errno == ENOENT ? 0 : -1;
  size_t n = 0;
  char **names = ck_list_names(&n, fd);
  if (!names) cause = errno;
  for (size_t i = 0; names && i < n; i++)
    if (unlinkat(fd, names[i], 0) != 0 && errno != ENOENT) cause = errno;
  ck_free_names(names, n);
  close(fd);
  if (!cause && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) cause = errno;
  errno = cause;
  return cause ? -1 : 0;
}

bool ck_is_checkpoint_file(const char *name) {
  bool tensors = ck_ends_with(name, ".safetensors") || ck_ends_with(name, ".safetensors.index.json");
  bool stem = strncmp(name, "parameters", 10) == 0 || strncmp(name, "states", 6) == 0;
  return strcmp(name, "experiment.json") == 0 || (tensors && stem);
}

/* A file that is gone by now, since another writer removes the directory, is no hindrance. */
static bool is_plain(int directory, const char *name, bool ours) {
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  return !S_ISDIR(status.st_mode) && (!ours || ck_is_checkpoint_file(name));
}

bool ck_is_flat(int directory, bool ours) {
  size_t n = 0;
  char **names = ck_list_names(&n, directory);
  if (!names) return errno == ENOENT;
  bool flat = true;
  for (size_t i = 0; flat && i < n; i++) flat = is_plain(directory, names[i], ours);
  ck_free_names(names, n);
  return flat;
}

/* ---- A single file ---- */

static ckpt_status write_into(int directory, const char *path, const char *stem, const ckpt_array *arrays,
                              size_t n_arrays, uint64_t shard_n_bytes, ckpt_error *error) {
  const ckpt_array **order = NULL;
  ck_files files;
  ckpt_status status = ck_files_init(&files, directory, path, true, error);
  if (status == CKPT_OK) status = ck_arrays_sort(&order, arrays, n_arrays, error);
  if (status == CKPT_OK) status = ck_safetensors_write(&files.output, stem, order, n_arrays, shard_n_bytes, error);
  if (status == CKPT_OK && ck_sync_directory(directory) != 0) status = ck_fail_write(error, path, NULL, "fsync");
  ck_files_clear(&files);
  free(order);
  return status;
}

ckpt_status ckpt_safetensors_write(const char *path, const ckpt_array *arrays, size_t n_arrays, uint64_t shard_n_bytes,
                                   ckpt_error *error) {
  static const char end[] = ".safetensors";
  ckpt_status status = ck_refuse_s3(path, error);
  if (status != CKPT_OK) return status;
  const char *base = ck_base_name(path);
  if (!ck_ends_with(base, end))
    return ck_fail(error, CK_E_ARGUMENT, path, -1, 0, "expected a name that ends in .safetensors");
  char *stem = ck_copy_text_n(base, strlen(base) - strlen(end));
  char *parent = base == path ? ck_copy_text(".") : ck_copy_text_n(path, (size_t)(base - path));
  if (!stem || !parent) {
    status = ck_no_memory(error, 0);
  } else {
    int directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    status = directory >= 0 ? write_into(directory, parent, stem, arrays, n_arrays, shard_n_bytes, error)
                            : ck_fail(error, CK_E_WRITE, parent, -1, errno, "opening the directory failed");
    if (directory >= 0) close(directory);
  }
  free(stem);
  free(parent);
  return status;
}
