#include "s3_case.h"

#include <string.h>

#include "cmocka_all.h"

static int64_t fixed_now_s(void *context) {
  (void)context;
  return 1369353600;
}

ckpt_s3_options s3_case_options(const char *endpoint_url) {
  return (ckpt_s3_options){.access_key_id = S3_KEY_ID,
                           .secret_access_key = S3_SECRET,
                           .session_token = S3_TOKEN,
                           .endpoint_url = endpoint_url,
                           .region = "us-test-1",
                           .connections = 2,
                           .part_n_bytes = 5 << 20,
                           .attempts = 4,
                           .backoff_s = 0.001,
                           .connect_timeout_s = 5,
                           .stall_timeout_s = 1,
                           .now_s = fixed_now_s};
}

void s3_case_start(s3_case *test, const canned_answer *answers, size_t n_answers) {
  memset(&test->error, 0, sizeof test->error);
  canned_start(&test->server, answers, n_answers);
  ckpt_s3_options options = s3_case_options(test->server.url);
  assert_int_equal(ckpt_s3_new(&test->s3, &options, &test->error), CKPT_OK);
}

void s3_case_stop(s3_case *test) {
  ckpt_s3_free(test->s3);
  canned_stop(&test->server);
}

void s3_case_failed(const s3_case *test, ckpt_status status, const char *code) {
  static const char *const secrets[] = {S3_SECRET, S3_TOKEN, S3_KEY_ID, "Signature=", "AWS4-HMAC"};
  const ckpt_error *error = &test->error;
  if (strcmp(error->code, code) != 0) print_message("%s: %s\n", error->code, error->message);
  assert_string_equal(error->code, code);
  assert_int_equal(status, error->status);
  for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) assert_null(strstr(error->message, secrets[i]));
}
