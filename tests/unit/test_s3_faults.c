/* Every allocation, those of libcurl, expat and OpenSSL too, fails once: an error is reported or another attempt makes
 * up for it; where it was one of ours, nothing leaks (libcurl 7.88 itself leaks when some of its own fail). The server
 * is another process; the functions below take the place of libc's in this one. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../libckpt/s3_client.h"
#include "../common/cmocka_all.h"
#include "../common/s3_case.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static atomic_long countdown; /* 1: the next allocation fails; 0 and less: none does */
static atomic_long n_live;    /* allocations that were not freed */
static atomic_bool is_ours;   /* the one that failed */

#ifndef SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t item);
void *__libc_realloc(void *old, size_t n);
void __libc_free(void *old);

extern const char __executable_start, etext; /* the program's own code, libckpt in it */

static bool fails_now(const void *caller) {
  if (atomic_load(&countdown) <= 0 || atomic_fetch_sub(&countdown, 1) != 1) return false;
  is_ours = (uintptr_t)caller >= (uintptr_t)&__executable_start && (uintptr_t)caller < (uintptr_t)&etext;
  return true;
}

static void *counted(void *made) {
  n_live += made != NULL;
  return made;
}
void *malloc(size_t n) { return fails_now(__builtin_return_address(0)) ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t item) {
  return fails_now(__builtin_return_address(0)) ? NULL : counted(__libc_calloc(n, item));
}
void *realloc(void *old, size_t n) {
  if (fails_now(__builtin_return_address(0))) return NULL;
  return old ? __libc_realloc(old, n) : counted(__libc_realloc(old, n));
}
void free(void *old) {
  n_live -= old != NULL;
  __libc_free(old);
}
#endif

/* ---- What is tried ---- */

enum { PART = 1000 };
static char url[64];
static pid_t child;
static char *content;

typedef ckpt_status action(ckpt_s3 *s3, ckpt_error *error);

static ckpt_status see(void *context, const char *key, bool is_prefix, uint64_t size, const char *etag,
                       ckpt_error *error) {
  (void)context, (void)key, (void)is_prefix, (void)size, (void)etag, (void)error;
  return CKPT_OK;
}

static ckpt_status small(ckpt_s3 *s3, ckpt_error *error) {
  char out[5];
  ck_s3_object object;
  ck_s3_name name = {0};
  ckpt_status status = ck_s3_name_parse(&name, "s3://bkt/k", error);
  if (status == CKPT_OK) status = ck_s3_put(NULL, s3, name.bucket, name.key, "hello", 5, error);
  if (status == CKPT_OK) status = ck_s3_head(&object, s3, name.bucket, name.key, error);
  if (status == CKPT_OK) status = ck_s3_read(out, s3, name.bucket, name.key, S3_HELLO, 0, 5, error);
  if (status == CKPT_OK) status = ck_s3_remove(s3, name.bucket, name.key, error);
  if (status == CKPT_OK) status = ck_s3_list(s3, name.bucket, "", NULL, see, NULL, error);
  ck_s3_name_clear(&name);
  return status;
}

static ckpt_status large(ckpt_s3 *s3, ckpt_error *error) {
  ck_s3_upload *upload = NULL;
  const ck_s3_upload_options options = {.resume = true};
  ckpt_status status = ck_s3_upload_begin(&upload, s3, "bkt", "k", &options, error);
  if (status == CKPT_OK) status = ck_s3_upload_write(upload, content, PART + 1, error);
  if (status == CKPT_OK) status = ck_s3_upload_end(NULL, upload, error);
  ck_s3_upload_free(upload);
  return status;
}

static ckpt_status refused(ckpt_s3 *s3, ckpt_error *error) {
  ckpt_status status = ck_s3_put(NULL, s3, "bkt", "denied", "hello", 5, error);
  bool expected = status != CKPT_OK && strcmp(error->code, "E-S3-007") == 0;
  return expected ? CKPT_OK : status;
}

