/* Requests against prepared answers: what is sent, what is tried again, what each failure is called. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/cmocka_all.h"
#include "../common/s3_case.h"

#define ERROR(code, message) "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>" message "</Message></Error>"
#define ETAG(text) "ETag: \"" text "\"\r\n"
#define RANGE(text) ETAG(S3_HELLO) "Content-Range: bytes " text "\r\n"
#define OTHER "00000000000000000000000000000000"

static ckpt_status put_hello(s3_case *t) { return ck_s3_put(NULL, t->s3, "bkt", "dir/a b", "hello", 5, &t->error); }

static ckpt_status read_hello(char out[6], s3_case *t) {
  memset(out, 0, 6);
  return ck_s3_read(out, t->s3, "bkt", "k", S3_HELLO, 0, 5, &t->error);
}

/* ---- What is sent ---- */

static void sends_a_signed_put(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .has_md5 = true});
  char etag[CK_S3_ETAG];
  assert_int_equal(ck_s3_put(etag, t.s3, "bkt", "dir/a b", "hello", 5, &t.error), CKPT_OK);
  assert_string_equal(etag, S3_HELLO);
  static const char *const texts[] = {
      "PUT /bkt/dir/a%20b HTTP/1.1\r\n",
      "\r\nHost: 127.0.0.1:",
      "\r\nContent-Length: 5\r\n",
      "\r\ncontent-md5: XUFAKrxLKna5cZ2REBfFkg==\r\n",
      "\r\nx-amz-content-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\r\n",
      "\r\nx-amz-meta-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\r\n",
      "\r\nx-amz-date: 20130524T000000Z\r\n",
      "\r\nx-amz-security-token: " S3_TOKEN "\r\n",
      "\r\nUser-Agent: sexpgpu/",
      "\r\nAuthorization: AWS4-HMAC-SHA256 Credential=" S3_KEY_ID
      "/20130524/us-test-1/s3/aws4_request, "
      "SignedHeaders=content-md5;content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-sha256;"
      "x-amz-security-token, Signature="};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_true(canned_asked(&t.server, 0, texts[i]));
  assert_false(canned_asked(&t.server, 0, "Transfer-Encoding"));
  assert_false(canned_asked(&t.server, 0, "Expect"));
  assert_string_equal(t.server.requests[0].body, "hello");
  s3_case_stop(&t);
}

/* ---- What is tried again ---- */

static void tries_again(void **state) {
  (void)state;
  S3_START(t, {.status = "500 Internal Server Error", .body = ERROR("InternalError", "")},
           {.status = "503 Slow Down", .body = ERROR("SlowDown", "")}, {.way = CANNED_RESET},
           {.status = "200 OK", .has_md5 = true});
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 4);
  s3_case_stop(&t);
}

static void tries_again_what_is_marked_so(void **state) {
  (void)state;
  S3_START(t, {.status = "400 Bad Request", .body = ERROR("RequestTimeout", "")},
           {.status = "429 Too Many Requests", .body = "<html>"},
           {.status = "400 Bad Request", .body = ERROR("BadDigest", "")}, {.status = "200 OK", .has_md5 = true});
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 4);
  s3_case_stop(&t);
}

static void tries_again_after_half_a_head(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .way = CANNED_CUT}, {.status = "200 OK", .has_md5 = true});
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 2);
  s3_case_stop(&t);
}

