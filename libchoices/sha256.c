#include "sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>

#include "choices.h"
#include "error.h"

/* EVP_Digest fails for want of memory alone; what it then leaves in the thread's queue of errors is taken out again. */
choices_status ch_sha256(unsigned char out[CH_SHA256_BYTES], const void *bytes, size_t n_bytes, choices_error *error) {
  ERR_set_mark();
  bool good = EVP_Digest(bytes ? bytes : "", n_bytes, out, NULL, EVP_sha256(), NULL) == 1;
  if (good)
    ERR_clear_last_mark();
  else
    ERR_pop_to_mark();
  return good ? CHOICES_OK : ch_no_memory(error);
}

choices_status ch_sha256_text(char out[CH_SHA256_TEXT], const void *bytes, size_t n_bytes, choices_error *error) {
  static const char digits[] = "0123456789abcdef";
  unsigned char value[CH_SHA256_BYTES];
  choices_status status = ch_sha256(value, bytes, n_bytes, error);
  if (status != CHOICES_OK) return status;
  memcpy(out, "sha256:", 7);
  for (int i = 0; i < CH_SHA256_BYTES; i++) {
    out[7 + 2 * i] = digits[value[i] >> 4];
    out[8 + 2 * i] = digits[value[i] & 15];
  }
  out[7 + 2 * CH_SHA256_BYTES] = 0;
  return CHOICES_OK;
}

choices_status choices_probe_digest(uint64_t *out, const void *bytes, size_t n_bytes, choices_error *error) {
  unsigned char value[CH_SHA256_BYTES];
  choices_status status = ch_sha256(value, bytes, n_bytes, error);
  *out = 0;
  for (int i = 0; status == CHOICES_OK && i < 8; i++) *out = *out << 8 | value[i];
  return status;
}
