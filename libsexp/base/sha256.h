/* SHA-256 over OpenSSL's EVP, as this library needs it: a few short messages. */
#ifndef SX_BASE_SHA256_H
#define SX_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sx_sha256 sx_sha256;

/* NULL: no memory. */
sx_sha256 *sx_sha256_new(void);
void sx_sha256_add(sx_sha256 *hash, const void *bytes, size_t n_bytes);
/* The length as 8 bytes little-endian, then the bytes. */
void sx_sha256_add_part(sx_sha256 *hash, const void *bytes, size_t n_bytes);
/* Ends and frees. */
void sx_sha256_end(sx_sha256 *hash, uint8_t digest[32]);
/* "sha256:" and 64 hexadecimal digits. */
void sx_sha256_text(const uint8_t digest[32], char text[72]);

#endif
