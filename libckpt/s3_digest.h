/* MD5 and SHA-256 as S3 writes them. */
#ifndef CK_S3_DIGEST_H
#define CK_S3_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

enum { CK_HEX_SHA256 = 65, CK_HEX_MD5 = 33, CK_BASE64_MD5 = 25 };

void ck_hex(char *out, const unsigned char *bytes, size_t n_bytes); /* 2 * n_bytes lowercase digits and NUL */

/* False: OpenSSL has no memory, or is set up without that digest. */
bool ck_hex_sha256(char out[CK_HEX_SHA256], const void *bytes, size_t n_bytes);
bool ck_hmac_sha256(unsigned char out[32], const void *key, size_t n_key, const char *text);
bool ck_md5(unsigned char out[16], const void *bytes, size_t n_bytes);
void ck_base64_md5(char out[CK_BASE64_MD5], const unsigned char md5[16]);

bool ck_is_md5(const char *etag); /* 32 hexadecimal digits */

#endif
