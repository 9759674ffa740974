/* Names of objects, and where a bucket's name goes in a URL. */
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "s3_client.h"
#include "utf8.h"

enum { MAX_BUCKET = 255, MAX_KEY = 1024 };

bool ck_s3_is_name(const char *name) { return strncmp(name, "s3://", 5) == 0; }

static bool is_alphanumeric(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_bucket(const char *text, size_t n) {
  if (n == 0 || n > MAX_BUCKET || !is_alphanumeric(text[0])) return false;
  for (size_t i = 0; i < n; i++)
    if (!is_alphanumeric(text[i]) && text[i] != '-' && text[i] != '.' && text[i] != '_') return false;
  return true;
}

static bool has_controls(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) return true;
  return false;
}

static ckpt_status fail_name(const char *name, const char *problem, ckpt_error *error) {
  return ck_fail(error, CK_E_S3_NAME, name, -1, 0, "expected s3://bucket/key, but %s", problem);
}

ckpt_status ck_s3_name_parse(ck_s3_name *out, const char *name, ckpt_error *error) {
  *out = (ck_s3_name){0};
  if (!ck_s3_is_name(name)) return fail_name(name, "it does not start with s3://", error);
  const char *bucket = name + 5, *slash = strchr(bucket, '/');
  size_t n = slash ? (size_t)(slash - bucket) : strlen(bucket);
  const char *key = slash ? slash + 1 : "";
  if (!is_bucket(bucket, n))
    return fail_name(name, "the bucket is not 1 to 255 letters, digits, '-', '.' and '_', the first a letter or digit",
                     error);
  if (strlen(key) > MAX_KEY) return fail_name(name, "the key has more than 1024 bytes", error);
  if (!ck_is_utf8(key, strlen(key)) || has_controls(key))
    return fail_name(name, "the key is not UTF-8 or has control characters", error);
  out->bucket = ck_copy_text_n(bucket, n);
  out->key = ck_copy_text(key);
  if (out->bucket && out->key) return CKPT_OK;
  ck_s3_name_clear(out);
  return ck_no_memory(error, 0);
}

void ck_s3_name_clear(ck_s3_name *name) {
  free(name->bucket);
  free(name->key);
  *name = (ck_s3_name){0};
}

char *ck_s3_title(const char *bucket, const char *key) {
  return bucket ? ck_print("s3://%s/%s", bucket, key ? key : "") : ck_copy_text("s3://");
}

/* ---- Addressing ---- */

/* Lowercase letters, digits, and '-' within; dots between labels only where they are allowed. */
static bool is_label(const char *bucket, bool dots) {
  size_t n = strlen(bucket);
  if (n < 1 || n > 63) return false;
  for (size_t i = 0; i < n; i++) {
    char c = bucket[i];
    bool inner = i > 0 && i + 1 < n && is_alphanumeric(bucket[i - 1]);
    if (c == '.' && dots && inner && is_alphanumeric(bucket[i + 1])) continue;
    if (c == '-' && i > 0 && i + 1 < n && bucket[i - 1] != '.' && bucket[i + 1] != '.') continue;
    if (!is_alphanumeric(c) || (c >= 'A' && c <= 'Z')) return false;
  }
  return true;
}

/* A certificate for *.host is of one label alone. */
static bool is_virtual(const ckpt_s3 *s3, const char *bucket) {
  if (s3->addressing != CKPT_S3_AUTO) return s3->addressing == CKPT_S3_VIRTUAL;
  bool amazon = ck_ends_with(s3->host, ".amazonaws.com") || ck_ends_with(s3->host, ".amazonaws.com.cn");
  return amazon && !s3->has_port && is_label(bucket, strcmp(s3->scheme, "http") == 0);
}

ckpt_status ck_s3_locate(ck_s3_place *out, const ckpt_s3 *s3, const char *bucket, const char *key, ckpt_error *error) {
  *out = (ck_s3_place){0};
  if (key && !*key) /* a request for it would be one for the bucket: to remove it, say */
    return ck_fail(error, CK_E_S3_NAME, NULL, -1, 0, "s3://%s/ names no object: its key is empty", bucket);
  bool host_has_bucket = bucket && is_virtual(s3, bucket);
  if (host_has_bucket && !is_label(bucket, true))
    return ck_fail(error, CK_E_S3_NAME, NULL, -1, 0,
                   "virtual addressing needs a bucket whose name can be a part of a host's name, found '%s'", bucket);
  char *path = ck_s3_encode(key ? key : "", true);
  if (path && host_has_bucket) {
    out->host = ck_print("%s.%s", bucket, s3->host);
    out->path = ck_print("/%s", path);
  } else if (path) {
    out->host = ck_copy_text(s3->host);
    out->path = key ? ck_print("/%s/%s", bucket, path) : ck_print("/%s", bucket ? bucket : "");
  }
  free(path);
  if (out->host && out->path) return CKPT_OK;
  ck_s3_place_clear(out);
  return ck_no_memory(error, 0);
}

void ck_s3_place_clear(ck_s3_place *place) {
  free(place->host);
  free(place->path);
  *place = (ck_s3_place){0};
}
