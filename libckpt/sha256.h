/* SHA-256 by OpenSSL. */
#ifndef CK_SHA256_H
#define CK_SHA256_H

#include "ckpt.h"

typedef struct ck_sha256 ck_sha256;

ckpt_status ck_sha256_new(ck_sha256 **out, ckpt_error *error);
void ck_sha256_free(ck_sha256 *hash);
ckpt_status ck_sha256_add(ck_sha256 *hash, const void *bytes, size_t n_bytes, ckpt_error *error);

/* The text of what was added, after which it starts anew. */
ckpt_status ck_sha256_finish(char out[CKPT_SHA256_TEXT], ck_sha256 *hash, ckpt_error *error);

/* Whether a text is "sha256:" and 64 lowercase hexadecimal digits. */
bool ck_is_sha256(const char *text);

#endif