static ckpt_status run(action *act, ckpt_error *error) {
  ckpt_s3_options options = s3_case_options(url);
  ckpt_s3 *s3 = NULL;
  options.connections = 1;
  ckpt_status status = ckpt_s3_new(&s3, &options, error);
  if (s3) s3->part_n_bytes = PART; /* smaller than S3 takes, and quicker */
  if (status == CKPT_OK) status = act(s3, error);
  ckpt_s3_free(s3);
  return status;
}

/* Lets the first, second, third ... allocation fail until all succeed; the number of them. */
static void fail_each(action *act, long least) {
  long n = 0, n_errors = 0, n_ours = 0;
  ckpt_error error = {0};
  assert_int_equal(run(act, &error), CKPT_OK); /* what OpenSSL and libcurl make once is there now */
  for (bool failed = true; failed;) {
    long before = n_live;
    memset(&error, 0, sizeof error);
    countdown = ++n;
    is_ours = false;
    ckpt_status status = run(act, &error);
    failed = countdown <= 0;
    countdown = 0;
    n_ours += failed && is_ours;
    if (failed && is_ours) assert_int_equal(n_live, before);
    if (!failed) assert_int_equal(status, CKPT_OK);
    n_errors += status != CKPT_OK;
    if (status != CKPT_OK) assert_string_equal(error.code, "E-CKPT-001");
  }
  print_message("%ld allocations failed in turn, %ld of them ours; %ld were errors\n", n - 1, n_ours, n_errors);
  assert_true(n - 1 > least && n_ours > least / 2 && n_errors > least);
}

static void allocations(void **state) {
  (void)state;
#ifdef SANITIZED
  skip();
#endif
  fail_each(small, 200);
  fail_each(large, 200);
  fail_each(refused, 100);
}

/* ---- The server ---- */

#define ANSWER(text, ...) \
  { .when = text, .status = "200 OK", __VA_ARGS__ }

static void serve(int out) {
  static const canned_answer answers[] = {
      {.when = "/denied",
       .status = "403 Forbidden",
       .body = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>"},
      ANSWER("list-type", .body = "<ListBucketResult><Contents><Key>k</Key></Contents></ListBucketResult>"),
      ANSWER("POST /bkt/k?uploads",
             .body = "<InitiateMultipartUploadResult><UploadId>new</UploadId></InitiateMultipartUploadResult>"),
      ANSWER("GET /bkt?encoding-type=url&prefix=k&uploads=",
             .body = "<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>id</UploadId></Upload>"
                     "<Upload><Key>k</Key><UploadId>old</UploadId></Upload></ListMultipartUploadsResult>"),
      ANSWER("GET /bkt/k?uploadId", .body = "<ListPartsResult><Part><PartNumber>9</PartNumber><Size>1</Size>"
                                            "<ETag>\"" S3_HELLO "\"</ETag></Part></ListPartsResult>"),
      ANSWER("POST /bkt/k?uploadId",
             .body = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag></CompleteMultipartUploadResult>"),
      {.when = "DELETE ", .status = "204 No Content"},
      {.when = "range: bytes",
       .status = "206 Partial Content",
       .headers = "ETag: \"" S3_HELLO "\"\r\nContent-Range: bytes 0-4/5\r\n",
       .body = "hello"},
      ANSWER("HEAD ", .headers = "ETag: \"" S3_HELLO "\"\r\n", .n_claimed = 5),
      ANSWER("PUT ", .has_md5 = true),
  };
  canned server;
  canned_start(&server, answers, sizeof answers / sizeof *answers);
  if (write(out, server.url, sizeof server.url) != sizeof server.url) _exit(1);
  for (;;) pause();
}

static int start(void **state) {
  (void)state;
  int ends[2];
  if (pipe(ends) != 0) return -1;
  child = fork();
  if (child == 0) serve(ends[1]);
  content = calloc(1, PART + 1);
  bool good = content && child > 0 && read(ends[0], url, sizeof url) == sizeof url;
  close(ends[0]);
  close(ends[1]);
  return good ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  free(content);
  kill(child, SIGKILL);
  return waitpid(child, NULL, 0) == child ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(allocations)};
  return cmocka_run_group_tests(tests, start, stop);
}
