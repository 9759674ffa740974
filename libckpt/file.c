/* Files open for reading. A plain file is mapped for those who want its bytes in place, but read through pread here,
 * since a mapping of a file that another program cuts off kills its reader. An object is fetched and then as a file; or
 * it is opened remote, which costs nothing, and is fetched when it is wanted whole. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "object.h"
#include "s3.h"
#include "sha256.h"

enum { REMOTE_PIECE_BYTES = 32 << 20 }; /* several parts, which are asked for in parallel */

struct ckpt_file {
  char *path;
  int fd;                      /* -1: content in memory, or an object's */
  ck_object *object;           /* NULL: no object */
  const unsigned char *stored; /* mapped or borrowed; NULL: a remote object */
  size_t n_stored;
  unsigned char *inflated;    /* owned; NULL: the content is what is stored */
  const unsigned char *bytes; /* the content */
  size_t n_bytes;
  ckpt_identity identity;
};

bool ck_ends_with(const char *text, const char *end) {
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + (n - n_end), end) == 0;
}

ckpt_status ck_refuse_s3(const char *name, ckpt_error *error) {
  if (strncmp(name, "s3://", 5) != 0) return CKPT_OK;
  return ck_fail(error, CK_E_S3_LOCAL, name, -1, 0, "expected the path of a local file or directory");
}

static ckpt_identity identity_of(const struct stat *status) {
  return (ckpt_identity){.device = (uint64_t)status->st_dev,
                         .inode = (uint64_t)status->st_ino,
                         .n_bytes = (uint64_t)status->st_size,
                         .mtime_s = (int64_t)status->st_mtim.tv_sec,
                         .mtime_ns = (int64_t)status->st_mtim.tv_nsec};
}

static ckpt_status open_stored(ckpt_file *file, ckpt_error *error) {
  file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd < 0) return ck_fail(error, CK_E_DATA_OPEN, file->path, -1, errno, "open failed");
  struct stat status;
  if (fstat(file->fd, &status) != 0) return ck_fail(error, CK_E_DATA_OPEN, file->path, -1, errno, "fstat failed");
  if (!S_ISREG(status.st_mode))
    return ck_fail(error, CK_E_DATA_OPEN, file->path, -1, 0, "expected a regular file, found %s",
                   S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  if ((uint64_t)status.st_size > SIZE_MAX / 2) return ck_no_memory(error, 0);
  file->identity = identity_of(&status);
  file->n_stored = (size_t)status.st_size;
  return CKPT_OK;
}

/* Content that is borrowed is there already. */
static ckpt_status map_stored(ckpt_file *file, ckpt_error *error) {
  int fd = file->fd;
  if (file->n_stored == 0 || file->stored) return CKPT_OK;
  ckpt_status status = file->object ? ck_object_fetch(&fd, file->object, error) : CKPT_OK;
  if (status != CKPT_OK) return status;
  void *mapping = mmap(NULL, file->n_stored, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapping == MAP_FAILED) return ck_fail(error, CK_E_DATA_READ, file->path, -1, errno, "mmap failed");
  file->stored = mapping;
  return CKPT_OK;
}

/* Makes the content out of what is stored. */
static ckpt_status set_content(ckpt_file *file, const ckpt_read_options *options, ckpt_error *error) {
  const ckpt_read_options defaults = CKPT_READ_OPTIONS;
  if (!options) options = &defaults;
  ckpt_status status = CKPT_OK;
  int fd;
  if (ck_ends_with(file->path, ".gz") && !options->stored) {
    if (file->object) status = ck_object_fetch(&fd, file->object, error);
    if (status == CKPT_OK)
      status = ck_gzip_inflate(&file->inflated, &file->n_bytes, file, options->inflate_limit_n_bytes, error);
    file->bytes = file->inflated;
    return status;
  }
  status = map_stored(file, error);
  file->bytes = file->stored;
  file->n_bytes = file->n_stored;
  return status;
}

static ckpt_status new_file(ckpt_file **out, const char *path, ckpt_error *error) {
  ckpt_file *file = ck_take(1, sizeof *file);
  if (!file) return ck_no_memory(error, sizeof *file);
  file->fd = -1;
  file->path = ck_copy_text(path);
  *out = file;
  return file->path ? CKPT_OK : ck_no_memory(error, strlen(path));
}

/* ---- Objects ---- */

static ckpt_status take_object(ckpt_file *file, ck_object *object, ckpt_error *error) {
  file->object = object;
  if (ck_object_size(object) > SIZE_MAX / 2) return ck_no_memory(error, 0);
  file->n_stored = (size_t)ck_object_size(object);
  file->identity = (ckpt_identity){.n_bytes = file->n_stored};
  return CKPT_OK;
}

