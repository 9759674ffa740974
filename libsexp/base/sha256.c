#include "sha256.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "bug.h"

struct sx_sha256 {
  EVP_MD_CTX *context;
};

sx_sha256 *sx_sha256_new(void) {
  sx_sha256 *hash = malloc(sizeof *hash);
  if (!hash) return NULL;
  hash->context = EVP_MD_CTX_new();
  if (hash->context && EVP_DigestInit_ex(hash->context, EVP_sha256(), NULL)) return hash;
  EVP_MD_CTX_free(hash->context);
  free(hash);
  return NULL;
}

void sx_sha256_add(sx_sha256 *hash, const void *bytes, size_t n_bytes) {
  if (!EVP_DigestUpdate(hash->context, bytes, n_bytes)) SX_BUG("SHA-256 failed");
}

void sx_sha256_add_part(sx_sha256 *hash, const void *bytes, size_t n_bytes) {
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)n_bytes >> (8 * i));
  sx_sha256_add(hash, length, sizeof length);
  sx_sha256_add(hash, bytes, n_bytes);
}

void sx_sha256_end(sx_sha256 *hash, uint8_t digest[32]) {
  if (!EVP_DigestFinal_ex(hash->context, digest, NULL)) SX_BUG("SHA-256 failed");
  EVP_MD_CTX_free(hash->context);
  free(hash);
}

void sx_sha256_text(const uint8_t digest[32], char text[72]) {
  char *at = text + snprintf(text, 72, "sha256:");
  for (int i = 0; i < 32; i++) at += snprintf(at, 3, "%02x", digest[i]);
}
