/* UTF-8. */
#ifndef CH_UTF8_H
#define CH_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character that begins at `bytes`; 0: it is none. n_bytes is at least 1. */
size_t ch_utf8_length(const unsigned char *bytes, size_t n_bytes);

bool ch_utf8_is(const char *text);

/* Control characters, and bytes that are no character, become '?'. */
void ch_utf8_tidy(char *text);

#endif