static ckpt_status find_object(ck_object **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  ck_s3_name name = {0};
  ck_s3_object facts;
  ckpt_status status = ck_s3_name_parse(&name, path, error);
  if (status == CKPT_OK && !*name.key)
    status = ck_fail(error, CK_E_DATA_OPEN, path, -1, 0, "expected s3://bucket/key, found no key");
  if (status == CKPT_OK) status = ck_s3_head(&facts, s3, name.bucket, name.key, error);
  if (status == CKPT_OK && !facts.exists)
    status = ck_fail(error, CK_E_DATA_OPEN, path, -1, ENOENT, "there is no such object");
  if (status == CKPT_OK) status = ck_object_new(out, s3, name.bucket, name.key, facts.etag, facts.size, error);
  ck_s3_name_clear(&name);
  return status;
}

static ckpt_status open_object(ckpt_file *file, ckpt_s3 *s3, ckpt_error *error) {
  ck_object *object = NULL;
  ckpt_status status = find_object(&object, file->path, s3, error);
  return status == CKPT_OK ? take_object(file, object, error) : status;
}

ckpt_status ck_file_open_remote(ckpt_file **out, const char *path, ck_object *object, ckpt_error *error) {
  *out = NULL;
  ckpt_file *file = NULL;
  ckpt_status status = new_file(&file, path, error);
  if (status == CKPT_OK) status = take_object(file, ck_object_hold(object), error);
  if (status == CKPT_OK) {
    file->n_bytes = file->n_stored;
    *out = file;
  } else {
    ckpt_file_close(file);
  }
  return status;
}

size_t ck_file_piece(const ckpt_file *file) {
  bool remote = file->object && !ck_object_is_fetched(file->object);
  return remote ? REMOTE_PIECE_BYTES : CK_PIECE_BYTES;
}

ckpt_status ck_file_bring(const ckpt_file *file, ckpt_error *error) {
  int fd;
  return file->object && file->n_stored ? ck_object_fetch(&fd, file->object, error) : CKPT_OK;
}

ckpt_status ck_file_fetch(ckpt_file *file, ckpt_error *error) {
  ckpt_status status = map_stored(file, error);
  if (!file->inflated) file->bytes = file->stored;
  return status;
}

/* ---- Opening and closing ---- */

ckpt_status ckpt_file_open(ckpt_file **out, const char *path, const ckpt_read_options *options, ckpt_error *error) {
  *out = NULL;
  ckpt_file *file = NULL;
  bool object = options && options->s3 && ck_s3_is_name(path);
  ckpt_status status = object ? CKPT_OK : ck_refuse_s3(path, error);
  if (status == CKPT_OK) status = new_file(&file, path, error);
  if (status == CKPT_OK) status = object ? open_object(file, options->s3, error) : open_stored(file, error);
  if (status == CKPT_OK) status = set_content(file, options, error);
  if (status == CKPT_OK)
    *out = file;
  else
    ckpt_file_close(file);
  return status;
}

ckpt_status ckpt_file_again(ckpt_file **out, const ckpt_file *open, const ckpt_read_options *options,
                            ckpt_error *error) {
  *out = NULL;
  if (!open->object) return ckpt_file_open(out, open->path, options, error);
  ckpt_status status = ck_file_open_remote(out, open->path, open->object, error);
  if (status == CKPT_OK) status = set_content(*out, options, error);
  if (status != CKPT_OK) {
    ckpt_file_close(*out);
    *out = NULL;
  }
  return status;
}

ckpt_status ck_file_open_stored(ckpt_file **out, const char *path, ckpt_s3 *s3, ckpt_error *error) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  ck_object *object = NULL;
  *out = NULL;
  options.stored = true;
  if (!s3 || !ck_s3_is_name(path)) return ckpt_file_open(out, path, &options, error);
  ckpt_status status = find_object(&object, path, s3, error);
  if (status == CKPT_OK) status = ck_file_open_remote(out, path, object, error);
  ck_object_release(object);
  return status;
}

ckpt_status ckpt_file_from_bytes(ckpt_file **out, const char *name, const void *bytes, size_t n_bytes,
                                 const ckpt_read_options *options, ckpt_error *error) {
  *out = NULL;
  ckpt_file *file = NULL;
  ckpt_status status = new_file(&file, name, error);
  if (status == CKPT_OK) {
    file->stored = bytes;
    file->n_stored = n_bytes;
    status = set_content(file, options, error);
  }
  if (status == CKPT_OK)
    *out = file;
  else
    ckpt_file_close(file);
  return status;
}

void ckpt_file_close(ckpt_file *file) {
  if (!file) return;
  bool mapped = (file->fd >= 0 || file->object) && file->stored;
  if (mapped) munmap((void *)(uintptr_t)file->stored, file->n_stored);
  if (file->fd >= 0) close(file->fd);
  ck_object_release(file->object);
  free(file->inflated);
  free(file->path);
  free(file);
}

const char *ckpt_file_path(const ckpt_file *file) { return file->path; }
uint64_t ckpt_file_size(const ckpt_file *file) { return file->n_bytes; }
const void *ckpt_file_bytes(const ckpt_file *file) { return file->bytes; }
ckpt_identity ckpt_file_identity(const ckpt_file *file) { return file->identity; }
uint64_t ck_file_stored_size(const ckpt_file *file) { return file->n_stored; }

