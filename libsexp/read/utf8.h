/* UTF-8 (RFC 3629): one code point at a time. */
#ifndef SX_READ_UTF8_H
#define SX_READ_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the code point that starts here, 1 to 4, with *code_point filled; 0 where the bytes are no
 * shortest form of a scalar value or end inside it. n is at least 1. */
size_t sx_utf8_decode(const char *bytes, size_t n, uint32_t *code_point);
/* Writes 1 to 4 bytes of a scalar value and gives their number. */
size_t sx_utf8_encode(uint32_t code_point, char bytes[4]);
/* Columns of a terminal: 0 for combining marks, 2 for wide characters, else 1. */
int sx_utf8_width(uint32_t code_point);

#endif
