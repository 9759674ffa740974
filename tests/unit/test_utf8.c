#include <string.h>

#include "../../libsexp/read/utf8.h"
#include "../common/cmocka_all.h"

static void test_every_scalar_value_round_trips(void **state) {
  (void)state;
  for (uint32_t c = 0; c <= 0x10ffff; c++) {
    char bytes[4];
    uint32_t back = 0;
    if (c >= 0xd800 && c < 0xe000) continue;
    size_t n = sx_utf8_encode(c, bytes);
    assert_int_equal(sx_utf8_decode(bytes, n, &back), n);
    assert_int_equal(back, c);
    if (n > 1) assert_int_equal(sx_utf8_decode(bytes, n - 1, &back), 0);
  }
}

static void test_what_is_not_utf8_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {
      "\x80",     "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",     "\xed\xa0\x80",
      "\xef\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
      "\xc3(",    "\xe2\x28\xa1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    uint32_t code_point = 0;
    assert_int_equal(sx_utf8_decode(bad[i], strlen(bad[i]), &code_point), 0);
  }
}

static void test_width(void **state) {
  (void)state;
  assert_int_equal(sx_utf8_width('a'), 1);
  assert_int_equal(sx_utf8_width(0xe9), 1);    /* é */
  assert_int_equal(sx_utf8_width(0x301), 0);   /* combining acute */
  assert_int_equal(sx_utf8_width(0x4e2d), 2);  /* a CJK ideograph */
  assert_int_equal(sx_utf8_width(0x1f600), 2); /* an emoji */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_scalar_value_round_trips),
      cmocka_unit_test(test_what_is_not_utf8_is_refused),
      cmocka_unit_test(test_width),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
