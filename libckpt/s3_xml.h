/* The XML answers of S3, read by expat. */
#ifndef CK_S3_XML_H
#define CK_S3_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An object, a common prefix, an unfinished upload or a part. Texts are owned; NULL: not given. */
typedef struct ck_s3_item {
  char *key, *etag, *upload_id, *initiated;
  uint64_t size, part_number;
  bool is_prefix;
} ck_s3_item;

typedef enum ck_s3_kind {
  CK_S3_OTHER, /* a root element that is none of those below */
  CK_S3_ERROR,
  CK_S3_BUCKETS,  /* ListBuckets; nothing of it is kept */
  CK_S3_OBJECTS,  /* ListObjectsV2 */
  CK_S3_UPLOADS,  /* ListMultipartUploads */
  CK_S3_PARTS,    /* ListParts */
  CK_S3_CREATED,  /* CreateMultipartUpload */
  CK_S3_COMPLETED /* CompleteMultipartUpload */
} ck_s3_kind;

typedef struct ck_s3_answer {
  ck_s3_kind kind;
  ck_s3_item *items;
  size_t n_items, room;
  uint64_t is_truncated;                                 /* 1: more pages follow, from the markers on */
  char *next_token, *next_key, *next_upload, *next_part; /* markers of the next page */
  char *encoding;
  char *upload_id, *etag;                 /* of CREATED and COMPLETED */
  char *code, *message, *region, *server; /* of ERROR; no other element of it is kept */
} ck_s3_answer;

typedef enum ck_s3_reading { CK_S3_READ, CK_S3_MALFORMED, CK_S3_NO_MEMORY } ck_s3_reading;

/* Keys are decoded where the answer says that they are encoded; ETags are without quotes. A document type, more than
 * 16 levels, texts of more than 16 KiB and numbers that are none are malformed. On failure `out` is empty and *why,
 * unless memory failed, says what is wrong in static text. */
ck_s3_reading ck_s3_read_xml(ck_s3_answer *out, const char **why, const char *bytes, size_t n_bytes);
void ck_s3_answer_clear(ck_s3_answer *answer);

#endif
