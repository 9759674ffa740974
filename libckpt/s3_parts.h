/* The requests of a multipart upload. */
#ifndef CK_S3_PARTS_H
#define CK_S3_PARTS_H

#include "s3_client.h"

typedef struct ck_s3_part {
  char etag[CK_S3_ETAG];
  unsigned char md5[16];
  bool is_plain; /* the ETag is the MD5 */
} ck_s3_part;

/* A part that an unfinished upload has. */
typedef struct ck_s3_found {
  uint64_t size; /* 0: none of this number */
  char md5[33];
} ck_s3_found;

typedef struct ck_s3_multipart {
  ckpt_s3 *s3;
  char *bucket, *key;
  char sha256[65]; /* digits; "": not known */
  char *upload_id; /* NULL: not begun */
  bool is_resumed;
  ck_s3_part *parts; /* in order */
  size_t n_parts, parts_room;
  ck_s3_found *found; /* by number - 1 */
  size_t n_found;
  uint64_t n_bytes; /* of the content */
} ck_s3_multipart;

ckpt_status ck_s3_multipart_init(ck_s3_multipart *multipart, ckpt_s3 *s3, const char *bucket, const char *key,
                                 const char *sha256, ckpt_error *error);
void ck_s3_multipart_clear(ck_s3_multipart *multipart);

/* Takes up the last unfinished upload of the key, if any, and aborts its others. */
ckpt_status ck_s3_multipart_find(ck_s3_multipart *multipart, ckpt_error *error);

/* Begins one, where none was found. */
ckpt_status ck_s3_multipart_start(ck_s3_multipart *multipart, ckpt_error *error);

/* Room for one part more. Errors: E-S3-016. */
ckpt_status ck_s3_part_add(ck_s3_multipart *multipart, ckpt_error *error);

/* Sends part index + 1, or finds that it is there. May run at once for different parts. */
ckpt_status ck_s3_part_send(ck_s3_part *out, const ck_s3_multipart *multipart, size_t index, const void *bytes,
                            size_t n_bytes, const atomic_bool *cancel, ckpt_error *error);

/* An answer that was lost is made up for by a look at the object. Errors: E-S3-015, E-S3-017, E-S3-019. */
ckpt_status ck_s3_multipart_complete(char etag_out[CK_S3_ETAG], ck_s3_multipart *multipart, ckpt_error *error);

/* As well as it can. */
void ck_s3_multipart_abort(const ck_s3_multipart *multipart);

ckpt_status ck_s3_parts(ckpt_s3 *s3, const char *bucket, const char *key, const char *upload_id,
                        ckpt_status (*each)(void *context, const ck_s3_item *part, ckpt_error *error), void *context,
                        ckpt_error *error);

#endif
