/* One attempt of one request, by libcurl. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "s3_client.h"
#include "s3_digest.h"

enum { ANSWER_BYTES = 16 << 20, ERROR_BYTES = 1 << 16, LEAST_BYTES_PER_S = 1000, SLOW_FACTOR = 10, MAX_HEADERS = 16 };

typedef struct transfer {
  const ckpt_s3 *s3;
  const ck_s3_request *request;
  ck_s3_response *response;
  CURL *handle;
  size_t n_sent;
  uint64_t first;          /* byte of the object that this attempt asks for */
  bool has_head;           /* the empty line after the headers has come; libcurl alone takes an answer without it */
  bool no_memory, refused; /* refused: the sink has filled *error */
  const char *senseless;   /* what is wrong with the answer */
  ckpt_error *error;
} transfer;

/* ---- Headers of the answer ---- */

static bool is_header(const char *line, size_t n, const char *name, const char **value, size_t *n_value) {
  size_t n_name = strlen(name);
  if (n <= n_name || strncasecmp(line, name, n_name) != 0 || line[n_name] != ':') return false;
  const char *from = line + n_name + 1, *to = line + n;
  while (from < to && (*from == ' ' || *from == '\t')) from++;
  while (to > from && (to[-1] == '\r' || to[-1] == '\n' || to[-1] == ' ' || to[-1] == '\t')) to--;
  *value = from;
  *n_value = (size_t)(to - from);
  return true;
}

static void keep_value(char *out, size_t room, const char *value, size_t n) {
  bool fits = n < room;
  if (fits) memcpy(out, value, n);
  out[fits ? n : 0] = 0;
}

static void keep_etag(ck_s3_response *response, const char *value, size_t n) {
  if (n >= 2 && value[0] == '"' && value[n - 1] == '"') value++, n -= 2;
  keep_value(response->etag, sizeof response->etag, value, n);
}

/* Ours is 64 digits: metadata of that name by others is not taken for it. */
static void keep_sha256(ck_s3_response *response, const char *value, size_t n) {
  char digits[CK_HEX_SHA256];
  keep_value(digits, sizeof digits, value, n);
  if (strlen(digits) == 64 && strspn(digits, "0123456789abcdef") == 64)
    snprintf(response->sha256, sizeof response->sha256, "sha256:%s", digits);
}

static bool read_digits(uint64_t *out, const char **text) {
  uint64_t value = 0;
  const char *at = *text;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (value > (INT64_MAX - 9) / 10) return false;
    value = value * 10 + (uint64_t)(*at - '0');
  }
  bool any = at > *text;
  *out = value;
  *text = at;
  return any;
}

/* "bytes 0-9/100" */
static void keep_range(ck_s3_response *response, const char *value, size_t n) {
  char text[80];
  uint64_t last;
  keep_value(text, sizeof text, value, n);
  const char *at = text;
  if (strncmp(at, "bytes ", 6) != 0) return;
  at += 6;
  if (!read_digits(&response->range_first, &at) || *at++ != '-' || !read_digits(&last, &at) || *at++ != '/') return;
  response->has_range = read_digits(&response->range_size, &at);
}

static void keep_date(ck_s3_response *response, const char *value, size_t n) {
  char text[64];
  keep_value(text, sizeof text, value, n);
  int64_t seconds = curl_getdate(text, NULL);
  response->date_s = seconds > 0 ? seconds : 0;
}

static void start_answer(ck_s3_response *response) {
  response->etag[0] = response->sha256[0] = response->region[0] = 0;
  response->is_opaque = response->has_size = response->has_range = false;
  response->date_s = 0;
}