/* A status of 200 alone does not say that the server has it. */
static void distrusts_a_status(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .body = ERROR("InternalError", "")}, {.status = "200 OK"},
           {.status = "200 OK", .has_md5 = true}, {.status = "200 OK", .body = ERROR("InternalError", "")},
           {.status = "204 No Content"}, {.status = "200 OK"}, {.status = "200 OK", .headers = ETAG("x")});
  ck_s3_object object;
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 3);
  assert_int_equal(ck_s3_remove(t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_int_equal(t.server.n_requests, 5);
  assert_int_equal(ck_s3_head(&object, t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_int_equal(t.server.n_requests, 7);
  s3_case_stop(&t);
}

static void gives_up(void **state) {
  (void)state;
  S3_START(t, {.status = "503 Slow Down", .body = ERROR("SlowDown", "Please reduce your request rate.")});
  s3_case_failed(&t, put_hello(&t), "E-S3-013");
  assert_int_equal(t.server.n_requests, 4);
  assert_non_null(strstr(t.error.message, "s3://bkt/dir/a b"));
  assert_non_null(strstr(t.error.message, "503 SlowDown: Please reduce your request rate. (4 attempts)"));
  assert_non_null(strstr(t.error.message, t.server.url));
  assert_int_equal(t.error.status, CKPT_IO);
  s3_case_stop(&t);
}

static void does_not_try_again(void **state) {
  (void)state;
  static const canned_answer answers[] = {
      {.status = "400 Bad Request", .body = ERROR("InvalidArgument", "no")},
      {.status = "501 Unknown Method", .body = ERROR("NotImplemented", "no")},
      {.status = "409 Conflict", .body = "no XML"},
  };
  for (size_t i = 0; i < 3; i++) {
    s3_case t;
    s3_case_start(&t, &answers[i], 1);
    s3_case_failed(&t, put_hello(&t), "E-S3-013");
    assert_int_equal(t.server.n_requests, 1);
    s3_case_stop(&t);
  }
}

static void cannot_be_reached(void **state) {
  (void)state;
  S3_START(t, {.way = CANNED_RESET});
  s3_case_failed(&t, put_hello(&t), "E-S3-005");
  assert_int_equal(t.server.n_requests, 4);
  s3_case_stop(&t);
  ckpt_s3_options options = s3_case_options(t.server.url); /* where nothing listens any more */
  assert_int_equal(ckpt_s3_new(&t.s3, &options, &t.error), CKPT_OK);
  s3_case_failed(&t, put_hello(&t), "E-S3-005");
  assert_non_null(strstr(t.error.message, "(4 attempts)"));
  ckpt_s3_free(t.s3);
}

static void speaks_no_tls(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK"});
  char url[80];
  snprintf(url, sizeof url, "https://127.0.0.1:%d", t.server.port);
  ckpt_s3_options options = s3_case_options(url);
  options.attempts = 1;
  ckpt_s3_free(t.s3);
  assert_int_equal(ckpt_s3_new(&t.s3, &options, &t.error), CKPT_OK);
  s3_case_failed(&t, put_hello(&t), "E-S3-006");
  s3_case_stop(&t);
}

/* Five bytes a second are less than what counts as progress. */
static void gives_up_stalled_transfers(void **state) {
  (void)state;
  char body[200] = "<Error>";
  struct timespec from, to;
  memset(body + 7, ' ', sizeof body - 8);
  const canned_answer answers[] = {{.status = "500 Internal Server Error", .body = body, .way = CANNED_TRICKLE},
                                   {.status = "200 OK", .has_md5 = true},
                                   {.status = "403 Forbidden", .body = body, .way = CANNED_TRICKLE}};
  s3_case t;
  s3_case_start(&t, answers, 3);
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 2);
  ckpt_s3_options options = s3_case_options(t.server.url);
  options.attempts = 1;
  ckpt_s3_free(t.s3);
  assert_int_equal(ckpt_s3_new(&t.s3, &options, &t.error), CKPT_OK);
  clock_gettime(CLOCK_MONOTONIC, &from);
  s3_case_failed(&t, put_hello(&t), "E-S3-005");
  clock_gettime(CLOCK_MONOTONIC, &to);
  assert_true(to.tv_sec - from.tv_sec < 10);
  s3_case_stop(&t);
}

/* ---- Failures by name ---- */

static void keeps_secrets(void **state) {
  (void)state;
  S3_START(t, {.status = "403 Forbidden",
               .body = "<Error><Code>SignatureDoesNotMatch</Code><Message>not " S3_SECRET " or " S3_TOKEN
                       " of " S3_KEY_ID ", 98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd</Message>"
                       "<AWSAccessKeyId>" S3_KEY_ID "</AWSAccessKeyId><StringToSign>AWS4-HMAC-SHA256 ...</StringToSign>"
                       "<CanonicalRequest>Signature= x-amz-security-token:" S3_TOKEN "</CanonicalRequest></Error>"});
  s3_case_failed(&t, put_hello(&t), "E-S3-007");
  assert_int_equal(t.server.n_requests, 1);
  assert_non_null(strstr(t.error.message, "403 SignatureDoesNotMatch: not ****"));
  assert_null(strstr(t.error.message, "98ad721746da40c6"));
  s3_case_stop(&t);
}

static void names_failures(void **state) {
  (void)state;
  static const struct {
    canned_answer answer;
    const char *code;
  } cases[] = {
      {{.status = "403 Forbidden"}, "E-S3-007"},
      {{.status = "401 Unauthorized", .body = "<html></html>"}, "E-S3-007"},
      {{.status = "403 Forbidden", .body = ERROR("RequestTimeTooSkewed", "the difference is too large")}, "E-S3-008"},
      {{.status = "404 Not Found", .body = ERROR("NoSuchBucket", "")}, "E-S3-009"},
      {{.status = "404 Not Found", .body = ERROR("NoSuchKey", "")}, "E-S3-010"},
      {{.status = "404 Not Found"}, "E-S3-010"},
      {{.status = "412 Precondition Failed"}, "E-S3-011"},
      {{.status = "206 Partial Content", .headers = ETAG(OTHER) "Content-Range: bytes 0-4/5\r\n", .body = "olleh"},
       "E-S3-011"},
      {{.status = "416 Range Not Satisfiable"}, "E-S3-012"},
      {{.status = "206 Partial Content", .headers = RANGE("1-5/6"), .body = "hello"}, "E-S3-014"},
      {{.status = "200 OK", .headers = ETAG(S3_HELLO), .body = "hello, world"}, "E-S3-014"},
      {{.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "hello, world"}, "E-S3-014"},
      {{.status = "307 Temporary Redirect", .headers = "Location: http://127.0.0.1:1/\r\n"}, "E-S3-018"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    s3_case t;
    char out[6];
    s3_case_start(&t, &cases[i].answer, 1);
    s3_case_failed(&t, read_hello(out, &t), cases[i].code);
    assert_int_equal(t.server.n_requests, strcmp(cases[i].code, "E-S3-014") == 0 ? 4 : 1);
    s3_case_stop(&t);
  }
}

static void names_the_region(void **state) {
  (void)state;
  S3_START(t, {.status = "301 Moved Permanently",
               .headers = "x-amz-bucket-region: eu-west-9\r\nLocation: http://127.0.0.1:1/\r\n",
               .body = "<Error><Code>PermanentRedirect</Code><Message>elsewhere</Message>"
                       "<Endpoint>bkt.s3.eu-west-9.amazonaws.com</Endpoint></Error>"});
  s3_case_failed(&t, put_hello(&t), "E-S3-018");
  assert_non_null(strstr(t.error.message, "region eu-west-9, endpoint bkt.s3.eu-west-9.amazonaws.com"));
  assert_int_equal(t.server.n_requests, 1);
  s3_case_stop(&t);
}

/* ---- Checksums ---- */

static void checks_what_arrived(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .headers = ETAG(OTHER)}, {.status = "200 OK", .headers = ETAG(S3_HELLO)});
  assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 2);
  s3_case_stop(&t);
  S3_START(u, {.status = "200 OK", .headers = ETAG(OTHER)});
  s3_case_failed(&u, put_hello(&u), "E-S3-015");
  assert_int_equal(u.server.n_requests, 4);
  s3_case_stop(&u);
}

