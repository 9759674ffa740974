/* Keys of convolutions and engines as text: the seeds' record byte for byte, one spelling each. */
#include <string.h>

#include "../../libsexp/cuda/convolution.h"
#include "../common/cmocka_all.h"

#define KEY \
  "Weight Spec { batch: 512, height: 8, width: 8, channels: 256, kh: 3, kw: 3, out: 512, stride: 1, padding: 1 } bf16"

static sx_memory memory;
static sx_arena arena;

static int set_up(void **state) {
  (void)state;
  memory = sx_memory_default();
  sx_arena_init(&arena, &memory);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  sx_arena_free(&arena);
  return 0;
}

static const char *key_of(const sx_convolution *convolution) {
  sx_text text;
  sx_text_init(&text, &arena);
  sx_convolution_print(&text, convolution);
  return sx_text_get(&text);
}

static const char *text_of(const sx_engine *engine) {
  sx_text text;
  sx_text_init(&text, &arena);
  sx_engine_print(&text, engine);
  return sx_text_get(&text);
}

static void a_recorded_key_is_read_and_printed(void **state) {
  (void)state;
  sx_convolution c;
  assert_null(sx_convolution_parse(&c, KEY, &arena));
  assert_int_equal(c.role, SX_ROLE_WEIGHT);
  assert_int_equal(c.dtype, SX_BF16);
  const int64_t sizes[] = {c.batch, c.height, c.width, c.channels, c.kh, c.kw, c.out, c.stride, c.padding};
  const int64_t expected[] = {512, 8, 8, 256, 3, 3, 512, 1, 1};
  assert_memory_equal(sizes, expected, sizeof expected);
  assert_string_equal(key_of(&c), KEY);
}

static void every_field_of_a_key_is_in_its_text(void **state) {
  (void)state;
  sx_convolution c = {SX_ROLE_FORWARD, 2, 30, 31, 4, 5, 6, 7, 8, 9, SX_F32};
  assert_string_equal(key_of(&c),
                      "Forward Spec { batch: 2, height: 30, width: 31, channels: 4, kh: 5, kw: 6, out: 7, stride: 8, "
                      "padding: 9 } f32");
  sx_convolution back;
  assert_null(sx_convolution_parse(&back, key_of(&c), &arena));
  assert_string_equal(key_of(&back), key_of(&c));
  c.role = SX_ROLE_DATA;
  assert_memory_equal(key_of(&c), "Data Spec", 9);
  assert_int_equal(sx_convolution_out_height(&c), (30 + 18 - 5) / 8 + 1);
  assert_int_equal(sx_convolution_out_width(&c), (31 + 18 - 6) / 8 + 1);
}

