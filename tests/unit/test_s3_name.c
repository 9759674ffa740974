/* s3:// names, settings, endpoints, and where a bucket's name goes in a URL. */
#include <string.h>

#include "../../libckpt/s3_client.h"
#include "../common/cmocka_all.h"
#include "../common/s3_case.h"

static void expect_name(const char *text, const char *bucket, const char *key) {
  ck_s3_name name;
  ckpt_error error;
  assert_int_equal(ck_s3_name_parse(&name, text, &error), CKPT_OK);
  assert_string_equal(name.bucket, bucket);
  assert_string_equal(name.key, key);
  ck_s3_name_clear(&name);
}

static void parses_names(void **state) {
  (void)state;
  expect_name("s3://bucket/key", "bucket", "key");
  expect_name("s3://bucket", "bucket", "");
  expect_name("s3://bucket/", "bucket", "");
  expect_name("s3://my.bucket-1_X/a/b//c/", "my.bucket-1_X", "a/b//c/");
  expect_name("s3://b//lead", "b", "/lead");
  expect_name("s3://b/../a b+c%20?x#y\xc3\xa9", "b", "../a b+c%20?x#y\xc3\xa9");
  assert_true(ck_s3_is_name("s3://"));
  assert_false(ck_s3_is_name("S3://a/b"));
  assert_false(ck_s3_is_name("s3:/a/b"));
}

static void refuses_names(void **state) {
  (void)state;
  char longest[1100] = "s3://b/";
  memset(longest + 7, 'k', 1025);
  const char *names[] = {"s3://",       "s3:///key", "s3://-b/k", "s3://..",       "s3://b c/k",   "s3://b/\xff",
                         "s3://b/a\nb", longest,     "b/key",     "s3://user@b/k", "s3://b?x=1/k", "s3://b:9000/key"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    ck_s3_name name;
    ckpt_error error;
    assert_int_equal(ck_s3_name_parse(&name, names[i], &error), CKPT_INVALID);
    assert_string_equal(error.code, "E-S3-002");
    assert_null(name.bucket);
    assert_null(name.key);
  }
  longest[7 + 1024] = 0;
  ck_s3_name name;
  assert_int_equal(ck_s3_name_parse(&name, longest, NULL), CKPT_OK);
  ck_s3_name_clear(&name);
}

static void refuses_endpoints(void **state) {
  (void)state;
  const char *urls[] = {NULL,
                        "",
                        "127.0.0.1:9000",
                        "ftp://host",
                        "http://user:password@host",
                        "http://h/path",
                        "http://h?q",
                        "http://h/#f",
                        "http://",
                        "http://h:99999",
                        "http://a b",
                        "https://h/\n",
                        "http://h\xc3\xa9llo",
                        "http://[::1"};
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    ckpt_s3_options options = s3_case_options(urls[i]);
    ckpt_s3 *s3 = NULL;
    ckpt_error error;
    assert_int_equal(ckpt_s3_new(&s3, &options, &error), CKPT_INVALID);
    assert_string_equal(error.code, "E-S3-003");
    assert_null(strstr(error.message, "user:"));
    assert_null(s3);
  }
}

static void expect_refused(const ckpt_s3_options *options) {
  ckpt_s3 *s3 = NULL;
  ckpt_error error;
  assert_int_equal(ckpt_s3_new(&s3, options, &error), CKPT_INVALID);
  assert_string_equal(error.code, "E-S3-004");
  assert_null(strstr(error.message, S3_SECRET));
  assert_null(s3);
}

static void refuses_settings(void **state) {
  (void)state;
  const ckpt_s3_options good = s3_case_options("http://127.0.0.1:1");
  ckpt_s3_options options = good;
  expect_refused((options = good, options.access_key_id = NULL, &options));
  expect_refused((options = good, options.secret_access_key = "", &options));
  expect_refused((options = good, options.secret_access_key = S3_SECRET "\n", &options));
  expect_refused((options = good, options.session_token = " ", &options));
  expect_refused((options = good, options.region = "us east", &options));
  expect_refused((options = good, options.connections = 65, &options));
  expect_refused((options = good, options.attempts = -1, &options));
  expect_refused((options = good, options.part_n_bytes = 1, &options));
  expect_refused((options = good, options.stall_timeout_s = -1, &options));
  expect_refused((options = good, options.addressing = CKPT_S3_VIRTUAL, &options));
}

