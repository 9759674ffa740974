/* Signature Version 4: the examples that AWS publishes for S3, for signing keys and in its suite of test cases. */
#include <stdlib.h>
#include <string.h>

#include "../../libckpt/s3_digest.h"
#include "../../libckpt/s3_sign.h"
#include "../common/cmocka_all.h"

static const char *const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

static void expect_end(char *text, const char *end) {
  assert_non_null(text);
  assert_true(strlen(text) >= strlen(end));
  assert_string_equal(text + strlen(text) - strlen(end), end);
  free(text);
}

/* ---- "Signature Calculations for the Authorization Header", examples of the Amazon S3 API reference ---- */

static ck_s3_signing s3_example(const char *method, const char *path, const char *query, const ck_s3_pair *headers,
                                size_t n_headers) {
  return (ck_s3_signing){.access_key_id = "AKIAIOSFODNN7EXAMPLE",
                         .secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                         .region = "us-east-1",
                         .service = "s3",
                         .method = method,
                         .path = path,
                         .query = query,
                         .headers = headers,
                         .n_headers = n_headers,
                         .payload_sha256 = empty,
                         .date = "20130524T000000Z"};
}

static void gets_a_range(void **state) {
  (void)state;
  const ck_s3_pair headers[] = {{"host", "examplebucket.s3.amazonaws.com"},
                                {"range", "bytes=0-9"},
                                {"x-amz-content-sha256", empty},
                                {"x-amz-date", "20130524T000000Z"}};
  ck_s3_signing signing = s3_example("GET", "/test.txt", "", headers, 4);
  char *value = ck_s3_authorization(&signing);
  assert_string_equal(value,
                      "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
                      "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
                      "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  free(value);
}

static void puts_an_object(void **state) {
  (void)state;
  char payload[CK_HEX_SHA256];
  assert_true(ck_hex_sha256(payload, "Welcome to Amazon S3.", 21));
  const ck_s3_pair headers[] = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                                {"host", "examplebucket.s3.amazonaws.com"},
                                {"x-amz-content-sha256", payload},
                                {"x-amz-date", "20130524T000000Z"},
                                {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  char *path = ck_s3_encode("/test$file.text", true);
  ck_s3_signing signing = s3_example("PUT", path, "", headers, 5);
  signing.payload_sha256 = payload;
  expect_end(ck_s3_authorization(&signing), "=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  free(path);
}

static void signs_queries(void **state) {
  (void)state;
  const ck_s3_pair headers[] = {
      {"host", "examplebucket.s3.amazonaws.com"}, {"x-amz-content-sha256", empty}, {"x-amz-date", "20130524T000000Z"}};
  const ck_s3_pair lifecycle[] = {{"lifecycle", ""}}, list[] = {{"prefix", "J"}, {"max-keys", "2"}};
  char *query = ck_s3_query(lifecycle, 1);
  ck_s3_signing signing = s3_example("GET", "/", query, headers, 3);
  expect_end(ck_s3_authorization(&signing), "=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  free(query);
  query = ck_s3_query(list, 2);
  assert_string_equal(query, "max-keys=2&prefix=J");
  signing = s3_example("GET", "/", query, headers, 3);
  expect_end(ck_s3_authorization(&signing), "=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
  free(query);
}

/* ---- "Examples of how to derive a signing key" ---- */

static void derives_keys(void **state) {
  (void)state;
  static const struct {
    const char *day, *key;
  } cases[] = {{"20120215", "f4780e2d9f65fa895f9c67b32ce1baf0b0d8a43505a000a1a9e090d414db404d"},
               {"20150830", "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    unsigned char key[32];
    char digits[CK_HEX_SHA256];
    assert_true(ck_s3_signing_key(key, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", cases[i].day, "us-east-1", "iam"));
    ck_hex(digits, key, sizeof key);
    assert_string_equal(digits, cases[i].key);
  }
}

/* ---- The "Signature Version 4 test suite" ---- */

static void passes_the_suite(void **state) {
  (void)state;
  static const struct {
    const char *method, *path;
    ck_s3_pair query[2];
    size_t n_query;
    const char *signature;
  } cases[] = {
      {"GET", "/", {{0}}, 0, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"POST", "/", {{0}}, 0, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
      {"GET",
       "/",
       {{"Param2", "value2"}, {"Param1", "value1"}},
       2,
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const ck_s3_pair headers[] = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}};
    char *query = ck_s3_query(cases[i].query, cases[i].n_query);
    ck_s3_signing signing = {.access_key_id = "AKIDEXAMPLE",
                             .secret_access_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                             .region = "us-east-1",
                             .service = "service",
                             .method = cases[i].method,
                             .path = cases[i].path,
                             .query = query,
                             .headers = headers,
                             .n_headers = 2,
                             .payload_sha256 = empty,
                             .date = "20150830T123600Z"};
    expect_end(ck_s3_authorization(&signing), cases[i].signature);
    free(query);
  }
}

/* ---- Encodings ---- */

static void expect_encoded(const char *text, bool keep_slashes, const char *expected) {
  char *out = ck_s3_encode(text, keep_slashes);
  assert_string_equal(out, expected);
  free(out);
}

static void encodes(void **state) {
  (void)state;
  expect_encoded("AZaz09-._~", false, "AZaz09-._~");
  expect_encoded("a/b//c", true, "a/b//c");
  expect_encoded("a/b", false, "a%2Fb");
  expect_encoded("a b+c%d", true, "a%20b%2Bc%25d");
  expect_encoded("\xc3\xa9?#\"'", true, "%C3%A9%3F%23%22%27");
  expect_encoded("", true, "");
}

static void sorts_by_name_then_value(void **state) {
  (void)state;
  const ck_s3_pair pairs[] = {{"a-b", "1"}, {"a", "z"}, {"uploads", ""}, {"a", "A"}, {"a b", "="}};
  char *query = ck_s3_query(pairs, 5);
  assert_string_equal(query, "a=A&a=z&a%20b=%3D&a-b=1&uploads=");
  free(query);
}

static void dates(void **state) {
  (void)state;
  char date[CK_S3_DATE];
  ck_s3_date(date, 1369353600);
  assert_string_equal(date, "20130524T000000Z");
  ck_s3_date(date, 951782399);
  assert_string_equal(date, "20000228T235959Z");
  ck_s3_date(date, INT64_MAX);
  assert_string_equal(date, "19700101T000000Z");
}

static void hashes(void **state) {
  (void)state;
  unsigned char md5[16];
  char digits[CK_HEX_MD5], base64[CK_BASE64_MD5];
  assert_true(ck_md5(md5, "abc", 3));
  ck_hex(digits, md5, 16);
  ck_base64_md5(base64, md5);
  assert_string_equal(digits, "900150983cd24fb0d6963f7d28e17f72");
  assert_string_equal(base64, "kAFQmDzST7DWlj99KOF/cg==");
  assert_true(ck_is_md5(digits));
  assert_false(ck_is_md5("900150983cd24fb0d6963f7d28e17f72-3"));
  assert_false(ck_is_md5("900150983cd24fb0d6963f7d28e17f7"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gets_a_range),     cmocka_unit_test(puts_an_object), cmocka_unit_test(signs_queries),
      cmocka_unit_test(derives_keys),     cmocka_unit_test(encodes),        cmocka_unit_test(sorts_by_name_then_value),
      cmocka_unit_test(passes_the_suite), cmocka_unit_test(dates),          cmocka_unit_test(hashes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
