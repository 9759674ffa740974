/* What an answer means, whether to try again, and what to say. */
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "s3_client.h"
#include "s3_digest.h"

enum { PROGRESS_BYTES = 1 << 16, WORDS_BYTES = 1024 };
static const double most_wait_s = 10, slice_s = 0.05;

void ck_s3_response_clear(ck_s3_response *response) {
  free(response->body);
  ck_s3_answer_clear(&response->xml);
  memset(response, 0, sizeof *response);
}

/* ---- What an answer means ---- */

typedef enum verdict { GOOD, AGAIN, FAILED, OVER } verdict; /* OVER: *error is filled */

typedef struct finding {
  verdict verdict;
  ck_code code;
  char words[WORDS_BYTES]; /* what was found */
} finding;

static const struct {
  const char *code;
  bool again;
  ck_code means;
} server_codes[] = {
    {"NoSuchBucket", false, CK_E_S3_NO_BUCKET},
    {"NoSuchKey", false, CK_E_S3_NO_OBJECT},
    {"NoSuchUpload", false, CK_E_S3_UPLOAD_GONE},
    {"PreconditionFailed", false, CK_E_S3_CHANGED},
    {"InvalidRange", false, CK_E_S3_SHORT},
    {"RequestTimeTooSkewed", false, CK_E_S3_CLOCK},
    {"PermanentRedirect", false, CK_E_S3_REDIRECT},
    {"TemporaryRedirect", false, CK_E_S3_REDIRECT},
    {"AuthorizationHeaderMalformed", false, CK_E_S3_REDIRECT},
    {"NotImplemented", false, CK_E_S3_ANSWER},
    {"EntityTooLarge", false, CK_E_S3_TOO_LARGE},
    {"SlowDown", true, CK_E_S3_ANSWER},
    {"RequestTimeout", true, CK_E_S3_ANSWER},
    {"InternalError", true, CK_E_S3_ANSWER},
    {"ServiceUnavailable", true, CK_E_S3_ANSWER},
    {"IncompleteBody", true, CK_E_S3_ANSWER},
    {"BadDigest", true, CK_E_S3_CONTENT},
    {"XAmzContentSHA256Mismatch", true, CK_E_S3_CONTENT},
};

static const struct {
  long first, last; /* of a range of statuses */
  bool again;
  ck_code means;
} statuses[] = {
    {300, 399, false, CK_E_S3_REDIRECT},  {401, 401, false, CK_E_S3_DENIED}, {403, 403, false, CK_E_S3_DENIED},
    {404, 404, false, CK_E_S3_NO_OBJECT}, {408, 408, true, CK_E_S3_ANSWER},  {412, 412, false, CK_E_S3_CHANGED},
    {416, 416, false, CK_E_S3_SHORT},     {429, 429, true, CK_E_S3_ANSWER},  {501, 501, false, CK_E_S3_ANSWER},
    {500, 599, true, CK_E_S3_ANSWER},
};

static void classify(finding *found, const ck_s3_request *request, long status, const char *server_code) {
  found->verdict = FAILED;
  found->code = CK_E_S3_ANSWER;
  for (size_t i = 0; server_code && i < sizeof server_codes / sizeof *server_codes; i++) {
    if (strcmp(server_codes[i].code, server_code) != 0) continue;
    found->verdict = server_codes[i].again ? AGAIN : FAILED;
    found->code = server_codes[i].means;
    return;
  }
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
    if (status < statuses[i].first || status > statuses[i].last) continue;
    found->verdict = statuses[i].again ? AGAIN : FAILED;
    found->code = statuses[i].means;
    break;
  }
  if (status == 404 && !request->key) found->code = request->bucket ? CK_E_S3_NO_BUCKET : CK_E_S3_ANSWER;
}

/* ---- Texts of the server, without what is secret ---- */

static void blot(char *text, const char *secret) {
  size_t n = secret ? strlen(secret) : 0;
  if (n < 4) return;
  for (char *at = text; (at = strstr(at, secret));) memset(at, '*', n);
}

/* Signatures and digests of ours, which an echoed header or string to sign would show. */
static void blot_digits(char *text) {
  for (char *at = text; *at;) {
    size_t n = strspn(at, "0123456789abcdefABCDEF");
    if (n >= 32) memset(at, '*', n);
    at += n ? n : 1;
  }
}

static void tidy_words(char *text, const ckpt_s3 *s3) {
  blot(text, s3->secret_access_key);
  blot(text, s3->session_token);
  blot(text, s3->access_key_id);
  blot_digits(text);
}

static const char *text_or(const char *text, const char *other) { return text && *text ? text : other; }