static void knows_etags_that_are_no_md5(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .headers = ETAG(OTHER) "x-amz-server-side-encryption: aws:kms\r\n"},
           {.status = "200 OK", .headers = ETAG("another-form")},
           {.status = "200 OK", .headers = ETAG(S3_HELLO) "x-amz-server-side-encryption: AES256\r\n"});
  for (int i = 0; i < 3; i++) assert_int_equal(put_hello(&t), CKPT_OK);
  assert_int_equal(t.server.n_requests, 3);
  s3_case_stop(&t);
}

static int scratch_file(void) {
  char path[] = "/tmp/test-s3-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  unlink(path);
  return fd;
}

static void checks_what_it_fetches(void **state) {
  (void)state;
  char out[6] = "";
  int fd = scratch_file();
  S3_START(t, {.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "hellO"},
           {.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "hello"});
  assert_int_equal(ck_s3_fetch(fd, t.s3, "bkt", "k", S3_HELLO, 5, &t.error), CKPT_OK);
  assert_int_equal(pread(fd, out, 6, 0), 5);
  assert_string_equal(out, "hello");
  assert_int_equal(t.server.n_requests, 2);
  s3_case_stop(&t);
  S3_START(u, {.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "hellO"});
  s3_case_failed(&u, ck_s3_fetch(fd, u.s3, "bkt", "k", S3_HELLO, 5, &u.error), "E-S3-015");
  s3_case_stop(&u);
  close(fd);
}

static void tells_local_failures(void **state) {
  (void)state;
  int fd = open("/dev/full", O_RDWR);
  S3_START(t, {.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "hello"});
  s3_case_failed(&t, ck_s3_fetch(fd, t.s3, "bkt", "k", S3_HELLO, 5, &t.error), "E-CKPT-004");
  s3_case_stop(&t);
  close(fd);
}

/* ---- Ranges ---- */

