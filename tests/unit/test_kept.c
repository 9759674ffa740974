/* The host that opens each file once. */
#include <string.h>

#include "../../tools/common/kept.h"
#include "../common/cmocka_all.h"
#include "../common/memory_host.h"

typedef struct fixture {
  memory_host memory;
  tool_kept *kept;
  sexp_host host;
} fixture;

static void start(fixture *f) {
  static const int64_t dims[] = {2};
  static const float values[] = {1, 2};
  *f = (fixture){0};
  memory_host_add_text(&f->memory, "a.csv", "1,2\n");
  memory_host_add_text(&f->memory, "b.csv", "3\n");
  memory_host_add_tensor(&f->memory, "a.csv", "t", SEXP_F32, 1, dims, values);
  const sexp_host inner = memory_host_callbacks(&f->memory);
  f->kept = tool_kept_new(&inner);
  assert_non_null(f->kept);
  f->host = tool_kept_host(f->kept);
}

static sexp_file *opened(fixture *f, const char *path, sexp_file_info *info) {
  sexp_file *file = NULL;
  sexp_failure why;
  assert_int_equal(f->host.open(f->host.context, path, &file, info, &why), 0);
  return file;
}

static void one_file_is_opened_once(void **state) {
  (void)state;
  fixture f;
  sexp_file_info one, two;
  start(&f);
  sexp_file *first = opened(&f, "a.csv", &one), *second = opened(&f, "a.csv", &two);
  assert_int_equal(f.memory.n_open, 1);
  assert_ptr_equal(one.bytes, two.bytes);
  f.host.close(f.host.context, first);
  f.host.close(f.host.context, second);
  assert_int_equal(f.memory.n_open, 1);
  sexp_file *again = opened(&f, "a.csv", &two);
  assert_ptr_equal(one.bytes, two.bytes);
  f.host.close(f.host.context, again);
  tool_kept_free(f.kept);
  assert_int_equal(f.memory.n_open, 0);
}

static void a_path_is_kept_a_kind_of_opening(void **state) {
  (void)state;
  fixture f;
  sexp_file_info info;
  sexp_file *tensors_of = NULL;
  const sexp_file_tensor *tensors = NULL;
  size_t n = 0;
  sexp_failure why;
  start(&f);
  opened(&f, "a.csv", &info);
  assert_int_equal(f.host.open_tensors(f.host.context, "a.csv", &tensors_of, &tensors, &n, &why), 0);
  assert_int_equal(n, 1);
  assert_int_equal(f.memory.n_open, 2);
  tool_kept_free(f.kept);
  assert_int_equal(f.memory.n_open, 0);
}

static void settling_closes_what_nobody_uses(void **state) {
  (void)state;
  fixture f;
  sexp_file_info info;
  start(&f);
  sexp_file *used = opened(&f, "a.csv", &info);
  f.host.close(f.host.context, opened(&f, "b.csv", &info));
  assert_int_equal(f.memory.n_open, 2);
  tool_kept_settle(f.kept);
  assert_int_equal(f.memory.n_open, 1);
  f.host.close(f.host.context, used);
  assert_int_equal(f.memory.n_open, 0);
  tool_kept_free(f.kept);
}

static void failures_are_passed_on_and_not_kept(void **state) {
  (void)state;
  fixture f;
  sexp_file *file = NULL;
  sexp_file_info info;
  sexp_failure why = {0};
  start(&f);
  assert_int_not_equal(f.host.open(f.host.context, "none", &file, &info, &why), 0);
  assert_string_equal(why.code, "E-DATA-101");
  memory_host_add_text(&f.memory, "none", "there now");
  f.host.close(f.host.context, opened(&f, "none", &info));
  tool_kept_free(f.kept);
}

static void checks_versions_and_lines_reach_the_host_within(void **state) {
  (void)state;
  fixture f;
  sexp_file_info info;
  sexp_failure why;
  char one[80], two[80];
  uint64_t n_one = 0, n_two = 0;
  start(&f);
  sexp_file *file = opened(&f, "a.csv", &info);
  assert_int_equal(f.host.version(f.host.context, file, one, &n_one, &why), 0);
  assert_int_equal(f.host.version(f.host.context, file, two, &n_two, &why), 0);
  assert_string_equal(one, two);
  assert_int_equal(n_one, 4);
  assert_int_equal(n_two, 4);
  f.memory.changed = "a.csv";
  assert_int_not_equal(f.host.check(f.host.context, file, &why), 0);
  f.host.print(f.host.context, "a line");
  assert_string_equal(f.memory.printed, "a line");
  tool_kept_free(f.kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_file_is_opened_once), cmocka_unit_test(a_path_is_kept_a_kind_of_opening),
      cmocka_unit_test(settling_closes_what_nobody_uses), cmocka_unit_test(failures_are_passed_on_and_not_kept),
      cmocka_unit_test(checks_versions_and_lines_reach_the_host_within)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
