/* What a directory of checkpoints does when things go wrong around it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../common/checkpoint.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static int empty(void **state) {
  (void)state;
  scratch_empty();
  return 0;
}

static ckpt_status write_into(ckpt_location *location, int64_t step, float value, ckpt_error *error) {
  ckpt_experiment experiment = checkpoint_sample(step, value);
  return ckpt_checkpoint_write(NULL, location, &experiment, NULL, error);
}

static ckpt_location *open_location(void) {
  ckpt_location *location = NULL;
  ckpt_error error;
  expect_ok(ckpt_location_open(&location, scratch("run"), true, NULL, &error), &error);
  return location;
}

static void expect_whole(int64_t step) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-%lld", (long long)step), NULL, &error), &error);
  expect_ok(ckpt_checkpoint_verify(checkpoint, &error), &error);
  ckpt_checkpoint_close(checkpoint);
}

static void makes_parents(void **state) {
  (void)state;
  ckpt_location *location = NULL;
  ckpt_error error;
  expect_ok(ckpt_location_open(&location, scratch("a/b//c/"), true, NULL, &error), &error);
  expect_ok(write_into(location, 0, 1, &error), &error);
  ckpt_location_close(location);
  assert_true(scratch_has(scratch("a/b/c/step-0/experiment.json")));
  ckpt_location_close(NULL);
}

static void unusable_places(void **state) {
  (void)state;
  ckpt_location *location = NULL;
  ckpt_error error;
  expect_error(ckpt_location_open(&location, scratch("none"), false, NULL, &error), &error, "E-CKPT-002",
               "No such file");
  expect_error(ckpt_location_open(&location, "", true, NULL, &error), &error, "E-CKPT-002", "path of a directory");
  scratch_write(scratch("file"), "x", 1);
  expect_error(ckpt_location_open(&location, scratch("file"), true, NULL, &error), &error, "E-CKPT-002",
               "Not a directory");
  expect_error(ckpt_location_open(&location, scratch("file/under"), true, NULL, &error), &error, "E-CKPT-002",
               "Not a directory");
  mkdir(scratch("locked"), 0500);
  if (geteuid() == 0) return;
  expect_error(ckpt_location_open(&location, scratch("locked"), true, NULL, &error), &error, "E-CKPT-002",
               "cannot be written");
  expect_error(ckpt_location_open(&location, scratch("locked/x"), true, NULL, &error), &error, "E-CKPT-002",
               "Permission denied");
}

static void vanished_directory(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  ckpt_entry *entries = NULL;
  size_t n = 0;
  assert_int_equal(rmdir(scratch("run")), 0);
  ckpt_status status = write_into(location, 1, 1, &error);
  expect_error(status, &error, "E-CKPT-003", "No such file or directory");
  assert_int_equal(status, CKPT_IO);
  mkdir(scratch("run"), 0700); /* another one of that name is not the one that was opened */
  expect_error(write_into(location, 1, 1, &error), &error, "E-CKPT-003", "run");
  ckpt_checkpoint_list(&entries, &n, location, &error);
  assert_int_equal(n, 0);
  free(entries);
  ckpt_location_close(location);
}

static void something_else_in_the_way(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  scratch_write(scratch("run/step-1"), "x", 1);
  expect_error(write_into(location, 1, 1, &error), &error, "E-CKPT-004", "step-1");
  mkdir(scratch("run/step-2"), 0700);
  mkdir(scratch("run/step-2/inner"), 0700);
  expect_error(write_into(location, 2, 1, &error), &error, "E-CKPT-004", "'step-2' holds more than files");
  assert_int_equal(symlink("elsewhere", scratch("run/step-3")), 0);
  expect_error(write_into(location, 3, 1, &error), &error, "E-CKPT-004", "step-3");
  assert_int_equal(scratch_count(scratch("run")), 3);
  mkdir(scratch("run/step-4"), 0700); /* a torn one is replaced */
  scratch_write(scratch("run/step-4/states.safetensors"), "x", 1);
  expect_ok(write_into(location, 4, 1, &error), &error);
  expect_whole(4);
  ckpt_location_close(location);
}

