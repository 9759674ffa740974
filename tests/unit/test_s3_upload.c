/* Multipart uploads against prepared answers. */
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/s3_case.h"

#define PART ((size_t)5 << 20)
#define SHA "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define CREATED                                                                                        \
  {                                                                                                    \
    .status = "200 OK",                                                                                \
    .body = "<InitiateMultipartUploadResult><UploadId>id/1</UploadId></InitiateMultipartUploadResult>" \
  }
#define SENT \
  { .status = "200 OK", .has_md5 = true }
#define GONE \
  { .status = "404 Not Found", .body = "<Error><Code>NoSuchUpload</Code></Error>" }
#define ENDED \
  { .status = "204 No Content" }

/* Of the content below: the MD5 of its parts' MD5s. */
#define WHOLE "aa849e3492a0008004df1e232e1b97f5-2"
#define COMPLETED(etag)                                                                                \
  {                                                                                                    \
    .status = "200 OK",                                                                                \
    .body = "<CompleteMultipartUploadResult><ETag>\"" etag "\"</ETag></CompleteMultipartUploadResult>" \
  }

/* Two parts, the second one short. */
static unsigned char *content;
static const size_t n_content = PART + 1000;

static int make_content(void **state) {
  (void)state;
  content = malloc(n_content);
  for (size_t i = 0; content && i < n_content; i++) content[i] = (unsigned char)(i >> 8);
  return content ? 0 : -1;
}

static int free_content(void **state) {
  (void)state;
  free(content);
  return 0;
}

static ckpt_status upload(char etag[CK_S3_ETAG], s3_case *t, const ck_s3_upload_options *options, size_t n_bytes) {
  ck_s3_upload *u = NULL;
  ckpt_status status = ck_s3_upload_begin(&u, t->s3, "bkt", "big/k", options, &t->error);
  for (size_t at = 0; status == CKPT_OK && at < n_bytes;) {
    size_t n = n_bytes - at < 700001 ? n_bytes - at : 700001;
    status = ck_s3_upload_write(u, content + at, n, &t->error);
    at += n;
  }
  if (status == CKPT_OK) status = ck_s3_upload_end(etag, u, &t->error);
  ck_s3_upload_free(u);
  return status;
}

static size_t count_asked(const s3_case *t, const char *text) {
  size_t n = 0;
  for (size_t i = 0; i < t->server.n_requests; i++) n += canned_asked(&t->server, i, text);
  return n;
}

static void puts_what_fits_a_part(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, SENT);
  assert_int_equal(upload(etag, &t, NULL, PART), CKPT_OK);
  assert_int_equal(upload(etag, &t, NULL, 0), CKPT_OK);
  assert_string_equal(etag, "d41d8cd98f00b204e9800998ecf8427e");
  assert_int_equal(count_asked(&t, "PUT /bkt/big/k HTTP"), 2);
  assert_int_equal(t.server.n_requests, 2);
  s3_case_stop(&t);
}

static void sends_parts(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  const ck_s3_upload_options options = {.sha256 = "sha256:" SHA};
  S3_START(t, CREATED, SENT, SENT, COMPLETED(WHOLE));
  assert_int_equal(upload(etag, &t, &options, n_content), CKPT_OK);
  assert_string_equal(etag, WHOLE);
  assert_true(canned_asked(&t.server, 0, "POST /bkt/big/k?uploads= HTTP"));
  assert_true(canned_asked(&t.server, 0, "\r\nx-amz-meta-sha256: " SHA "\r\n"));
  assert_int_equal(count_asked(&t, "PUT /bkt/big/k?partNumber=1&uploadId=id%2F1 HTTP"), 1);
  assert_int_equal(count_asked(&t, "PUT /bkt/big/k?partNumber=2&uploadId=id%2F1 HTTP"), 1);
  assert_true(canned_asked(&t.server, 3, "POST /bkt/big/k?uploadId=id%2F1 HTTP"));
  assert_non_null(strstr(t.server.requests[3].body, "<Part><PartNumber>2</PartNumber><ETag>\""));
  assert_int_equal(t.server.n_requests, 4);
  s3_case_stop(&t);
}

static void completes_again_after_an_error(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, CREATED, SENT, SENT, {.status = "200 OK", .body = "<Error><Code>InternalError</Code></Error>"},
           COMPLETED(WHOLE));
  assert_int_equal(upload(etag, &t, NULL, n_content), CKPT_OK);
  assert_int_equal(t.server.n_requests, 5);
  s3_case_stop(&t);
}

static void makes_up_for_a_lost_answer(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, CREATED, SENT, SENT, {.way = CANNED_RESET}, GONE,
           {.status = "200 OK", .headers = "ETag: \"" WHOLE "\"\r\n", .n_claimed = PART + 1000});
  assert_int_equal(upload(etag, &t, NULL, n_content), CKPT_OK);
  assert_string_equal(etag, WHOLE);
  s3_case_stop(&t);
}

