/* Objects of S3 storage: what the rest of the library reads and writes s3:// names with.
 *
 * Every function retries as docs/s3.md says and returns the errors of its table: E-S3-005 (endpoint not reached, after
 * so many attempts), E-S3-006 (TLS), E-S3-007 (refused: 403), E-S3-008 (clock), E-S3-009 (no such bucket), E-S3-013
 * (another answer that is a failure), E-S3-014 (answer malformed or not complete) and those its own comment names.
 * Messages name s3://bucket/key and hold no credential. ETags are without their quotes.
 *
 * A key must not be empty (E-S3-002). Each call may run at once with others on the same ckpt_s3, but the calls on one
 * ck_s3_upload need it to themselves.
 */
#ifndef CK_S3_H
#define CK_S3_H

#include "ckpt.h"

enum { CK_S3_ETAG = 136 }; /* room for an ETag and NUL */

/* ---- Names ---- */

/* s3://bucket/key; the key is without its first slash and may be empty. Owned texts. */
typedef struct ck_s3_name {
  char *bucket, *key;
} ck_s3_name;

bool ck_s3_is_name(const char *name); /* starts with s3:// */

/* Errors: E-S3-002. */
ckpt_status ck_s3_name_parse(ck_s3_name *out, const char *name, ckpt_error *error);
void ck_s3_name_clear(ck_s3_name *name);

const char *ck_s3_scratch(const ckpt_s3 *s3);

/* ---- Objects ---- */

typedef struct ck_s3_object {
  bool exists;
  uint64_t size;
  char etag[CK_S3_ETAG];
  char sha256[CKPT_SHA256_TEXT]; /* of its x-amz-meta-sha256, in the form of the library; "" where it has none */
} ck_s3_object;

/* An object that does not exist is no error; a bucket that does not is E-S3-009 where the server tells (a HEAD has no
 * body: it may look like a missing object). */
ckpt_status ck_s3_head(ck_s3_object *out, ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error);

/* Bytes offset to offset + n_bytes, in parallel when more than a part. etag: E-S3-011 where the object is another one;
 * NULL: whatever is there. Errors: E-S3-010 (no such object), E-S3-011, E-S3-012 (it ends before that). */
ckpt_status ck_s3_read(void *out, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag, uint64_t offset,
                       size_t n_bytes, ckpt_error *error);

/* The whole object of that ETag and size into a file, from byte 0 of it, which is made that long. Where the ETag is an
 * MD5 of the content, the content is checked against it. Errors: those of ck_s3_read, E-S3-015 (other bytes than its
 * ETag says), E-DATA-102, E-CKPT-004. */
ckpt_status ck_s3_fetch(int fd, ckpt_s3 *s3, const char *bucket, const char *key, const char *etag, uint64_t size,
                        ckpt_error *error);

/* One PUT; its SHA-256 is kept as metadata. etag_out may be NULL. */
ckpt_status ck_s3_put(char etag_out[CK_S3_ETAG], ckpt_s3 *s3, const char *bucket, const char *key, const void *bytes,
                      size_t n_bytes, ckpt_error *error);

/* What is not there is no error. */
ckpt_status ck_s3_remove(ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error);

/* Several, in parallel. After a failure some may be left. */
ckpt_status ck_s3_remove_keys(ckpt_s3 *s3, const char *bucket, const char *const *keys, size_t n_keys,
                              ckpt_error *error);

/* ---- Lists, in byte order of the keys, of any length ---- */

/* Texts are borrowed for the call. A status other than CKPT_OK (with *error filled) ends the list and is returned. */
typedef ckpt_status ck_s3_each(void *context, const char *key_or_prefix, bool is_prefix, uint64_t size,
                               const char *etag, ckpt_error *error);

/* Keys that start with prefix; with a delimiter (NULL: none), those that have it after the prefix are one item, the
 * key up to and with the delimiter. */
ckpt_status ck_s3_list(ckpt_s3 *s3, const char *bucket, const char *prefix, const char *delimiter, ck_s3_each *each,
                       void *context, ckpt_error *error);

/* Unfinished multipart uploads; initiated is the server's text, as "2026-01-02T03:04:05.000Z". */
typedef ckpt_status ck_s3_each_upload(void *context, const char *key, const char *upload_id, const char *initiated,
                                      ckpt_error *error);
ckpt_status ck_s3_uploads(ckpt_s3 *s3, const char *bucket, const char *prefix, ck_s3_each_upload *each, void *context,
                          ckpt_error *error);

/* What is not there is no error. */
ckpt_status ck_s3_upload_abort(ckpt_s3 *s3, const char *bucket, const char *key, const char *upload_id,
                               ckpt_error *error);

/* ---- Uploads of any size ---- */

typedef struct ck_s3_upload ck_s3_upload;

typedef struct ck_s3_upload_options {
  const char *sha256; /* "sha256:..." of the content, to be kept as metadata; NULL: not known (kept for one PUT) */
  uint64_t size;      /* of the content, or somewhat more: parts grow so that 10 000 suffice; 0: not known */
  bool leave;         /* an upload that does not end stays on the server, for `resume` */
  bool resume;        /* take up the last unfinished upload of the key: parts of equal number, size and MD5 are not sent
                         again. Its other unfinished uploads are aborted. */
} ck_s3_upload_options;

/* One PUT at the end where the content fits a part, else a multipart upload: connections + 1 buffers of a part, sent in
 * parallel. begin connects to the server only for `resume`. options may be NULL. */
ckpt_status ck_s3_upload_begin(ck_s3_upload **out, ckpt_s3 *s3, const char *bucket, const char *key,
                               const ck_s3_upload_options *options, ckpt_error *error);

/* The next bytes. A failure of a part sent meanwhile is returned by a later write or by end.
 * Errors: E-S3-016 (more than 10 000 parts), E-S3-019 (somebody aborted it). */
ckpt_status ck_s3_upload_write(ck_s3_upload *upload, const void *bytes, size_t n_bytes, ckpt_error *error);

/* Completes it: after this the object is there whole. etag_out may be NULL. Errors: those of write, E-S3-015 (the
 * server has other bytes), E-S3-017 (the unfinished upload was begun with another SHA-256: it has been removed; begin
 * again). */
ckpt_status ck_s3_upload_end(char etag_out[CK_S3_ETAG], ck_s3_upload *upload, ckpt_error *error);

/* Takes NULL. An upload that has not ended well is aborted, unless `leave`. */
void ck_s3_upload_free(ck_s3_upload *upload);

#endif
