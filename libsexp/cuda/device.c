/* Facts of a device from JSON, one row of device.def each. */
#include "device.h"

#include <jansson.h>
#include <string.h>

#include "../base/guard.h"
#include "../base/text.h"

typedef enum fact_kind { INTEGER, TRIPLE, TEXT } fact_kind;

typedef struct fact_row {
  fact_kind kind;
  const char *name;
  size_t offset;
} fact_row;

static const fact_row FACTS[] = {
#define SX_FACT(kind, member, name) {kind, name, offsetof(sx_device, member)},
#include "device.def"
#undef SX_FACT
};

static bool read_triple(int64_t triple[3], const json_t *value) {
  if (json_array_size(value) != 3) return false;
  for (size_t i = 0; i < 3; i++) {
    if (!json_is_integer(json_array_get(value, i))) return false;
    triple[i] = json_integer_value(json_array_get(value, i));
  }
  return true;
}

static bool read_fact(sx_device *device, const fact_row *row, const json_t *value, sx_arena *arena) {
  char *at = (char *)device + row->offset;
  int64_t numbers[3];
  switch (row->kind) {
    case INTEGER:
      if (!json_is_integer(value)) return false;
      numbers[0] = json_integer_value(value);
      memcpy(at, numbers, sizeof *numbers);
      return true;
    case TRIPLE:
      if (!read_triple(numbers, value)) return false;
      memcpy(at, numbers, sizeof numbers);
      return true;
    case TEXT:
      if (!json_is_string(value)) return false;
      const char *text = sx_arena_copy_text(arena, json_string_value(value), json_string_length(value));
      memcpy(at, &text, sizeof text);
      return true;
  }
  return false;
}

typedef struct reading {
  sx_device *device;
  const json_t *object;
  sx_arena *arena;
  const char *wrong;
} reading;

static void read_facts(void *context) {
  reading *r = context;
  static const char *const kinds[] = {"an integer", "three integers", "text"};
  for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS && !r->wrong; i++) {
    const json_t *value = json_object_get(r->object, FACTS[i].name);
    if (!value)
      r->wrong = sx_format(r->arena, "they have no %s", FACTS[i].name);
    else if (!read_fact(r->device, &FACTS[i], value, r->arena))
      r->wrong = sx_format(r->arena, "%s is not %s", FACTS[i].name, kinds[FACTS[i].kind]);
  }
}

bool sx_device_parse(sx_device *device, const char *json, size_t n_bytes, sx_arena *arena, sx_diags *diags) {
  sx_device read = {.json = sx_arena_copy_text(arena, json, n_bytes), .json_n_bytes = n_bytes};
  json_error_t error;
  json_t *object = json_loadb(json, n_bytes, JSON_REJECT_DUPLICATES, &error);
  reading r = {&read, object, arena, NULL};
  bool had_memory = true;
  if (!object)
    r.wrong = sx_format(arena, "line %d, column %d: %s", error.line, error.column, error.text);
  else if (!json_is_object(object))
    r.wrong = "they are no JSON object";
  else
    had_memory = sx_guard(arena->memory, read_facts, &r);
  json_decref(object);
  if (!had_memory) sx_memory_fail(arena->memory);
  if (r.wrong) {
    sx_error(diags, SX_E_DEVICE_FACTS, (sx_span){0}, "the device's properties cannot be read: %s", r.wrong);
    return false;
  }
  *device = read;
  return true;
}