static void tells_a_vanished_upload(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, CREATED, SENT, SENT, GONE, {.status = "404 Not Found"}, ENDED);
  s3_case_failed(&t, upload(etag, &t, NULL, n_content), "E-S3-019");
  s3_case_stop(&t);
  S3_START(
      u, CREATED, SENT, SENT, GONE,
      {.status = "200 OK", .headers = "ETag: \"00000000000000000000000000000000-2\"\r\n", .n_claimed = PART + 1000},
      ENDED);
  s3_case_failed(&u, upload(etag, &u, NULL, n_content), "E-S3-019");
  s3_case_stop(&u);
  S3_START(v, CREATED, GONE);
  s3_case_failed(&v, upload(etag, &v, NULL, n_content), "E-S3-019");
  s3_case_stop(&v);
}

static void checks_the_whole(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, CREATED, SENT, SENT, COMPLETED("00000000000000000000000000000000-2"));
  s3_case_failed(&t, upload(etag, &t, NULL, n_content), "E-S3-015");
  s3_case_stop(&t);
}

static void aborts_after_a_failure(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  S3_START(t, CREATED, {.status = "403 Forbidden"}, {.status = "403 Forbidden"}, ENDED);
  s3_case_failed(&t, upload(etag, &t, NULL, n_content), "E-S3-007");
  size_t last = t.server.n_requests - 1;
  assert_true(canned_asked(&t.server, last, "DELETE /bkt/big/k?uploadId=id%2F1 HTTP"));
  s3_case_stop(&t);
}

static void leaves_and_takes_up(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  ck_s3_upload_options options = {.leave = true};
  S3_START(t, CREATED, {.status = "403 Forbidden"});
  s3_case_failed(&t, upload(etag, &t, &options, n_content), "E-S3-007");
  assert_int_equal(count_asked(&t, "DELETE"), 0);
  s3_case_stop(&t);
  options.resume = true;
  S3_START(
      u,
      {.status = "200 OK",
       .body =
           "<ListMultipartUploadsResult>"
           "<Upload><Key>big/k</Key><UploadId>new</UploadId><Initiated>2026-01-02T00:00:00.000Z</Initiated></Upload>"
           "<Upload><Key>big/k</Key><UploadId>old</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>"
           "<Upload><Key>big/k2</Key><UploadId>other</UploadId></Upload></ListMultipartUploadsResult>"},
      ENDED,
      {.status = "200 OK",
       .body = "<ListPartsResult><Part><PartNumber>2</PartNumber><Size>1000</Size>"
               "<ETag>\"00000000000000000000000000000000\"</ETag></Part><Part><PartNumber>1</PartNumber>"
               "<Size>5242880</Size><ETag>\"d9f77a6811b18d76986bd26027abb0f4\"</ETag></Part></ListPartsResult>"},
      SENT, COMPLETED(WHOLE));
  assert_int_equal(upload(etag, &u, &options, n_content), CKPT_OK);
  assert_int_equal(count_asked(&u, "PUT "), 1);
  assert_true(canned_asked(&u.server, 1, "DELETE /bkt/big/k?uploadId=old HTTP"));
  assert_true(canned_asked(&u.server, 2, "GET /bkt/big/k?uploadId=new HTTP"));
  assert_int_equal(count_asked(&u, "PUT /bkt/big/k?partNumber=2&uploadId=new HTTP"), 1);
  s3_case_stop(&u);
}

static void removes_what_was_begun_for_other_content(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  const ck_s3_upload_options options = {.resume = true, .sha256 = "sha256:" SHA};
  S3_START(t,
           {.status = "200 OK",
            .body = "<ListMultipartUploadsResult><Upload><Key>big/k</Key><UploadId>id</UploadId></Upload>"
                    "</ListMultipartUploadsResult>"},
           {.status = "200 OK", .body = "<ListPartsResult></ListPartsResult>"}, SENT, SENT, COMPLETED(WHOLE),
           {.status = "200 OK", .headers = "ETag: \"" WHOLE "\"\r\n", .n_claimed = PART + 1000}, ENDED);
  s3_case_failed(&t, upload(etag, &t, &options, n_content), "E-S3-017");
  assert_true(canned_asked(&t.server, 6, "DELETE /bkt/big/k HTTP"));
  s3_case_stop(&t);
}

static void refuses_what_is_too_large(void **state) {
  (void)state;
  char etag[CK_S3_ETAG];
  const ck_s3_upload_options options = {.size = UINT64_C(60) << 40};
  S3_START(t, SENT);
  s3_case_failed(&t, upload(etag, &t, &options, 10), "E-S3-016");
  assert_int_equal(t.error.status, CKPT_INVALID);
  assert_int_equal(t.server.n_requests, 0);
  s3_case_stop(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(puts_what_fits_a_part),
      cmocka_unit_test(sends_parts),
      cmocka_unit_test(completes_again_after_an_error),
      cmocka_unit_test(makes_up_for_a_lost_answer),
      cmocka_unit_test(tells_a_vanished_upload),
      cmocka_unit_test(checks_the_whole),
      cmocka_unit_test(aborts_after_a_failure),
      cmocka_unit_test(leaves_and_takes_up),
      cmocka_unit_test(removes_what_was_begun_for_other_content),
      cmocka_unit_test(refuses_what_is_too_large),
  };
  return cmocka_run_group_tests(tests, make_content, free_content);
}
