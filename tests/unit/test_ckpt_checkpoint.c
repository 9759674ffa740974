#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/checkpoint.h"
#include "../common/cmocka_all.h"
#include "../common/scratch.h"

static ckpt_location *open_location(void) {
  ckpt_location *location = NULL;
  ckpt_error error;
  expect_ok(ckpt_location_open(&location, scratch("run"), true, NULL, &error), &error);
  return location;
}

static ckpt_written write_step(int64_t step, float value, int64_t keep) {
  ckpt_location *location = open_location();
  ckpt_experiment experiment = checkpoint_sample(step, value);
  ckpt_write_options options = CKPT_WRITE_OPTIONS;
  ckpt_written written;
  ckpt_error error;
  options.keep = keep;
  expect_ok(ckpt_checkpoint_write(&written, location, &experiment, &options, &error), &error);
  if (written.prune.code[0]) print_message("%s\n", written.prune.message);
  ckpt_location_close(location);
  return written;
}

static ckpt_checkpoint *open_step(int64_t step) {
  ckpt_location *location = open_location();
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_open(&checkpoint, location, step, &error), &error);
  ckpt_location_close(location);
  return checkpoint;
}

static int empty(void **state) {
  (void)state;
  scratch_empty();
  return 0;
}

static void expect_same_experiment(const ckpt_experiment *found, const ckpt_experiment *told) {
  assert_string_equal(found->slug, told->slug);
  assert_int_equal(found->n_sources, 2);
  for (size_t i = 0; i < 2; i++) assert_string_equal(found->sources[i].text, told->sources[i].text);
  assert_string_equal(found->sources[1].name, "model.sexp");
  assert_string_equal(found->run, "tiny");
  assert_null(found->variant);
  assert_int_equal(found->n_knobs, 3);
  for (size_t i = 0; i < 3; i++) {
    assert_string_equal(found->knobs[i].name, told->knobs[i].name);
    assert_string_equal(found->knobs[i].value, told->knobs[i].value);
    assert_string_equal(found->knobs[i].source, told->knobs[i].source);
  }
  assert_true(found->step == told->step && found->records == told->records && found->stage == 0 && found->seed == 1);
  assert_string_equal(found->identity, told->identity);
  assert_int_equal(found->n_data, 2);
  assert_string_equal(found->data[0].source, "kjv.txt");
  assert_int_equal(found->data[0].size, 4400000);
  assert_null(found->data[1].name);
  assert_true(found->gpus == 0 && found->nodes == 1);
  assert_string_equal(found->choices, told->choices);
  assert_string_equal(found->tool_version, told->tool_version);
  assert_string_equal(found->tool_build, told->tool_build);
  assert_string_equal(found->created, told->created);
  assert_string_equal(found->extra, told->extra);
}

static void writes_and_reads(void **state) {
  (void)state;
  ckpt_written written = write_step(10, 1.5f, 0);
  ckpt_experiment told = checkpoint_sample(10, 1.5f);
  char digest[CKPT_SHA256_TEXT];
  ckpt_error error;
  expect_ok(ckpt_digest_arrays(digest, told.parameters, 2, told.states, 2, &error), &error);
  assert_string_equal(written.digest, digest);
  assert_int_equal(scratch_count(scratch("run")), 1);
  assert_int_equal(scratch_count(scratch("run/step-10")), 3);
  ckpt_checkpoint *checkpoint = open_step(CKPT_LATEST);
  const ckpt_experiment *found = ckpt_checkpoint_experiment(checkpoint);
  expect_same_experiment(found, &told);
  assert_string_equal(found->digest, digest);
  assert_true(found->n_parameters == 2 && found->n_states == 2 && found->n_files == 2);
  assert_string_equal(found->parameters[0].path, "layer/b"); /* in order */
  assert_string_equal(found->parameters[1].load->tensor, "model.w");
  assert_int_equal(found->parameters[1].load->size, 4096);
  assert_null(found->parameters[0].load);
  assert_string_equal(found->files[0].name, "parameters.safetensors");
  const ckpt_tensor *tensor = NULL;
  expect_ok(ckpt_tensors_find(&tensor, ckpt_checkpoint_parameters(checkpoint), "layer/w", &error), &error);
  float weights[6];
  expect_ok(ckpt_tensors_read(weights, ckpt_checkpoint_parameters(checkpoint), tensor, 0, 6, &error), &error);
  assert_memory_equal(weights, told.parameters[0].data, sizeof weights);
  expect_ok(ckpt_tensors_find(&tensor, ckpt_checkpoint_states(checkpoint), "count", &error), &error);
  int32_t count = 0;
  expect_ok(ckpt_tensors_read(&count, ckpt_checkpoint_states(checkpoint), tensor, 0, 1, &error), &error);
  assert_int_equal(count, 10);
  expect_ok(ckpt_checkpoint_verify(checkpoint, &error), &error);
  ckpt_checkpoint_close(checkpoint);
  ckpt_checkpoint_close(NULL);
  struct stat status;
  uint64_t total = 0;
  static const char *const names[] = {"experiment.json", "parameters.safetensors", "states.safetensors"};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(stat(scratch("run/step-10/%s", names[i]), &status), 0);
    total += (uint64_t)status.st_size;
  }
  assert_int_equal(written.n_bytes, total);
}

