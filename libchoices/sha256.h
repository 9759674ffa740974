/* SHA-256 of text. */
#ifndef CH_SHA256_H
#define CH_SHA256_H

#include <stddef.h>

#include "choices_status.h"

enum { CH_SHA256_BYTES = 32, CH_SHA256_TEXT = 72 };

choices_status ch_sha256(unsigned char out[CH_SHA256_BYTES], const void *bytes, size_t n_bytes, choices_error *error);
/* "sha256:" and 64 digits. */
choices_status ch_sha256_text(char out[CH_SHA256_TEXT], const void *bytes, size_t n_bytes, choices_error *error);

#endif
