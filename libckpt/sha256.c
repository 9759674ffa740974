#include "sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

struct ck_sha256 {
  EVP_MD_CTX *context;
};

/* The only way these calls of OpenSSL fail is for want of memory. What they then put into the thread's queue of errors
 * is taken out again: it is the caller's queue. */
static ckpt_status settle(bool good, ckpt_error *error) {
  if (good)
    ERR_clear_last_mark();
  else
    ERR_pop_to_mark();
  return good ? CKPT_OK : ck_no_memory(error, 0);
}

static ckpt_status start(ck_sha256 *hash, ckpt_error *error) {
  ERR_set_mark();
  return settle(EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL) == 1, error);
}

ckpt_status ck_sha256_new(ck_sha256 **out, ckpt_error *error) {
  *out = NULL;
  ck_sha256 *hash = ck_take(1, sizeof *hash);
  if (!hash) return ck_no_memory(error, sizeof *hash);
  ERR_set_mark();
  hash->context = EVP_MD_CTX_new();
  ckpt_status status = settle(hash->context != NULL, error);
  if (status == CKPT_OK) status = start(hash, error);
  if (status == CKPT_OK)
    *out = hash;
  else
    ck_sha256_free(hash);
  return status;
}

void ck_sha256_free(ck_sha256 *hash) {
  if (!hash) return;
  EVP_MD_CTX_free(hash->context);
  free(hash);
}

ckpt_status ck_sha256_add(ck_sha256 *hash, const void *bytes, size_t n_bytes, ckpt_error *error) {
  return EVP_DigestUpdate(hash->context, bytes, n_bytes) == 1 ? CKPT_OK : ck_no_memory(error, 0);
}

ckpt_status ck_sha256_finish(char out[CKPT_SHA256_TEXT], ck_sha256 *hash, ckpt_error *error) {
  static const char digits[] = "0123456789abcdef";
  unsigned char value[EVP_MAX_MD_SIZE];
  unsigned n = 0;
  ERR_set_mark();
  ckpt_status status = settle(EVP_DigestFinal_ex(hash->context, value, &n) == 1, error);
  if (status != CKPT_OK) return status;
  memcpy(out, "sha256:", 7);
  for (unsigned i = 0; i < n; i++) {
    out[7 + 2 * i] = digits[value[i] >> 4];
    out[8 + 2 * i] = digits[value[i] & 15];
  }
  out[7 + 2 * n] = 0;
  return start(hash, error);
}

bool ck_is_sha256(const char *text) {
  return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 && strspn(text + 7, "0123456789abcdef") == 64;
}

ckpt_status ckpt_sha256_bytes(char out[CKPT_SHA256_TEXT], const void *bytes, size_t n_bytes, ckpt_error *error) {
  ck_sha256 *hash = NULL;
  ckpt_status status = ck_sha256_new(&hash, error);
  if (status == CKPT_OK) status = ck_sha256_add(hash, bytes, n_bytes, error);
  if (status == CKPT_OK) status = ck_sha256_finish(out, hash, error);
  ck_sha256_free(hash);
  return status;
}

ckpt_status ckpt_sha256_file(char out[CKPT_SHA256_TEXT], const char *path, ckpt_error *error) {
  ckpt_read_options options = CKPT_READ_OPTIONS;
  options.stored = true;
  ckpt_file *file = NULL;
  ckpt_status status = ckpt_file_open(&file, path, &options, error);
  if (status == CKPT_OK) status = ckpt_file_sha256(out, file, error);
  ckpt_file_close(file);
  return status;
}