static ckpt_status ends_early(const ckpt_file *file, uint64_t size, uint64_t offset, size_t n_bytes,
                              ckpt_error *error) {
  return ck_fail(error, CK_E_DATA_TRUNCATED, file->path, (int64_t)size, 0,
                 "expected %zu bytes from byte %llu on, found the end of the file", n_bytes,
                 (unsigned long long)offset);
}

static ckpt_status read_whole(unsigned char *out, const ckpt_file *file, uint64_t offset, size_t n_bytes,
                              ckpt_error *error) {
  size_t done = 0;
  while (done < n_bytes) {
    size_t piece = n_bytes - done < (size_t)1 << 30 ? n_bytes - done : (size_t)1 << 30;
    ssize_t n = pread(file->fd, out + done, piece, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ck_fail(error, CK_E_DATA_READ, file->path, (int64_t)(offset + done), errno, "read failed");
    if (n == 0) return ends_early(file, offset + done, offset, n_bytes, error);
    done += (size_t)n;
  }
  return CKPT_OK;
}

ckpt_status ck_file_read_stored(void *out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  if (offset > file->n_stored || n_bytes > file->n_stored - offset)
    return ends_early(file, file->n_stored, offset, n_bytes, error);
  if (file->fd >= 0) return read_whole(out, file, offset, n_bytes, error);
  if (file->object) return ck_object_read(out, file->object, offset, n_bytes, error);
  if (n_bytes) memcpy(out, file->stored + offset, n_bytes);
  return CKPT_OK;
}

ckpt_status ckpt_file_read(void *out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  if (!file->inflated) return ck_file_read_stored(out, file, offset, n_bytes, error);
  if (offset > file->n_bytes || n_bytes > file->n_bytes - offset)
    return ends_early(file, file->n_bytes, offset, n_bytes, error);
  if (n_bytes) memcpy(out, file->inflated + offset, n_bytes);
  return CKPT_OK;
}

ckpt_status ckpt_file_check(const ckpt_file *file, ckpt_error *error) {
  if (file->fd < 0) return CKPT_OK;
  struct stat status;
  if (fstat(file->fd, &status) != 0) return ck_fail(error, CK_E_DATA_READ, file->path, -1, errno, "fstat failed");
  ckpt_identity now = identity_of(&status), then = file->identity;
  if (now.n_bytes != then.n_bytes)
    return ck_fail(error, CK_E_DATA_CHANGED, file->path, -1, 0, "it had %llu bytes, and has %llu",
                   (unsigned long long)then.n_bytes, (unsigned long long)now.n_bytes);
  if (now.mtime_s != then.mtime_s || now.mtime_ns != then.mtime_ns)
    return ck_fail(error, CK_E_DATA_CHANGED, file->path, -1, 0,
                   "it was modified at %lld.%09lld, and again at %lld.%09lld (seconds since 1970)",
                   (long long)then.mtime_s, (long long)then.mtime_ns, (long long)now.mtime_s, (long long)now.mtime_ns);
  return CKPT_OK;
}

ckpt_status ckpt_file_sha256(char out[CKPT_SHA256_TEXT], const ckpt_file *file, ckpt_error *error) {
  ck_sha256 *hash = NULL;
  size_t most = ck_file_piece(file);
  unsigned char *piece = ck_take(most, 1);
  ckpt_status status = piece ? ck_sha256_new(&hash, error) : ck_no_memory(error, most);
  for (uint64_t offset = 0; status == CKPT_OK && offset < file->n_stored;) {
    size_t n = file->n_stored - offset < most ? (size_t)(file->n_stored - offset) : most;
    status = ck_file_read_stored(piece, file, offset, n, error);
    if (status == CKPT_OK) status = ck_sha256_add(hash, piece, n, error);
    offset += n;
  }
  if (status == CKPT_OK) status = ckpt_file_check(file, error);
  if (status == CKPT_OK) status = ck_sha256_finish(out, hash, error);
  ck_sha256_free(hash);
  free(piece);
  return status;
}

/* An ETag that has no room in records is told by its hash. */
ckpt_status ckpt_file_version(char out[CKPT_SHA256_TEXT], const ckpt_file *file, ckpt_error *error) {
  const char *etag = file->object ? ck_object_etag(file->object) : NULL;
  if (!etag) return ckpt_file_sha256(out, file, error);
  if (strlen(etag) >= CKPT_SHA256_TEXT) return ckpt_sha256_bytes(out, etag, strlen(etag), error);
  memcpy(out, etag, strlen(etag) + 1);
  return CKPT_OK;
}

ckpt_status ck_file_text(char **out, const ckpt_file *file, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  *out = NULL;
  char *text = n_bytes < SIZE_MAX ? malloc(n_bytes + 1) : NULL;
  if (!text) return ck_no_memory(error, n_bytes);
  ckpt_status status = ckpt_file_read(text, file, offset, n_bytes, error);
  if (status != CKPT_OK) {
    free(text);
    return status;
  }
  text[n_bytes] = 0;
  *out = text;
  return CKPT_OK;
}