/* The same experiment gives the same bytes, in whatever order its arrays come. */
static void bytes_repeat(void **state) {
  (void)state;
  write_step(3, 2, 0);
  static const char *const names[] = {"experiment.json", "parameters.safetensors", "states.safetensors"};
  char *before[3];
  size_t n[3];
  for (int i = 0; i < 3; i++) before[i] = scratch_read(scratch("run/step-3/%s", names[i]), &n[i]);
  ckpt_experiment turned = checkpoint_sample(3, 2);
  ckpt_array parameters[] = {turned.parameters[1], turned.parameters[0]};
  turned.parameters = parameters;
  ckpt_location *location = open_location();
  ckpt_error error;
  expect_ok(ckpt_checkpoint_write(NULL, location, &turned, NULL, &error), &error);
  ckpt_location_close(location);
  for (int i = 0; i < 3; i++) {
    size_t n_again;
    char *again = scratch_read(scratch("run/step-3/%s", names[i]), &n_again);
    assert_int_equal(n[i], n_again);
    assert_memory_equal(before[i], again, n_again);
    free(before[i]);
    free(again);
  }
}

static void replaces_and_lists(void **state) {
  (void)state;
  write_step(2, 1, 0);
  write_step(10, 1, 0);
  ckpt_written second = write_step(2, 5, 0);
  ckpt_checkpoint *checkpoint = open_step(2);
  assert_string_equal(ckpt_checkpoint_experiment(checkpoint)->digest, second.digest);
  ckpt_checkpoint_close(checkpoint);
  assert_int_equal(scratch_count(scratch("run")), 2);
  mkdir(scratch("run/step-7"), 0700); /* torn */
  mkdir(scratch("run/step-07"), 0700);
  mkdir(scratch("run/step-"), 0700);
  mkdir(scratch("run/step-99999999999999999999"), 0700);
  mkdir(scratch("run/other"), 0700);
  ckpt_location *location = open_location();
  ckpt_entry *entries = NULL;
  size_t n = 0;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_list(&entries, &n, location, &error), &error);
  assert_int_equal(n, 3);
  assert_true(entries[0].step == 2 && entries[0].complete);
  assert_true(entries[1].step == 7 && !entries[1].complete);
  assert_true(entries[2].step == 10 && entries[2].complete);
  free(entries);
  expect_error(ckpt_checkpoint_open(&checkpoint, location, 4, &error), &error, "E-CKPT-015", "expected step-4");
  expect_error(ckpt_checkpoint_open(&checkpoint, location, 7, &error), &error, "E-CKPT-007", "no experiment.json");
  ckpt_location_close(location);
}

