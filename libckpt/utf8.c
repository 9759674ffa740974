#include "utf8.h"

size_t ck_utf8_length(const unsigned char *bytes, size_t n_bytes) {
  unsigned char lead = bytes[0], low = 0x80, high = 0xbf; /* range of the second byte */
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  size_t n = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (n > n_bytes) return 0;
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  if (bytes[1] < low || bytes[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if ((bytes[i] & 0xc0) != 0x80) return 0;
  return n;
}

bool ck_is_utf8(const char *bytes, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes;) {
    size_t n = ck_utf8_length((const unsigned char *)bytes + i, n_bytes - i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}