/* A limit on the size of files stands for a full disk: nothing partial is left, the checkpoint before is whole. */
static void file_size_limit(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  expect_ok(write_into(location, 1, 1, &error), &error);
  struct rlimit before, limit;
  getrlimit(RLIMIT_FSIZE, &before);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  for (limit = before, limit.rlim_cur = 0; limit.rlim_cur < 2000; limit.rlim_cur += 97) {
    setrlimit(RLIMIT_FSIZE, &limit);
    ckpt_status status = write_into(location, 1, 2, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    expect_error(status, &error, "E-CKPT-004", "File too large");
    assert_int_equal(status, CKPT_IO);
    assert_int_equal(scratch_count(scratch("run")), 1);
    expect_whole(1);
  }
  signal(SIGXFSZ, handler);
  ckpt_location_close(location);
}

/* A real full disk, where the test may mount one. */
static void full_disk(void **state) {
  (void)state;
  char command[1200];
  mkdir(scratch("run"), 0700);
  snprintf(command, sizeof command, "mount -t tmpfs -o size=16k none %s 2>/dev/null", scratch("run"));
  if (system(command) != 0) skip();
  ckpt_location *location = open_location();
  ckpt_error error;
  ckpt_status first = write_into(location, 1, 1, &error), second = write_into(location, 2, 1, &error);
  ckpt_error full = error;
  size_t left = scratch_count(scratch("run"));
  bool whole = scratch_has(scratch("run/step-1/experiment.json"));
  ckpt_location_close(location);
  snprintf(command, sizeof command, "umount %s", scratch("run"));
  assert_int_equal(system(command), 0);
  assert_int_equal(first, CKPT_OK);
  expect_error(second, &full, "E-CKPT-004", "No space left on device");
  assert_true(left == 1 && whole);
}

static void read_only_directory(void **state) {
  (void)state;
  char command[1200];
  ckpt_error error;
  ckpt_location *location = open_location();
  if (geteuid() != 0) {
    chmod(scratch("run"), 0500);
    expect_error(write_into(location, 1, 1, &error), &error, "E-CKPT-004", "Permission denied");
    chmod(scratch("run"), 0700);
    ckpt_location_close(location);
    return;
  }
  ckpt_location_close(location);
  snprintf(command, sizeof command, "mount -t tmpfs none %s 2>/dev/null", scratch("run"));
  if (system(command) != 0) skip();
  location = open_location();
  snprintf(command, sizeof command, "mount -o remount,ro %s", scratch("run"));
  int mounted = system(command);
  ckpt_status status = write_into(location, 1, 1, &error);
  ckpt_location_close(location);
  ckpt_location *again = NULL;
  ckpt_error refused;
  ckpt_status opened = ckpt_location_open(&again, scratch("run"), true, NULL, &refused);
  ckpt_location_close(again);
  snprintf(command, sizeof command, "umount %s", scratch("run"));
  assert_int_equal(system(command), 0);
  assert_int_equal(mounted, 0);
  expect_error(status, &error, "E-CKPT-004", "Read-only file system");
  expect_error(opened, &refused, "E-CKPT-002", "Read-only file system");
}

/* Writers killed at any moment: every checkpoint that is there is whole, and the next writer clears the rest away. */
static void killed_writers(void **state) {
  (void)state;
  size_t n_left = 0;
  for (int i = 0; i < 60; i++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      ckpt_location *location = NULL;
      if (ckpt_location_open(&location, scratch("run"), true, NULL, NULL) != CKPT_OK) _exit(1);
      for (int64_t step = 0;; step = (step + 1) % 3)
        if (write_into(location, step, (float)i, NULL) != CKPT_OK) _exit(1);
    }
    struct timespec moment = {0, 2000000 + 373737 * (i % 40)};
    nanosleep(&moment, NULL);
    int status;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    ckpt_location *location = open_location();
    ckpt_entry *entries = NULL;
    size_t n = 0;
    ckpt_error error;
    expect_ok(ckpt_checkpoint_list(&entries, &n, location, &error), &error);
    n_left += scratch_count(scratch("run")) - n;
    for (size_t k = 0; k < n; k++) {
      assert_true(entries[k].complete);
      expect_whole(entries[k].step);
    }
    free(entries);
    ckpt_location_close(location);
  }
  ckpt_location *location = open_location();
  ckpt_error error;
  expect_ok(write_into(location, 0, 1, &error), &error);
  ckpt_location_close(location);
  assert_in_range(scratch_count(scratch("run")), 1, 3);
  print_message("60 writers killed, %zu temporary directories seen after\n", n_left);
}