static void describe_error(finding *found, const ck_s3_response *response) {
  const ck_s3_answer *xml = &response->xml;
  const char *region = text_or(response->region, xml->region);
  char words[WORDS_BYTES / 2], where[WORDS_BYTES / 4] = "";
  snprintf(words, sizeof words, "%s%s%s", xml->code ? xml->code : "", xml->code && xml->message ? ": " : "",
           xml->message ? xml->message : "");
  if (found->code == CK_E_S3_REDIRECT && (region || xml->server))
    snprintf(where, sizeof where, "; the bucket is in region %s, endpoint %s", text_or(region, "(not said)"),
             text_or(xml->server, "(not said)"));
  snprintf(found->words, sizeof found->words, "status %ld%s%s%s", response->status, words[0] ? " " : "", words, where);
}

/* ---- Answers ---- */

static ck_s3_reading read_answer(ck_s3_response *response, const char **why) {
  ck_s3_answer_clear(&response->xml);
  return ck_s3_read_xml(&response->xml, why, response->body ? response->body : "", response->n_body);
}

static void judge_error(finding *found, const ck_s3_request *request, ck_s3_response *response) {
  const char *why;
  if (response->status >= 300 && read_answer(response, &why) != CK_S3_READ) ck_s3_answer_clear(&response->xml);
  if (response->xml.kind != CK_S3_ERROR) ck_s3_answer_clear(&response->xml);
  classify(found, request, response->status, response->xml.code);
  bool missing = found->code == CK_E_S3_NO_OBJECT || found->code == CK_E_S3_UPLOAD_GONE;
  if (request->may_be_missing && missing)
    found->verdict = GOOD;
  else
    describe_error(found, response);
}

static void find(finding *found, verdict what, ck_code code, const char *words) {
  found->verdict = what;
  found->code = code;
  snprintf(found->words, sizeof found->words, "%s", words);
}

/* A good status with XML: it may be an error all the same. */
static void judge_xml(finding *found, const ck_s3_request *request, ck_s3_response *response, ckpt_error *error) {
  const char *why = NULL;
  ck_s3_reading reading = read_answer(response, &why);
  if (reading == CK_S3_NO_MEMORY) {
    ck_no_memory(error, 0);
    found->verdict = OVER;
  } else if (reading == CK_S3_MALFORMED) {
    find(found, AGAIN, CK_E_S3_MALFORMED, why);
  } else if (response->xml.kind == CK_S3_ERROR) {
    judge_error(found, request, response);
    if (found->code == CK_E_S3_ANSWER) found->verdict = AGAIN;
  } else if (response->xml.kind != request->answer) {
    find(found, AGAIN, CK_E_S3_MALFORMED, "it is not the XML that was asked for");
  }
}

static void judge_object(finding *found, const ck_s3_request *request) {
  const ck_s3_sink *sink = request->sink;
  if (sink->n_done == sink->n_bytes) return;
  find(found, AGAIN, CK_E_S3_MALFORMED, "");
  snprintf(found->words, sizeof found->words, "the object ended after %llu of %llu bytes",
           (unsigned long long)sink->n_done, (unsigned long long)sink->n_bytes);
}

/* Whether the server has what was sent. */
static void judge_etag(finding *found, const ck_s3_request *request, const ck_s3_response *response) {
  char md5[CK_HEX_MD5];
  ck_hex(md5, request->md5, 16);
  if (response->is_opaque || !ck_is_md5(response->etag) || strcmp(response->etag, md5) == 0) return;
  find(found, AGAIN, CK_E_S3_CONTENT, "");
  snprintf(found->words, sizeof found->words, "expected the ETag %s for what was sent, found %s", md5, response->etag);
}

/* An answer that needs no body, and may have an error in it. */
static void judge_body(finding *found, const ck_s3_request *request, ck_s3_response *response) {
  const char *why;
  if (response->n_body == 0 || read_answer(response, &why) != CK_S3_READ || response->xml.kind != CK_S3_ERROR) return;
  judge_error(found, request, response);
  if (found->code == CK_E_S3_ANSWER) found->verdict = AGAIN;
}

static bool is_other_object(const ck_s3_request *request, const ck_s3_response *response) {
  bool good = response->status == 200 || response->status == 206;
  return good && request->etag && response->etag[0] && strcmp(request->etag, response->etag) != 0;
}

static void judge_answer(finding *found, const ck_s3_request *request, ck_s3_response *response, ckpt_error *error) {
  found->verdict = GOOD;
  if (response->status < 200 || response->status >= 300)
    judge_error(found, request, response);
  else if (request->answer)
    judge_xml(found, request, response, error);
  else if (request->sink)
    judge_object(found, request);
  else
    judge_body(found, request, response);
  if (found->verdict != GOOD || response->status >= 300) return;
  if ((request->md5 || request->is_head) && !response->etag[0])
    find(found, AGAIN, CK_E_S3_MALFORMED, "the answer has no ETag");
  else if (request->is_head && !response->has_size)
    find(found, AGAIN, CK_E_S3_MALFORMED, "the answer has no Content-Length");
  else if (request->md5)
    judge_etag(found, request, response);
}

