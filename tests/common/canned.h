/* A server on loopback that gives prepared answers to requests over HTTP, one a connection, and keeps what was asked.
 */
#ifndef TEST_CANNED_H
#define TEST_CANNED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum canned_way {
  CANNED_WHOLE,
  CANNED_RESET,  /* no answer: the connection is reset after the request */
  CANNED_CUT,    /* the head without its last bytes, then the end */
  CANNED_TRICKLE /* the head, then a byte of the body now and then */
} canned_way;

typedef struct canned_answer {
  const char *status;  /* "200 OK" */
  const char *headers; /* NULL, or lines that end in \r\n */
  const char *body;    /* NULL: empty */
  size_t n_body;       /* 0: as long as the text */
  size_t n_claimed;    /* Content-Length; 0: that of the body */
  canned_way way;
  bool has_md5;     /* an ETag that is the MD5 of the request's body */
  const char *when; /* NULL: in turn; else to every request whose head has this text */
} canned_answer;

enum { CANNED_REQUESTS = 64, CANNED_HEAD_BYTES = 8192, CANNED_BODY_BYTES = 4096 };

typedef struct canned_request {
  char head[CANNED_HEAD_BYTES];
  char body[CANNED_BODY_BYTES]; /* its start */
  size_t n_body;
} canned_request;

typedef struct canned {
  const canned_answer *answers; /* the last one is repeated */
  size_t n_answers;
  int listener, port;
  pthread_t thread;
  pthread_mutex_t mutex;
  atomic_size_t n_requests; /* of which the first CANNED_REQUESTS are kept */
  canned_request *requests;
  char url[64]; /* "http://127.0.0.1:port" */
} canned;

void canned_start(canned *server, const canned_answer *answers, size_t n_answers);
void canned_stop(canned *server);

/* Whether the head of a request has this text. */
bool canned_asked(const canned *server, size_t request, const char *text);

#endif