/* A temporary directory of a living writer is left alone, one of a dead writer goes. */
static void living_writers_are_left_alone(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  mkdir(scratch("run/.tmp-step-5-1-0"), 0700);
  scratch_write(scratch("run/.tmp-step-5-1-0/parameters.safetensors"), "x", 1);
  mkdir(scratch("run/.tmp-step-6-1-0"), 0700);
  mkdir(scratch("run/.tmp-other"), 0700);
  int living = open(scratch("run/.tmp-step-6-1-0"), O_RDONLY | O_DIRECTORY);
  assert_int_equal(flock(living, LOCK_EX), 0);
  expect_ok(write_into(location, 1, 1, &error), &error);
  assert_false(scratch_has(scratch("run/.tmp-step-5-1-0")));
  assert_true(scratch_has(scratch("run/.tmp-step-6-1-0")) && scratch_has(scratch("run/.tmp-other")));
  close(living);
  ckpt_location_close(location);
}

/* An old checkpoint that stepped aside for a new one that never came is put back; else it goes. */
static void stepped_aside_comes_back(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  expect_ok(write_into(location, 1, 1, &error), &error);
  expect_ok(write_into(location, 2, 1, &error), &error);
  assert_int_equal(rename(scratch("run/step-1"), scratch("run/.old-step-1-77-0")), 0);
  mkdir(scratch("run/.old-step-2-77-0"), 0700);
  scratch_write(scratch("run/.old-step-2-77-0/experiment.json"), "x", 1);
  expect_ok(write_into(location, 3, 1, &error), &error);
  assert_int_equal(scratch_count(scratch("run")), 3);
  for (int64_t step = 1; step <= 3; step++) expect_whole(step);
  ckpt_location_close(location);
}

/* Two processes that write the same steps at once: each that says it wrote did, and all is whole. */
static void writers_at_once(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  pid_t children[4];
  for (int i = 0; i < 4; i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    ckpt_location *own = NULL;
    ckpt_error error;
    if (ckpt_location_open(&own, scratch("run"), true, NULL, &error) != CKPT_OK) _exit(1);
    for (int k = 0; k < 25; k++) {
      if (write_into(own, k % 2, (float)(i + k), &error) == CKPT_OK) continue;
      fprintf(stderr, "%s\n", error.message);
      _exit(1);
    }
    _exit(0);
  }
  for (int i = 0; i < 4; i++) {
    int status;
    waitpid(children[i], &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  ckpt_error error;
  expect_ok(write_into(location, 2, 1, &error), &error);
  for (int64_t step = 0; step < 3; step++) expect_whole(step);
  assert_int_equal(scratch_count(scratch("run")), 3);
  ckpt_location_close(location);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(makes_parents, empty),
      cmocka_unit_test_setup(unusable_places, empty),
      cmocka_unit_test_setup(vanished_directory, empty),
      cmocka_unit_test_setup(something_else_in_the_way, empty),
      cmocka_unit_test_setup(file_size_limit, empty),
      cmocka_unit_test_setup(full_disk, empty),
      cmocka_unit_test_setup(read_only_directory, empty),
      cmocka_unit_test_setup(killed_writers, empty),
      cmocka_unit_test_setup(living_writers_are_left_alone, empty),
      cmocka_unit_test_setup(stepped_aside_comes_back, empty),
      cmocka_unit_test_setup(writers_at_once, empty),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