static void goes_on_from_the_byte_reached(void **state) {
  (void)state;
  char out[6];
  S3_START(t, {.status = "206 Partial Content", .headers = RANGE("0-4/5"), .body = "he", .n_claimed = 5},
           {.status = "206 Partial Content", .headers = RANGE("2-4/5"), .body = "llo"});
  assert_int_equal(read_hello(out, &t), CKPT_OK);
  assert_string_equal(out, "hello");
  assert_true(canned_asked(&t.server, 0, "\r\nrange: bytes=0-4\r\n"));
  assert_true(canned_asked(&t.server, 1, "\r\nrange: bytes=2-4\r\n"));
  assert_true(canned_asked(&t.server, 1, "\r\nif-match: \"" S3_HELLO "\"\r\n"));
  s3_case_stop(&t);
}

static void takes_a_whole_object_for_a_range(void **state) {
  (void)state;
  char out[6];
  S3_START(t, {.status = "200 OK", .headers = ETAG(S3_HELLO), .body = "hello"});
  assert_int_equal(read_hello(out, &t), CKPT_OK);
  assert_string_equal(out, "hello");
  s3_case_stop(&t);
}

static void refuses_impossible_ranges(void **state) {
  (void)state;
  char out[6];
  S3_START(t, {.status = "200 OK"});
  s3_case_failed(&t, ck_s3_read(out, t.s3, "bkt", "k", S3_HELLO, UINT64_MAX - 2, 5, &t.error), "E-S3-012");
  assert_int_equal(ck_s3_read(out, t.s3, "bkt", "k", S3_HELLO, 3, 0, &t.error), CKPT_OK);
  assert_int_equal(t.server.n_requests, 0);
  s3_case_stop(&t);
}

/* ---- Facts and removal ---- */

