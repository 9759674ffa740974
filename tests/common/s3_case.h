/* A client of S3 and a canned server, for tests. */
#ifndef TEST_S3_CASE_H
#define TEST_S3_CASE_H

#include "../../libckpt/s3.h"
#include "canned.h"

#define S3_KEY_ID "AKIDEXAMPLE1234"
#define S3_SECRET "secretSECRETsecret/+40"
#define S3_TOKEN "tokenTOKENtoken=="
#define S3_HELLO "5d41402abc4b2a76b9719d911017c592" /* the MD5 of "hello" */

typedef struct s3_case {
  canned server;
  ckpt_s3 *s3;
  ckpt_error error;
} s3_case;

/* Options with short waits, two connections, parts of 5 MiB and the clock at 2013-05-24. */
ckpt_s3_options s3_case_options(const char *endpoint_url);

void s3_case_start(s3_case *test, const canned_answer *answers, size_t n_answers);
void s3_case_stop(s3_case *test);

#define S3_START(test, ...)                                    \
  static const canned_answer test##_answers[] = {__VA_ARGS__}; \
  s3_case test;                                                \
  s3_case_start(&test, test##_answers, sizeof test##_answers / sizeof *test##_answers)

/* The status and code are those, and the message holds no secret. */
void s3_case_failed(const s3_case *test, ckpt_status status, const char *code);

#endif
