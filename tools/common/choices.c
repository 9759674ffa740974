#include "choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

static char *join(const char *directory, const char *rest) {
  size_t n = strlen(directory) + strlen(rest) + 1;
  char *path = malloc(n);
  if (!path) exit(tool_no_memory());
  snprintf(path, n, "%s%s", directory, rest);
  return path;
}

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && value[0] ? value : NULL;
}

void tool_store_find(tool_store_place *place) {
  const char *cache = variable("XDG_CACHE_HOME"), *home = variable("HOME");
  *place = (tool_store_place){NULL, variable("SEXPGPU_CHOICES_SYSTEM")};
  if (cache && cache[0] == '/')
    place->path = join(cache, "/sexpgpu/choices.db");
  else if (home)
    place->path = join(home, "/.cache/sexpgpu/choices.db");
}

void tool_store_place_free(tool_store_place *place) {
  free(place->path);
  place->path = NULL;
}

choices_status tool_store_open(choices_store **out, choices_access access, choices_error *error) {
  tool_store_place place;
  tool_store_find(&place);
  const choices_store_options options = {.path = place.path, .system_path = place.system, .access = access};
  choices_status status = choices_store_open(out, &options, error);
  tool_store_place_free(&place);
  return status;
}

int tool_fail_choices(const choices_error *error) {
  fprintf(stderr, "%s: %s\n", error->code, error->message);
  if (error->hint && error->hint[0]) fprintf(stderr, "  hint: %s\n", error->hint);
  return error->status == CHOICES_REFUSED ? TOOL_CHOICE : error->status == CHOICES_IO ? TOOL_STORAGE : TOOL_INPUT;
}
