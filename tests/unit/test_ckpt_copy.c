/* Copies of checkpoints: whole or not there, taken up where an earlier one ended. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/checkpoint.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static int empty(void **state) {
  (void)state;
  scratch_empty();
  return 0;
}

static ckpt_location *open_place(const char *name) {
  ckpt_location *location = NULL;
  ckpt_error error;
  expect_ok(ckpt_location_open(&location, scratch("%s", name), true, NULL, &error), &error);
  return location;
}

static void write_sample(ckpt_location *location, int64_t step, float value) {
  ckpt_experiment experiment = checkpoint_sample(step, value);
  ckpt_error error;
  expect_ok(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error);
}

static ckpt_checkpoint *open_step(ckpt_location *location, int64_t step) {
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_open(&checkpoint, location, step, &error), &error);
  return checkpoint;
}

/* Every file of step-5 in `to` has the bytes of that in `from`, and nothing else is there. */
static void expect_copied(void) {
  static const char *const names[] = {"experiment.json", "parameters.safetensors", "states.safetensors"};
  for (size_t i = 0; i < 3; i++) {
    size_t n = 0, m = 0;
    char *left = scratch_read(scratch("from/step-5/%s", names[i]), &n);
    char *right = scratch_read(scratch("to/step-5/%s", names[i]), &m);
    assert_non_null(right);
    assert_int_equal(n, m);
    assert_memory_equal(left, right, n);
    free(left);
    free(right);
  }
  assert_int_equal(scratch_count(scratch("to/step-5")), 3);
  assert_int_equal(scratch_count(scratch("to")), 1);
}

typedef struct places {
  ckpt_location *from, *to;
  ckpt_checkpoint *checkpoint;
} places;

static places prepare(void) {
  places p = {open_place("from"), open_place("to"), NULL};
  write_sample(p.from, 5, 1);
  p.checkpoint = open_step(p.from, 5);
  return p;
}

static void release(places *p) {
  ckpt_checkpoint_close(p->checkpoint);
  ckpt_location_close(p->from);
  ckpt_location_close(p->to);
}

static void copies_byte_for_byte(void **state) {
  (void)state;
  places p = prepare();
  ckpt_copied copied;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error), &error);
  assert_int_equal(copied.n_bytes, ckpt_checkpoint_n_bytes(p.checkpoint));
  assert_int_equal(copied.n_bytes_kept, 0);
  assert_false(copied.already);
  expect_copied();
  expect_ok(ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error), &error);
  assert_true(copied.already);
  expect_ok(ckpt_checkpoint_copy(NULL, p.from, p.checkpoint, NULL, &error), &error);
  release(&p);
}

static void another_one_is_replaced_when_asked(void **state) {
  (void)state;
  places p = prepare();
  const ckpt_copy_options replace = {.replace = true};
  ckpt_error error;
  write_sample(p.to, 5, 2);
  expect_error(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error, "E-CKPT-031", "digest");
  expect_ok(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, &replace, &error), &error);
  expect_copied();
  release(&p);
}

static void torn_and_damaged_ones_are_replaced(void **state) {
  (void)state;
  places p = prepare();
  ckpt_error error;
  write_sample(p.to, 5, 2);
  unlink(scratch("to/step-5/experiment.json"));
  expect_ok(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error);
  expect_copied();
  size_t n = 0;
  char *text = scratch_read(scratch("to/step-5/states.safetensors"), &n);
  text[n - 1] ^= 1;
  scratch_write(scratch("to/step-5/states.safetensors"), text, n);
  free(text);
  expect_ok(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error);
  expect_copied();
  release(&p);
}

static void a_damaged_source_is_not_copied(void **state) {
  (void)state;
  places p = prepare();
  ckpt_error error;
  size_t n = 0;
  char *text = scratch_read(scratch("from/step-5/states.safetensors"), &n);
  text[n - 1] ^= 1;
  scratch_write(scratch("from/step-5/states.safetensors"), text, n);
  free(text);
  expect_error(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error, "E-CKPT-012", "states");
  assert_int_equal(scratch_count(scratch("to")), 0);
  truncate(scratch("from/step-5/states.safetensors"), 3);
  expect_error(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error, "E-CKPT-011", "states");
  release(&p);
}

static void goes_on_where_an_earlier_copy_ended(void **state) {
  (void)state;
  places p = prepare();
  ckpt_copied copied;
  ckpt_error error;
  size_t n = 0, m = 0;
  char *text = scratch_read(scratch("from/step-5/parameters.safetensors"), &n);
  char *states = scratch_read(scratch("from/step-5/states.safetensors"), &m);
  mkdir(scratch("to/.copy-step-5"), 0777);
  scratch_write(scratch("to/.copy-step-5/parameters.safetensors"), text, n);
  scratch_write(scratch("to/.copy-step-5/states.safetensors"), states, m / 2);
  scratch_write(scratch("to/.copy-step-5/parameters-00001-of-00002.safetensors"), text, n);
  expect_ok(ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error), &error);
  assert_int_equal(copied.n_bytes_kept, n);
  assert_int_equal(copied.n_bytes, ckpt_checkpoint_n_bytes(p.checkpoint) - n);
  expect_copied();
  /* what was there has the right size and other bytes */
  scratch_empty();
  release(&p);
  p = prepare();
  mkdir(scratch("to/.copy-step-5"), 0777);
  text[n - 1] ^= 1;
  scratch_write(scratch("to/.copy-step-5/parameters.safetensors"), text, n);
  expect_ok(ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error), &error);
  assert_int_equal(copied.n_bytes_kept, 0);
  expect_copied();
  free(text);
  free(states);
  release(&p);
}

