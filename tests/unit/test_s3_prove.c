/* What a server says of credentials. */
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/s3_case.h"

#define ERROR(code) "<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>words</Message></Error>"
#define BUCKETS "<ListAllMyBucketsResult><Buckets><Bucket><Name>a</Name></Bucket></Buckets></ListAllMyBucketsResult>"
#define DATE "Date: Fri, 24 May 2013 00:07:00 GMT\r\n"
enum { DATE_S = 1369354020 };

static void proves_what_may_list(void **state) {
  (void)state;
  S3_START(t, {.status = "200 OK", .headers = DATE, .body = BUCKETS});
  ckpt_s3_proof proof;
  assert_int_equal(ckpt_s3_prove(&proof, t.s3, &t.error), CKPT_OK);
  assert_true(proof.may_list);
  assert_int_equal(proof.server_s, DATE_S);
  assert_true(canned_asked(&t.server, 0, "GET / HTTP/1.1\r\n"));
  assert_true(canned_asked(&t.server, 0, "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"));
  s3_case_stop(&t);
}

static void tells_a_refused_list_from_a_refused_key(void **state) {
  (void)state;
  S3_START(t, {.status = "403 Forbidden", .body = ERROR("AccessDenied")},
           {.status = "403 Forbidden", .headers = DATE, .body = ERROR("SignatureDoesNotMatch")},
           {.status = "403 Forbidden", .body = ERROR("InvalidAccessKeyId")}, {.status = "403 Forbidden"},
           {.status = "403 Forbidden", .headers = DATE, .body = ERROR("RequestTimeTooSkewed")},
           {.status = "400 Bad Request", .body = ERROR("AuthorizationHeaderMalformed")});
  ckpt_s3_proof proof;
  assert_int_equal(ckpt_s3_prove(&proof, t.s3, &t.error), CKPT_OK);
  assert_false(proof.may_list);
  assert_int_equal(proof.server_s, 0);
  static const struct {
    const char *code;
    int64_t server_s;
  } refusals[] = {{"E-S3-007", DATE_S}, {"E-S3-007", 0}, {"E-S3-007", 0}, {"E-S3-008", DATE_S}, {"E-S3-018", 0}};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    s3_case_failed(&t, ckpt_s3_prove(&proof, t.s3, &t.error), refusals[i].code);
    assert_false(proof.may_list);
    assert_int_equal(proof.server_s, refusals[i].server_s);
  }
  assert_non_null(strstr(t.error.message, "s3://"));
  s3_case_stop(&t);
}

static void tries_twice(void **state) {
  (void)state;
  S3_START(t, {.way = CANNED_RESET}, {.status = "200 OK", .headers = "Date: no date\r\n", .body = BUCKETS},
           {.status = "500 Internal Server Error"}, {.status = "500 Internal Server Error"},
           {.status = "200 OK", .body = "<html></html>"}, {.status = "200 OK", .body = "<ListBucketResult/>"},
           {.status = "404 Not Found"});
  ckpt_s3_proof proof;
  assert_int_equal(ckpt_s3_prove(&proof, t.s3, &t.error), CKPT_OK);
  assert_int_equal(proof.server_s, 0);
  s3_case_failed(&t, ckpt_s3_prove(&proof, t.s3, &t.error), "E-S3-013");
  s3_case_failed(&t, ckpt_s3_prove(&proof, t.s3, &t.error), "E-S3-014");
  assert_int_not_equal(ckpt_s3_prove(&proof, t.s3, NULL), CKPT_OK);
  assert_int_equal(t.server.n_requests, 7);
  s3_case_stop(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(proves_what_may_list),
      cmocka_unit_test(tells_a_refused_list_from_a_refused_key),
      cmocka_unit_test(tries_twice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
