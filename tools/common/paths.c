#include "paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part that starts at *at or after slashes and "." there; *at moves behind it. 0: no more. */
static size_t next_part(const char **part, const char **at) {
  for (;;) {
    while (**at == '/') (*at)++;
    size_t n = strcspn(*at, "/");
    *part = *at;
    *at += n;
    if (n != 1 || **part != '.') return n;
  }
}

/* Folders of `file` from `at` on, which the last part is none of; -1: one of them is "..". */
static int count_folders(const char *at) {
  const char *part;
  int n = -1;
  for (size_t length; (length = next_part(&part, &at)) > 0; n++)
    if (length == 2 && memcmp(part, "..", 2) == 0) return -1;
  return n;
}

static bool is_last(const char *at) {
  const char *part;
  return next_part(&part, &at) == 0;
}

char *tool_path_from(const char *file, const char *path) {
  const char *file_at = file, *path_at = path, *file_part, *path_part;
  bool absolute = file[0] == '/', any = false;
  if (strstr(path, "://") || absolute != (path[0] == '/')) return strdup(path);
  for (;;) {
    const char *file_next = file_at, *path_next = path_at;
    size_t n = next_part(&file_part, &file_next), m = next_part(&path_part, &path_next);
    if (n == 0 || n != m || memcmp(file_part, path_part, n) != 0 || is_last(file_next) || is_last(path_next)) break;
    file_at = file_next;
    path_at = path_next;
    any = true;
  }
  int ups = count_folders(file_at);
  if (ups < 0 || (absolute && !any)) return strdup(path);
  next_part(&path_part, &path_at);
  size_t n = strlen(path_part);
  char *out = malloc(3 * (size_t)ups + n + 1);
  for (int i = 0; out && i < ups; i++) memcpy(out + 3 * i, "../", 3);
  if (out) memcpy(out + 3 * ups, path_part, n + 1);
  return out;
}

bool tool_cache_path(char **out, const char *rest) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  bool own = cache && cache[0] == '/';
  const char *from = own ? cache : home;
  *out = NULL;
  if (!from || !from[0]) return true;
  size_t room = strlen(from) + strlen("/.cache/") + strlen(rest) + 1;
  *out = malloc(room);
  if (*out) snprintf(*out, room, "%s/%s%s", from, own ? "" : ".cache/", rest);
  return *out != NULL;
}
