/* UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef CK_UTF8_H
#define CK_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at `bytes`, 1 to 4; 0 where none is well formed within n_bytes > 0. */
size_t ck_utf8_length(const unsigned char *bytes, size_t n_bytes);

bool ck_is_utf8(const char *bytes, size_t n_bytes);

#endif
