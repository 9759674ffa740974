#include "layout.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* Without ".", empty parts and "x/..": what is left of ".." stands at the start of a relative path. */
static char *normal(const char *path) {
  char *out = tool_text("%s", path[0] == '/' ? "/" : "");
  size_t root = strlen(out);
  for (const char *part = path; *part;) {
    size_t n = strcspn(part, "/");
    char *slash = strrchr(out + root, '/');
    const char *last = slash ? slash + 1 : out + root;
    bool up = n == 2 && memcmp(part, "..", 2) == 0;
    if (up && *last && strcmp(last, "..") != 0) {
      out[slash ? (size_t)(slash - out) : root] = 0;
    } else if (n && !(n == 1 && *part == '.') && !(up && root)) {
      char *longer = tool_text("%s%s%.*s", out, out[root] ? "/" : "", (int)n, part);
      free(out);
      out = longer;
    }
    part += n;
    if (*part) part++;
  }
  return out;
}

static size_t ups_of(const char *path) {
  size_t n = 0;
  while (strncmp(path + 3 * n, "../", 3) == 0) n++;
  return n;
}

/* A name that is no part of any path. */
static char *unused_name(char *const *paths, size_t n) {
  char *name = tool_text("work");
  for (size_t i = 0; i < n; i++) {
    if (!strstr(paths[i], name)) continue;
    char *longer = tool_text("%s_", name);
    free(name);
    name = longer;
    i = (size_t)-1;
  }
  return name;
}

static void lower_relative(char **paths, size_t n) {
  size_t most = 0;
  for (size_t i = 0; i < n; i++)
    if (ups_of(paths[i]) > most) most = ups_of(paths[i]);
  char *name = unused_name(paths, n);
  for (size_t i = 0; i < n; i++) {
    if (paths[i][0] == '/') continue;
    size_t ups = ups_of(paths[i]);
    char *out = tool_text("%s", paths[i] + 3 * ups);
    for (size_t down = ups; down < most; down++) {
      char *longer = tool_text("%s/%s", name, out);
      free(out);
      out = longer;
    }
    free(paths[i]);
    paths[i] = out;
  }
  free(name);
}

/* Bytes that the directories of all paths have in common, up to and with a slash. */
static size_t common_directory(char *const *paths, size_t n) {
  size_t common = 0;
  for (size_t at = 0; paths[0][at]; at++) {
    for (size_t i = 1; i < n; i++)
      if (paths[i][at] != paths[0][at]) return common;
    if (paths[0][at] == '/') common = at + 1;
  }
  return common;
}

char **layout_names(const char *const *paths, size_t n) {
  char **names = tool_memory(calloc(n + 1, sizeof *names));
  size_t n_absolute = 0;
  for (size_t i = 0; i < n; i++) {
    names[i] = normal(paths[i]);
    n_absolute += names[i][0] == '/';
  }
  lower_relative(names, n);
  size_t cut = n > 0 && n_absolute == n ? common_directory(names, n) : 1;
  for (size_t i = 0; i < n; i++) {
    if (names[i][0] != '/') continue;
    char *name = tool_text("%s%s", n_absolute == n ? "" : "absolute/", names[i] + cut);
    free(names[i]);
    names[i] = name;
  }
  return names;
}
