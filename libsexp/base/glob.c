#include "glob.h"

#include <stddef.h>

/* The end of a set that begins at '[', or NULL where it is not closed and '[' stands for itself. */
static const char *set_end(const char *set) {
  const char *at = set + 1;
  if (*at == '!') at++;
  if (*at == ']') at++;
  while (*at && *at != ']') at++;
  return *at ? at : NULL;
}

static bool set_holds(const char *set, const char *end, char c) {
  const char *at = set + 1;
  bool inverted = *at == '!';
  if (inverted) at++;
  bool found = false;
  for (; at < end; at++) {
    if (at + 2 < end && at[1] == '-') {
      found |= at[0] <= c && c <= at[2];
      at += 2;
    } else {
      found |= *at == c;
    }
  }
  return found != inverted;
}

/* Matches one character; gives the rest of the glob, or NULL. */
static const char *match_one(const char *glob, char c) {
  const char *end = *glob == '[' ? set_end(glob) : NULL;
  if (end) return set_holds(glob, end, c) ? end + 1 : NULL;
  return *glob && (*glob == '?' || *glob == c) ? glob + 1 : NULL;
}

/* The last `*` takes one character more whenever what follows it does not match. */
bool sx_glob_matches(const char *glob, const char *text) {
  const char *star = NULL, *taken = NULL;
  while (*text) {
    if (*glob == '*') {
      star = ++glob;
      taken = text;
      continue;
    }
    const char *rest = match_one(glob, *text);
    if (rest) {
      glob = rest;
      text++;
    } else if (star) {
      glob = star;
      text = ++taken;
    } else {
      return false;
    }
  }
  while (*glob == '*') glob++;
  return !*glob;
}