static size_t on_header(char *line, size_t one, size_t n, void *context) {
  transfer *t = context;
  ck_s3_response *response = t->response;
  const char *value;
  size_t n_value;
  (void)one;
  t->has_head |= n > 0 && (line[0] == '\r' || line[0] == '\n'); /* trailers may follow the body */
  if (n >= 5 && strncmp(line, "HTTP/", 5) == 0) {
    start_answer(response);
    t->has_head = false;
  } else if (is_header(line, n, "ETag", &value, &n_value)) {
    keep_etag(response, value, n_value);
  } else if (is_header(line, n, "x-amz-meta-sha256", &value, &n_value)) {
    keep_sha256(response, value, n_value);
  } else if (is_header(line, n, "x-amz-bucket-region", &value, &n_value)) {
    keep_value(response->region, sizeof response->region, value, n_value);
  } else if (is_header(line, n, "Content-Range", &value, &n_value)) {
    keep_range(response, value, n_value);
  } else if (is_header(line, n, "Date", &value, &n_value)) {
    keep_date(response, value, n_value);
  } else if (is_header(line, n, "Content-Length", &value, &n_value)) {
    char text[32];
    keep_value(text, sizeof text, value, n_value);
    const char *at = text;
    response->has_size = read_digits(&response->size, &at) && *at == 0;
  } else if (is_header(line, n, "x-amz-server-side-encryption", &value, &n_value)) {
    response->is_opaque |= !(n_value == 6 && strncmp(value, "AES256", 6) == 0);
  } else if (is_header(line, n, "x-amz-server-side-encryption-customer-algorithm", &value, &n_value)) {
    response->is_opaque = true;
  }
  return n;
}

/* ---- Bodies ---- */

static size_t keep_body(transfer *t, const char *bytes, size_t n) {
  ck_s3_response *response = t->response;
  size_t limit = response->status >= 300 || !t->request->answer ? ERROR_BYTES : ANSWER_BYTES;
  if (n > limit - response->n_body) {
    t->senseless = "its body is too large";
    return 0;
  }
  if (response->n_body + n > response->body_room) {
    size_t room = response->body_room ? response->body_room : 4096;
    while (room < response->n_body + n) room *= 2;
    char *grown = realloc(response->body, room);
    t->no_memory = !grown;
    if (!grown) return 0;
    response->body = grown;
    response->body_room = room;
  }
  memcpy(response->body + response->n_body, bytes, n);
  response->n_body += n;
  return n;
}

/* What is wrong with the head of an answer to a request for a range; NULL: nothing. */
static const char *range_problem(const transfer *t) {
  const ck_s3_response *response = t->response;
  const ck_s3_sink *sink = t->request->sink;
  if (response->status == 206) {
    if (!response->has_range || response->range_first != t->first) return "its range is not the one asked for";
  } else if (t->first != 0 || !response->has_size || response->size != sink->n_bytes) {
    return "it is not a range of the object";
  }
  const char *etag = t->request->etag;
  return etag && response->etag[0] && strcmp(etag, response->etag) != 0 ? "it is of another object" : NULL;
}

static size_t take_bytes(transfer *t, const char *bytes, size_t n) {
  ck_s3_sink *sink = t->request->sink;
  t->senseless = range_problem(t);
  if (!t->senseless && n > sink->n_bytes - sink->n_done) t->senseless = "it has more bytes than were asked for";
  if (t->senseless) return 0;
  if (!sink->take(sink->context, sink->n_done, bytes, n, t->error)) {
    t->refused = true;
    return 0;
  }
  sink->n_done += n;
  return n;
}

static size_t on_body(char *bytes, size_t one, size_t n, void *context) {
  transfer *t = context;
  (void)one;
  curl_easy_getinfo(t->handle, CURLINFO_RESPONSE_CODE, &t->response->status);
  bool is_object = t->request->sink && (t->response->status == 200 || t->response->status == 206);
  return is_object ? take_bytes(t, bytes, n) : keep_body(t, bytes, n);
}

static size_t on_send(char *out, size_t one, size_t room, void *context) {
  transfer *t = context;
  (void)one;
  size_t n = t->request->n_body - t->n_sent;
  if (n > room) n = room;
  if (n) memcpy(out, (const char *)t->request->body + t->n_sent, n);
  t->n_sent += n;
  return n;
}

static int on_seek(void *context, curl_off_t offset, int origin) {
  transfer *t = context;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->request->n_body) return CURL_SEEKFUNC_FAIL;
  t->n_sent = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

static int on_progress(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  const transfer *t = context;
  (void)a, (void)b, (void)c, (void)d;
  return t->request->cancel && atomic_load(t->request->cancel);
}

/* ---- Headers of the request ---- */

typedef struct headers {
  ck_s3_pair pairs[MAX_HEADERS];
  size_t n;
  char payload[CK_HEX_SHA256], date[CK_S3_DATE], md5[CK_BASE64_MD5], range[64], match[CK_S3_ETAG + 2];
} headers;

