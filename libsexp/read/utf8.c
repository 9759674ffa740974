#include "utf8.h"

static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};

static size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

size_t sx_utf8_decode(const char *bytes, size_t n, uint32_t *code_point) {
  const unsigned char *p = (const unsigned char *)bytes;
  size_t length = length_of(p[0]);
  if (length == 0 || length > n) return 0;
  uint32_t value = length == 1 ? p[0] : p[0] & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    value = value << 6 | (p[i] & 0x3fu);
  }
  if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  *code_point = value;
  return length;
}

size_t sx_utf8_encode(uint32_t code_point, char bytes[4]) {
  size_t length = code_point < 0x80 ? 1 : code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length; i-- > 1; code_point >>= 6) bytes[i] = (char)(0x80 | (code_point & 0x3f));
  bytes[0] = (char)(lead[length] | code_point);
  return length;
}

/* The blocks that matter in a line of source text, from Unicode's EastAsianWidth and general categories. */
static const struct {
  uint32_t first, last;
  int width;
} widths[] = {
    {0x300, 0x36f, 0},     {0x200b, 0x200f, 0},   {0x20d0, 0x20ff, 0},   {0x1100, 0x115f, 2},
    {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
    {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2},
    {0x1f300, 0x1f64f, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}, {0xe0100, 0xe01ef, 0},
};

int sx_utf8_width(uint32_t code_point) {
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
    if (code_point >= widths[i].first && code_point <= widths[i].last) return widths[i].width;
  return 1;
}
