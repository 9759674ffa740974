#include "paths.h"

#include <stdbool.h>
#include <string.h>

#include "../base/text.h"

/* Where the last step of the n bytes (ended by a slash) begins, if a step ".." after it takes it away; else n. */
static size_t step_back(const char *bytes, size_t n) {
  size_t begin = n;
  if (n < 2) return n;
  for (begin = n - 1; begin > 0 && bytes[begin - 1] != '/'; begin--) continue;
  size_t length = n - 1 - begin;
  bool dots = length <= 2 && strncmp(bytes + begin, "..", length) == 0;
  return dots ? n : begin;
}

const char *sx_join_path(sx_arena *arena, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  if (path[0] == '/' || strstr(path, "://") || !slash) return path;
  size_t n = (size_t)(slash - from) + 1;
  while (strncmp(path, "../", 3) == 0 && step_back(from, n) < n) {
    n = step_back(from, n);
    path += 3;
  }
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_add_bytes(&text, from, n);
  sx_text_add(&text, path);
  return sx_text_get(&text);
}
