/* libckpt: a client of S3 object storage. Included by ckpt.h.
 *
 * A ckpt_s3 is an endpoint and one set of credentials. Functions that take names take one to read and write s3:// names
 * with; docs/s3.md says what is signed, retried and checked.
 *
 * Unlike the rest of the library, this part reads a clock: requests are signed with the date, and waits between
 * attempts are random. libcurl itself reads the proxy variables of the environment (http_proxy, https_proxy, no_proxy).
 */
#ifndef CKPT_S3_H
#define CKPT_S3_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt_status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckpt_s3 ckpt_s3;

/* Where a bucket's name goes: https://host/bucket/key or https://bucket.host/key. AUTO takes the second for
 * *.amazonaws.com, unless the bucket's name is no DNS label or has a dot and the endpoint is https, else the first. */
typedef enum ckpt_s3_addressing { CKPT_S3_AUTO, CKPT_S3_PATH, CKPT_S3_VIRTUAL } ckpt_s3_addressing;

typedef struct ckpt_s3_options {
  const char *access_key_id, *secret_access_key;
  const char *session_token; /* NULL: none */
  const char *endpoint_url;  /* "https://s3.us-east-1.amazonaws.com", "http://127.0.0.1:9000"; no path but "/" */
  const char *region;        /* "us-east-1" */
  ckpt_s3_addressing addressing;
  const char *ca_file;      /* PEM, for https; NULL: the system's certificates */
  const char *scratch;      /* directory for unlinked files of fetched objects; NULL: /tmp */
  int connections;          /* requests at once of one operation; 0: 4 */
  uint64_t part_n_bytes;    /* of a multipart upload and of a parallel read; 0: 8 MiB; at least 5 MiB */
  int attempts;             /* of a request, the first one included; 0: 8 */
  double backoff_s;         /* the wait before attempt k is random, up to backoff_s * 2^(k-2), at most 10 s; 0: 0.1 */
  double connect_timeout_s; /* 0: 10 */
  double stall_timeout_s;   /* a transfer without progress that long is given up; 0: 30 */
  int64_t (*now_s)(void *context); /* seconds since 1970 UTC; NULL: the clock */
  void *context;
} ckpt_s3_options;

/* Copies the options; connects to nothing. It may be used by several threads at once.
 * Errors: E-S3-003 (endpoint), E-S3-004 (another option that cannot be used). */
ckpt_status ckpt_s3_new(ckpt_s3 **out, const ckpt_s3_options *options, ckpt_error *error);

/* Takes NULL. Nothing may be using it any more. Forgets the secret. */
void ckpt_s3_free(ckpt_s3 *s3);

/* What the server says of the credentials. */
typedef struct ckpt_s3_proof {
  bool may_list;    /* false: it takes the signature, and refuses this key the list of buckets */
  int64_t server_s; /* the time of its answer, seconds since 1970 UTC; 0: there was no answer, or none with a date */
} ckpt_s3_proof;

/* Asks for the list of buckets, which needs no name and changes nothing: a server that answers it, or refuses it with
 * AccessDenied, has checked the signature. Tried twice at most. Errors: E-S3-005 to E-S3-008, E-S3-013, E-S3-014,
 * E-S3-018; *out is filled with them too. */
ckpt_status ckpt_s3_prove(ckpt_s3_proof *out, ckpt_s3 *s3, ckpt_error *error);

#ifdef __cplusplus
}
#endif
#endif
