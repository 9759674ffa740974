#include "paths.h"

#include <string.h>

#include "../base/text.h"

const char *sx_join_path(sx_arena *arena, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  if (path[0] == '/' || strstr(path, "://") || !slash) return path;
  sx_text text;
  sx_text_init(&text, arena);
  sx_text_add_bytes(&text, from, (size_t)(slash - from) + 1);
  sx_text_add(&text, path);
  return sx_text_get(&text);
}
