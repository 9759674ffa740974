/* The memory that the system lets a process have, from files as Linux has them. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "../../tools/common/available.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static void put_file(const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s", scratch("%s", name));
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  scratch_write(path, text, strlen(text));
}

static tool_available look(void) {
  tool_available found;
  tool_available_read(&found, scratch("."));
  return found;
}

static void nothing_is_known(void **state) {
  (void)state;
  const char *whose = NULL;
  scratch_empty();
  tool_available found = look();
  assert_int_equal(found.total, -1);
  assert_int_equal(found.available, -1);
  assert_int_equal(found.group, -1);
  found.address_left = -1;
  assert_int_equal(tool_available_least(&found, &whose), -1);
}

static void put_machine(void) {
  put_file("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    800 kB\n");
}

static void a_machine_without_groups(void **state) {
  (void)state;
  const char *whose = NULL;
  scratch_empty();
  put_machine();
  put_file("proc/self/cgroup", "0::/\n");
  tool_available found = look();
  found.address_left = -1;
  assert_int_equal(found.total, 1000 * 1024);
  assert_int_equal(found.group, -1);
  assert_int_equal(tool_available_least(&found, &whose), 800 * 1024);
  assert_string_equal(whose, "the machine has");
}

/* The tightest of the group and those above it; pages of files are given back. */
static void groups_of_version_2(void **state) {
  (void)state;
  const char *whose = NULL;
  scratch_empty();
  put_machine();
  put_file("proc/self/cgroup", "0::/a/b\n");
  put_file("sys/fs/cgroup/a/b/memory.max", "max\n");
  put_file("sys/fs/cgroup/a/memory.max", "500000\n");
  put_file("sys/fs/cgroup/a/memory.current", "450000\n");
  put_file("sys/fs/cgroup/a/memory.stat", "anon 100\ninactive_file 200000\nactive_file 100000\nfile 300000\n");
  tool_available found = look();
  found.address_left = -1;
  assert_int_equal(found.group, 500000);
  assert_int_equal(found.group_left, 500000 - 150000);
  assert_int_equal(tool_available_least(&found, &whose), 350000);
  assert_string_equal(whose, "the control group leaves");
  put_file("sys/fs/cgroup/a/b/memory.max", "100000\n");
  put_file("sys/fs/cgroup/a/b/memory.current", "130000\n");
  found = look();
  assert_int_equal(found.group, 100000);
  assert_int_equal(found.group_left, 0);
}

/* Others in the group above have taken nearly all of it. */
static void a_group_above_may_be_full(void **state) {
  (void)state;
  scratch_empty();
  put_machine();
  put_file("proc/self/cgroup", "0::/a/b\n");
  put_file("sys/fs/cgroup/a/b/memory.max", "100000\n");
  put_file("sys/fs/cgroup/a/b/memory.current", "1000\n");
  put_file("sys/fs/cgroup/a/memory.max", "500000\n");
  put_file("sys/fs/cgroup/a/memory.current", "490000\n");
  tool_available found = look();
  assert_int_equal(found.group, 100000);
  assert_int_equal(found.group_left, 10000);
}

static void groups_of_version_1(void **state) {
  (void)state;
  scratch_empty();
  put_machine();
  put_file("proc/self/cgroup", "7:cpu:/x\n5:memory:/x\n");
  put_file("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
  put_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  put_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  tool_available found = look();
  assert_int_equal(found.group, 700000);
  assert_int_equal(found.group_left, 600000);
}

static void addresses_may_be_fewest(void **state) {
  (void)state;
  const char *whose = NULL;
  const tool_available found = {
      .total = 9, .available = 8, .group = -1, .group_left = -1, .addresses = 7, .address_left = 5};
  assert_int_equal(tool_available_least(&found, &whose), 5);
  assert_string_equal(whose, "ulimit -v leaves");
}

/* What is mapped already is taken. */
static void addresses_are_those_that_are_left(void **state) {
  (void)state;
  struct rlimit before, limit;
  scratch_empty();
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  limit = (struct rlimit){(rlim_t)1 << 60, before.rlim_max};
  if (before.rlim_max < limit.rlim_cur) skip();
  assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
  tool_available found = look();
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_true(found.addresses == INT64_C(1) << 60);
  assert_in_range(found.address_left, 1, found.addresses - 4096);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_known),
      cmocka_unit_test(a_machine_without_groups),
      cmocka_unit_test(groups_of_version_2),
      cmocka_unit_test(groups_of_version_1),
      cmocka_unit_test(a_group_above_may_be_full),
      cmocka_unit_test(addresses_may_be_fewest),
      cmocka_unit_test(addresses_are_those_that_are_left),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