/* The system fails in the middle: whole files stay for the next copy, which ends with the same bytes. */
static void a_full_disk_leaves_whole_files(void **state) {
  (void)state;
  places p = prepare();
  ckpt_copied copied;
  ckpt_error error;
  size_t n = 0;
  free(scratch_read(scratch("from/step-5/parameters.safetensors"), &n));
  struct rlimit before, small;
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = n + 64 > 1024 ? n + 64 : 1024; /* less than experiment.json */
  void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  ckpt_status status = ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old);
  expect_error(status, &error, "E-CKPT-004", "experiment.json");
  assert_true(scratch_has(scratch("to/.copy-step-5/parameters.safetensors")));
  assert_false(scratch_has(scratch("to/.copy-step-5/experiment.json")));
  assert_false(scratch_has(scratch("to/step-5")));
  expect_ok(ckpt_checkpoint_copy(&copied, p.to, p.checkpoint, NULL, &error), &error);
  assert_true(copied.n_bytes_kept > n);
  expect_copied();
  release(&p);
}

static void two_copies_at_once(void **state) {
  (void)state;
  places p = prepare();
  ckpt_error error;
  mkdir(scratch("to/.copy-step-5"), 0777);
  int fd = open(scratch("to/.copy-step-5"), O_RDONLY | O_DIRECTORY);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  expect_error(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error, "E-CKPT-004", "another copy");
  write_sample(p.to, 6, 1); /* a writer leaves it alone */
  assert_true(scratch_has(scratch("to/.copy-step-5")));
  close(fd);
  expect_ok(ckpt_checkpoint_copy(NULL, p.to, p.checkpoint, NULL, &error), &error);
  assert_true(scratch_has(scratch("to/step-5/experiment.json")));
  assert_true(scratch_has(scratch("to/step-6/experiment.json")));
  release(&p);
}

static void removes(void **state) {
  (void)state;
  places p = prepare();
  ckpt_error error;
  write_sample(p.from, 6, 1);
  expect_ok(ckpt_checkpoint_remove(p.from, 5, &error), &error);
  assert_false(scratch_has(scratch("from/step-5")));
  mkdir(scratch("from/step-5"), 0777);
  scratch_write(scratch("from/step-5/notes"), "x", 1);
  expect_error(ckpt_checkpoint_remove(p.from, 5, &error), &error, "E-CKPT-004", "more than files of checkpoints");
  assert_true(scratch_has(scratch("from/step-5/notes")));
  expect_error(ckpt_checkpoint_remove(p.from, 7, &error), &error, "E-CKPT-004", "step-7");
  release(&p);
}

static void what_a_checkpoint_says(void **state) {
  (void)state;
  places p = prepare();
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  char digest[CKPT_SHA256_TEXT];
  size_t n = 0, m = 0;
  char *text = scratch_read(scratch("from/step-5/experiment.json"), &n);
  assert_string_equal(ckpt_checkpoint_text(p.checkpoint, &m), text);
  assert_int_equal(n, m);
  free(text);
  expect_ok(ckpt_checkpoint_digest(digest, p.checkpoint, &error), &error);
  assert_string_equal(digest, ckpt_checkpoint_experiment(p.checkpoint)->digest);
  assert_non_null(strstr(ckpt_checkpoint_path(p.checkpoint), "from/step-5"));
  expect_error(ckpt_checkpoint_open_path(&checkpoint, scratch("none"), NULL, &error), &error, "E-CKPT-030",
               "No such file");
  expect_error(ckpt_checkpoint_open_path(&checkpoint, scratch("from/step-5/experiment.json"), NULL, &error), &error,
               "E-CKPT-030", "Not a directory");
  release(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(copies_byte_for_byte, empty),
      cmocka_unit_test_setup(another_one_is_replaced_when_asked, empty),
      cmocka_unit_test_setup(torn_and_damaged_ones_are_replaced, empty),
      cmocka_unit_test_setup(a_damaged_source_is_not_copied, empty),
      cmocka_unit_test_setup(goes_on_where_an_earlier_copy_ended, empty),
      cmocka_unit_test_setup(a_full_disk_leaves_whole_files, empty),
      cmocka_unit_test_setup(two_copies_at_once, empty),
      cmocka_unit_test_setup(removes, empty),
      cmocka_unit_test_setup(what_a_checkpoint_says, empty),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