static void heads(void **state) {
  (void)state;
  ck_s3_object object;
  S3_START(t,
           {.status = "200 OK",
            .headers =
                ETAG("abc-2") "x-amz-meta-sha256: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\r\n",
            .n_claimed = 1234567},
           {.status = "200 OK", .headers = ETAG("x") "x-amz-meta-sha256: of another\r\n"}, {.status = "404 Not Found"},
           {.status = "403 Forbidden"});
  assert_int_equal(ck_s3_head(&object, t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_true(object.exists && object.size == 1234567);
  assert_string_equal(object.etag, "abc-2");
  assert_string_equal(object.sha256, "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
  assert_int_equal(ck_s3_head(&object, t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_string_equal(object.sha256, "");
  assert_int_equal(ck_s3_head(&object, t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_false(object.exists);
  s3_case_failed(&t, ck_s3_head(&object, t.s3, "bkt", "k", &t.error), "E-S3-007");
  s3_case_stop(&t);
}

static void removes(void **state) {
  (void)state;
  const char *const keys[] = {"a", "b", "c", "d", "e"};
  S3_START(t, {.status = "204 No Content"}, {.status = "404 Not Found", .body = ERROR("NoSuchKey", "")},
           {.status = "204 No Content"});
  assert_int_equal(ck_s3_remove(t.s3, "bkt", "k", &t.error), CKPT_OK);
  assert_int_equal(ck_s3_remove_keys(t.s3, "bkt", keys, 5, &t.error), CKPT_OK);
  assert_int_equal(t.server.n_requests, 6);
  s3_case_stop(&t);
}

/* DELETE of bucket and "" would remove the bucket. */
static void needs_a_key(void **state) {
  (void)state;
  S3_START(t, {.status = "204 No Content"});
  s3_case_failed(&t, ck_s3_remove(t.s3, "bkt", "", &t.error), "E-S3-002");
  assert_int_equal(t.error.status, CKPT_INVALID);
  assert_int_equal(t.server.n_requests, 0);
  s3_case_stop(&t);
}

static void stops_at_the_first_failure(void **state) {
  (void)state;
  const char *keys[40];
  for (int i = 0; i < 40; i++) keys[i] = "k";
  S3_START(t, {.status = "204 No Content"}, {.status = "403 Forbidden"});
  s3_case_failed(&t, ck_s3_remove_keys(t.s3, "bkt", keys, 40, &t.error), "E-S3-007");
  assert_true(t.server.n_requests < 10);
  s3_case_stop(&t);
}

/* ---- Lists ---- */

typedef struct seen {
  size_t n;
  char text[1000];
} seen;

static ckpt_status see(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                       ckpt_error *error) {
  seen *s = context;
  (void)error;
  s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s%s %d %s\n", key, is_prefix ? " prefix" : "",
                           (int)size, etag);
  return CKPT_OK;
}

static void lists_pages(void **state) {
  (void)state;
  seen s = {0};
  S3_START(
      t,
      {.status = "200 OK",
       .body = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true</IsTruncated>"
               "<EncodingType>url</EncodingType><NextContinuationToken>a/b==</NextContinuationToken>"
               "<Contents><Key>d/a+b%2B</Key><Size>7</Size><ETag>&quot;e1&quot;</ETag></Contents>"
               "<Contents><Key>d/z</Key><Size>8</Size></Contents>"
               "<CommonPrefixes><Prefix>d/m/</Prefix></CommonPrefixes></ListBucketResult>"},
      {.status = "200 OK",
       .body = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>d/%</Key><Size>9</Size></Contents>"
               "</ListBucketResult>"});
  assert_int_equal(ck_s3_list(t.s3, "bkt", "d/", "/", see, &s, &t.error), CKPT_OK);
  assert_string_equal(s.text, "d/a b+ 7 e1\nd/m/ prefix 0 \nd/z 8 \nd/% 9 \n");
  assert_true(canned_asked(&t.server, 0, "GET /bkt?delimiter=%2F&encoding-type=url&list-type=2&prefix=d%2F HTTP/1.1"));
  assert_true(canned_asked(&t.server, 1,
                           "GET /bkt?continuation-token=a%2Fb%3D%3D&delimiter=%2F&encoding-type=url&list-type=2&"
                           "prefix=d%2F HTTP/1.1"));
  s3_case_stop(&t);
}

static void refuses_senseless_lists(void **state) {
  (void)state;
  static char huge[17 << 20];
  memset(huge, ' ', sizeof huge - 1);
  const canned_answer answers[] = {
      {.status = "200 OK", .body = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"},
      {.status = "200 OK",
       .body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x"
               "</NextContinuationToken></ListBucketResult>"},
      {.status = "200 OK", .body = "<html><body>Welcome</body></html>"},
      {.status = "200 OK", .body = "<ListBucketResult>"},
      {.status = "200 OK", .body = ""},
      {.status = "200 OK", .body = huge},
  };
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    s3_case t;
    seen s = {0};
    s3_case_start(&t, &answers[i], 1);
    s3_case_failed(&t, ck_s3_list(t.s3, "bkt", "", NULL, see, &s, &t.error), "E-S3-014");
    if (answers[i].body == huge) assert_non_null(strstr(t.error.message, "its body is too large"));
    s3_case_stop(&t);
  }
  const canned_answer denied = {.status = "403 Forbidden", .body = huge};
  s3_case t;
  s3_case_start(&t, &denied, 1);
  s3_case_failed(&t, put_hello(&t), "E-S3-007");
  s3_case_stop(&t);
}

static ckpt_status refuse(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                          ckpt_error *error) {
  (void)context, (void)key, (void)is_prefix, (void)size, (void)etag;
  memset(error, 0, sizeof *error);
  strcpy(error->code, "mine");
  return error->status = CKPT_INVALID;
}

static void ends_lists_as_told(void **state) {
  (void)state;
  S3_START(t,
           {.status = "200 OK",
            .body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x"
                    "</NextContinuationToken><Contents><Key>a</Key></Contents></ListBucketResult>"},
           {.status = "404 Not Found"});
  s3_case_failed(&t, ck_s3_list(t.s3, "bkt", "", NULL, refuse, NULL, &t.error), "mine");
  s3_case_failed(&t, ck_s3_list(t.s3, "bkt", "", NULL, refuse, NULL, &t.error), "E-S3-009");
  s3_case_stop(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sends_a_signed_put),
      cmocka_unit_test(tries_again),
      cmocka_unit_test(tries_again_what_is_marked_so),
      cmocka_unit_test(tries_again_after_half_a_head),
      cmocka_unit_test(distrusts_a_status),
      cmocka_unit_test(gives_up),
      cmocka_unit_test(does_not_try_again),
      cmocka_unit_test(cannot_be_reached),
      cmocka_unit_test(speaks_no_tls),
      cmocka_unit_test(gives_up_stalled_transfers),
      cmocka_unit_test(keeps_secrets),
      cmocka_unit_test(names_failures),
      cmocka_unit_test(names_the_region),
      cmocka_unit_test(checks_what_arrived),
      cmocka_unit_test(knows_etags_that_are_no_md5),
      cmocka_unit_test(checks_what_it_fetches),
      cmocka_unit_test(tells_local_failures),
      cmocka_unit_test(goes_on_from_the_byte_reached),
      cmocka_unit_test(takes_a_whole_object_for_a_range),
      cmocka_unit_test(refuses_impossible_ranges),
      cmocka_unit_test(heads),
      cmocka_unit_test(removes),
      cmocka_unit_test(needs_a_key),
      cmocka_unit_test(stops_at_the_first_failure),
      cmocka_unit_test(lists_pages),
      cmocka_unit_test(refuses_senseless_lists),
      cmocka_unit_test(ends_lists_as_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