static bool is_tls(CURLcode code) {
  return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_SSL_ISSUER_ERROR || code == CURLE_SSL_CRL_BADFILE || code == CURLE_SSL_ENGINE_INITFAILED;
}

static void judge_broken(finding *found, const ck_s3_attempt *attempt) {
  CURLcode code = attempt->curl;
  bool malformed = code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
                   code == CURLE_PARTIAL_FILE || code == CURLE_BAD_CONTENT_ENCODING;
  if (is_tls(code))
    find(found, FAILED, CK_E_S3_TLS, attempt->words);
  else if (code == CURLE_SSL_CONNECT_ERROR)
    find(found, AGAIN, CK_E_S3_TLS, attempt->words);
  else
    find(found, AGAIN, malformed ? CK_E_S3_MALFORMED : CK_E_S3_UNREACHED, attempt->words);
}

/* One attempt, and what came of it. */
static void attempt_once(finding *found, ck_s3_response *response, ckpt_s3 *s3, const ck_s3_request *request,
                         ckpt_error *error) {
  ck_s3_attempt attempt = {.response = response};
  ck_s3_outcome outcome = ck_s3_try(&attempt, s3, request, error);
  if (outcome == CK_S3_STOPPED)
    found->verdict = OVER;
  else if (is_other_object(request, response))
    find(found, FAILED, CK_E_S3_CHANGED, "the ETag of the answer is another one");
  else if (outcome == CK_S3_ANSWERED)
    judge_answer(found, request, response, error);
  else if (outcome == CK_S3_SENSELESS)
    find(found, AGAIN, CK_E_S3_MALFORMED, attempt.words);
  else
    judge_broken(found, &attempt);
  tidy_words(found->words, s3);
}

/* ---- Waits ---- */

static bool is_cancelled(const ck_s3_request *request) { return request->cancel && atomic_load(request->cancel); }

static void sleep_s(double seconds) {
  struct timespec wait = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&wait, NULL);
}

/* A random time up to base * 2^(n_failed - 1), so that clients which failed together do not return together. */
static void back_off(const ckpt_s3 *s3, const ck_s3_request *request, int n_failed) {
  uint32_t random = 0;
  double most_s = s3->backoff_s;
  for (int i = 1; i < n_failed && most_s < most_wait_s; i++) most_s *= 2;
  if (most_s > most_wait_s) most_s = most_wait_s;
  if (RAND_bytes((unsigned char *)&random, sizeof random) != 1) random = UINT32_MAX / 2;
  for (double left_s = most_s * ((double)random / 4294967296.0); left_s > 0 && !is_cancelled(request);
       left_s -= slice_s)
    sleep_s(left_s < slice_s ? left_s : slice_s);
}

/* ---- Sending ---- */

static ckpt_status report(const finding *found, const ckpt_s3 *s3, const ck_s3_request *request, int n_attempts,
                          ckpt_error *error) {
  char *title = ck_s3_title(request->bucket, request->key);
  if (!title) return ck_no_memory(error, 0);
  ckpt_status status = ck_fail(error, found->code, title, -1, 0, "%s at %s: %s (%d attempt%s)", request->method,
                               s3->endpoint, found->words, n_attempts, n_attempts == 1 ? "" : "s");
  free(title);
  return status;
}

ckpt_status ck_s3_send(ck_s3_response *response, ckpt_s3 *s3, const ck_s3_request *request, ckpt_error *error) {
  int most = request->attempts ? request->attempts : s3->attempts, n_failed = 0, n_attempts = 0;
  ckpt_error kept = {.status = CKPT_IO};
  finding found;
  memset(response, 0, sizeof *response);
  while (!is_cancelled(request)) {
    uint64_t n_before = request->sink ? request->sink->n_done : 0;
    found = (finding){.verdict = GOOD};
    attempt_once(&found, response, s3, request, &kept);
    n_attempts++;
    if (found.verdict == GOOD) return CKPT_OK;
    if (found.verdict == OVER) break;
    bool went_on = request->sink && request->sink->n_done - n_before >= PROGRESS_BYTES;
    n_failed = went_on ? 1 : n_failed + 1;
    if (found.verdict == FAILED || n_failed >= most) return report(&found, s3, request, n_attempts, error);
    back_off(s3, request, n_failed);
  }
  if (error) *error = kept;
  return kept.status;
}
