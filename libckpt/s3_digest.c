#include "s3_digest.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

void ck_hex(char *out, const unsigned char *bytes, size_t n_bytes) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n_bytes; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
  out[2 * n_bytes] = 0;
}

/* What a failure puts into the thread's queue of errors is taken out again: it is the caller's queue. */
static bool settle(bool good) {
  if (good)
    ERR_clear_last_mark();
  else
    ERR_pop_to_mark();
  return good;
}

static bool digest(unsigned char *out, const void *bytes, size_t n_bytes, const EVP_MD *kind) {
  ERR_set_mark();
  return settle(EVP_Digest(bytes, n_bytes, out, NULL, kind, NULL) == 1);
}

bool ck_hmac_sha256(unsigned char out[32], const void *key, size_t n_key, const char *text) {
  ERR_set_mark();
  return settle(HMAC(EVP_sha256(), key, (int)n_key, (const unsigned char *)text, strlen(text), out, NULL) != NULL);
}

bool ck_hex_sha256(char out[CK_HEX_SHA256], const void *bytes, size_t n_bytes) {
  unsigned char value[32];
  bool good = digest(value, bytes, n_bytes, EVP_sha256());
  if (good) ck_hex(out, value, sizeof value);
  return good;
}

bool ck_md5(unsigned char out[16], const void *bytes, size_t n_bytes) { return digest(out, bytes, n_bytes, EVP_md5()); }

void ck_base64_md5(char out[CK_BASE64_MD5], const unsigned char md5[16]) {
  EVP_EncodeBlock((unsigned char *)out, md5, 16);
}

bool ck_is_md5(const char *etag) { return strlen(etag) == 32 && strspn(etag, "0123456789abcdef") == 32; }