/* ---- Addressing ---- */

static void expect_place(const char *endpoint, ckpt_s3_addressing addressing, const char *bucket, const char *host,
                         const char *path) {
  ckpt_s3_options options = s3_case_options(endpoint);
  ckpt_s3 *s3 = NULL;
  ck_s3_place place;
  options.addressing = addressing;
  assert_int_equal(ckpt_s3_new(&s3, &options, NULL), CKPT_OK);
  assert_int_equal(ck_s3_locate(&place, s3, bucket, "a b/c", NULL), CKPT_OK);
  assert_string_equal(place.host, host);
  assert_string_equal(place.path, path);
  ck_s3_place_clear(&place);
  ckpt_s3_free(s3);
}

static void addresses(void **state) {
  (void)state;
  const char *path = "/bkt/a%20b/c", *amazon = "https://s3.eu-west-1.amazonaws.com";
  expect_place(amazon, CKPT_S3_AUTO, "bkt", "bkt.s3.eu-west-1.amazonaws.com", "/a%20b/c");
  expect_place(amazon, CKPT_S3_PATH, "bkt", "s3.eu-west-1.amazonaws.com", path);
  expect_place(amazon, CKPT_S3_AUTO, "b.kt", "s3.eu-west-1.amazonaws.com", "/b.kt/a%20b/c");
  expect_place(amazon, CKPT_S3_AUTO, "b_t", "s3.eu-west-1.amazonaws.com", "/b_t/a%20b/c");
  expect_place(amazon, CKPT_S3_AUTO, "Bkt", "s3.eu-west-1.amazonaws.com", "/Bkt/a%20b/c");
  expect_place("http://s3.amazonaws.com/", CKPT_S3_AUTO, "b.kt", "b.kt.s3.amazonaws.com", "/a%20b/c");
  expect_place("https://s3.amazonaws.com:8443", CKPT_S3_AUTO, "bkt", "s3.amazonaws.com:8443", path);
  expect_place("https://s3.amazonaws.com:443", CKPT_S3_AUTO, "bkt", "s3.amazonaws.com", path);
  expect_place("HTTPS://Host.Example:443", CKPT_S3_AUTO, "bkt", "host.example", path);
  expect_place("http://host.example:443", CKPT_S3_VIRTUAL, "bkt", "bkt.host.example:443", "/a%20b/c");
  expect_place("http://127.0.0.1:9000", CKPT_S3_AUTO, "bkt", "127.0.0.1:9000", path);
  expect_place("http://[::1]:9000", CKPT_S3_AUTO, "bkt", "[::1]:9000", path);
  expect_place("http://localhost", CKPT_S3_AUTO, "bkt", "localhost", path);
}

static void refuses_virtual_buckets(void **state) {
  (void)state;
  ckpt_s3_options options = s3_case_options("https://host.example");
  ckpt_s3 *s3 = NULL;
  ck_s3_place place;
  ckpt_error error;
  options.addressing = CKPT_S3_VIRTUAL;
  assert_int_equal(ckpt_s3_new(&s3, &options, NULL), CKPT_OK);
  assert_int_equal(ck_s3_locate(&place, s3, "under_score", "k", &error), CKPT_INVALID);
  assert_string_equal(error.code, "E-S3-002");
  ckpt_s3_free(s3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parses_names),     cmocka_unit_test(refuses_names), cmocka_unit_test(refuses_endpoints),
      cmocka_unit_test(refuses_settings), cmocka_unit_test(addresses),     cmocka_unit_test(refuses_virtual_buckets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
