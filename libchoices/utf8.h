/* UTF-8. */
#ifndef CH_UTF8_H
#define CH_UTF8_H

#include <stddef.h>

/* Bytes of the character that begins at `bytes`; 0: it is none. n_bytes is at least 1. */
size_t ch_utf8_length(const unsigned char *bytes, size_t n_bytes);

/* Control characters, and bytes that are no character, become '?'. */
void ch_utf8_tidy(char *text);

#endif
