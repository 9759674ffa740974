#include "s3_sign.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "error.h"
#include "s3_digest.h"

static bool is_plain(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

char *ck_s3_encode(const char *text, bool keep_slashes) {
  static const char digits[] = "0123456789ABCDEF";
  size_t n = strlen(text);
  char *out = n < SIZE_MAX / 3 ? malloc(3 * n + 1) : NULL, *next = out;
  if (!out) return NULL;
  for (size_t i = 0; i < n; i++) {
    if (is_plain(text[i]) || (text[i] == '/' && keep_slashes)) {
      *next++ = text[i];
    } else {
      *next++ = '%';
      *next++ = digits[(unsigned char)text[i] >> 4];
      *next++ = digits[(unsigned char)text[i] & 15];
    }
  }
  *next = 0;
  return out;
}

static int by_text(const void *left, const void *right) { return strcmp(*(char *const *)left, *(char *const *)right); }

/* With a byte between name and value that is less than any encoded one, so that texts sort by name, then by value. */
static char *encode_pair(const ck_s3_pair *pair) {
  char *name = ck_s3_encode(pair->name, false), *value = ck_s3_encode(pair->value, false);
  char *both = name && value ? ck_print("%s\1%s", name, value) : NULL;
  free(name);
  free(value);
  return both;
}

static char *join_pairs(char **texts, size_t n) {
  char *query = ck_copy_text("");
  for (size_t i = 0; query && i < n; i++) {
    *strchr(texts[i], '\1') = '=';
    char *longer = ck_print("%s%s%s", query, i ? "&" : "", texts[i]);
    free(query);
    query = longer;
  }
  return query;
}

char *ck_s3_query(const ck_s3_pair *pairs, size_t n) {
  char **texts = ck_take(n, sizeof *texts), *query = NULL;
  bool good = texts != NULL;
  for (size_t i = 0; good && i < n; i++) good = (texts[i] = encode_pair(&pairs[i])) != NULL;
  if (good) {
    qsort(texts, n, sizeof *texts, by_text);
    query = join_pairs(texts, n);
  }
  for (size_t i = 0; texts && i < n; i++) free(texts[i]);
  free(texts);
  return query;
}

void ck_s3_date(char out[CK_S3_DATE], int64_t now_s) {
  time_t seconds = (time_t)now_s;
  struct tm parts;
  if (!gmtime_r(&seconds, &parts) || strftime(out, CK_S3_DATE, "%Y%m%dT%H%M%SZ", &parts) != CK_S3_DATE - 1)
    memcpy(out, "19700101T000000Z", CK_S3_DATE);
}

bool ck_s3_signing_key(unsigned char out[32], const char *secret_access_key, const char *day, const char *region,
                       const char *service) {
  unsigned char key[32];
  char *first = ck_print("AWS4%s", secret_access_key);
  bool good = first && ck_hmac_sha256(out, first, strlen(first), day) && ck_hmac_sha256(key, out, 32, region) &&
              ck_hmac_sha256(out, key, 32, service) && ck_hmac_sha256(key, out, 32, "aws4_request");
  if (good) memcpy(out, key, 32);
  OPENSSL_cleanse(key, sizeof key);
  if (first) OPENSSL_cleanse(first, strlen(first));
  free(first);
  return good;
}

/* Joins "name:value\n" of all headers, or their names with ';' between. */
static char *join_headers(const ck_s3_signing *signing, bool names_only) {
  char *text = ck_copy_text("");
  for (size_t i = 0; text && i < signing->n_headers; i++) {
    const ck_s3_pair *header = &signing->headers[i];
    char *longer = names_only ? ck_print("%s%s%s", text, i ? ";" : "", header->name)
                              : ck_print("%s%s:%s\n", text, header->name, header->value);
    free(text);
    text = longer;
  }
  return text;
}

static bool request_hash(char out[CK_HEX_SHA256], const ck_s3_signing *signing, const char *names) {
  char *headers = join_headers(signing, false);
  char *request = headers ? ck_print("%s\n%s\n%s\n%s\n%s\n%s", signing->method, signing->path, signing->query, headers,
                                     names, signing->payload_sha256)
                          : NULL;
  bool good = request && ck_hex_sha256(out, request, strlen(request));
  free(headers);
  free(request);
  return good;
}

static bool signature(char out[CK_HEX_SHA256], const ck_s3_signing *signing, const char *scope, const char *hash) {
  char day[9];
  unsigned char key[32], value[32];
  snprintf(day, sizeof day, "%.8s", signing->date);
  char *text = ck_print("AWS4-HMAC-SHA256\n%s\n%s\n%s", signing->date, scope, hash);
  bool good = text && ck_s3_signing_key(key, signing->secret_access_key, day, signing->region, signing->service) &&
              ck_hmac_sha256(value, key, sizeof key, text);
  if (good) ck_hex(out, value, sizeof value);
  OPENSSL_cleanse(key, sizeof key);
  free(text);
  return good;
}

char *ck_s3_authorization(const ck_s3_signing *signing) {
  char hash[CK_HEX_SHA256], signed_hash[CK_HEX_SHA256], *value = NULL;
  char *names = join_headers(signing, true);
  char *scope = ck_print("%.8s/%s/%s/aws4_request", signing->date, signing->region, signing->service);
  if (names && scope && request_hash(hash, signing, names) && signature(signed_hash, signing, scope, hash))
    value = ck_print("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", signing->access_key_id, scope,
                     names, signed_hash);
  free(names);
  free(scope);
  return value;
}