static void latest_skips_torn_ones(void **state) {
  (void)state;
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  ckpt_location *location = open_location();
  expect_error(ckpt_checkpoint_open(&checkpoint, location, CKPT_LATEST, &error), &error, "E-CKPT-015", "0 torn");
  ckpt_location_close(location);
  write_step(5, 1, 0);
  write_step(6, 1, 0);
  truncate(scratch("run/step-6/states.safetensors"), 10);
  checkpoint = open_step(CKPT_LATEST);
  assert_int_equal(ckpt_checkpoint_experiment(checkpoint)->step, 5);
  ckpt_checkpoint_close(checkpoint);
}

static void keeps_the_newest(void **state) {
  (void)state;
  for (int64_t step = 1; step <= 5; step++) write_step(step * 10, 1, 0);
  mkdir(scratch("run/step-15"), 0700);
  mkdir(scratch("run/step-16"), 0700);
  scratch_write(scratch("run/step-16/notes.txt"), "x", 1);
  mkdir(scratch("run/step-45"), 0700);
  ckpt_written written = write_step(42, 1, 3); /* 50 belongs to a later part of another run: it stays */
  assert_int_equal(written.n_removed, 2);      /* 20 and 10; step-16 is torn and holds what is not ours */
  assert_string_equal(written.prune.code, "E-CKPT-004");
  assert_non_null(strstr(written.prune.message, "'step-16' is not removed"));
  assert_int_equal(unlink(scratch("run/step-16/notes.txt")), 0);
  written = write_step(42, 1, 3);
  assert_int_equal(written.n_removed, 0);
  assert_int_equal(written.prune.status, CKPT_OK);
  assert_true(scratch_has(scratch("run/step-30")) && scratch_has(scratch("run/step-40")) &&
              scratch_has(scratch("run/step-42")));
  assert_true(scratch_has(scratch("run/step-50")) && scratch_has(scratch("run/step-45")));
  assert_int_equal(scratch_count(scratch("run")), 5);
}

static void sharded_checkpoint(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_experiment experiment = checkpoint_sample(1, 1);
  ckpt_write_options options = {.shard_n_bytes = 8};
  ckpt_written written;
  ckpt_error error;
  expect_ok(ckpt_checkpoint_write(&written, location, &experiment, &options, &error), &error);
  ckpt_location_close(location);
  assert_int_equal(scratch_count(scratch("run/step-1")), 7);
  ckpt_checkpoint *checkpoint = open_step(1);
  expect_ok(ckpt_checkpoint_verify(checkpoint, &error), &error);
  assert_int_equal(ckpt_tensors_n_files(ckpt_checkpoint_parameters(checkpoint)), 2);
  ckpt_checkpoint_close(checkpoint);
  ckpt_written whole = write_step(1, 1, 0); /* another layout, the same digest; no shard is left */
  assert_string_equal(whole.digest, written.digest);
  assert_int_equal(scratch_count(scratch("run/step-1")), 3);
}

/* Every bit of a checkpoint counts: whichever is flipped, opening or verifying says so. */
static void every_flipped_bit_is_found(void **state) {
  (void)state;
  static const char *const names[] = {"experiment.json", "parameters.safetensors", "states.safetensors"};
  write_step(1, 1, 0);
  size_t n_flipped = 0;
  for (int f = 0; f < 3; f++) {
    const char *path = scratch("run/step-1/%s", names[f]);
    char copy[512];
    size_t n = 0;
    snprintf(copy, sizeof copy, "%s", path);
    char *content = scratch_read(copy, &n);
    for (size_t i = 0; i < 8 * n; i++) {
      ckpt_checkpoint *checkpoint = NULL;
      ckpt_error error = {0};
      content[i / 8] = (char)(content[i / 8] ^ 1 << i % 8);
      scratch_write(copy, content, n);
      ckpt_status status = ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, &error);
      if (status == CKPT_OK) status = ckpt_checkpoint_verify(checkpoint, &error);
      if (status == CKPT_OK) fail_msg("bit %zu of %s", i, names[f]);
      ckpt_checkpoint_close(checkpoint);
      content[i / 8] = (char)(content[i / 8] ^ 1 << i % 8);
      n_flipped++;
    }
    scratch_write(copy, content, n);
    free(content);
  }
  print_message("%zu bits flipped\n", n_flipped);
  ckpt_checkpoint *checkpoint = open_step(1);
  expect_ok(ckpt_checkpoint_verify(checkpoint, NULL), NULL);
  ckpt_checkpoint_close(checkpoint);
}