/* One change a row: the text, and what the answer names. */
static void another_text_is_no_key(void **state) {
  (void)state;
  static const char *const rows[][3] = {
      {"Weight", "weight", "Forward, Data or Weight"},
      {"Weight", "Backward", "Forward, Data or Weight"},
      {"Weight Spec", "Weight  Spec", "Spec { batch: "},
      {"batch: 512", "batch: 0512", "number"},
      {"batch: 512", "batch: +512", "number"},
      {"batch: 512", "batch: 5x2", ", height: "},
      {"batch: 512", "batch: 0", "below 1"},
      {"batch: 512", "batch: -1", "below 1"},
      {"batch: 512", "batch: 99999999999999999999", "number"},
      {"batch: 512", "batch: 2147483648", "above 2147483647"},
      {"height: 8, width: 8", "width: 8, height: 8", ", height: "},
      {"batch: 512, height: 8", "batch: 2147483647, height: 2147483647", "2^63 bytes"},
      {"padding: 1", "padding: -1", "padding below 0"},
      {"kh: 3", "kh: 11", "larger than the padded input"},
      {"kh: 3", "kh: 10", NULL},
      {", padding: 1", "", ", padding: "},
      {"padding: 1", "padding: 1, dilation: 1", "} "},
      {"bf16", "f16", "neither f32 nor bf16"},
      {"bf16", "bf16 ", "f32 or bf16"},
      {"bf16", "", "f32 or bf16"},
      {KEY, "", "Forward, Data or Weight"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *at = strstr(KEY, rows[i][0]);
    assert_non_null(at);
    const char *text = sx_format(&arena, "%.*s%s%s", (int)(at - KEY), KEY, rows[i][1], at + strlen(rows[i][0]));
    sx_convolution c;
    const char *wrong = sx_convolution_parse(&c, text, &arena);
    if (!rows[i][2]) {
      if (wrong) fail_msg("%s: %s", text, wrong);
      continue;
    }
    if (!wrong || !strstr(wrong, rows[i][2])) fail_msg("%s: %s", text, wrong ? wrong : "read");
  }
}

static void an_engine_is_read_and_printed(void **state) {
  (void)state;
  static const char *const texts[] = {"engine 47 knobs 0=3 2=3 5=3 14=2", "engine 0", "engine 41 knobs 12=-1",
                                      "engine 9223372036854775807 knobs 2147483647=-9223372036854775808"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    sx_engine engine, again;
    assert_null(sx_engine_parse(&engine, texts[i], &arena));
    assert_string_equal(text_of(&engine), texts[i]);
    assert_null(sx_engine_parse(&again, text_of(&engine), &arena));
    assert_true(sx_engine_equal(&engine, &again));
    again.index--;
    assert_false(sx_engine_equal(&engine, &again));
  }
  sx_engine engine, other;
  assert_null(sx_engine_parse(&engine, "engine 1 knobs 2=3 5=7", &arena));
  static const char *const others[] = {"engine 1 knobs 2=3", "engine 1 knobs 2=3 5=8", "engine 1 knobs 2=3 6=7"};
  for (size_t i = 0; i < 3; i++) {
    assert_null(sx_engine_parse(&other, others[i], &arena));
    assert_false(sx_engine_equal(&engine, &other));
  }
}

static void another_text_is_no_engine(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", "expected \"engine \" at character 1"},
      {"engine", "expected \"engine \" at character 1"},
      {"Engine 47", "expected \"engine \" at character 1"},
      {"engine x", "the number of an engine at character 8"},
      {"engine -1", "the number of an engine at character 8"},
      {"engine 047", "the number of an engine at character 8"},
      {"engine 9223372036854775808", "the number of an engine at character 8"},
      {"engine 47 ", "\" knobs\" or the end at character 10"},
      {"engine 47x", "\" knobs\" or the end at character 10"},
      {"engine 47 knobs", "a knob at character 16"},
      {"engine 47 knobs ", "the number of a knob at character 17"},
      {"engine 47 knobs 0", "\"=\" at character 18"},
      {"engine 47 knobs 0=", "the value of a knob at character 19"},
      {"engine 47 knobs 0=-0", "the value of a knob at character 19"},
      {"engine 47 knobs 0=3  2=3", "the number of a knob at character 21"},
      {"engine 47 knobs 0=3,2=3", "\" \" and a knob at character 20"},
      {"engine 47 knobs 2=3 0=3", "a knob above the one before at character 21"},
      {"engine 47 knobs 2=3 2=3", "a knob above the one before at character 21"},
      {"engine 47 knobs -1=3", "the number of a knob at character 17"},
      {"engine 47 knobs 2147483648=3", "the number of a knob at character 17"},
      {"engine 47 knobs 0=9223372036854775808", "the value of a knob at character 19"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    sx_engine engine;
    const char *wrong = sx_engine_parse(&engine, rows[i][0], &arena);
    if (!wrong || !strstr(wrong, rows[i][1])) fail_msg("%s: %s", rows[i][0], wrong ? wrong : "read");
  }
}

static void an_engine_has_at_most_64_knobs(void **state) {
  (void)state;
  for (int n = 64; n <= 65; n++) {
    sx_text text;
    sx_text_init(&text, &arena);
    sx_text_add(&text, "engine 1 knobs");
    for (int i = 0; i < n; i++) sx_text_addf(&text, " %d=%d", i, -i);
    sx_engine engine;
    const char *wrong = sx_engine_parse(&engine, sx_text_get(&text), &arena);
    assert_int_equal(wrong == NULL, n == 64);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_recorded_key_is_read_and_printed),
      cmocka_unit_test(every_field_of_a_key_is_in_its_text),
      cmocka_unit_test(another_text_is_no_key),
      cmocka_unit_test(an_engine_is_read_and_printed),
      cmocka_unit_test(another_text_is_no_engine),
      cmocka_unit_test(an_engine_has_at_most_64_knobs),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
