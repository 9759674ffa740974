#include <arpa/inet.h>
#include <math.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "s3_client.h"

static const uint64_t least_part = UINT64_C(5) << 20, default_part = UINT64_C(8) << 20, most_part = UINT64_C(5) << 30;

static int64_t clock_now_s(void *context) {
  (void)context;
  struct timespec now = {0};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec;
}

/* ---- Options ---- */

static bool is_printable(const char *text) {
  for (; *text; text++)
    if (*text <= 0x20 || *text > 0x7e) return false;
  return true;
}

/* The value is never shown: it may be the secret. */
static ckpt_status check_text(const char *what, const char *text, ckpt_error *error) {
  if (!text || !*text) return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "the %s is missing or empty", what);
  if (!is_printable(text))
    return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0,
                   "the %s has a space, a line end or another byte that is no visible ASCII", what);
  return CKPT_OK;
}

static ckpt_status check_numbers(const ckpt_s3_options *options, ckpt_error *error) {
  double seconds[] = {options->backoff_s, options->connect_timeout_s, options->stall_timeout_s};
  for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++)
    if (!(seconds[i] >= 0 && seconds[i] <= 86400))
      return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "expected a time of 0 to 86400 s, found %g", seconds[i]);
  if (options->connections < 0 || options->connections > CK_S3_MAX_CONNECTIONS)
    return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "expected at most %d connections, found %d",
                   CK_S3_MAX_CONNECTIONS, options->connections);
  if (options->attempts < 0 || options->attempts > 100)
    return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "expected 1 to 100 attempts, found %d", options->attempts);
  if (options->part_n_bytes && (options->part_n_bytes < least_part || options->part_n_bytes > most_part))
    return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "expected parts of %llu to %llu bytes, found %llu",
                   (unsigned long long)least_part, (unsigned long long)most_part,
                   (unsigned long long)options->part_n_bytes);
  return CKPT_OK;
}

static ckpt_status check_options(const ckpt_s3_options *options, ckpt_error *error) {
  ckpt_status status = check_text("access key id", options->access_key_id, error);
  if (status == CKPT_OK) status = check_text("secret access key", options->secret_access_key, error);
  if (status == CKPT_OK) status = check_text("region", options->region, error);
  if (status == CKPT_OK && options->session_token) status = check_text("session token", options->session_token, error);
  if (status == CKPT_OK) status = check_numbers(options, error);
  return status;
}

static bool copy_texts(ckpt_s3 *s3, const ckpt_s3_options *options) {
  s3->access_key_id = ck_copy_text(options->access_key_id);
  s3->secret_access_key = ck_copy_text(options->secret_access_key);
  s3->region = ck_copy_text(options->region);
  s3->scratch = ck_copy_text(options->scratch ? options->scratch : "/tmp");
  if (options->session_token) s3->session_token = ck_copy_text(options->session_token);
  if (options->ca_file) s3->ca_file = ck_copy_text(options->ca_file);
  return s3->access_key_id && s3->secret_access_key && s3->region && s3->scratch &&
         (!options->session_token || s3->session_token) && (!options->ca_file || s3->ca_file);
}

static void copy_numbers(ckpt_s3 *s3, const ckpt_s3_options *options) {
  s3->addressing = options->addressing;
  s3->connections = options->connections ? options->connections : 4;
  s3->attempts = options->attempts ? options->attempts : 8;
  s3->part_n_bytes = options->part_n_bytes ? options->part_n_bytes : default_part;
  s3->backoff_s = options->backoff_s > 0 ? options->backoff_s : 0.1;
  s3->connect_timeout_s = options->connect_timeout_s > 0 ? options->connect_timeout_s : 10;
  s3->stall_timeout_s = options->stall_timeout_s > 0 ? options->stall_timeout_s : 30;
  s3->now_s = options->now_s ? options->now_s : clock_now_s;
  s3->context = options->context;
}

/* ---- The endpoint ---- */

/* Copies a part of the URL, "" where it has none; it is curl's to free. */
static bool url_part(char **out, CURLU *url, CURLUPart part) {
  char *text = NULL;
  CURLUcode code = curl_url_get(url, part, &text, 0);
  *out = code == CURLUE_OUT_OF_MEMORY ? NULL : ck_copy_text(text ? text : "");
  curl_free(text);
  return *out != NULL;
}

static bool is_address(const char *host) {
  struct in_addr address;
  return host[0] == '[' || inet_pton(AF_INET, host, &address) == 1;
}

typedef struct url_texts {
  char *scheme, *host, *port, *path, *rest[4]; /* user, password, query, fragment */
} url_texts;

static bool split_url(url_texts *texts, CURLU *url) {
  static const CURLUPart rest[] = {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT};
  bool good = url_part(&texts->scheme, url, CURLUPART_SCHEME) && url_part(&texts->host, url, CURLUPART_HOST) &&
              url_part(&texts->port, url, CURLUPART_PORT) && url_part(&texts->path, url, CURLUPART_PATH);
  for (int i = 0; good && i < 4; i++) good = url_part(&texts->rest[i], url, rest[i]);
  return good;
}

static void free_texts(url_texts *texts) {
  free(texts->scheme);
  free(texts->host);
  free(texts->port);
  free(texts->path);
  for (int i = 0; i < 4; i++) free(texts->rest[i]);
}

