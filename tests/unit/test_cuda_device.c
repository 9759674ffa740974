/* The facts of a device from JSON. */
#include <stdio.h>
#include <string.h>

#include "../../libsexp/base/text.h"
#include "../../libsexp/cuda/device.h"
#include "../common/cmocka_all.h"

typedef struct device_case {
  sx_memory memory;
  sx_arena arena;
  sx_diags diags;
  sx_device device;
} device_case;

static void begin(device_case *c) {
  *c = (device_case){.memory = sx_memory_default()};
  sx_arena_init(&c->arena, &c->memory);
  sx_diags_init(&c->diags, &c->arena);
}

static size_t read_card(char *json, size_t room, const char *card) {
  char path[64];
  snprintf(path, sizeof path, "tests/cuda/%s.json", card);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t n = fread(json, 1, room - 1, file);
  fclose(file);
  json[n] = 0;
  return n;
}

static void the_facts_of_a_card_are_read(void **state) {
  (void)state;
  static const struct {
    const char *card, *name;
    int64_t compute_capability, multiprocessors;
  } rows[] = {{"a100", "NVIDIA A100-SXM4-40GB", 800, 108},
              {"h100", "NVIDIA H100 80GB HBM3", 900, 132},
              {"h200", "NVIDIA H200", 900, 132}};
  for (size_t i = 0; i < 3; i++) {
    device_case c;
    begin(&c);
    char json[4096];
    size_t n = read_card(json, sizeof json, rows[i].card);
    assert_true(sx_device_parse(&c.device, json, n, &c.arena, &c.diags));
    assert_string_equal(c.device.name, rows[i].name);
    assert_int_equal(c.device.compute_capability, rows[i].compute_capability);
    assert_int_equal(c.device.multiprocessors, rows[i].multiprocessors);
    assert_int_equal(c.device.block_sizes[2], 64);
    assert_int_equal(c.device.grid_sizes[0], 2147483647);
    assert_int_equal(c.device.json_n_bytes, n);
    assert_string_equal(c.device.json, json);
    sx_arena_free(&c.arena);
  }
}

/* One change a row of a card's text, and what the message names. */
static void other_properties_are_refused(void **state) {
  (void)state;
  static const char *const rows[][3] = {
      {"\"deviceVer\":800,", "", "they have no deviceVer"},
      {"\"warpSize\":32,", "", "they have no warpSize"},
      {"\"deviceName\":", "\"name\":", "they have no deviceName"},
      {"\"warpSize\":32", "\"warpSize\":32.5", "warpSize is not an integer"},
      {"\"warpSize\":32", "\"warpSize\":\"32\"", "warpSize is not an integer"},
      {"[1024,1024,64]", "[1024,1024]", "maxBlockSize is not three integers"},
      {"[1024,1024,64]", "[1024,1024,true]", "maxBlockSize is not three integers"},
      {"[1024,1024,64]", "64", "maxBlockSize is not three integers"},
      {"\"NVIDIA A100-SXM4-40GB\"", "7", "deviceName is not text"},
      {"\"warpSize\":32", "\"warpSize\":32,\"warpSize\":32", "duplicate"},
      {"{", "[", "line 1, column"},
      {"}", "", "line 2, column"},
  };
  char json[4096];
  read_card(json, sizeof json, "a100");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    device_case c;
    begin(&c);
    const char *at = strstr(json, rows[i][0]);
    assert_non_null(at);
    const char *text = sx_format(&c.arena, "%.*s%s%s", (int)(at - json), json, rows[i][1], at + strlen(rows[i][0]));
    assert_false(sx_device_parse(&c.device, text, strlen(text), &c.arena, &c.diags));
    assert_string_equal(sx_diag_code(&c.diags.list.items[0]), "E-DEVICE-013");
    const char *message = c.diags.list.items[0].message;
    if (!strstr(message, rows[i][2])) fail_msg("%s: %s", rows[i][1], message);
    sx_arena_free(&c.arena);
  }
}

static void something_else_is_no_object_of_properties(void **state) {
  (void)state;
  static const char *const texts[] = {"", "[]", "7", "{}", "\xff"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    device_case c;
    begin(&c);
    assert_false(sx_device_parse(&c.device, texts[i], strlen(texts[i]), &c.arena, &c.diags));
    assert_string_equal(sx_diag_code(&c.diags.list.items[0]), "E-DEVICE-013");
    sx_arena_free(&c.arena);
  }
}

static void more_properties_are_left_to_cudnn(void **state) {
  (void)state;
  device_case c;
  begin(&c);
  char json[4096];
  read_card(json, sizeof json, "h100");
  const char *text = sx_format(&c.arena, "{\"newFact\":[1],%s", json + 1);
  assert_true(sx_device_parse(&c.device, text, strlen(text), &c.arena, &c.diags));
  assert_string_equal(c.device.json, text);
  sx_arena_free(&c.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_facts_of_a_card_are_read),
      cmocka_unit_test(other_properties_are_refused),
      cmocka_unit_test(something_else_is_no_object_of_properties),
      cmocka_unit_test(more_properties_are_left_to_cudnn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
