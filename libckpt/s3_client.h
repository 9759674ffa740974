/* The inside of a ckpt_s3, and requests. */
#ifndef CK_S3_CLIENT_H
#define CK_S3_CLIENT_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "error.h"
#include "s3.h"
#include "s3_sign.h"
#include "s3_xml.h"

enum { CK_S3_IDLE = 16, CK_S3_PAIRS = 8, CK_S3_MAX_PARTS = 10000, CK_S3_MAX_CONNECTIONS = 64 };

struct ckpt_s3 {
  char *access_key_id, *secret_access_key, *session_token, *region, *ca_file, *scratch;
  char *scheme, *host; /* "https"; the host's name, with its port unless that is the scheme's own */
  char *endpoint;      /* scheme://host */
  bool has_port, is_address;
  ckpt_s3_addressing addressing;
  int connections, attempts;
  uint64_t part_n_bytes;
  double backoff_s, connect_timeout_s, stall_timeout_s;
  int64_t (*now_s)(void *context);
  void *context;
  bool is_ready;          /* curl and the mutex are */
  pthread_mutex_t mutex;  /* of what follows */
  CURL *idle[CK_S3_IDLE]; /* handles with their open connections */
  int n_idle;
};

/* ---- Where ---- */

typedef struct ck_s3_place {
  char *host, *path; /* of the request: the path encoded */
} ck_s3_place;

/* bucket (NULL: the service) and key (NULL: the bucket itself) to host and path. Errors: E-S3-002 (a bucket that is no
 * part of a host's name where virtual addressing is asked for). */
ckpt_status ck_s3_locate(ck_s3_place *out, const ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error);
void ck_s3_place_clear(ck_s3_place *place);

/* "s3://bucket/key" for messages, "s3://" for the service; NULL: no memory. */
char *ck_s3_title(const char *bucket, const char *key);

/* ---- Requests ---- */

/* Where the bytes of an object go. A retry asks only for those after the n_done that were taken. */
typedef struct ck_s3_sink {
  /* at: from the start of the range. False, with *error filled, ends the request. */
  bool (*take)(void *context, uint64_t at, const void *bytes, size_t n_bytes, ckpt_error *error);
  void *context;
  uint64_t offset, n_bytes; /* the range in the object; n_bytes > 0 */
  uint64_t n_done;
} ck_s3_sink;

/* What a request is; zero for what it has not. Everything is borrowed. */
typedef struct ck_s3_request {
  const char *method;
  const char *bucket;              /* NULL: the service itself */
  const char *key;                 /* NULL: the bucket itself */
  ck_s3_pair query[CK_S3_PAIRS];   /* up to the first without a name; raw */
  ck_s3_pair headers[CK_S3_PAIRS]; /* the same; lowercase names */
  const void *body;
  size_t n_body;
  const unsigned char *md5;  /* 16 bytes: sent as Content-MD5, and what the answer's ETag must be where it is an MD5 */
  const char *etag;          /* If-Match, and what the answer's ETag must be */
  ck_s3_sink *sink;          /* a part of an object is asked for */
  ck_s3_kind answer;         /* the XML that a good answer must have, or CK_S3_OTHER: none is read */
  bool may_be_missing;       /* 404 of an object or upload is an answer, not an error */
  bool is_head;              /* facts are asked for: a good answer has an ETag and a size */
  bool is_slow;              /* the server may take minutes */
  int attempts;              /* 0: the client's */
  const atomic_bool *cancel; /* NULL, or ends the request when it becomes true */
} ck_s3_request;

typedef struct ck_s3_response {
  long status;
  char etag[CK_S3_ETAG], sha256[CKPT_SHA256_TEXT], region[64];
  bool is_opaque; /* encrypted by the server with a key: its ETag is no MD5 */
  bool has_size, has_range;
  int64_t date_s;                   /* Date, seconds since 1970 UTC; 0: none */
  uint64_t size;                    /* Content-Length */
  uint64_t range_first, range_size; /* Content-Range: the first byte, and the size of the whole object */
  char *body;
  size_t n_body, body_room;
  ck_s3_answer xml; /* of an error, or of `answer` */
} ck_s3_response;

void ck_s3_response_clear(ck_s3_response *response);

/* Signs and sends, again where that can help. CKPT_OK: status is 2xx, or 404 where may_be_missing. The response is to
 * be cleared in any case. */
ckpt_status ck_s3_send(ck_s3_response *response, ckpt_s3 *s3, const ck_s3_request *request, ckpt_error *error);

/* ---- One attempt ---- */

typedef enum ck_s3_outcome {
  CK_S3_ANSWERED,  /* there is a status, and a body that is whole */
  CK_S3_BROKEN,    /* the network or the server failed on the way: `curl` and `words` say how */
  CK_S3_SENSELESS, /* an answer that is too large or not what was asked for: `words` */
  CK_S3_STOPPED    /* *error is filled, or the request was cancelled */
} ck_s3_outcome;

typedef struct ck_s3_attempt {
  ck_s3_response *response;
  CURLcode curl;
  char words[CURL_ERROR_SIZE];
} ck_s3_attempt;

ck_s3_outcome ck_s3_try(ck_s3_attempt *attempt, ckpt_s3 *s3, const ck_s3_request *request, ckpt_error *error);

/* ---- Handles of curl, with their connections ---- */

CURL *ck_s3_borrow(ckpt_s3 *s3); /* NULL: no memory */
void ck_s3_give_back(ckpt_s3 *s3, CURL *handle);

/* ---- Work in parallel ---- */

typedef ckpt_status ck_s3_task(void *context, size_t index, const atomic_bool *cancel, ckpt_error *error);

/* Calls the task with 0 to n - 1, at most n_threads at once, the caller's thread being one of them. The first error
 * cancels the others and is returned. */
ckpt_status ck_s3_run(size_t n, int n_threads, ck_s3_task *task, void *context, ckpt_error *error);

/* A thread in which no signal is handled. False: the system has none. */
bool ck_s3_thread(pthread_t *out, void *(*run)(void *), void *context);

#endif
