#include "canned.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void insist(bool holds, const char *what) {
  if (holds) return;
  perror(what);
  abort();
}

static bool send_all(int connection, const char *bytes, size_t n) {
  while (n > 0) {
    ssize_t sent = send(connection, bytes, n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    n -= (size_t)sent;
  }
  return true;
}

/* Reads a request; false where the client went away, or is told that this is no TLS. */
static bool receive(int connection, canned_request *request, EVP_MD_CTX *hash) {
  size_t n = 0;
  char *end = NULL, piece[65536];
  while (!end && n + 1 < sizeof request->head) {
    ssize_t got = recv(connection, request->head + n, 1, 0);
    if (got <= 0) return false;
    request->head[++n] = 0;
    if (request->head[0] == 0x16) {
      send_all(connection, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
      return false;
    }
    end = strstr(request->head, "\r\n\r\n");
  }
  const char *length = strstr(request->head, "\r\nContent-Length: ");
  size_t left = length ? strtoul(length + 18, NULL, 10) : 0;
  while (left > 0) {
    ssize_t got = recv(connection, piece, left < sizeof piece ? left : sizeof piece, 0);
    if (got <= 0) return false;
    EVP_DigestUpdate(hash, piece, (size_t)got);
    for (ssize_t i = 0; i < got && request->n_body + (size_t)i < sizeof request->body - 1; i++)
      request->body[request->n_body + (size_t)i] = piece[i];
    request->n_body += (size_t)got;
    left -= (size_t)got;
  }
  return true;
}

static void trickle(int connection, const char *body, size_t n) {
  for (size_t i = 0; i < n && send_all(connection, body + i, 1); i++)
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static void answer_it(int connection, const canned_answer *answer, EVP_MD_CTX *hash) {
  char head[4096], etag[64] = "";
  unsigned char md5[EVP_MAX_MD_SIZE];
  const char *body = answer->body ? answer->body : "";
  size_t n_body = answer->n_body ? answer->n_body : strlen(body);
  EVP_DigestFinal_ex(hash, md5, NULL);
  if (answer->has_md5) {
    size_t n = (size_t)snprintf(etag, sizeof etag, "ETag: \"");
    for (int i = 0; i < 16; i++) n += (size_t)snprintf(etag + n, sizeof etag - n, "%02x", md5[i]);
    snprintf(etag + n, sizeof etag - n, "\"\r\n");
  }
  int n =
      snprintf(head, sizeof head, "HTTP/1.1 %s\r\n%s%sContent-Length: %zu\r\nConnection: close\r\n\r\n", answer->status,
               answer->headers ? answer->headers : "", etag, answer->n_claimed ? answer->n_claimed : n_body);
  if (answer->way == CANNED_CUT) {
    send_all(connection, head, (size_t)n - 3);
    return;
  }
  if (!send_all(connection, head, (size_t)n)) return;
  if (answer->way == CANNED_TRICKLE)
    trickle(connection, body, n_body);
  else
    send_all(connection, body, n_body);
}

static void reset(int connection) {
  struct linger now = {.l_onoff = 1};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

static const canned_answer *choose(const canned *server, const canned_request *request, size_t n) {
  for (size_t i = 0; i < server->n_answers; i++)
    if (server->answers[i].when && strstr(request->head, server->answers[i].when)) return &server->answers[i];
  return &server->answers[n < server->n_answers ? n : server->n_answers - 1];
}

static void serve(canned *server, int connection) {
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  canned_request *request = calloc(1, sizeof *request);
  insist(hash && request && EVP_DigestInit_ex(hash, EVP_md5(), NULL), "memory");
  if (receive(connection, request, hash)) {
    pthread_mutex_lock(&server->mutex);
    size_t n = server->n_requests++;
    if (n < CANNED_REQUESTS) server->requests[n] = *request;
    pthread_mutex_unlock(&server->mutex);
    const canned_answer *answer = choose(server, request, n);
    if (answer->way == CANNED_RESET)
      reset(connection);
    else
      answer_it(connection, answer, hash);
  }
  close(connection);
  free(request);
  EVP_MD_CTX_free(hash);
}

static void *run(void *context) {
  canned *server = context;
  for (;;) {
    int connection = accept(server->listener, NULL, NULL);
    if (connection < 0) return NULL;
    serve(server, connection);
  }
}

void canned_start(canned *server, const canned_answer *answers, size_t n_answers) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof address;
  *server = (canned){.answers = answers, .n_answers = n_answers};
  server->requests = calloc(CANNED_REQUESTS, sizeof *server->requests);
  server->listener = socket(AF_INET, SOCK_STREAM, 0);
  insist(server->requests && server->listener >= 0, "socket");
  insist(bind(server->listener, (const struct sockaddr *)&address, sizeof address) == 0, "bind");
  insist(listen(server->listener, 64) == 0, "listen");
  insist(getsockname(server->listener, (struct sockaddr *)&address, &n) == 0, "getsockname");
  server->port = ntohs(address.sin_port);
  snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", server->port);
  insist(pthread_mutex_init(&server->mutex, NULL) == 0, "mutex");
  insist(pthread_create(&server->thread, NULL, run, server) == 0, "thread");
}

void canned_stop(canned *server) {
  shutdown(server->listener, SHUT_RDWR);
  pthread_join(server->thread, NULL);
  close(server->listener);
  pthread_mutex_destroy(&server->mutex);
  free(server->requests);
}

bool canned_asked(const canned *server, size_t request, const char *text) {
  return request < server->n_requests && strstr(server->requests[request].head, text) != NULL;
}
