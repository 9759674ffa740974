#include "paths.h"

#include <stdbool.h>
#include <string.h>

#include "../base/text.h"

/* Takes the last step off the path of n bytes, which ends with a slash. False: there is none but "..". */
static bool take_back(const char *bytes, size_t *n) {
  size_t begin = *n ? *n - 1 : 0;
  while (begin > 0 && bytes[begin - 1] != '/') begin--;
  size_t length = *n ? *n - 1 - begin : 0;
  if (length == 0 || (length == 2 && memcmp(bytes + begin, "..", 2) == 0)) return false;
  *n = begin;
  return true;
}

const char *sx_join_path(sx_arena *arena, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  bool alone = path[0] == '/' || !slash;
  if (strstr(path, "://")) return path;
  sx_text text;
  sx_text_init(&text, arena);
  if (!alone) sx_text_add_bytes(&text, from, (size_t)(slash - from) + 1);
  for (const char *step = path, *end = path; *end; step = end) {
    end = strchr(step, '/');
    end = end ? end + 1 : step + strlen(step);
    size_t length = (size_t)(end - step);
    bool back = length == 3 && memcmp(step, "../", 3) == 0, stay = length == 2 && memcmp(step, "./", 2) == 0;
    if (!stay && !(back && take_back(text.bytes, &text.n))) sx_text_add_bytes(&text, step, length);
  }
  if (text.bytes) text.bytes[text.n] = 0;
  return sx_text_get(&text);
}
