#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static void structure_in_one_line(void **state) {
  (void)state;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "a");
  ckpt_json_integer(json, INT64_MIN);
  ckpt_json_key(json, "b");
  ckpt_json_begin_array(json);
  ckpt_json_bool(json, true);
  ckpt_json_null(json);
  ckpt_json_begin_object(json);
  ckpt_json_end_object(json);
  ckpt_json_begin_array(json);
  ckpt_json_end_array(json);
  ckpt_json_end_array(json);
  ckpt_json_key(json, "c");
  ckpt_json_raw(json, "{\"x\": 1}");
  ckpt_json_key(json, "d");
  ckpt_json_unsigned(json, INT64_MAX);
  ckpt_json_key(json, "e");
  ckpt_json_unsigned(json, UINT64_MAX);
  ckpt_json_key(json, "f");
  ckpt_json_bits32(json, 1.1f);
  ckpt_json_end_object(json);
  size_t n = 0;
  const char *text = ckpt_json_text(json, &n);
  assert_string_equal(text,
                      "{\"a\": -9223372036854775808, \"b\": [true, null, {}, []], \"c\": {\"x\": 1}, "
                      "\"d\": 9223372036854775807, \"e\": \"18446744073709551615\", \"f\": \"3f8ccccd\"}\n");
  assert_int_equal(n, strlen(text));
  ckpt_json_reset(json);
  ckpt_json_integer(json, 1);
  assert_string_equal(ckpt_json_text(json, NULL), "1\n");
  ckpt_json_free(json);
}

static void structure_in_many_lines(void **state) {
  (void)state;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_PRETTY);
  ckpt_json_begin_object(json);
  ckpt_json_key(json, "shape");
  ckpt_json_begin_array(json);
  ckpt_json_integer(json, 2);
  ckpt_json_integer(json, 3);
  ckpt_json_end_array(json);
  ckpt_json_key(json, "items");
  ckpt_json_begin_array(json);
  for (int i = 0; i < 2; i++) {
    ckpt_json_begin_object(json);
    ckpt_json_key(json, "i");
    ckpt_json_integer(json, i);
    ckpt_json_end_object(json);
  }
  ckpt_json_end_array(json);
  ckpt_json_key(json, "none");
  ckpt_json_begin_object(json);
  ckpt_json_end_object(json);
  ckpt_json_end_object(json);
  assert_string_equal(ckpt_json_text(json, NULL),
                      "{\n  \"shape\": [2, 3],\n  \"items\": [\n    {\n      \"i\": 0\n    },\n    {\n      \"i\": 1\n"
                      "    }\n  ],\n  \"none\": {}\n}\n");
  ckpt_json_free(json);
}

static void expect_quoted(const char *text, size_t n, const char *expected) {
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  ckpt_json_string_n(json, text, n);
  assert_string_equal(ckpt_json_text(json, NULL), expected);
  ckpt_json_free(json);
}

static void strings_are_escaped(void **state) {
  (void)state;
  expect_quoted("a\"b\\c/\b\f\n\r\t\x01\x1f\x7f", 14, "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"\n");
  expect_quoted("\0x", 2, "\"\\u0000x\"\n");
  expect_quoted("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 11, "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"\n");
  /* overlong, lone continuation, surrogate, beyond the last code point, cut off */
  expect_quoted("\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"\n");
  expect_quoted("a\x80z", 3, "\"a\xef\xbf\xbdz\"\n");
  expect_quoted("\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"\n");
  expect_quoted("\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"\n");
  expect_quoted("\xe2\x82", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\"\n");
}

static void expect_real(double value, const char *expected) {
  char text[CKPT_REAL_TEXT];
  assert_int_equal(ckpt_real64_text(text, value), strlen(expected));
  assert_string_equal(text, expected);
}

static void reals_are_shortest(void **state) {
  (void)state;
  char text[CKPT_REAL_TEXT];
  expect_real(0.1, "0.1");
  expect_real(1.0, "1");
  expect_real(-0.0, "-0");
  expect_real(1e300, "1e+300");
  expect_real(5e-324, "5e-324");
  expect_real(0.1 + 0.2, "0.30000000000000004");
  expect_real(9007199254740993.0, "9007199254740992");
  expect_real((double)NAN, "nan");
  expect_real((double)-INFINITY, "-inf");
  ckpt_real32_text(text, 0.1f);
  assert_string_equal(text, "0.1");
  ckpt_real32_text(text, 2.3025851f);
  assert_string_equal(text, "2.3025851");
  ckpt_real32_text(text, 16777216.0f);
  assert_string_equal(text, "16777216");
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  ckpt_json_begin_array(json);
  ckpt_json_real32(json, NAN);
  ckpt_json_real64(json, (double)INFINITY);
  ckpt_json_real32(json, 0.5f);
  ckpt_json_end_array(json);
  assert_string_equal(ckpt_json_text(json, NULL), "[null, null, 0.5]\n");
  ckpt_json_free(json);
}

static uint64_t next(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static void reals_read_back(void **state) {
  (void)state;
  uint64_t seed = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    uint64_t bits = next(&seed);
    uint32_t bits32 = (uint32_t)(bits >> 20);
    double value, back;
    float value32, back32;
    char text[CKPT_REAL_TEXT];
    memcpy(&value, &bits, sizeof value);
    memcpy(&value32, &bits32, sizeof value32);
    if (isfinite(value)) {
      ckpt_real64_text(text, value);
      back = strtod(text, NULL);
      assert_memory_equal(&back, &value, sizeof value);
    }
    if (!isfinite(value32)) continue;
    ckpt_real32_text(text, value32);
    back32 = strtof(text, NULL);
    assert_memory_equal(&back32, &value32, sizeof value32);
  }
}

static void reals_have_a_point_in_any_locale(void **state) {
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8", "fa_IR.UTF-8"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) found = setlocale(LC_NUMERIC, names[i]) != NULL;
  if (!found) skip();
  char text[CKPT_REAL_TEXT];
  ckpt_real64_text(text, 1.5);
  setlocale(LC_NUMERIC, "C");
  assert_string_equal(text, "1.5");
}

static void large_texts_grow(void **state) {
  (void)state;
  ckpt_json *json = ckpt_json_new(CKPT_JSON_LINE);
  ckpt_json_begin_array(json);
  for (int i = 0; i < 100000; i++) ckpt_json_integer(json, 7);
  ckpt_json_end_array(json);
  size_t n = 0;
  assert_non_null(ckpt_json_text(json, &n));
  assert_int_equal(n, 2 + 100000 + 2 * 99999 + 1);
  ckpt_json_free(json);
  ckpt_json_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(structure_in_one_line), cmocka_unit_test(structure_in_many_lines),
      cmocka_unit_test(strings_are_escaped),   cmocka_unit_test(reals_are_shortest),
      cmocka_unit_test(reals_read_back),       cmocka_unit_test(reals_have_a_point_in_any_locale),
      cmocka_unit_test(large_texts_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