static void add(headers *h, const char *name, const char *value) { h->pairs[h->n++] = (ck_s3_pair){name, value}; }

static int by_name(const void *left, const void *right) {
  return strcmp(((const ck_s3_pair *)left)->name, ((const ck_s3_pair *)right)->name);
}

/* All that is signed, in order. False: no memory. */
static bool gather_headers(headers *h, const ckpt_s3 *s3, const ck_s3_request *request, const char *host) {
  const ck_s3_sink *sink = request->sink;
  if (!ck_hex_sha256(h->payload, request->body ? request->body : "", request->n_body)) return false;
  ck_s3_date(h->date, s3->now_s(s3->context));
  add(h, "host", host);
  add(h, "x-amz-content-sha256", h->payload);
  add(h, "x-amz-date", h->date);
  if (s3->session_token) add(h, "x-amz-security-token", s3->session_token);
  for (size_t i = 0; i < CK_S3_PAIRS && request->headers[i].name; i++)
    add(h, request->headers[i].name, request->headers[i].value);
  if (request->md5) {
    ck_base64_md5(h->md5, request->md5);
    add(h, "content-md5", h->md5);
  }
  if (request->etag) {
    snprintf(h->match, sizeof h->match, "\"%s\"", request->etag);
    add(h, "if-match", h->match);
  }
  if (sink) {
    snprintf(h->range, sizeof h->range, "bytes=%llu-%llu", (unsigned long long)(sink->offset + sink->n_done),
             (unsigned long long)(sink->offset + sink->n_bytes - 1));
    add(h, "range", h->range);
  }
  qsort(h->pairs, h->n, sizeof *h->pairs, by_name);
  return true;
}

static bool append(struct curl_slist **list, const char *name, const char *value) {
  char *line = ck_print("%s: %s", name, value);
  struct curl_slist *longer = line ? curl_slist_append(*list, line) : NULL;
  free(line);
  if (longer) *list = longer;
  return longer != NULL;
}

static size_t count_pairs(const ck_s3_pair *pairs) {
  size_t n = 0;
  while (n < CK_S3_PAIRS && pairs[n].name) n++;
  return n;
}

/* The list of headers and the URL of a signed request; false: no memory. */
static bool sign(struct curl_slist **list, char **url, const ckpt_s3 *s3, const ck_s3_request *request,
                 const ck_s3_place *place) {
  headers h = {.n = 0};
  char *query = ck_s3_query(request->query, count_pairs(request->query)), *authorization = NULL;
  bool good = query && gather_headers(&h, s3, request, place->host);
  if (good) {
    ck_s3_signing signing = {.access_key_id = s3->access_key_id,
                             .secret_access_key = s3->secret_access_key,
                             .region = s3->region,
                             .service = "s3",
                             .method = request->method,
                             .path = place->path,
                             .query = query,
                             .headers = h.pairs,
                             .n_headers = h.n,
                             .payload_sha256 = h.payload,
                             .date = h.date};
    authorization = ck_s3_authorization(&signing);
    *url = ck_print("%s://%s%s%s%s", s3->scheme, place->host, place->path, *query ? "?" : "", query);
  }
  good = good && authorization && *url && append(list, "Authorization", authorization) && append(list, "Expect", "");
  for (size_t i = 0; good && i < h.n; i++) good = append(list, h.pairs[i].name, h.pairs[i].value);
  free(query);
  free(authorization);
  return good;
}

/* ---- The transfer ---- */

static void set_method(CURL *handle, transfer *t) {
  const ck_s3_request *request = t->request;
  if (strcmp(request->method, "PUT") == 0) {
    curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, on_send);
    curl_easy_setopt(handle, CURLOPT_READDATA, t);
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, t);
    curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->n_body);
    curl_easy_setopt(handle, CURLOPT_UPLOAD_BUFFERSIZE, 512L * 1024);
  } else if (strcmp(request->method, "HEAD") == 0) {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  } else if (strcmp(request->method, "POST") == 0) {
    curl_easy_setopt(handle, CURLOPT_POST, 1L);
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, request->body ? request->body : "");
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->n_body);
  } else {
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request->method);
  }
}