static const char *endpoint_problem(const url_texts *texts) {
  if (strcmp(texts->scheme, "http") != 0 && strcmp(texts->scheme, "https") != 0) return "its scheme is neither";
  if (texts->rest[0][0] || texts->rest[1][0]) return "it has a user or a password"; /* which are not shown */
  if (texts->path[0] && strcmp(texts->path, "/") != 0) return "it has a path";
  if (texts->rest[2][0] || texts->rest[3][0]) return "it has a query or a fragment";
  return texts->host[0] && is_printable(texts->host) ? NULL : "its host is empty or no ASCII name";
}

static ckpt_status refuse_endpoint(const char *problem, ckpt_error *error) {
  return ck_fail(error, CK_E_S3_ENDPOINT, NULL, -1, 0, "expected http://host[:port] or https://host[:port], but %s",
                 problem);
}

static ckpt_status take_endpoint(ckpt_s3 *s3, url_texts *texts, ckpt_error *error) {
  const char *problem = endpoint_problem(texts);
  if (problem) return refuse_endpoint(problem, error);
  for (char *c = texts->host; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  bool is_default = strcmp(texts->port, strcmp(texts->scheme, "https") == 0 ? "443" : "80") == 0;
  s3->has_port = texts->port[0] != 0;
  s3->is_address = is_address(texts->host);
  s3->scheme = ck_copy_text(texts->scheme);
  s3->host = s3->has_port && !is_default ? ck_print("%s:%s", texts->host, texts->port) : ck_copy_text(texts->host);
  s3->endpoint = s3->scheme && s3->host ? ck_print("%s://%s", s3->scheme, s3->host) : NULL;
  if (!s3->endpoint) return ck_no_memory(error, 0);
  if (s3->addressing == CKPT_S3_VIRTUAL && s3->is_address)
    return ck_fail(error, CK_E_S3_OPTION, NULL, -1, 0, "virtual addressing needs a host's name, found the address %s",
                   s3->host);
  return CKPT_OK;
}

static ckpt_status parse_endpoint(ckpt_s3 *s3, const char *endpoint_url, ckpt_error *error) {
  if (!endpoint_url || !*endpoint_url) return refuse_endpoint("none is given", error);
  if (!is_printable(endpoint_url))
    return refuse_endpoint("it has a space or another byte that is no visible ASCII", error);
  CURLU *url = curl_url();
  if (!url) return ck_no_memory(error, 0);
  url_texts texts = {0};
  CURLUcode code = curl_url_set(url, CURLUPART_URL, endpoint_url, CURLU_NON_SUPPORT_SCHEME);
  ckpt_status status;
  if (code == CURLUE_OUT_OF_MEMORY)
    status = ck_no_memory(error, 0);
  else if (code != CURLUE_OK)
    status = refuse_endpoint("it is no URL", error);
  else
    status = split_url(&texts, url) ? take_endpoint(s3, &texts, error) : ck_no_memory(error, 0);
  free_texts(&texts);
  curl_url_cleanup(url);
  return status;
}

/* ---- Life ---- */

static bool make_ready(ckpt_s3 *s3) {
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return false;
  s3->is_ready = pthread_mutex_init(&s3->mutex, NULL) == 0;
  if (!s3->is_ready) curl_global_cleanup();
  return s3->is_ready;
}

ckpt_status ckpt_s3_new(ckpt_s3 **out, const ckpt_s3_options *options, ckpt_error *error) {
  *out = NULL;
  ckpt_status status = check_options(options, error);
  if (status != CKPT_OK) return status;
  ckpt_s3 *s3 = ck_take(1, sizeof *s3);
  if (!s3) return ck_no_memory(error, sizeof *s3);
  copy_numbers(s3, options);
  status = make_ready(s3) && copy_texts(s3, options) ? CKPT_OK : ck_no_memory(error, 0);
  if (status == CKPT_OK) status = parse_endpoint(s3, options->endpoint_url, error);
  if (status == CKPT_OK)
    *out = s3;
  else
    ckpt_s3_free(s3);
  return status;
}

static void forget(char *secret) {
  if (secret) OPENSSL_cleanse(secret, strlen(secret));
  free(secret);
}

void ckpt_s3_free(ckpt_s3 *s3) {
  if (!s3) return;
  for (int i = 0; i < s3->n_idle; i++) curl_easy_cleanup(s3->idle[i]);
  if (s3->is_ready) {
    pthread_mutex_destroy(&s3->mutex);
    curl_global_cleanup();
  }
  forget(s3->secret_access_key);
  forget(s3->session_token);
  forget(s3->access_key_id);
  free(s3->region);
  free(s3->ca_file);
  free(s3->scratch);
  free(s3->scheme);
  free(s3->host);
  free(s3->endpoint);
  free(s3);
}

const char *ck_s3_scratch(const ckpt_s3 *s3) { return s3->scratch; }

/* ---- Handles ---- */

CURL *ck_s3_borrow(ckpt_s3 *s3) {
  pthread_mutex_lock(&s3->mutex);
  CURL *handle = s3->n_idle > 0 ? s3->idle[--s3->n_idle] : NULL;
  pthread_mutex_unlock(&s3->mutex);
  return handle ? handle : curl_easy_init();
}

void ck_s3_give_back(ckpt_s3 *s3, CURL *handle) {
  curl_easy_reset(handle); /* the connections stay */
  pthread_mutex_lock(&s3->mutex);
  bool kept = s3->n_idle < CK_S3_IDLE;
  if (kept) s3->idle[s3->n_idle++] = handle;
  pthread_mutex_unlock(&s3->mutex);
  if (!kept) curl_easy_cleanup(handle);
}
