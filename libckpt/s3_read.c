/* Objects into memory and into files, by ranges in parallel. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "s3_client.h"
#include "s3_digest.h"

enum { MAX_FETCHES = 3 }; /* of an object whose bytes are not those of its ETag */

typedef struct reader {
  ckpt_s3 *s3;
  const char *bucket, *key, *etag;
  uint64_t offset, n_bytes, piece_n_bytes;
  unsigned char *out; /* NULL: fd */
  int fd;
  atomic_bool is_opaque;
} reader;

typedef struct piece {
  reader *reader;
  uint64_t start; /* in the reader's range */
} piece;

static ckpt_status fail_write(const reader *r, ckpt_error *error) {
  int cause = errno;
  char *title = ck_s3_title(r->bucket, r->key);
  if (!title) return ck_no_memory(error, 0);
  ck_fail(error, CK_E_WRITE, title, -1, cause, "the local file for it");
  free(title);
  return CKPT_IO;
}

static bool take_bytes(void *context, uint64_t at, const void *bytes, size_t n_bytes, ckpt_error *error) {
  const piece *p = context;
  uint64_t start = p->start + at;
  if (p->reader->out) {
    memcpy(p->reader->out + start, bytes, n_bytes);
    return true;
  }
  for (size_t n = 0; n < n_bytes;) {
    ssize_t wrote = pwrite(p->reader->fd, (const char *)bytes + n, n_bytes - n, (off_t)(start + n));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      if (wrote == 0) errno = ENOSPC;
      fail_write(p->reader, error);
      return false;
    }
    n += (size_t)wrote;
  }
  return true;
}

static ckpt_status read_piece(void *context, size_t index, const atomic_bool *cancel, ckpt_error *error) {
  reader *r = context;
  piece p = {r, index * r->piece_n_bytes};
  uint64_t left = r->n_bytes - p.start;
  ck_s3_sink sink = {.take = take_bytes,
                     .context = &p,
                     .offset = r->offset + p.start,
                     .n_bytes = left < r->piece_n_bytes ? left : r->piece_n_bytes};
  ck_s3_request request = {
      .method = "GET", .bucket = r->bucket, .key = r->key, .etag = r->etag, .sink = &sink, .cancel = cancel};
  ck_s3_response response;
  ckpt_status status = ck_s3_send(&response, r->s3, &request, error);
  if (status == CKPT_OK && response.is_opaque) atomic_store(&r->is_opaque, true);
  ck_s3_response_clear(&response);
  return status;
}

static ckpt_status read_all(reader *r, ckpt_error *error) {
  uint64_t n = r->n_bytes / r->piece_n_bytes + (r->n_bytes % r->piece_n_bytes != 0);
  return n ? ck_s3_run((size_t)n, r->s3->connections, read_piece, r, error) : CKPT_OK;
}

static ckpt_status fail_object(const reader *r, ck_code code, const char *words, ckpt_error *error) {
  char *title = ck_s3_title(r->bucket, r->key);
  if (!title) return ck_no_memory(error, 0);
  ckpt_status status = ck_fail(error, code, title, -1, 0, "%s: %s", r->s3->endpoint, words);
  free(title);
  return status;
}

/* The object as it is now; one that does not exist is an error. */
static ckpt_status head(ck_s3_object *object, const reader *r, ckpt_error *error) {
  ckpt_status status = ck_s3_head(object, r->s3, r->bucket, r->key, error);
  if (status == CKPT_OK && !object->exists) return fail_object(r, CK_E_S3_NO_OBJECT, "status 404", error);
  if (status == CKPT_OK && r->etag && strcmp(r->etag, object->etag) != 0)
    return fail_object(r, CK_E_S3_CHANGED, "its ETag is another one", error);
  return status;
}

ckpt_status ck_s3_read(void *out, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag, uint64_t offset,
                       size_t n_bytes, ckpt_error *error) {
  reader r = {.s3 = s3,
              .bucket = bucket,
              .key = key,
              .etag = etag,
              .offset = offset,
              .n_bytes = n_bytes,
              .piece_n_bytes = s3->part_n_bytes,
              .out = out};
  ck_s3_object object;
  if (offset > INT64_MAX || n_bytes > INT64_MAX - offset)
    return fail_object(&r, CK_E_S3_SHORT, "no object is that large", error);
  ckpt_status status = etag ? CKPT_OK : head(&object, &r, error);
  if (status == CKPT_OK && !etag) r.etag = object.etag;
  return status == CKPT_OK ? read_all(&r, error) : status;
}

/* ---- Whole objects ---- */

static ckpt_status hash_file(EVP_MD_CTX *hash, unsigned char *bytes, const reader *r, ckpt_error *error) {
  for (uint64_t at = 0; at < r->n_bytes;) {
    uint64_t left = r->n_bytes - at;
    ssize_t n = pread(r->fd, bytes, left < CK_PIECE_BYTES ? (size_t)left : CK_PIECE_BYTES, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int cause = n < 0 ? errno : EIO;
      return ck_fail(error, CK_E_DATA_READ, NULL, -1, cause, "the local copy of s3://%s/%s", r->bucket, r->key);
    }
    if (EVP_DigestUpdate(hash, bytes, (size_t)n) != 1) return ck_no_memory(error, 0);
    at += (uint64_t)n;
  }
  return CKPT_OK;
}

static ckpt_status file_md5(char out[CK_HEX_MD5], const reader *r, ckpt_error *error) {
  unsigned char *bytes = malloc(CK_PIECE_BYTES), value[EVP_MAX_MD_SIZE];
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  ckpt_status status =
      bytes && hash && EVP_DigestInit_ex(hash, EVP_md5(), NULL) == 1 ? CKPT_OK : ck_no_memory(error, 0);
  if (status == CKPT_OK) status = hash_file(hash, bytes, r, error);
  if (status == CKPT_OK && EVP_DigestFinal_ex(hash, value, NULL) != 1) status = ck_no_memory(error, 0);
  if (status == CKPT_OK) ck_hex(out, value, 16);
  ERR_pop_to_mark();
  EVP_MD_CTX_free(hash);
  free(bytes);
  return status;
}

static ckpt_status fetch_once(bool *is_right, reader *r, ckpt_error *error) {
  char md5[CK_HEX_MD5];
  *is_right = true;
  ckpt_status status = read_all(r, error);
  if (status != CKPT_OK || !ck_is_md5(r->etag) || atomic_load(&r->is_opaque)) return status;
  status = file_md5(md5, r, error);
  *is_right = status != CKPT_OK || strcmp(md5, r->etag) == 0;
  return status;
}

ckpt_status ck_s3_fetch(int fd, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag, uint64_t size,
                        ckpt_error *error) {
  reader r = {.s3 = s3,
              .bucket = bucket,
              .key = key,
              .etag = etag,
              .n_bytes = size,
              .piece_n_bytes = s3->part_n_bytes,
              .fd = fd};
  ck_s3_object object;
  if (size == 0) {
    ckpt_status status = head(&object, &r, error);
    if (status != CKPT_OK) return status;
  }
  if (size > INT64_MAX || ftruncate(fd, (off_t)size) != 0) return fail_write(&r, error);
  for (int i = 0; i < MAX_FETCHES; i++) {
    bool is_right;
    ckpt_status status = fetch_once(&is_right, &r, error);
    if (status != CKPT_OK || is_right) return status;
  }
  return fail_object(&r, CK_E_S3_CONTENT, "the MD5 of the bytes that came is not the ETag, three times", error);
}