static void set_limits(CURL *handle, const transfer *t) {
  const ckpt_s3 *s3 = t->s3;
  bool is_slow = t->request->is_slow;
  double stall_s = ceil(s3->stall_timeout_s) * (is_slow ? SLOW_FACTOR : 1);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, (long)(s3->connect_timeout_s * 1000) + 1);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, (long)stall_s);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, is_slow ? 1L : (long)LEAST_BYTES_PER_S);
}

static void set_callbacks(CURL *handle, transfer *t) {
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, t);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, t);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, t);
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L * 1024);
}

static CURLcode set_all(CURL *handle, transfer *t, const char *url, struct curl_slist *list, char *words) {
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, words);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  if (t->s3->ca_file) curl_easy_setopt(handle, CURLOPT_CAINFO, t->s3->ca_file);
  set_method(handle, t);
  set_limits(handle, t);
  set_callbacks(handle, t);
  CURLcode code = curl_easy_setopt(handle, CURLOPT_USERAGENT, "sexpgpu/" SEXPGPU_VERSION);
  if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_HTTPHEADER, list);
  if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_URL, url);
  return code;
}

/* Writing to a connection that the server has closed must not raise SIGPIPE in the caller's program. */
static CURLcode perform(CURL *handle) {
  sigset_t pipe, before, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  CURLcode code = curl_easy_perform(handle);
  static const struct timespec none = {0};
  if (!was_pending) sigtimedwait(&pipe, NULL, &none);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

static ck_s3_outcome outcome_of(ck_s3_attempt *attempt, transfer *t, CURLcode code) {
  if (t->refused) return CK_S3_STOPPED;
  if (t->no_memory || code == CURLE_OUT_OF_MEMORY) {
    ck_no_memory(t->error, 0);
    return CK_S3_STOPPED;
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) return CK_S3_STOPPED;
  if (code == CURLE_OK && !t->has_head) t->senseless = "it ends within its headers";
  /* An error's status stands although its body is too large to be kept. */
  if (t->senseless && attempt->response->status < 300) {
    snprintf(attempt->words, sizeof attempt->words, "%s", t->senseless);
    return CK_S3_SENSELESS;
  }
  attempt->curl = t->senseless ? CURLE_OK : code;
  if (code != CURLE_OK && !t->senseless && !attempt->words[0])
    snprintf(attempt->words, sizeof attempt->words, "%s", curl_easy_strerror(code));
  return attempt->curl == CURLE_OK ? CK_S3_ANSWERED : CK_S3_BROKEN;
}

static void start_response(ck_s3_response *response) {
  start_answer(response);
  response->status = 0;
  response->n_body = 0;
}

static ck_s3_outcome transfer_signed(ck_s3_attempt *attempt, ckpt_s3 *s3, const ck_s3_request *request, const char *url,
                                     struct curl_slist *list, ckpt_error *error) {
  transfer t = {.s3 = s3, .request = request, .response = attempt->response, .error = error};
  if (request->sink) t.first = request->sink->offset + request->sink->n_done;
  t.handle = ck_s3_borrow(s3);
  CURLcode code = t.handle ? set_all(t.handle, &t, url, list, attempt->words) : CURLE_OUT_OF_MEMORY;
  if (code == CURLE_OK) {
    code = perform(t.handle);
    curl_easy_getinfo(t.handle, CURLINFO_RESPONSE_CODE, &attempt->response->status);
  }
  if (t.handle) ck_s3_give_back(s3, t.handle);
  return outcome_of(attempt, &t, code);
}

ck_s3_outcome ck_s3_try(ck_s3_attempt *attempt, ckpt_s3 *s3, const ck_s3_request *request, ckpt_error *error) {
  ck_s3_place place;
  struct curl_slist *list = NULL;
  char *url = NULL;
  ck_s3_outcome outcome = CK_S3_STOPPED;
  attempt->curl = CURLE_OK;
  attempt->words[0] = 0;
  start_response(attempt->response);
  if (ck_s3_locate(&place, s3, request->bucket, request->key, error) != CKPT_OK) return CK_S3_STOPPED;
  if (sign(&list, &url, s3, request, &place))
    outcome = transfer_signed(attempt, s3, request, url, list, error);
  else
    ck_no_memory(error, 0);
  curl_slist_free_all(list);
  free(url);
  ck_s3_place_clear(&place);
  return outcome;
}
