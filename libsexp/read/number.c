#include "number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool equals(const char *word, size_t n, const char *text) {
  return n == strlen(text) && memcmp(word, text, n) == 0;
}

bool sx_number_starts(const char *word, size_t n) {
  if (equals(word, n, "inf") || equals(word, n, "-inf") || equals(word, n, "nan")) return true;
  size_t i = n && (word[0] == '-' || word[0] == '+');
  if (i < n && word[i] == '.') i++;
  return i < n && is_digit(word[i]);
}

static int digit_of(char c) {
  if (is_digit(c)) return c - '0';
  char low = (char)(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : 99;
}

/* Digits of the base to an integer of the sign. False: no digits, another character, or too large. */
static bool parse_integer(const char *digits, size_t n, unsigned base, bool negative, int64_t *value,
                          const char **why) {
  uint64_t limit = negative ? (uint64_t)1 << 63 : INT64_MAX, sum = 0;
  *why = "a malformed number";
  if (n == 0) return false;
  for (size_t i = 0; i < n; i++) {
    unsigned digit = (unsigned)digit_of(digits[i]);
    if (digit >= base) return false;
    if (sum > (limit - digit) / base) {
      *why = "an integer that does not fit 64 bits";
      return false;
    }
    sum = sum * base + digit;
  }
  *value = negative ? (int64_t)(0 - sum) : (int64_t)sum;
  return true;
}

static size_t count_digits(const char *word, size_t n, size_t from) {
  size_t i = from;
  while (i < n && is_digit(word[i])) i++;
  return i - from;
}

/* Whether the rest of a word (after its sign) is digits with a point or an exponent. */
static bool is_real(const char *word, size_t n) {
  size_t whole = count_digits(word, n, 0), i = whole, part = 0;
  if (i < n && word[i] == '.') {
    part = count_digits(word, n, i + 1);
    i += 1 + part;
  }
  if (whole + part == 0) return false;
  if (i < n && (word[i] == 'e' || word[i] == 'E')) {
    i++;
    if (i < n && (word[i] == '-' || word[i] == '+')) i++;
    size_t exponent = count_digits(word, n, i);
    if (exponent == 0) return false;
    i += exponent;
  }
  return i == n;
}

static bool parse_real(sx_arena *arena, const char *word, size_t n, double *value, const char **why) {
  *value = strtod(sx_arena_copy_text(arena, word, n), NULL);
  *why = "a real above the largest, 1.7976931348623157e308";
  return isfinite(*value);
}

bool sx_number_parse(sx_arena *arena, const char *word, size_t n, sx_datum *datum, const char **why) {
  datum->kind = SX_DATUM_REAL;
  if (equals(word, n, "inf") || equals(word, n, "-inf")) {
    datum->real = word[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    return true;
  }
  if (equals(word, n, "nan")) {
    datum->real = (double)NAN;
    return true;
  }
  bool negative = word[0] == '-';
  size_t sign = negative || word[0] == '+';
  const char *digits = word + sign;
  size_t n_digits = n - sign;
  bool hexadecimal = n_digits > 1 && digits[0] == '0' && (digits[1] | 0x20) == 'x';
  if (!hexadecimal && is_real(digits, n_digits) && count_digits(digits, n_digits, 0) < n_digits)
    return parse_real(arena, word, n, &datum->real, why);
  datum->kind = SX_DATUM_INTEGER;
  size_t skip = hexadecimal ? 2 : 0;
  return parse_integer(digits + skip, n_digits - skip, hexadecimal ? 16 : 10, negative, &datum->integer, why);
}
