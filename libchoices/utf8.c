#include "utf8.h"

#include <string.h>

/* The least code point of a sequence of n bytes: shorter ones have shorter sequences. */
static const unsigned long least[5] = {0, 0, 0x80, 0x800, 0x10000};

size_t ch_utf8_length(const unsigned char *bytes, size_t n_bytes) {
  if (bytes[0] < 0x80) return 1;
  size_t n = bytes[0] >= 0xf0 && bytes[0] < 0xf8   ? 4
             : bytes[0] >= 0xe0 && bytes[0] < 0xf0 ? 3
             : bytes[0] >= 0xc0 && bytes[0] < 0xe0 ? 2
                                                   : 0;
  if (n == 0 || n > n_bytes) return 0;
  unsigned long point = bytes[0] & (0x7fu >> n);
  for (size_t i = 1; i < n; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
    point = point << 6 | (bytes[i] & 0x3fu);
  }
  return point < least[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000) ? 0 : n;
}

bool ch_utf8_is(const char *text) {
  size_t n = strlen(text), length = 1;
  for (size_t i = 0; i < n && length; i += length) length = ch_utf8_length((const unsigned char *)text + i, n - i);
  return length > 0;
}

void ch_utf8_tidy(char *text) {
  size_t n = strlen(text);
  for (size_t i = 0; i < n;) {
    size_t length = ch_utf8_length((const unsigned char *)text + i, n - i);
    if (length == 0 || (unsigned char)text[i] < 0x20 || text[i] == 0x7f) text[i] = '?';
    i += length ? length : 1;
  }
}
