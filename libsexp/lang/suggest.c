/* "Did you mean": the nearest of some names by edits (insertion, deletion, replacement, two letters swapped). */
#include <string.h>

#include "names.h"

enum { LONGEST = 40 };

static uint32_t least(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Optimal string alignment distance of two words of at most LONGEST bytes. */
static uint32_t distance_of(const char *a, size_t n_a, const char *b, size_t n_b) {
  uint32_t rows[3][LONGEST + 1];
  uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t j = 0; j <= n_b; j++) last[j] = (uint32_t)j;
  for (size_t i = 1; i <= n_a; i++) {
    row[0] = (uint32_t)i;
    for (size_t j = 1; j <= n_b; j++) {
      row[j] = least(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < row[j]) row[j] = before[j - 2] + 1;
    }
    uint32_t *oldest = before;
    before = last;
    last = row;
    row = oldest;
  }
  return last[n_b];
}

sx_nearest sx_nearest_begin(const char *word) { return (sx_nearest){word, NULL, UINT32_MAX}; }

void sx_nearest_add(sx_nearest *nearest, const char *candidate) {
  size_t n_word = strlen(nearest->word), n = strlen(candidate);
  if (n > LONGEST || n_word > LONGEST || n < 2) return;
  if (n > n_word + 3 || n_word > n + 3 || strcmp(candidate, nearest->word) == 0) return;
  uint32_t distance = distance_of(nearest->word, n_word, candidate, n);
  /* More than a quarter of the letters wrong is another word. */
  bool nearer = distance < nearest->distance ||
                (nearest->best && distance == nearest->distance && strcmp(candidate, nearest->best) < 0);
  if (!nearer || (size_t)distance * 4 > n) return;
  nearest->best = candidate;
  nearest->distance = distance;
}

const char *sx_nearest_hint(const sx_nearest *nearest, sx_arena *arena) {
  return nearest->best ? sx_format(arena, "did you mean %s?", nearest->best) : NULL;
}
