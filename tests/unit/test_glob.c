#include <string.h>

#include "../../libsexp/base/glob.h"
#include "../common/cmocka_all.h"

static void test_matches(void **state) {
  (void)state;
  static const struct {
    const char *glob, *text;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"", "a", false},
      {"a", "a", true},
      {"a", "ab", false},
      {"*", "", true},
      {"*", "a/b", true},
      {"grad/*", "grad/fc1/w", true},
      {"grad/*", "grad/", true},
      {"grad/*", "grad", false},
      {"*/w", "fc1/w", true},
      {"*/w", "fc1/wx", false},
      {"a?c", "abc", true},
      {"a?c", "ac", false},
      {"*a*b*c", "xxaxbxc", true},
      {"*a*b*c", "xxbxaxc", false},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[!a-c]x", "dx", true},
      {"[!a-c]x", "ax", false},
      {"[]]", "]", true},
      {"[ab", "[ab", true},
      {"[ab", "a", false},
      {"blocks/[01]/*", "blocks/1/q", true},
      {"**", "abc", true},
      {"a*", "ba", false},
      {"*ab", "aab", true},
      {"[a-]", "-", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (sx_glob_matches(cases[i].glob, cases[i].text) != cases[i].matches)
      fail_msg("%s against %s", cases[i].glob, cases[i].text);
}

static void test_takes_no_exponential_time(void **state) {
  (void)state;
  char text[20001];
  memset(text, 'a', 20000);
  text[20000] = 0;
  assert_false(sx_glob_matches("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches), cmocka_unit_test(test_takes_no_exponential_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