static void truncated_at_every_byte(void **state) {
  (void)state;
  static const char *const names[] = {"experiment.json", "parameters.safetensors", "states.safetensors"};
  write_step(1, 1, 0);
  for (int f = 0; f < 3; f++) {
    char path[512];
    size_t n = 0;
    snprintf(path, sizeof path, "%s", scratch("run/step-1/%s", names[f]));
    char *content = scratch_read(path, &n);
    for (size_t i = 0; i < n; i++) {
      ckpt_checkpoint *checkpoint = NULL;
      scratch_write(path, content, i);
      assert_int_equal(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, NULL), CKPT_INVALID);
    }
    scratch_write(path, content, n);
    free(content);
  }
}

static void damaged_files(void **state) {
  (void)state;
  write_step(1, 1, 0);
  ckpt_checkpoint *checkpoint = NULL;
  ckpt_error error;
  size_t n = 0;
  char *content = scratch_read(scratch("run/step-1/states.safetensors"), &n);
  content[n - 1] ^= 1;
  scratch_write(scratch("run/step-1/states.safetensors"), content, n);
  checkpoint = open_step(1);
  expect_error(ckpt_checkpoint_verify(checkpoint, &error), &error, "E-CKPT-012", "states.safetensors");
  ckpt_checkpoint_close(checkpoint);
  scratch_write(scratch("run/step-1/states.safetensors"), content, n - 1);
  expect_error(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, &error), &error, "E-CKPT-011",
               "bytes, found");
  unlink(scratch("run/step-1/states.safetensors"));
  expect_error(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, &error), &error, "E-CKPT-011",
               "No such file");
  mkdir(scratch("run/step-1/states.safetensors"), 0700);
  expect_error(ckpt_checkpoint_open_path(&checkpoint, scratch("run/step-1"), NULL, &error), &error, "E-CKPT-011",
               "regular file");
  free(content);
}

static void refused_experiments(void **state) {
  (void)state;
  ckpt_location *location = open_location();
  ckpt_error error;
  ckpt_experiment experiment = checkpoint_sample(1, 1);
  ckpt_knob knob = {"k", "[1,", "set"};
  experiment.step = -1;
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005", "step is -1");
  experiment = checkpoint_sample(1, 1);
  experiment.slug = "\xff";
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005", "'slug'");
  experiment = checkpoint_sample(1, 1);
  experiment.knobs = &knob;
  experiment.n_knobs = 1;
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005", "'value'");
  experiment = checkpoint_sample(1, 1);
  experiment.extra = "{\"seed\": 1}";
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005",
               "'seed' already");
  experiment.extra = "[]";
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005", "JSON object");
  experiment.extra = NULL;
  char deep[256] = "";
  for (int i = 0; i < 40; i++) strcat(deep, "[");
  for (int i = 0; i < 40; i++) strcat(deep, "]");
  experiment.choices = deep;
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-005",
               "at most 32 levels");
  experiment = checkpoint_sample(1, 1);
  ckpt_array twice[] = {experiment.states[0], experiment.states[0]};
  experiment.states = twice;
  expect_error(ckpt_checkpoint_write(NULL, location, &experiment, NULL, &error), &error, "E-CKPT-006", "layer/w/m");
  assert_int_equal(scratch_count(scratch("run")), 0); /* and nothing is left */
  ckpt_location_close(location);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(writes_and_reads, empty),
      cmocka_unit_test_setup(bytes_repeat, empty),
      cmocka_unit_test_setup(replaces_and_lists, empty),
      cmocka_unit_test_setup(latest_skips_torn_ones, empty),
      cmocka_unit_test_setup(keeps_the_newest, empty),
      cmocka_unit_test_setup(sharded_checkpoint, empty),
      cmocka_unit_test_setup(every_flipped_bit_is_found, empty),
      cmocka_unit_test_setup(truncated_at_every_byte, empty),
      cmocka_unit_test_setup(damaged_files, empty),
      cmocka_unit_test_setup(refused_experiments, empty),
  };
  return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
