#include "choices.h"

#include <stdio.h>
#include <stdlib.h>

#include "failure.h"
#include "paths.h"

void tool_store_find(tool_store_place *place) {
  const char *system = getenv("SEXPGPU_CHOICES_SYSTEM");
  *place = (tool_store_place){NULL, system && system[0] ? system : NULL};
  if (!tool_cache_path(&place->path, "sexpgpu/choices.db")) exit(tool_no_memory());
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
