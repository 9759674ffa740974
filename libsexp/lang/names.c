#include "names.h"

#include <string.h>

#include "../base/hash.h"
#include "call.h"
#include "translate.h"

static size_t slot_of(const sx_name_map *map, const char *name) {
  size_t i = (size_t)sx_hash_mix((uint64_t)(uintptr_t)name >> 4) & (map->room - 1);
  while (map->keys[i] && map->keys[i] != name) i = (i + 1) & (map->room - 1);
  return i;
}

void *sx_name_map_get(const sx_name_map *map, const char *name) {
  if (!map->n) return NULL;
  size_t i = slot_of(map, name);
  return map->keys[i] ? map->values[i] : NULL;
}

static void grow(sx_name_map *map, sx_arena *arena) {
  size_t room = map->room ? map->room * 2 : 64;
  sx_name_map larger = {SX_NEW_N(arena, const char *, room), SX_NEW_N(arena, void *, room), map->n, room};
  for (size_t i = 0; i < map->room; i++) {
    if (!map->keys[i]) continue;
    size_t slot = slot_of(&larger, map->keys[i]);
    larger.keys[slot] = map->keys[i];
    larger.values[slot] = map->values[i];
  }
  *map = larger;
}

void sx_name_map_set(sx_name_map *map, sx_arena *arena, const char *name, void *value) {
  if (map->n * 2 >= map->room) grow(map, arena);
  size_t i = slot_of(map, name);
  if (!map->keys[i]) map->n++;
  map->keys[i] = name;
  map->values[i] = value;
}

static void enter(sx_evaluator *evaluator, const char *name, sx_value value) {
  sx_names_add(evaluator, sx_intern_text(evaluator->names, name), NULL, true)->value = value;
}

void sx_names_begin(sx_evaluator *evaluator) {
  static const sx_builtin *const tables[] = {
      sx_builtins_number, sx_builtins_list,  sx_builtins_text,   sx_builtins_tensor, sx_builtins_reduce,
      sx_builtins_move,   sx_builtins_index, sx_builtins_random, sx_builtins_model,
  };
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const sx_builtin *row = tables[t]; row->name; row++)
      enter(evaluator, row->name, (sx_value){SX_KIND_BUILTIN, 0, {.builtin = row}});
  for (int dtype = 0; dtype < SX_N_DTYPES; dtype++)
    enter(evaluator, sx_dtype_name((sx_dtype)dtype), (sx_value){SX_KIND_DTYPE, 0, {.dtype = (sx_dtype)dtype}});
}

sx_global *sx_names_find(const sx_evaluator *evaluator, const char *name, bool prelude) {
  sx_global *global = prelude ? NULL : sx_name_map_get(&evaluator->user_names, name);
  return global ? global : sx_name_map_get(&evaluator->library_names, name);
}

sx_global *sx_names_add(sx_evaluator *evaluator, const char *name, const sx_datum *definition, bool prelude) {
  sx_global *global = SX_NEW(evaluator->arena, sx_global);
  *global = (sx_global){.name = name, .definition = definition};
  sx_name_map_set(prelude ? &evaluator->library_names : &evaluator->user_names, evaluator->arena, name, global);
  return global;
}

static void add_map(sx_nearest *nearest, const sx_name_map *map) {
  for (size_t i = 0; i < map->room; i++)
    if (map->keys[i]) sx_nearest_add(nearest, map->keys[i]);
}

void sx_nearest_add_names(sx_nearest *nearest, const sx_evaluator *evaluator) {
  add_map(nearest, &evaluator->user_names);
  add_map(nearest, &evaluator->library_names);
  for (const sx_special_form *form = sx_special_forms; form->name; form++) sx_nearest_add(nearest, form->name);
}
