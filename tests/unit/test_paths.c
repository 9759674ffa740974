#include "../../libsexp/lang/paths.h"
#include "../common/cmocka_all.h"

static void expect_path(const char *from, const char *path, const char *wanted) {
  sx_memory memory = sx_memory_default();
  sx_arena arena;
  sx_arena_init(&arena, &memory);
  assert_string_equal(sx_join_path(&arena, from, path), wanted);
  sx_arena_free(&arena);
}

static void test_a_path_is_meant_from_the_folder_of_its_file(void **state) {
  (void)state;
  expect_path("a.sexp", "b.sexp", "b.sexp");
  expect_path("x/a.sexp", "b.sexp", "x/b.sexp");
  expect_path("/x/y/a.sexp", "z/b.sexp", "/x/y/z/b.sexp");
  expect_path("x/a.sexp", "/b.sexp", "/b.sexp");
  expect_path("x/a.sexp", "s3://bucket/../b", "s3://bucket/../b");
  expect_path("x/a.sexp", "", "x/");
  expect_path("a.sexp", "", "");
}

static void test_a_file_is_named_in_one_way(void **state) {
  (void)state;
  expect_path("x/a.sexp", "../b.sexp", "b.sexp");
  expect_path("x/y/a.sexp", "../../b.sexp", "b.sexp");
  expect_path("x/a.sexp", "../../b.sexp", "../b.sexp");
  expect_path("../x/a.sexp", "../b.sexp", "../b.sexp");
  expect_path("../a.sexp", "../b.sexp", "../../b.sexp");
  expect_path("a.sexp", "x/../y/./b.sexp", "y/b.sexp");
  expect_path("/x/a.sexp", "../../b.sexp", "/../b.sexp");
  expect_path("x/a.sexp", "..b/c.sexp", "x/..b/c.sexp");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_path_is_meant_from_the_folder_of_its_file),
      cmocka_unit_test(test_a_file_is_named_in_one_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
