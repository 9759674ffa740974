#include "format.h"

#include <inttypes.h>
#include <stdio.h>

const char *tool_grouped(char text[32], int64_t number) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRId64, number), at = 0;
  for (int i = 0; i < n; i++) {
    if (i > 0 && digits[i - 1] != '-' && (n - i) % 3 == 0) text[at++] = ' ';
    text[at++] = digits[i];
  }
  text[at] = 0;
  return text;
}

const char *tool_bytes(char text[32], int64_t n_bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = (double)n_bytes;
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++) size /= 1024;
  snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
  return text;
}

const char *tool_plural(int64_t n) { return n == 1 ? "" : "s"; }
