#include "object.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "s3.h"

struct ck_object {
  ckpt_s3 *s3;
  char *bucket, *key, *etag;
  uint64_t size;
  pthread_mutex_t lock; /* of what follows */
  int n_holders, fd;    /* -1: not fetched */
};

static void destroy(ck_object *object) {
  if (object->fd >= 0) close(object->fd);
  pthread_mutex_destroy(&object->lock);
  free(object->bucket);
  free(object->key);
  free(object->etag);
  free(object);
}

ckpt_status ck_object_new(ck_object **out, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag,
                          uint64_t size, ckpt_error *error) {
  *out = NULL;
  ck_object *object = ck_take(1, sizeof *object);
  if (!object) return ck_no_memory(error, sizeof *object);
  *object = (ck_object){.s3 = s3,
                        .bucket = ck_copy_text(bucket),
                        .key = ck_copy_text(key),
                        .etag = ck_copy_text(etag),
                        .size = size,
                        .n_holders = 1,
                        .fd = -1};
  pthread_mutex_init(&object->lock, NULL); /* of the default kind: always succeeds */
  if (object->bucket && object->key && object->etag) {
    *out = object;
    return CKPT_OK;
  }
  destroy(object);
  return ck_no_memory(error, 0);
}

ck_object *ck_object_hold(ck_object *object) {
  pthread_mutex_lock(&object->lock);
  object->n_holders++;
  pthread_mutex_unlock(&object->lock);
  return object;
}

void ck_object_release(ck_object *object) {
  if (!object) return;
  pthread_mutex_lock(&object->lock);
  bool last = --object->n_holders == 0;
  pthread_mutex_unlock(&object->lock);
  if (last) destroy(object);
}

uint64_t ck_object_size(const ck_object *object) { return object->size; }
const char *ck_object_etag(const ck_object *object) { return object->etag; }

/* ---- Fetching ---- */

static const char *scratch_of(const ck_object *object) {
  const char *scratch = ck_s3_scratch(object->s3);
  return scratch ? scratch : "/tmp";
}

static ckpt_status fail_scratch(const ck_object *object, int cause, ckpt_error *error) {
  return ck_fail(error, CK_E_S3_SCRATCH, scratch_of(object), -1, cause,
                 "s3://%s/%s of %llu bytes is fetched into this directory; TMPDIR names another one", object->bucket,
                 object->key, (unsigned long long)object->size);
}

/* An empty file that has no name; -1 and errno. */
static int make_scratch(const ck_object *object) {
  char *path = ck_print("%s/sexpgpu-XXXXXX", scratch_of(object));
  int fd = path ? mkstemp(path) : -1, cause = path ? errno : ENOMEM;
  if (fd >= 0) {
    unlink(path);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  free(path);
  errno = cause;
  return fd;
}

/* What does not fit is told before a byte is asked for. */
static bool fits(const ck_object *object, int fd) {
  struct statvfs space;
  if (fstatvfs(fd, &space) != 0 || space.f_frsize == 0) return true;
  return space.f_bavail >= object->size / space.f_frsize;
}

static ckpt_status fetch(ck_object *object, ckpt_error *error) {
  ckpt_error own;
  int fd = make_scratch(object);
  if (fd < 0) return fail_scratch(object, errno, error);
  ckpt_status status;
  if (!fits(object, fd))
    status = fail_scratch(object, ENOSPC, error);
  else if ((status = ck_s3_fetch(fd, object->s3, object->bucket, object->key, object->etag, object->size, &own)) !=
           CKPT_OK) {
    bool full = own.errno_value == ENOSPC || own.errno_value == EDQUOT || own.errno_value == EFBIG;
    if (full)
      status = fail_scratch(object, own.errno_value, error);
    else if (error)
      *error = own;
  }
  if (status == CKPT_OK)
    object->fd = fd;
  else
    close(fd);
  return status;
}

ckpt_status ck_object_fetch(int *fd, ck_object *object, ckpt_error *error) {
  pthread_mutex_lock(&object->lock);
  ckpt_status status = object->fd >= 0 ? CKPT_OK : fetch(object, error);
  *fd = object->fd;
  pthread_mutex_unlock(&object->lock);
  return status;
}

static int fetched(ck_object *object) {
  pthread_mutex_lock(&object->lock);
  int fd = object->fd;
  pthread_mutex_unlock(&object->lock);
  return fd;
}

bool ck_object_is_fetched(ck_object *object) { return fetched(object) >= 0; }

/* ---- Reading ---- */

static ckpt_status read_fetched(void *out, const ck_object *object, int fd, uint64_t offset, size_t n_bytes,
                                ckpt_error *error) {
  for (size_t done = 0; done < n_bytes;) {
    size_t piece = n_bytes - done < (size_t)1 << 30 ? n_bytes - done : (size_t)1 << 30;
    ssize_t n = pread(fd, (unsigned char *)out + done, piece, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return ck_fail(error, CK_E_DATA_READ, object->key, (int64_t)(offset + done), n < 0 ? errno : EIO,
                     "reading the fetched object failed");
    done += (size_t)n;
  }
  return CKPT_OK;
}

ckpt_status ck_object_read(void *out, ck_object *object, uint64_t offset, size_t n_bytes, ckpt_error *error) {
  int fd = fetched(object);
  if (n_bytes == 0) return CKPT_OK;
  if (fd >= 0) return read_fetched(out, object, fd, offset, n_bytes, error);
  return ck_s3_read(out, object->s3, object->bucket, object->key, object->etag, offset, n_bytes, error);
}
